"""All exception classes that pyptx raises on purpose.

A message says what was given, what was expected and what to do, and it ends with the author's line, which
is also in ``location``.  :class:`UnsupportedError`, a ``NotImplementedError``, means that pyptx has not
implemented something legal yet; a ``ValueError`` or ``TypeError`` means that the call itself is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

from .source import SourceLocation, author_location

__all__ = [
    "AlignmentError",
    "AssembleError",
    "ClusterSizeError",
    "DeviceError",
    "DevicePermissionError",
    "DriverVersionError",
    "GridSizeError",
    "InstructionError",
    "KernelFailedError",
    "LaunchError",
    "NoDriverError",
    "NoMemoryError",
    "OperandError",
    "ParseError",
    "PyptxError",
    "PyptxWarning",
    "ResourceError",
    "SharedMemoryError",
    "SimulationError",
    "SpecError",
    "StreamError",
    "StrideError",
    "TargetError",
    "ToolNotFoundError",
    "TraceError",
    "UnsupportedError",
    "WaitTimeoutError",
    "WrongResultError",
]


class PyptxError(Exception):
    """Base class of all errors of pyptx.

    Attributes:
        message: what was given and what was expected; the summary, followed by the details, one per line.
        summary: the message without its details.
        details: a list that belongs to the message, such as the places that were searched.
        location: the author's line that caused the error, or None.
        hint: what to do, or empty.
        see: the PTX ISA anchor to read, or empty.
    """

    def __init__(
        self,
        message: str,
        *,
        details: Iterable[str] = (),
        location: SourceLocation | None = None,
        hint: str = "",
        see: str = "",
    ) -> None:
        self.summary, self.details = message, tuple(details)
        self.message = "\n  ".join((message, *self.details))
        self.location = location if location is not None else author_location()
        self.hint = hint
        self.see = see
        super().__init__(self.render())

    def render(self, *, located: bool = True) -> str:
        """Return the whole text: the message, the hint, the anchor and, if ``located``, the author's line."""
        lines = [self.message]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.see:
            lines.append(f"  see:  PTX ISA #{self.see}")
        if located and self.location is not None:
            lines.append(f"  at:   {self.location.describe()}")
        return "\n".join(lines)


class PyptxWarning(UserWarning):
    """Warns of what a call did though it still returned its outputs.

    It is a finding for review in a simulated call, or a choice of ``autotune`` that was not measured.
    """


class InstructionError(PyptxError, ValueError):
    """PTX has no such instruction, modifier or combination of modifiers.

    ``reason`` is the message without the instruction that it names.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        location: SourceLocation | None = None,
        hint: str = "",
        see: str = "",
    ) -> None:
        self.reason = reason or message
        super().__init__(message, location=location, hint=hint, see=see)


class OperandError(PyptxError, TypeError):
    """An operand has the wrong kind, type, width, count or range."""


class ParseError(PyptxError, ValueError):
    """The text is not PTX: at ``line`` and ``column`` (1-based) it has ``read`` instead of ``expected``."""

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
    """The recording is wrong: a register of another kernel, an unknown label, a name rebound in a loop."""


class SpecError(PyptxError, ValueError):
    """An argument, shape, dtype, stride or launch option does not fit what the kernel declares."""


class DeviceError(SpecError):
    """The arrays of a call are on different devices, or where the call cannot use them."""


class StreamError(SpecError):
    """The stream of a launch is no stream, or belongs to another GPU."""


class AlignmentError(SpecError):
    """An array does not start at a multiple of 16 bytes."""


class StrideError(SpecError):
    """An array is not contiguous, or has a negative stride."""


class NoMemoryError(SpecError):
    """An array has no memory: its storage was freed, or was never allocated."""


class ResourceError(SpecError):
    """A block needs more registers or threads than a multiprocessor has."""


class ClusterSizeError(ResourceError):
    """The CTAs of a cluster cannot be resident at the same time; the message says how many could."""


class SharedMemoryError(PyptxError, ValueError):
    """A kernel needs more shared memory than the target allows."""


class TargetError(PyptxError, ValueError):
    """The target architecture or the PTX version does not support what the kernel uses."""


class AssembleError(PyptxError, RuntimeError):
    """ptxas or the driver's JIT refused the PTX text, or nvdisasm refused an image."""


class ToolNotFoundError(PyptxError, FileNotFoundError):
    """ptxas, nvdisasm or another external program was not found."""

    def __str__(self) -> str:  # FileNotFoundError would print errno
        return self.render()


class LaunchError(PyptxError, RuntimeError):
    """The CUDA driver refused a call, or there is no driver or no such GPU."""


class NoDriverError(LaunchError):
    """There is no CUDA driver, no package that calls it, or no GPU."""


class DriverVersionError(LaunchError):
    """The CUDA driver is too old for what a launch needs."""


class DevicePermissionError(LaunchError):
    """The user may not open the GPU's device files."""


class GridSizeError(LaunchError):
    """The CTAs of a cooperative launch cannot be resident at the same time; the message says how many can."""


class KernelFailedError(LaunchError):
    """A kernel failed while it ran: it trapped, or accessed memory that it must not access."""


class WaitTimeoutError(KernelFailedError):
    """A kernel that was loaded under ``PYPTX_DEBUG=waits`` waited too long for an mbarrier, and trapped."""


class SimulationError(PyptxError, RuntimeError):
    """A simulated launch cannot start, or its verdict is error or incomplete; then ``report`` says why."""


class UnsupportedError(PyptxError, NotImplementedError):
    """The request is legal, but pyptx does not implement it yet. docs/roadmap.md lists what is missing."""


class WrongResultError(PyptxError, AssertionError):
    """A function's result differs from the reference's, so the benchmark does not time the function."""
