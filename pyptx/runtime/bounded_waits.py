"""Bounds the waits of a kernel: a wait for an mbarrier that takes too long reports itself and traps.

Owns the rewriting of a module, :func:`bound_waits`, and the layout of the reports that the rewritten kernel
writes.  Behind each ``mbarrier.try_wait`` and ``mbarrier.test_wait`` the rewriting puts code that runs if the
answer is "not yet": the first such answer stores ``%globaltimer`` in the thread's local memory, a later one
for the same barrier and phase compares.  A positive answer resets the time.  So the shape of the loop around
the instruction does not matter.

The reports go to the memory to which the module's variable ``pyptx_wait_buffer`` points: by default to a
variable of the module, in a launch on a GPU to memory of the host, which a trap leaves readable.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from ..core.records import dataclass
from ..core.source import SourceLocation
from ..core.types import scalar_type
from ..ir import (
    Address,
    BranchTarget,
    Function,
    Guard,
    Immediate,
    Instruction,
    LabelStatement,
    Module,
    Operand,
    Pair,
    Register,
    SharedRange,
    Special,
    Statement,
    Symbol,
    SymbolAddress,
    Variable,
    Vector,
)

__all__ = ["BUFFER", "BUFFER_BYTES", "RECORDS", "BoundedWaits", "ExpiredWait", "WaitSite", "bound_waits"]

#: Variable with the address of the reports, the variable that it points to by default, the count of reports.
BUFFER, RECORDS, _COUNT = "pyptx_wait_buffer", "pyptx_wait_records", "pyptx_wait_count"
#: Number of reports that are kept, and the bytes of one.
_MOST, _RECORD = 256, 128
BUFFER_BYTES = _MOST * _RECORD
#: done, site, barrier, phase, elapsed, ctaid, warp, lanes: the head of a report.
_HEAD = struct.Struct("<IIQQQ3III")
_BARRIER, _PHASE, _ELAPSED, _CTA, _WARP, _LANES = 8, 16, 24, 32, 44, 48
#: Where a report has the addresses of shared variables, and how many.
_BASES, _MOST_BASES = 64, 16
#: Milliseconds between a report and the trap, in which other warps report what they wait for.
_GRACE = 50
#: Bytes of local memory of each wait: the time of the first "not yet", and what was waited for.
_STATE = 16
#: Bits of an address that say where in a CTA's shared memory it is.
_WINDOW = (1 << 24) - 1
_LOCAL = "pyptx_wait_state"

_TYPES = {
    "late": "pred",
    "over": "pred",
    "barrier32": "u32",
    "phase32": "u32",
    "high32": "u32",
    "tag": "u32",
    "seen": "u32",
    "now": "u64",
    "since": "u64",
    "elapsed": "u64",
    "barrier": "u64",
    "phase": "u64",
    "lanes": "u32",
    "word": "u32",
    "size": "u32",
    "record": "u64",
}


@dataclass(frozen=True)
class WaitSite:
    """One wait of the text.

    Attributes:
        function: name of the function.
        instruction: the wait.
        variables: the shared variables whose addresses a report has, in this order.
        ranges: the named buffers in these variables.
    """

    function: str
    instruction: Instruction
    variables: tuple[Variable, ...]
    ranges: tuple[SharedRange, ...]

    @property
    def location(self) -> SourceLocation | None:
        """The author's line."""
        return self.instruction.source

    @property
    def by_parity(self) -> bool:
        """True if the wait names its phase by a parity, False if by a state."""
        return "parity" in self.instruction.modifiers


@dataclass(frozen=True)
class ExpiredWait:
    """A wait that took too long, or that was not over when another one took too long.

    Attributes:
        site: the wait.
        barrier: the barrier's name, as precisely as it is known.
        address: the barrier's address.
        phase: the parity, or the state that an arrival returned.
        nanoseconds: how long the threads have waited.
        cta: the CTA's coordinates.
        warp: number of the warp in its CTA.
        lanes: mask of the lanes that wait.
    """

    site: WaitSite
    barrier: str
    address: int
    phase: int
    nanoseconds: int
    cta: tuple[int, int, int]
    warp: int
    lanes: int

    def __str__(self) -> str:
        phase = f"parity {self.phase & 1}" if self.site.by_parity else f"the phase of state {self.phase:#x}"
        number = self.lanes.bit_count()
        lanes = "1 lane" if number == 1 else f"{number} lanes"
        where = "" if self.site.location is None else f" at {self.site.location.describe()}"
        return (
            f"CTA {self.cta} warp {self.warp} ({lanes}, mask {self.lanes:#010x}) waited "
            f"{self.nanoseconds / 1e9:.3g} s for {self.barrier}, {phase}{where}"
        )


