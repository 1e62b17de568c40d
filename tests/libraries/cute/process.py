"""Runs host code of CuTe DSL in a process of its own, and brings the launches back.

Owns :func:`kernel`. A process runs one piece of host code only: the DSL, torch and the bindings are changed in
it, and the DSL reads the architecture when it is imported.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.libraries.cute.device import MULTIPROCESSORS, HostMemory, attribute, pretend
from tests.libraries.cute.dlpack import tensors_for_cuda
from tests.libraries.cute.runtime import Runtime
from tests.libraries.launches import Kernel, Launch

__all__ = ["kernel"]


def kernel(name: str, arch: str, host: Callable[[], None]) -> Kernel:
    """Return a kernel whose launches are those of ``host`` on a GPU of architecture ``arch`` (``sm_90a``)."""

    def run(schedule: str, seed: int) -> list[Launch]:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(1, context, _store, ((host, arch, schedule, seed),)) as executor:
            try:
                return executor.submit(_run_stored).result()
            except RuntimeError as error:
                error.__cause__ = None  # the same text once more
                raise

    return Kernel(name, run)


#: What this process runs. Functions travel to a forked process as they are.
_stored: list[tuple[Callable[[], None], str, str, int]] = []


def _store(*given: tuple[Callable[[], None], str, str, int]) -> None:
    _stored.extend(given)


def _run_stored() -> list[Launch]:
    return _run(*_stored[0])


def _run(host: Callable[[], None], arch: str, schedule: str, seed: int) -> list[Launch]:
    memory = HostMemory()
    runtime = Runtime(lambda: list(memory.ranges()), attribute, schedule, seed)
    os.environ["CUTE_DSL_ARCH"] = arch
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"
    os.environ["CUTE_DSL_LINEINFO"] = "1"  # without it, the image has no PTX text
    with tempfile.TemporaryDirectory() as folder:
        runtime.install(Path(folder))
        digits = arch.removeprefix("sm_").rstrip("af")
        pretend(memory, (int(digits[:-1]), int(digits[-1])))
        _adapt_dsl()
        tensors_for_cuda(memory)
        os.chdir(folder)
        warnings.simplefilter("ignore")
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        try:
            host()
        except SystemExit as ended:
            if ended.code:
                raise AssertionError(f"ended with {ended.code}") from ended
        except AssertionError as wrong:
            found = {f.rule.name for launch in runtime.launches for f in launch.report.findings}
            raise AssertionError(f"{wrong}; findings: {', '.join(sorted(found)) or 'none'}") from None
        except Exception:  # exceptions of the DSL cannot travel to another process
            raise RuntimeError(
                runtime.errors[0] if runtime.errors else traceback.format_exc(limit=-4)
            ) from None
    if runtime.errors:
        raise RuntimeError(runtime.errors[0])
    if not runtime.launches:
        raise RuntimeError("the host code has launched no kernel")
    bad = [str(launch.report) for launch in runtime.launches if launch.report.verdict == "incomplete"]
    if bad:
        raise RuntimeError(bad[0])
    return runtime.launches


def _adapt_dsl() -> None:
    """Let CuTe DSL not ask a driver how many clusters the GPU holds."""
    from cutlass.utils import HardwareInfo

    def clusters(info: HardwareInfo, cluster_size: int, stream: object = None) -> int:
        return max(1, MULTIPROCESSORS // cluster_size)

    HardwareInfo.get_max_active_clusters = clusters
