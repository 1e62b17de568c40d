"""``ptx.griddepcontrol``: grids that overlap (programmatic dependent launch).

PTX ISA: `#parallel-synchronization-and-communication-instructions-griddepcontrol`.
"""

from __future__ import annotations

from ..emit import Predicate, emit
from ..records import records

__all__ = ["launch_dependents", "wait"]


@records("griddepcontrol")
def launch_dependents(*, pred: Predicate = None) -> None:
    """Let grids that depend on this one launch, once all its CTAs have said so or ended.

    Records one ``griddepcontrol.launch_dependents``.  What this grid writes they see only behind their
    :func:`wait`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-griddepcontrol`.
    """
    emit("griddepcontrol", ("launch_dependents",), pred=pred)


@records("griddepcontrol")
def wait(*, pred: Predicate = None) -> None:
    """Wait until the grids that this one depends on have ended and their writes are visible.

    Records one ``griddepcontrol.wait``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-griddepcontrol`.
    """
    emit("griddepcontrol", ("wait",), pred=pred)
