"""Registers: those that nothing writes, the sum that ``setmaxnreg`` asks for, and those of a whole CTA."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.remedies import Remedy
from ...core.source import SourceLocation
from ...flow import Graph, accesses, value_ranges
from ...ir import Function, Immediate, Instruction
from ...sim.threads.multiprocessor import REGISTERS
from ...sim.threads.register_budget import registers_at_entry
from ...toolchain import Resources
from .assumptions import block_of, special_ranges
from .subject import Subject

__all__ = ["register_file", "register_pool", "undefined_registers"]

#: Threads of a warpgroup and of a warp; registers of a thread are allocated in multiples of the last number.
_WARPGROUP, _WARP, _STEP = 128, 32, 8
#: Instructions that move or choose bits, which need not be defined if no other instruction uses them.
_MOVING = frozenset({"mov", "prmt", "bfi", "shf", "shl", "shr", "selp", "and", "or", "lop3"})


def undefined_registers(function: Function) -> list[Finding]:
    """Report the registers that no instruction of the function writes, at the first read of each line.

    Instructions that only move bits are left out: compilers pack undefined bytes that no code uses.
    """
    written = {param.name for param in function.params if param.space == "reg"}
    read: dict[str, Instruction] = {}
    for instruction in function.instructions():
        reads, writes = accesses(instruction)
        written |= {register.name for register in writes}
        for register in reads:
            if instruction.opcode not in _MOVING and "param" not in instruction.modifiers:
                read.setdefault(register.name, instruction)
    found: dict[SourceLocation | None, Finding] = {}
    for name, instruction in read.items():
        if name not in written:
            message = f"{instruction} reads %{name}, which no instruction of {function.name} writes"
            place = instruction.source
            found.setdefault(place, Finding(RULES["undefined-register"], message, place))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Request:
    """One ``setmaxnreg``: whether it takes registers, and the number that each thread then has."""

    index: int
    instruction: Instruction
    takes: bool
    count: int


def register_pool(
    function: Function, graph: Graph, subject: Subject, used: Mapping[str, Resources]
) -> list[Finding]:
    """Report ``setmaxnreg`` that ptxas ignores, that goes the wrong way, or that asks for too much in sum.

    The sum needs the block, in one dimension, and the registers at the entry: those that the directives
    give, or those that ptxas reports.
    """
    requests = [
        _Request(index, each, "inc" in each.modifiers, int(each.operands[0].value))
        for index, each in enumerate(function.body)
        if isinstance(each, Instruction)
        and each.opcode == "setmaxnreg"
        and isinstance(each.operands[0], Immediate)
    ]
    if not requests or function.kind != "entry":
        return []
    stated, entry = registers_at_entry(function)
    if not stated:
        return [_ignored(requests)]
    if entry is None and function.name in used:
        entry = -(-used[function.name].registers // _STEP) * _STEP
    block = block_of(function, subject)
    if entry is None or block is None or prod(block) != block[0]:
        return []
    groups = _by_warpgroup(function, graph, subject, requests, block[0])
    # A kernel with setmaxnreg is launched with exactly the registers that its directives state.
    beyond = [] if function.name in used else _beyond(function, entry, block[0])
    return [*beyond, *_wrong_way(groups, entry), *_too_many(groups, entry, block[0])]


def _ignored(requests: list[_Request]) -> Finding:
    first, *others = requests
    return Finding(
        RULES["setmaxnreg"],
        f"ptxas ignores {first.instruction.name}, since the kernel does not state how many registers a "
        "thread has at the entry",
        first.instruction.source,
        other=tuple((str(each.instruction), each.instruction.source) for each in others),
    )


def _by_warpgroup(
    function: Function, graph: Graph, subject: Subject, requests: list[_Request], threads: int
) -> list[list[_Request]]:
    """Return the requests that each warpgroup can reach, by what ``tid.x`` of its threads decides."""
    specials = special_ranges(function, subject)
    found = []
    for first in range(0, threads, _WARPGROUP):
        own = {**specials, "tid.x": (first, min(first + _WARPGROUP, threads) - 1)}
        ranges = value_ranges(function, graph, own, subject.params)
        reached = {index for block in ranges.inputs for index, *_ in ranges.states(block)}
        found.append([each for each in requests if each.index in reached])
    return found


def _wrong_way(groups: list[list[_Request]], entry: int) -> list[Finding]:
    """Report requests that change the registers at the entry in the wrong direction."""
    found: dict[int, Finding] = {}
    for group in groups:
        first = group[0] if len(group) == 1 else None
        if first is not None and (first.count < entry if first.takes else first.count > entry):
            way = "below" if first.takes else "above"
            message = f"{first.instruction} is {way} the {entry} registers that each thread has at the entry"
            found[first.index] = Finding(RULES["setmaxnreg"], message, first.instruction.source)
    return list(found.values())


def _too_many(groups: list[list[_Request]], entry: int, threads: int) -> list[Finding]:
    """Report that the warpgroups need more than the launch gives, if each asks for the least that it can."""
    least = [min((each.count for each in group), default=entry) for group in groups]
    sizes = [min(_WARPGROUP, threads - _WARPGROUP * number) for number in range(len(groups))]
    total = sum(count * size for count, size in zip(least, sizes, strict=True))
    if total <= entry * threads:
        return []
    greedy = max((each for group in groups for each in group if each.takes), key=lambda each: each.count)
    takers = sum(size for count, size in zip(least, sizes, strict=True) if count == greedy.count)
    left = entry * threads - (total - takers * greedy.count)
    most = max(0, left // max(1, takers)) // _STEP * _STEP
    counts = ", ".join(map(str, least))
    advice = f"let the numbers add up to at most {entry} x {len(groups)} = {entry * len(groups)}"
    ptx = f"setmaxnreg.inc.sync.aligned.u32 {most};"
    return [
        Finding(
            RULES["register-pool"],
            f"the warpgroups ask for {counts} registers for each thread: {total:,} for {threads} threads, "
            f"but the launch gives {entry} x {threads} = {entry * threads:,}",
            greedy.instruction.source,
            remedy=Remedy(advice, f"ptx.setmaxnreg.inc({most})", ptx) if most > entry else Remedy(advice),
        )
    ]


def register_file(function: Function, subject: Subject, used: Resources) -> list[Finding]:
    """Report a kernel whose CTA needs more registers than a multiprocessor has."""
    block = block_of(function, subject)
    limit = function.directive("maxntid")
    threads = prod(block) if block is not None else prod(limit) if limit is not None else 0
    return _beyond(function, used.registers, threads)


def _beyond(function: Function, registers: int, threads: int) -> list[Finding]:
    """Report that so many threads with so many registers need more than a multiprocessor has."""
    warps = -(-threads // _WARP)
    total = warps * _WARP * (-(-registers // _STEP) * _STEP)
    if total <= REGISTERS:
        return []
    return [
        Finding(
            RULES["register-file"],
            f"{function.name} uses {registers} registers in each of {threads} threads: {total:,} "
            f"in all, but a multiprocessor has {REGISTERS:,}",
            function.source,
        )
    ]
