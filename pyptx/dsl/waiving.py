"""``ptx.waive``: findings that the author accepts for the instructions of a block."""

from __future__ import annotations

from ..core.errors import TraceError
from ..core.waivers import Waiver, check_waiver
from .call_sites import here
from .trace import current

__all__ = ["waive"]


class waive:
    """``with ptx.waive(rule, reason):`` accepts findings of one rule at the lines of the block.

    The block records nothing of its own. The simulator and ``pyptx lint`` move such findings to
    ``report.waived``, and count them. If the block has no finding of the rule, the report has the finding
    ``unused-waiver``, for review; for a rule that only lint checks, lint's report has it.

    Args:
        rule: name of the rule; docs/findings.md lists them.
        reason: why the finding is accepted.

    Raises:
        SpecError: there is no such rule, or the reason is empty.
    """

    def __init__(self, rule: str, reason: str) -> None:
        self._trace = current()
        location = here()[1]
        self._waiver = check_waiver(Waiver(rule, location.file, location.line, reason))
        self._begin: int | None = None

    def __enter__(self) -> None:
        if self._begin is not None:
            raise TraceError("this waiver was entered before; write `with ptx.waive(...):` each time")
        self._begin = len(self._trace.statements)

    def __exit__(self, *_: object) -> None:
        assert self._begin is not None
        made, last = self._waiver, self._waiver.line
        for statement in self._trace.statements[self._begin :]:
            source = getattr(statement, "source", None)
            for place in () if source is None else source.chain:
                if place.file == made.file:
                    last = max(last, place.line)
        self._trace.builder.waivers.append(Waiver(made.rule, made.file, made.line, made.reason, last))
