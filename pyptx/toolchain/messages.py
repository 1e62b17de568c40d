"""Parses the output of ptxas, nvdisasm and the driver's JIT.

All three print lines of the same form; the JIT calls its file ``application ptx input`` and marks
continuation lines with a dot::

    ptxas kernel.ptx, line 9; error   : Arguments mismatch for instruction 'add'
    ptxas fatal   : Unresolved extern function 'ext'
    ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to ...
    ptxas info    : Compiling entry function 'k' for 'sm_90a'
    ptxas info    : Function properties for k
        1464 bytes stack frame, 1512 bytes spill stores, 1560 bytes spill loads
    ptxas         .     1464 bytes stack frame, ...                                   (JIT)
    ptxas info    : Used 64 registers, used 1 barriers, 300 bytes smem, 360 bytes cmem[0]

Resource reports become :class:`Resources`, and compile times are dropped.  Every other line is kept as a
:class:`Message`: a line that the parser does not know becomes a note.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any

from ..core.records import dataclass
from ..core.source import SourceLocation

__all__ = ["Message", "ToolReport", "Resources", "read_report"]


@dataclass(frozen=True, slots=True)
class Message:
    """One line that a tool printed.

    Attributes:
        severity: ``"fatal"``, ``"error"``, ``"warning"`` or ``"info"``.
        text: the message without its prefix and code.
        line: 1-based line of the PTX text that the message names, or None.
        code: a code such as ``"C7508"``, or empty if the message has none.
        source: the author's line that recorded this line of the text, or None if it is not known.
        function: the function that the message names, or empty.
    """

    severity: str
    text: str
    line: int | None = None
    code: str = ""
    source: SourceLocation | None = None
    function: str = ""

    @property
    def is_error(self) -> bool:
        """True for an error or a fatal error."""
        return self.severity in ("fatal", "error")

    def __str__(self) -> str:
        where = f"PTX line {self.line}: " if self.line is not None else ""
        text = f"{self.severity}: {where}{f'({self.code}) ' if self.code else ''}{self.text}"
        return text if self.source is None else f"{text}\n    recorded at {self.source.describe()}"


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that one function uses, as ``-v`` reports them. Sizes are in bytes, per thread unless noted.

    Attributes:
        function: name of the function.
        entry: True for a kernel, False for a device function that was not inlined.
        registers: 32-bit registers of a thread; 0 for a device function (its callers count them).
        spill_stores, spill_loads: bytes stored and loaded by spill code.
        stack: size of the stack frame.
        shared: static shared memory of a CTA.
        constant: size of all constant banks, including kernel parameters if ptxas counts them.
        barriers: number of named barriers of a CTA.
    """

    function: str
    entry: bool = False
    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    shared: int = 0
    constant: int = 0
    barriers: int = 0

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads together."""
        return self.spill_stores + self.spill_loads


@dataclass(frozen=True, slots=True)
class ToolReport:
    """Everything that one run of a tool printed, in the printed order.

    Attributes:
        messages: errors, warnings and notes, without resource lines.
        resources: one entry per function.
        global_memory: bytes of the module's global variables.
    """

    messages: tuple[Message, ...] = ()
    resources: tuple[Resources, ...] = ()
    global_memory: int = 0

    @property
    def errors(self) -> tuple[Message, ...]:
        """The errors, fatal ones included."""
        return tuple(m for m in self.messages if m.is_error)

    @property
    def warnings(self) -> tuple[Message, ...]:
        """The warnings."""
        return tuple(m for m in self.messages if m.severity == "warning")

    @property
    def notes(self) -> tuple[Message, ...]:
        """Info lines such as ``(C7508)``. ptxas does not call them warnings, but they often matter more."""
        return tuple(m for m in self.messages if m.severity == "info")

    @property
    def ok(self) -> bool:
        """True if there is no error; warnings and notes do not count."""
        return not self.errors

    def of(self, function: str) -> Resources:
        """Return the resources of ``function``. Raises a KeyError that lists the reported functions."""
        for resources in self.resources:
            if resources.function == function:
                return resources
        raise KeyError(f"no function {function!r}; the report has {[r.function for r in self.resources]}")


#: Last line after other errors. It is dropped, unless it is the only error.
_ABORTED = "Ptx assembly aborted due to errors"

_HEADED = re.compile(
    r"(?:(?:ptxas|nvdisasm|nvlink|nvFatbin)\s+)?(?:(?P<file>\S.*), line (?P<line>\d+); )?"
    r"(?P<severity>fatal|error|warning|info)\s*: (?P<text>.*)"
)
_CONTINUED = re.compile(r"(?:ptxas\s+\.)?\s+(?P<text>\S.*)")
_CODE = re.compile(r"\((?P<code>C\d+)\) (?P<text>.*)")
#: Some messages name the function, and some the line, only in their text.
_FUNCTION_IN_TEXT = re.compile(r"\b[Ff]unction '([\w$]+)'|\bentry ([\w$]+),")
_LINE_IN_TEXT = re.compile(r"\b(?:in|on|at)(?: around)? line (\d+)\b")

_COMPILING = re.compile(r"Compiling entry function '(?P<name>.+)' for '\w+'")
_PROPERTIES = re.compile(r"Function properties for '?(?P<name>.+?)'?:?")
_COMPILE_TIME = re.compile(r"Compile time = ")
_GLOBAL = re.compile(r"(?P<global>\d+) bytes gmem(?:, \d+ bytes cmem\[\d+\])*")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<rest>.*)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[")


def read_report(printed: str) -> ToolReport:
    """Parse ``printed``, the output of ptxas or nvdisasm or a log of the JIT. Never raises."""
    reader = _ReportReader()
    for line in printed.splitlines():
        reader.feed(line.rstrip())
    messages = reader.messages
    if any(m.is_error and m.text != _ABORTED for m in messages):
        messages = [m for m in messages if m.text != _ABORTED]
    resources = tuple(Resources(name, **values) for name, values in reader.resources.items())
    return ToolReport(tuple(messages), resources, reader.global_memory)


@dataclass
class _ReportReader:
    """The parser's state between lines, since a resource report spans several lines."""

    messages: list[Message] = field(default_factory=list)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    global_memory: int = 0
    function: str = ""

    def feed(self, line: str) -> None:
        if not line:
            return
        headed = _HEADED.fullmatch(line)
        if headed is None:
            continued = _CONTINUED.fullmatch(line)
            text = continued["text"] if continued is not None else line
            if not self._resource(text):
                self.messages.append(Message("info", text))
            return
        severity, text = headed["severity"], headed["text"].strip()
        if severity == "info" and headed["file"] is None and self._resource(text):
            return
        coded = _CODE.fullmatch(text)
        code = coded["code"] if coded is not None else ""
        text = coded["text"] if coded is not None else text
        number = headed["line"]
        if number is None and (said := _LINE_IN_TEXT.search(text)) is not None:
            number = said[1]
        named = _FUNCTION_IN_TEXT.search(text)
        function = (named[1] or named[2]) if named is not None else ""
        place = None if number is None else int(number)
        self.messages.append(Message(severity, text, place, code, function=function))

    def _resource(self, text: str) -> bool:
        """Parse ``text`` and return True if it is a line of a resource report; else return False."""
        if match := _COMPILING.fullmatch(text):
            self.function = match["name"]
            self._update(entry=True)
        elif match := _PROPERTIES.fullmatch(text):
            self.function = match["name"]
            self._update()
        elif match := _GLOBAL.fullmatch(text):
            self.global_memory = int(match["global"])
        elif match := _FRAME.fullmatch(text):
            stack, stores, loads = map(int, match.groups())
            self._update(stack=stack, spill_stores=stores, spill_loads=loads)
        elif match := _USED.fullmatch(text):
            rest = match["rest"]
            self._update(
                registers=int(match["registers"]),
                barriers=_sum(_BARRIERS, rest),
                shared=_sum(_SHARED, rest),
                constant=_sum(_CONSTANT, rest),
            )
        else:
            return _COMPILE_TIME.match(text) is not None
        return True

    def _update(self, **values: Any) -> None:
        self.resources.setdefault(self.function, {}).update(values)


def _sum(pattern: re.Pattern[str], text: str) -> int:
    return sum(map(int, pattern.findall(text)))
