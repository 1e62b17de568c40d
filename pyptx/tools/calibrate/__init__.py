"""``pyptx calibrate``: measures the constants of a GPU's timing with kernels, and writes them.

``device`` is what a calibration asks of a GPU, ``hardware`` the GPU in this machine, ``predicted`` the timed
machine in its place. ``bench`` turns readings into values with intervals; ``families`` have the
microbenchmarks, one module for each part of the hardware; ``calibration`` runs them and keeps what was found.
"""

from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    # Only the command line needs click.
    if name == "command":
        from .cli import command

        return command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
