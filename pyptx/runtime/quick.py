"""The compiled launch path, where it was built and torch has the DLPack exchange API.

Owns the import of ``_quick`` and the translation of a :class:`~pyptx.runtime.plan.Plan` into its ``Entry``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from .driver import call
from .launch import configuration
from .plan import Constant, MapImage, Number, Plan

try:
    from . import _quick
except ImportError:  # a Python, a machine or an installation without it
    _quick = None  # type: ignore[assignment]

__all__ = ["PURE", "entry", "exchange_api", "fixed", "native"]

#: Environment variable that turns the compiled launch path off.
PURE = "PYPTX_PURE"

#: Version of the driver's interface whose functions are called.
_CUDA = 12000


def native() -> Any:
    """Return the compiled module; None if it is not built, or turned off by ``PYPTX_PURE=1``."""
    return None if os.environ.get(PURE, "") not in ("", "0") else _quick


def exchange_api(torch: Any) -> object | None:
    """Return torch's table of DLPack functions in C, a capsule; None for a torch that has none."""
    found: object | None = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    return found


def entry(plan: Plan, places: Sequence[int]) -> Any:
    """Return the compiled module's ``Entry`` of a plan; None if it cannot make such launches.

    Args:
        places: for each parameter that a call fills, the number of the argument that gives its value.
    """
    module = native()
    if module is None or plan.__class__ is not Plan or len(plan.parameters) > module.MOST_PARAMETERS:
        return None
    parameters = []
    given = iter(places)
    for parameter in plan.parameters:
        kind, bits, image = module.ADDRESS, 64, None
        place = 0 if isinstance(parameter, Constant) else next(given)
        if isinstance(parameter, Constant):
            kind, image = module.CONSTANT, parameter.image
        elif isinstance(parameter, MapImage):
            kind, image = module.MAP, parameter.image
        elif isinstance(parameter, Number):
            type = parameter.type
            kinds = {"u": module.UNSIGNED, "s": module.SIGNED, "f32": module.SINGLE, "f64": module.DOUBLE}
            kind, bits = kinds.get(type.name, kinds.get(type.kind)), type.bits
            if kind is None or type.lanes > 1:
                return None
        parameters.append((kind, bits, place, image))
    config = configuration(plan.launch)
    return module.Entry(
        _address(b"cuLaunchKernelEx"),
        _address(b"cuStreamIsCapturing"),
        int(plan.kernel.function),
        ctypes.string_at(config.getPtr(), module.CONFIG_BYTES),
        plan.kernel.device_index,
        tuple(parameters),
        plan.kernel.captured,
        (config, plan),
    )


def fixed(
    plan: Plan, places: Sequence[int], values: Sequence[Any], written: Sequence[Any]
) -> Callable[[Any], bool]:
    """Return a function of a stream that launches a plan with these addresses and numbers.

    It returns False if it has launched nothing: always where there is no compiled path.

    Args:
        places: for each parameter that a call fills, the number of the argument in ``values``.
        values: the address or the number of each argument.
        written: the tensors that a launch writes and whose version autograd knows.
    """
    torch = sys.modules.get("torch")
    api = None if torch is None else exchange_api(torch)
    compiled = None if api is None else entry(plan, places)
    if compiled is None:
        return _nothing
    try:
        count = sys.modules["torch"]._C._increment_version
        made = native().Fixed(compiled, api, tuple(values), count, tuple(written))
        start: Callable[[Any], bool] = made.start
    except ValueError:  # a number of another class, such as numpy's
        return _nothing
    return start


def _nothing(stream: Any) -> bool:
    """The compiled path, where there is none."""
    return False


@lru_cache(maxsize=2)
def _address(function: bytes) -> int:
    """Return the address of a function of the driver."""
    found = call("cuGetProcAddress", function, _CUDA, 0)
    return int(found[0] if isinstance(found, tuple) else found)