@dataclass(frozen=True)
class BoundedWaits:
    """A module whose waits are bounded.

    Attributes:
        module: the rewritten module.
        sites: the waits, by the number that a report has.
        seconds: the bound.
    """

    module: Module
    sites: tuple[WaitSite, ...]
    seconds: float

    def read(self, memory: bytes) -> list[ExpiredWait]:
        """Return the reports that ``memory`` holds, the first one first."""
        found = []
        for start in range(0, min(len(memory), BUFFER_BYTES), _RECORD):
            done, number, barrier, phase, elapsed, *cta, warp, lanes = _HEAD.unpack_from(memory, start)
            if done != 1 or number >= len(self.sites):
                continue
            site = self.sites[number]
            bases = struct.unpack_from(f"<{_MOST_BASES}I", memory, start + _BASES)
            name = _name(site, barrier, bases)
            x, y, z = cta
            found.append(ExpiredWait(site, name, barrier, phase, elapsed, (x, y, z), warp, lanes))
        return found


def bound_waits(module: Module, seconds: float) -> BoundedWaits:
    """Return ``module`` with every wait for an mbarrier bounded to ``seconds``.

    A wait that takes longer writes a report, and the kernel traps about 50 ms later. In this time other waits
    that are not over report themselves, too. A module without such waits is returned unchanged.
    """
    sites: list[WaitSite] = []
    shared = tuple(v for v in module.variables if v.space == "shared")
    nanoseconds = max(1, round(seconds * 1e9))
    functions = tuple(_Rewriting(f, shared, sites, nanoseconds).result() for f in module.functions)
    if not sites:
        return BoundedWaits(module, (), seconds)
    u32, u64, b8 = scalar_type("u32"), scalar_type("u64"), scalar_type("b8")
    variables = (
        Variable(RECORDS, "global", b8, BUFFER_BYTES, align=16),
        Variable(BUFFER, "global", u64, initial=SymbolAddress(RECORDS)),
        Variable(_COUNT, "global", u32),
    )
    changed = replace(module, functions=functions, variables=(*variables, *module.variables))
    return BoundedWaits(changed, tuple(sites), seconds)


def _is_wait(statement: Statement) -> bool:
    return (
        isinstance(statement, Instruction)
        and statement.opcode == "mbarrier"
        and statement.modifiers[:1] in (("try_wait",), ("test_wait",))
    )


def _name(site: WaitSite, barrier: int, bases: tuple[int, ...]) -> str:
    """Return the name of the mbarrier at an address: its buffer, with an index if that has several."""
    place = barrier & _WINDOW
    where = f"the mbarrier at shared address {barrier & 0xFFFFFFFF:#x}"
    starts = [
        (base & _WINDOW, v) for base, v in zip(bases, site.variables, strict=False) if base & _WINDOW <= place
    ]
    if not starts:
        return where
    base, variable = max(starts, key=lambda start: start[0])
    offset = place - base
    if not variable.external and offset >= variable.nbytes:
        return where
    name, size = variable.name, variable.nbytes
    for each in site.ranges:
        if each.variable == variable.name and each.offset <= offset < each.offset + each.size:
            name, size, offset = each.name, each.size, offset - each.offset
            break
    index = f"[{offset // 8}]" if size > 8 and offset % 8 == 0 else f"+{offset}" if offset else ""
    return f"{name}{index} (shared address {barrier & 0xFFFFFFFF:#x})"


