"""Every error that pyptx raises on purpose.

An error says what was given, what was expected, what to do, and where: the author's line is in
``location`` and in the message.  ``NotImplementedError`` (in :class:`UnsupportedError`) means "we do
not yet"; ``ValueError``/``TypeError`` mean "you must not".
"""

from __future__ import annotations

from .source import SourceLocation, author_location

__all__ = [
    "AssembleError",
    "InstructionError",
    "LaunchError",
    "OperandError",
    "ParseError",
    "PyptxError",
    "PyptxWarning",
    "SharedMemoryError",
    "SimulationError",
    "SpecError",
    "TargetError",
    "ToolNotFoundError",
    "TraceError",
    "UnsupportedError",
    "WrongResultError",
]


class PyptxError(Exception):
    """Base of all. ``location`` is the author's line, ``hint`` what to do, ``see`` a PTX ISA anchor."""

    def __init__(
        self,
        message: str,
        *,
        location: SourceLocation | None = None,
        hint: str = "",
        see: str = "",
    ) -> None:
        self.message = message
        self.location = location if location is not None else author_location()
        self.hint = hint
        self.see = see
        super().__init__(self.render())

    def render(self) -> str:
        lines = [self.message]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.see:
            lines.append(f"  see:  PTX ISA #{self.see}")
        if self.location is not None:
            lines.append(f"  at:   {self.location.describe()}")
        return "\n".join(lines)


class PyptxWarning(UserWarning):
    """A finding for review of a simulated call, which returned its outputs all the same."""


class InstructionError(PyptxError, ValueError):
    """No such instruction, modifier or combination."""


class OperandError(PyptxError, TypeError):
    """Operand of the wrong kind, type, width, count or range."""


class ParseError(PyptxError, ValueError):
    """Not PTX: ``read`` stands at ``line`` and ``column`` (1-based) where ``expected`` should."""

    def __init__(self, read: str, expected: str, *, file: str, line: int, column: int) -> None:
        self.read = read
        self.expected = expected
        self.line = line
        self.column = column
        super().__init__(
            f"line {line}, column {column}: read {read}, expected {expected}",
            location=SourceLocation(file, line),
        )


class TraceError(PyptxError, ValueError):
    """The recording itself is wrong: a foreign register, an unknown label, a loop-carried rebinding."""


class SpecError(PyptxError, ValueError):
    """An argument, shape, dtype, stride or launch option that does not fit the kernel's specs."""


class SharedMemoryError(PyptxError, ValueError):
    """Shared memory beyond the target's limit."""


class TargetError(PyptxError, ValueError):
    """The architecture or PTX version lacks what the kernel uses."""


class AssembleError(PyptxError, RuntimeError):
    """ptxas or the driver's JIT refused the text. ``messages`` holds what it said."""


class ToolNotFoundError(PyptxError, FileNotFoundError):
    """ptxas, nvdisasm or another external program is missing."""

    def __str__(self) -> str:  # FileNotFoundError would print errno
        return self.render()


class LaunchError(PyptxError, RuntimeError):
    """The driver refused to load or launch."""


class SimulationError(PyptxError, RuntimeError):
    """A simulated launch did not end clean; ``report`` tells why."""


class UnsupportedError(PyptxError, NotImplementedError):
    """Legal, but not built yet. Listed in docs/roadmap.md."""


class WrongResultError(PyptxError, AssertionError):
    """What a function computed is not what the reference says, so it is not timed."""
