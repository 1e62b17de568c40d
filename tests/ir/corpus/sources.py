"""What is compiled of the CUDA sources: architectures and builds."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Architectures by compute capability.
ARCHITECTURES = {80: "sm_80", 90: "sm_90a", 100: "sm_100a"}
#: Ways to compile, with what ptxas needs for each.
BUILDS = {
    "optimised": ("-lineinfo", "-lineinfo"),
    "debug": ("-G", "-g"),
}
#: Kernels that each source has at least, in every architecture and build.
KERNELS = {
    "algorithms": 29,
    "arithmetic": 27,
    "basics": 9,
    "functions": 22,
    "groups": 7,
    "memory": 8,
    "numeric": 30,
    "tensor": 11,
}
#: Sources whose debug build is large and says nothing that the others do not.
OPTIMISED_ONLY = {"groups"}
#: Every source with every build that it has, for every architecture.  Debug builds are large and differ little
#: between architectures: those of one are compiled each time.
CUDA = [
    pytest.param(
        source,
        build,
        arch,
        id=f"{source.stem}-{build}-{arch}",
        marks=[pytest.mark.slow] if build == "debug" and arch != "sm_90a" else [],
    )
    for source in sorted(Path(__file__).parent.glob("*.cu"))
    for build in BUILDS
    if build == "optimised" or source.stem not in OPTIMISED_ONLY
    for arch in ARCHITECTURES.values()
]
