"""One pair of kernels: a right one, and its twin with one bug. Owns their text, their launch and the judgment.

The body of a twin is PTX in which a line that begins with ``-`` stands only in the right kernel, and a line that
begins with ``+`` only in the wrong one: the bug is the difference. A line of the other kernel is left empty, so both
kernels have the same line numbers. A comment ``// @name`` marks a line that an expectation names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyptx.layout.tensor_map import TensorMap
from pyptx.sim import Report, Stream, load

__all__ = ["SIDES", "Launch", "Outcome", "Twin", "Which", "arrays", "wait"]

Which = Literal["right", "wrong"]
SIDES: tuple[Which, ...] = ("right", "wrong")

_MARK = re.compile(r"@(\w+)")

#: Registers of every kernel. ``tid``, ``lane``, ``warp``, ``cta`` and ``rank`` have their values at the start.
_REGISTERS = """\
.reg .pred p, q, lead, first, never, always, member; .reg .b16 mask; .reg .f32 acc<64>; .reg .b128 answer;
.reg .b32 tid, lane, warp, cta, rank, peer, a, b, c, d, e, i, n, x, y, z, at, to, base, size, word, tm, r<64>;
.reg .b64 ptr, from, state, adesc, bdesc, wide;
mov.u32 tid, %tid.x; and.b32 lane, tid, 31; shr.u32 warp, tid, 5; mov.u32 cta, %ctaid.x; mov.u32 rank, %cluster_ctarank;
setp.eq.u32 first, tid, 0; setp.eq.u32 lead, lane, 0; setp.ne.u32 never, tid, tid; setp.eq.u32 always, tid, tid;
"""


def wait(barrier: str, parity: int | str, modifiers: str = "") -> str:
    """Return a loop, on one line, that waits for a phase of an mbarrier; ``modifiers`` such as ``.relaxed.cta``."""
    asked = f"mbarrier.try_wait.parity{modifiers}.shared::cta.b64 q, [{barrier}], {parity};"
    return f"{{ WAIT: {asked} @!q bra WAIT; }}"


def arrays(**sizes: int | NDArray[Any]) -> Callable[[NDArray[Any]], Mapping[str, Any]]:
    """Return a function that makes arguments: zeroed ``u32`` arrays of these sizes, and copies of these arrays."""

    def make(out: NDArray[Any]) -> Mapping[str, Any]:
        return {
            name: np.zeros(size, np.uint32) if isinstance(size, int) else size.copy()
            for name, size in sizes.items()
        }

    return make


@dataclass(frozen=True)
class Launch:
    """Extents of one launch, and the body of its kernel.

    Attributes:
        dependent: whether programmatic dependent launch starts it before the launch before it has ended.
    """

    body: str
    grid: int = 1
    block: int = 32
    cluster: int = 1
    dependent: bool = False


@dataclass(frozen=True)
class Outcome:
    """One run: the reports of its launches, and whether the output is right."""

    reports: Sequence[Report]
    right: bool

    @property
    def findings(self) -> list[Any]:
        """The findings of all launches."""
        return [finding for report in self.reports for finding in report.findings]

    def __str__(self) -> str:
        return f"output right: {self.right}\n" + "\n".join(map(str, self.reports))


@dataclass(frozen=True)
class Twin:
    """A right kernel, a wrong one, and what must be found in the wrong one.

    Attributes:
        name: unique, and the name of the test case.
        classes: classes of bugs that :mod:`.classes` lists.
        why: why the right kernel is right, by the section ``anchor`` of the PTX ISA.
        launches: one, or several of one stream, which get the same arguments.
        expect: the output array of the right kernel, whose pointer is the parameter ``out``.
        rules: names of rules of which one must be found; the first one says it best. Empty if nothing is wrong.
        severity: ``error`` or ``review``.
        lines: marks of the lines that the finding must name. A mark that several lines have needs one of them.
        target: architecture of the text.
        arrays: makes further arguments from the output array, by the parameter's name: numpy arrays, tensor maps.
        omitted: whether shipping compilers omit what the wrong kernel lacks.
        directives: performance directives of the kernels, such as ``.maxnreg 64``.
        options: options of each run, such as ``memory``.
    """

    name: str
    classes: tuple[str, ...]
    why: str
    anchor: str
    launches: tuple[Launch, ...]
    expect: NDArray[Any]
    rules: tuple[str, ...]
    severity: Literal["error", "review", "none"]
    lines: tuple[str, ...]
    target: str = "sm_90a"
    arrays: Callable[[NDArray[Any]], Mapping[str, Any]] = lambda out: {}
    omitted: bool = False
    directives: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def text(self, which: Which, prefix: str = "kernel") -> str:
        """Return the PTX module of one side, with an entry for each launch, ``PREFIX0`` and so on."""
        parameters = self.arrays(np.zeros_like(self.expect))
        return _HEAD.format(target=self.target) + "".join(
            self.entry(which, number, f"{prefix}{number}", parameters) for number in range(len(self.launches))
        )

    def entry(self, which: Which, number: int, name: str, parameters: Mapping[str, Any]) -> str:
        """Return the text of one entry, without the head of a module."""
        declared = [".param .u64 out"]
        loads = [".reg .b64 out; ld.param.u64 out, [&out];"]
        for parameter, value in parameters.items():
            if isinstance(value, TensorMap):
                declared.append(f".param .align 64 .b8 {parameter}_param[128]")
                loads.append(
                    f".reg .b64 {parameter}; mov.b64 {parameter}, {parameter}_param; cvta.param.u64 {parameter}, {parameter};"
                )
            else:
                declared.append(f".param .u64 {parameter}_param")
                loads.append(f".reg .b64 {parameter}; ld.param.u64 {parameter}, [{parameter}_param];")
        declared[0], loads[0] = ".param .u64 out_param", ".reg .b64 out; ld.param.u64 out, [out_param];"
        launch = self.launches[number]
        body = "\n".join(_side(line, which) for line in launch.body.strip("\n").splitlines())
        directives = "\n".join(_side(line, which) for line in self.directives.splitlines())
        head = f".visible .entry {name}({', '.join(declared)}) {directives}\n{{\n"
        return head + _REGISTERS + "\n".join(loads) + "\n" + body + "\nret;\n}\n"

    def marked(self, mark: str, which: Which = "wrong") -> set[int]:
        """Return the numbers of the lines that have a mark."""
        found = {
            number
            for number, line in enumerate(self.text(which).splitlines(), 1)
            if mark in _MARK.findall(line.partition("//")[2])
        }
        assert found, f"{self.name}: no line of the {which} kernel is marked @{mark}"
        return found

    def run(self, which: Which, schedule: str = "eager", seed: int = 0, **options: Any) -> Outcome:
        """Run one side in the simulator; ``options`` are those of :meth:`pyptx.sim.Stream.run`."""
        module = load(self.text(which))
        out = np.zeros_like(self.expect)
        arguments = [out, *self.arrays(out).values()]
        stream = Stream()
        for number, launch in enumerate(self.launches):
            stream.launch(
                module,
                f"kernel{number}",
                grid=launch.grid,
                block=launch.block,
                cluster=launch.cluster,
                args=arguments,
                dependent=launch.dependent,
            )
        options = {"timeout": 20.0, **self.options, **options}
        reports = stream.run(schedule=schedule, seed=seed, **options)
        return Outcome(reports, bool(np.array_equal(out, self.expect)))

    def complaint(self, which: Which, outcome: Outcome) -> str:
        """Return what is wrong with the findings of a run, or an empty string."""
        if which == "right" or self.severity == "none":
            return self._false_alarm(outcome)
        wanted = {mark: self.marked(mark) for mark in self.lines}
        near = []
        for finding in outcome.findings:
            if finding.rule.name not in self.rules or finding.severity != self.severity:
                continue
            places = [finding.location, *(location for _, location in finding.other)]
            named = {place.line for place in places if place is not None}
            missing = [mark for mark, numbers in wanted.items() if not numbers & named]
            if not missing:
                return self._worse(outcome)
            near.append(f"a finding names lines {sorted(named)}, but not @{', @'.join(missing)}")
        wish = f"{self.severity} [{' or '.join(self.rules)}] at {wanted}"
        return f"expected {wish}; " + ("; ".join(near) or f"found {_summary(outcome)}")

    def _false_alarm(self, outcome: Outcome) -> str:
        if not outcome.right:
            return "the output is wrong"
        return f"false alarm: {_summary(outcome)}" if outcome.findings else ""

    def _worse(self, outcome: Outcome) -> str:
        """Return a complaint if there is an error beside what only the ISA's letter forbids."""
        if self.severity == "review" and any(f.severity == "error" for f in outcome.findings):
            return f"an error beside what is for review: {_summary(outcome)}"
        return ""


_HEAD = ".version 8.6\n.target {target}\n.address_size 64\n"


def _side(line: str, which: Which) -> str:
    """Return the line as this side has it: empty if only the other side has it."""
    kept = {"right": "-", "wrong": "+"}[which]
    if line[:1] in ("-", "+"):
        return line[1:] if line[0] == kept else ""
    return line


def _summary(outcome: Outcome) -> str:
    found = [
        f"{f.severity} [{f.rule.name}] at {f.location.line if f.location else '?'}"
        + "".join(f", {place.line}" for _, place in f.other if place is not None)
        for f in outcome.findings
    ]
    return "; ".join(found) or "nothing"