class _Rewriting:
    """Rewrites one function."""

    def __init__(
        self, function: Function, shared: tuple[Variable, ...], sites: list[WaitSite], nanoseconds: int
    ) -> None:
        self.function, self.sites, self.nanoseconds = function, sites, nanoseconds
        own = tuple(v for v in function.variables if v.space == "shared")
        self.shared = (*shared, *own)[:_MOST_BASES]
        self.first = len(sites)
        self.registers = {
            name: Register(f"pyptx_wait_{name}", scalar_type(type)) for name, type in _TYPES.items()
        }
        self.out: list[Statement] = []
        self.source: SourceLocation | None = None

    def result(self) -> Function:
        waits = [statement for statement in self.function.body if _is_wait(statement)]
        if not waits:
            return self.function
        self.source = waits[0].source
        for number in range(len(waits)):
            self.do("st.local.u64", self.state(number), Immediate(0))
            self.do("st.local.u32", self.state(number, 8), Immediate(0))
        for statement in self.function.body:
            if _is_wait(statement):
                assert isinstance(statement, Instruction)
                self.wait(statement)
            else:
                self.out.append(statement)
        local = Variable(_LOCAL, "local", scalar_type("b8"), _STATE * len(waits), align=16)
        return replace(
            self.function,
            registers=(*self.function.registers, *self.registers.values()),
            variables=(*self.function.variables, local),
            body=tuple(self.out),
        )

    # --- what records ---------------------------------------------------------------------------

    def do(self, name: str, *operands: Operand | str, guard: str = "", label: str = "") -> None:
        """Append an instruction. A name among the operands means a register of the rewriting.

        ``guard`` is the name of a predicate, with ``!`` if it is negated; ``label`` is a branch's target.
        """
        opcode, *modifiers = name.split(".")
        given = [self.registers[each] if isinstance(each, str) else each for each in operands]
        if label:
            given.append(BranchTarget(label))
        condition = None
        if guard:
            condition = Guard(self.registers[guard.lstrip("!")], negated=guard.startswith("!"))
        self.out.append(Instruction(opcode, tuple(modifiers), tuple(given), condition, self.source))

    def label(self, name: str) -> None:
        self.out.append(LabelStatement(name, self.source))

    def state(self, number: int, offset: int = 0) -> Address:
        return Address(Symbol(_LOCAL, _STATE * number + offset))

    # --- a wait ---------------------------------------------------------------------------------

    def wait(self, wait: Instruction) -> None:
        """Append a wait and the code that follows it."""
        number = len(self.sites) - self.first
        site = WaitSite(self.function.name, wait, self.shared, self.function.shared_ranges)
        self.source = wait.source
        answer = wait.operands[0]
        ready = answer.first if isinstance(answer, Pair) else answer
        after = f"pyptx_wait_{self.first + number}"
        timed, expired = f"{after}_again", f"{after}_expired"
        if wait.guard is not None:
            # The wait may overwrite its own guard.
            copy = "not.pred" if wait.guard.negated else "mov.pred"
            self.do(copy, "over", wait.guard.register)
        self.out.append(wait)
        if not isinstance(ready, Register):  # the answer goes nowhere: the thread does not wait for it
            return
        if wait.guard is None:
            self.do("not.pred", "late", ready)
        else:
            # over: the wait was executed; afterwards: it was executed and has succeeded.
            self.do("xor.pred", "late", "over", ready)
            self.do("and.pred", "late", "late", "over")
            self.do("and.pred", "over", "over", ready)
        done = Guard(ready) if wait.guard is None else Guard(self.registers["over"])
        stored = (self.state(number), Immediate(0))
        self.out.append(Instruction("st", ("local", "u64"), stored, done, self.source))
        self.do("bra", guard="!late", label=after)
        self.do("mov.u64", "now", Special("globaltimer"))
        self.tag(wait)
        self.do("ld.local.u64", "since", self.state(number))
        self.do("ld.local.u32", "seen", self.state(number, 8))
        self.do("setp.ne.u64", "over", "since", Immediate(0))
        self.do("setp.eq.and.u32", "over", "seen", "tag", "over")
        self.do("bra", guard="over", label=timed)
        self.do("st.local.u64", self.state(number), "now")
        self.do("st.local.u32", self.state(number, 8), "tag")
        self.do("bra", label=after)
        self.label(timed)
        self.do("sub.u64", "elapsed", "now", "since")
        self.do("setp.ge.u64", "over", "elapsed", Immediate(self.nanoseconds))
        self.do("bra", guard="over", label=expired)
        # Another wait has taken too long: report this one, too, before the trap.
        self.do("ld.volatile.global.u32", "word", Address(Symbol(_COUNT)))
        self.do("setp.eq.u32", "over", "word", Immediate(0))
        self.do("bra", guard="over", label=after)
        self.label(expired)
        self.report(len(self.sites), f"{after}_trap", f"{after}_pause")
        self.label(after)
        self.sites.append(site)

    def tag(self, wait: Instruction) -> None:
        """Append code for the barrier, the phase, and the number that tells both from others."""
        address = _address(wait)
        base, phase = address.base, wait.operands[wait.operands.index(address) + 1]
        if isinstance(base, Register) and base.type.bits == 64:
            self.do("add.s64", "barrier", base, Immediate(address.offset))
            self.do("cvt.u32.u64", "barrier32", "barrier")
        else:
            if isinstance(base, Register):
                self.do("add.s32", "barrier32", base, Immediate(address.offset))
            elif isinstance(base, Symbol):
                self.do("mov.u32", "barrier32", replace(base, offset=base.offset + address.offset))
            else:
                self.do("mov.u32", "barrier32", Immediate(int(base.value) + address.offset))
            self.do("cvt.u64.u32", "barrier", "barrier32")
        if "parity" in wait.modifiers:
            self.do("mov.b32", "phase32", phase)
            self.do("cvt.u64.u32", "phase", "phase32")
            self.do("and.b32", "phase32", "phase32", Immediate(1))
        else:
            self.do("mov.b64", "phase", phase)
            self.do("mov.b64", Vector((self.registers["phase32"], self.registers["high32"])), "phase")
            self.do("xor.b32", "phase32", "phase32", "high32")
        self.do("shl.b32", "tag", "barrier32", Immediate(1))
        self.do("xor.b32", "tag", "tag", "phase32")

    # --- the report -----------------------------------------------------------------------------

    def report(self, number: int, trap: str, pause: str) -> None:
        """Append the code for a wait that took too long: one lane writes the report, all trap.

        ``trap`` and ``pause`` are labels. The code goes on behind the trap: to ptxas, a path that leaves the
        function means that the threads behind the wait have diverged, and it serializes their wgmma.
        """
        self.do("activemask.b32", "lanes")
        self.do("mov.u32", "word", Special("lanemask_lt"))
        self.do("and.b32", "word", "word", "lanes")
        self.do("setp.ne.u32", "over", "word", Immediate(0))
        self.do("bra", guard="over", label=trap)
        self.do("atom.global.add.u32", "word", Address(Symbol(_COUNT)), Immediate(1))
        self.do("setp.ge.u32", "over", "word", Immediate(_MOST))
        self.do("bra", guard="over", label=trap)
        self.do("ld.global.u64", "record", Address(Symbol(BUFFER)))
        self.do("mad.wide.u32", "record", "word", Immediate(_RECORD), "record")
        self.do("mov.u32", "size", Immediate(number))
        self.do("st.u32", self.field(4), "size")
        self.do("st.u64", self.field(_BARRIER), "barrier")
        self.do("st.u64", self.field(_PHASE), "phase")
        self.do("st.u64", self.field(_ELAPSED), "elapsed")
        for axis, name in enumerate("xyz"):
            self.do("mov.u32", "word", Special(f"ctaid.{name}"))
            self.do("st.u32", self.field(_CTA + 4 * axis), "word")
        self.warp()
        self.do("st.u32", self.field(_WARP), "word")
        self.do("st.u32", self.field(_LANES), "lanes")
        for position, variable in enumerate(self.shared):
            self.do("mov.u32", "word", Symbol(variable.name))
            self.do("st.u32", self.field(_BASES + 4 * position), "word")
        self.do("membar.sys")
        self.do("mov.u32", "word", Immediate(1))
        self.do("st.volatile.u32", self.field(0), "word")
        self.do("membar.sys")
        self.label(trap)
        self.do("mov.u32", "word", Immediate(_GRACE))
        self.label(pause)
        self.do("nanosleep.u32", Immediate(1_000_000))
        self.do("sub.u32", "word", "word", Immediate(1))
        self.do("setp.ne.u32", "over", "word", Immediate(0))
        self.do("bra", guard="over", label=pause)
        self.do("trap")

    def field(self, offset: int) -> Address:
        return Address(self.registers["record"], offset)

    def warp(self) -> None:
        """Append code that computes the number of the warp in its CTA."""
        self.do("mov.u32", "word", Special("tid.z"))
        for axis in "yx":
            self.do("mov.u32", "size", Special(f"ntid.{axis}"))
            self.do("mul.lo.u32", "word", "word", "size")
            self.do("mov.u32", "size", Special(f"tid.{axis}"))
            self.do("add.u32", "word", "word", "size")
        self.do("shr.u32", "word", "word", Immediate(5))


def _address(wait: Instruction) -> Address:
    """Return the operand that names the barrier."""
    return next(operand for operand in wait.operands if isinstance(operand, Address))
