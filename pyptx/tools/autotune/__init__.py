"""``pyptx.autotune``: chooses compile-time parameters by measuring.

``space`` holds the choices, ``candidates`` their kernels, ``resources`` what fits and what promises most,
``check`` the run in the simulator; ``race`` measures through ``lab``, whose process is ``worker`` with
``on_gpu``; ``jobs`` says what goes to it and ``outputs`` compares what comes back; ``store`` keeps results,
``tuning`` puts the stages in order, and ``tuned`` is what the decorator makes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import Tuning
    from .tuned import TunedKernel, autotune

__all__ = ["TunedKernel", "Tuning", "autotune"]

#: Loaded on first use: a worker process, which starts anew after each hang, needs little of it.
_HOME = {"Tuning": "result", "TunedKernel": "tuned", "autotune": "tuned"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
