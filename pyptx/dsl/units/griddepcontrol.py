"""``ptx.griddepcontrol``: grids that overlap (programmatic dependent launch).

PTX ISA: `#parallel-synchronization-and-communication-instructions-griddepcontrol`.
"""

from __future__ import annotations

from ..emit import Predicate, emit
from ..records import records

__all__ = ["launch_dependents", "wait"]


@records("griddepcontrol")
def launch_dependents(*, pred: Predicate = None) -> None:
    """Let dependent grids launch once all CTAs of this grid have executed this instruction or ended.

    Records one ``griddepcontrol.launch_dependents``.  The dependent grids see this grid's writes only after
    their :func:`wait`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-griddepcontrol`.
    """
    emit("griddepcontrol", ("launch_dependents",), pred=pred)


@records("griddepcontrol")
def wait(*, pred: Predicate = None) -> None:
    """Wait until the grids that this grid depends on have ended and their writes are visible.

    Records one ``griddepcontrol.wait``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-griddepcontrol`.
    """
    emit("griddepcontrol", ("wait",), pred=pred)
