"""Predicts how long a launch of a PTX text of any compiler takes.

Owns :func:`predict`, whose arguments are those of a launch in the simulator and those of
:meth:`.Kernel.predict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from ..core.tracebacks import short_traceback
from ..ir import Module
from ..sim import LoadedModule, load
from ..sim.api.options import positions
from ..sim.clock.units import L2State
from ..timing.constants import Gpu
from .prediction import Conditions, Contents, Prediction, Protocol, predict_request

__all__ = ["predict"]


@short_traceback
def predict(
    module: LoadedModule | Module | str,
    entry: str | None = None,
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    cluster: int | Sequence[int] = (1, 1, 1),
    dynamic_smem: int = 0,
    args: Sequence[Any] = (),
    uninitialized: Sequence[int] = (),
    zeroed: Sequence[int] = (),
    gpu: str | PathLike[str] | Gpu | None = None,
    clock: Protocol = "sustained",
    timeout: float | None = None,
    data: str | float = "normal",
    l2: L2State = "rotating",
    contents: Contents = "unknown",
) -> Prediction:
    """Predict how long a launch of a PTX text takes on a GPU that need not be here.

    The text may come from any compiler. A kernel of pyptx has a method for it, :meth:`.Kernel.predict`.

    Args:
        module: PTX text, a module, or what :func:`pyptx.sim.load` made of one, which keeps the machine code
            for further predictions.
        entry: name of the kernel; the only one if None.
        grid, block, cluster: extents in x, y, z.
        dynamic_smem: bytes of dynamic shared memory.
        args: one argument for each parameter, as in :meth:`.LoadedModule.launch`. An array of
            :func:`pyptx.sim.unknown` has a type and a shape, and takes no memory; tensor maps are made of it
            as of any other.
        uninitialized: positions of array arguments that the kernel fills; what it reads of them is unknown.
        zeroed: positions of array arguments that are zero when the launch begins, such as counters from which
            CTAs take their work, and flags for which they wait: CTAs elsewhere use them at the same time.
        gpu: ``"b200"``, ``"h200"``, the path of a file of constants that ``pyptx calibrate`` wrote, or a
            :class:`~pyptx.timing.constants.Gpu`. By default the GPU of the text's target: an H200 for sm_90
            and sm_90a, a B200 for all others.
        clock, timeout, data, l2, contents: as in :meth:`.Kernel.predict`.

    Raises:
        ParseError: the text is not PTX.
        SpecError: arguments or extents do not fit the entry, an option has a value that it cannot have, or
            the GPU does not run the text's target.
        TargetError: the text's target or version lacks instructions of the entry; see :func:`pyptx.sim.load`.
    """
    loaded = module if isinstance(module, LoadedModule) else load(module)
    request = loaded.request(entry, grid, block, cluster, dynamic_smem, args, uninitialized)
    conditions = Conditions(gpu, clock, timeout, data, l2, contents)
    return predict_request(request, conditions, positions("zeroed", zeroed, args))
