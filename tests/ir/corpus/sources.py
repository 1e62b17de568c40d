"""What is compiled of the CUDA sources: architectures and builds."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Architectures by compute capability.
ARCHITECTURES = {80: "sm_80", 90: "sm_90a", 100: "sm_100a"}
#: Ways to compile, with what ptxas needs for each.
BUILDS = {
    "optimized": ("-lineinfo", "-lineinfo"),
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
OPTIMIZED_ONLY = {"groups"}
#: The CUDA sources.
SOURCES = sorted(Path(__file__).parent.glob("*.cu"))
#: Every text of a CUDA source: source, build, architecture.
CUDA = [
    pytest.param(source.stem, build, arch, id=f"{source.stem}-{build}-{arch}")
    for source in SOURCES
    for build in BUILDS
    if build == "optimized" or source.stem not in OPTIMIZED_ONLY
    for arch in ARCHITECTURES.values()
    # Debug builds are large and differ little between architectures.
    if build == "optimized" or arch == "sm_90a"
]
#: Sources that are also compiled with less optimization, for sm_80: the same program in other instructions.
LESS_OPTIMIZED = ("functions", "tensor")
LESS = ("-Xcicc", "-O1")
