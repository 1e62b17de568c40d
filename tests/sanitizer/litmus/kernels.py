"""A litmus test as a kernel that runs many instances of it, each on locations of its own.

The CTAs of a team have the threads of the same instances: a warp is one thread of the test, its lanes are 32 instances.
Before each round the warps of a team meet by relaxed atomics, which order nothing, and then wait for a random time.
CTAs behind the teams access scratch memory meanwhile.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .program import Fence, Litmus, Load, Operation, Store

__all__ = ["Layout", "kernel_of", "single", "tally"]

#: Groups of warps that a CTA has of each of its threads of the test.
_GROUPS = 4
_LANES = 32
#: Looks at the meeting place before a warp goes on alone, so that no kernel can hang.
_LOOKS = 2000
_SCRATCH = 1 << 16

_HEAD = """\
.version 8.6
.target sm_90
.address_size 64
.visible .entry litmus(
.param .u64 memory, .param .u64 out, .param .u64 meet, .param .u64 scratch,
.param .u32 teams, .param .u32 rounds, .param .u32 mask, .param .u32 seed,
.param .u32 jitter, .param .u32 warm, .param .u32 noise)
{{
.reg .pred %p<8>;
.reg .b32 %r<64>;
.reg .b32 %v<16>;
.reg .b64 %d<32>;
ld.param.u64 %d0, [memory];
ld.param.u64 %d1, [out];
ld.param.u64 %d2, [meet];
ld.param.u64 %d3, [scratch];
ld.param.u32 %r0, [teams];
ld.param.u32 %r1, [rounds];
ld.param.u32 %r2, [mask];
ld.param.u32 %r3, [seed];
ld.param.u32 %r4, [jitter];
ld.param.u32 %r5, [warm];
ld.param.u32 %r6, [noise];
mov.u32 %r7, %tid.x;
mov.u32 %r8, %ctaid.x;
and.b32 %r9, %r7, 31;
shr.u32 %r10, %r7, 5;
setp.eq.u32 %p7, %r9, 0;
setp.ne.u32 %p6, %r5, 0;
div.u32 %r11, %r8, {ctas};
rem.u32 %r12, %r8, {ctas};
setp.ge.u32 %p0, %r11, %r0;
@%p0 bra NOISE;
{hosts}
NOISE:
mov.u32 %r20, 0;
mad.lo.u32 %r21, %r8, 1024, %r7;
mad.lo.u32 %r21, %r21, 747796405, %r3;
AGAIN:
setp.ge.u32 %p0, %r20, %r6;
@%p0 bra DONE;
mad.lo.u32 %r21, %r21, 1664525, 1013904223;
shr.u32 %r22, %r21, 16;
mad.wide.u32 %d20, %r22, 4, %d3;
ld.relaxed.gpu.global.u32 %r23, [%d20];
add.u32 %r23, %r23, 1;
st.relaxed.gpu.global.u32 [%d20], %r23;
add.u32 %r20, %r20, 1;
bra AGAIN;
{threads}
DONE:
ret;
}}
"""

#: One CTA of a team that hosts some threads of the test: %r13 is the group of the warp, %r14 its place in the group.
_HOST = """\
setp.ne.u32 %p0, %r12, {cta};
@%p0 bra NOT{cta};
div.u32 %r13, %r10, {hosted};
rem.u32 %r14, %r10, {hosted};
setp.ge.u32 %p0, %r13, {groups};
@%p0 bra DONE;
{branches}
NOT{cta}:
"""

#: One thread of the test. %r16 is the round, %r17 the instance's number, %r18 the place in the meeting.
_THREAD = """\
THREAD{n}:
mov.u32 %r16, 0;
ROUND{n}:
mad.lo.u32 %r18, %r11, %r1, %r16;
mad.lo.u32 %r17, %r18, {groups}, %r13;
mad.lo.u32 %r17, %r17, 32, %r9;
mad.wide.u32 %d19, %r17, 4, %d1;
add.u32 %r19, %r2, 1;
{places}
mov.u32 %r24, 0;
@!%p6 bra COLD{n};
{warm}
shr.u32 %r24, %r24, 30;
COLD{n}:
mad.wide.u32 %d20, %r18, 4, %d2;
bar.warp.sync 0xffffffff;
@!%p7 bra MET{n};
atom.relaxed.gpu.global.add.u32 %r20, [%d20], 1;
mov.u32 %r21, 0;
LOOK{n}:
ld.relaxed.gpu.global.u32 %r20, [%d20];
add.u32 %r21, %r21, 1;
setp.lt.u32 %p1, %r20, {meeting};
setp.lt.and.u32 %p1, %r21, {looks}, %p1;
@%p1 bra LOOK{n};
MET{n}:
bar.warp.sync 0xffffffff;
mad.lo.u32 %r20, %r17, 2654435761, %r3;
add.u32 %r20, %r20, {salt};
shr.u32 %r21, %r20, 15;
xor.b32 %r20, %r20, %r21;
mul.lo.u32 %r20, %r20, 2246822519;
shr.u32 %r20, %r20, 13;
and.b32 %r20, %r20, %r4;
add.u32 %r20, %r20, %r24;
mov.u32 %r21, %clock;
DELAY{n}:
mov.u32 %r22, %clock;
sub.u32 %r22, %r22, %r21;
setp.lt.u32 %p1, %r22, %r20;
@%p1 bra DELAY{n};
{operations}
{results}
add.u32 %r16, %r16, 1;
setp.lt.u32 %p1, %r16, %r1;
@%p1 bra ROUND{n};
bra DONE;
"""

#: Odd factors that scatter the instances' places of different locations over different cache lines.
_FACTORS = (1, 8197, 32771, 131101)


def _semantics(operation: Operation) -> str:
    order = operation.order
    return ".weak" if order == "weak" else f".{order}.{operation.scope}"


def _instruction(operation: Operation, place: dict[str, str], register: str) -> str:
    if isinstance(operation, Fence):
        return f"fence.{operation.order}.{operation.scope};"
    at, semantics = f"[{place[operation.location]}]", _semantics(operation)
    if isinstance(operation, Load):
        return f"ld{semantics}.global.u32 {register}, {at};"
    if isinstance(operation, Store):
        return f"st{semantics}.global.u32 {at}, {operation.value};"
    return f"atom{semantics}.global.add.u32 {register}, {at}, 1;"


def _thread(test: Litmus, number: int, first: int) -> tuple[str, int]:
    """The code of one thread of the test, and the number of the next thread's first register."""
    operations, places, warm, results = [], [], [], []
    used = {op.location for op in test.threads[number] if not isinstance(op, Fence)}
    place = {location: f"%d{4 + n}" for n, location in enumerate(test.locations)}
    for n, location in enumerate(test.locations):
        if location in used:
            places += [
                f"mul.lo.u32 %r25, %r17, {_FACTORS[n]};",
                "and.b32 %r25, %r25, %r2;",
                f"mad.lo.u32 %r25, %r19, {n}, %r25;",
                f"mad.wide.u32 {place[location]}, %r25, 4, %d0;",
            ]
            warm += [f"ld.weak.global.u32 %r26, [{place[location]}];", "or.b32 %r24, %r24, %r26;"]
    for operation in test.threads[number]:
        operations.append(_instruction(operation, place, f"%v{first}"))
        if not isinstance(operation, (Store, Fence)):
            results += [
                f"mad.wide.u32 %d21, %r19, {4 * first}, %d19;",
                f"st.global.u32 [%d21], %v{first};",
            ]
            first += 1
    code = _THREAD.format(
        n=number,
        groups=_GROUPS,
        meeting=_GROUPS * len(test.threads),
        looks=_LOOKS,
        salt=0x9E3779B1 * (number + 1) % (1 << 32),
        places="\n".join(places),
        warm="\n".join(warm),
        operations="\n".join(operations),
        results="\n".join(results),
    )
    return code, first


def _hosts(test: Litmus) -> str:
    texts = []
    for cta in range(max(test.ctas) + 1):
        hosted = [n for n, at in enumerate(test.ctas) if at == cta]
        branches = "\n".join(
            f"setp.eq.u32 %p0, %r14, {place};\n@%p0 bra THREAD{n};" for place, n in enumerate(hosted)
        )
        texts.append(_HOST.format(cta=cta, hosted=len(hosted), groups=_GROUPS, branches=branches))
    return "".join(texts)


def kernel_of(test: Litmus) -> str:
    """The PTX text; its entry is ``litmus``."""
    threads, first = [], 0
    for number in range(len(test.threads)):
        code, first = _thread(test, number, first)
        threads.append(code)
    return _HEAD.format(ctas=max(test.ctas) + 1, hosts=_hosts(test), threads="".join(threads))


def single(test: Litmus) -> str:
    """A kernel that runs one instance of the test and nothing else.

    Its parameters are the locations and the registers, words 16 bytes apart. Warps are threads of the test; lane 0
    executes the thread.
    """
    branches, threads, first = [], [], 0
    place = {location: f"%d0+{16 * n}" for n, location in enumerate(test.locations)}
    for number, (operations, cta) in enumerate(zip(test.threads, test.ctas, strict=True)):
        warp = test.ctas[:number].count(cta)
        branches.append(
            f"setp.eq.u32 %p0, %r0, {32 * warp};\nsetp.eq.and.u32 %p0, %r1, {cta}, %p0;\n@%p0 bra T{number};"
        )
        threads.append(f"T{number}:")
        begin = first
        for operation in operations:
            threads.append(_instruction(operation, place, f"%v{first}"))
            first += not isinstance(operation, (Store, Fence))
        threads += [f"st.global.u32 [%d1+{16 * n}], %v{n};" for n in range(begin, first)]
        threads.append("ret;")
    lines = [
        ".version 8.6\n.target sm_90\n.address_size 64",
        ".visible .entry litmus(.param .u64 memory, .param .u64 out)\n{",
        ".reg .pred %p<2>;\n.reg .b32 %r<2>;\n.reg .b32 %v<16>;\n.reg .b64 %d<2>;",
        "ld.param.u64 %d0, [memory];\nld.param.u64 %d1, [out];",
        "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;",
        *branches,
        "ret;",
        *threads,
        "}",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Layout:
    """Sizes of a launch.

    Attributes:
        test: what is run.
        teams: teams of CTAs.
        rounds: rounds of each team.
        noise: CTAs that access scratch memory.
    """

    test: Litmus
    teams: int
    rounds: int
    noise: int

    @property
    def instances(self) -> int:
        """Number of instances of the test."""
        return self.teams * self.rounds * _GROUPS * _LANES

    @property
    def places(self) -> int:
        """Words of each location and each register: the instances, rounded up to a power of two."""
        return 1 << (self.instances - 1).bit_length()

    @property
    def grid(self) -> int:
        return self.teams * (max(self.test.ctas) + 1) + self.noise

    @property
    def block(self) -> int:
        hosted = max(self.test.ctas.count(cta) for cta in self.test.ctas)
        return _LANES * _GROUPS * hosted

    @property
    def words(self) -> tuple[int, int, int, int]:
        """Words of the four arrays: locations, registers, meetings, scratch; all must hold 0 but the last."""
        test = self.test
        registers = max(1, test.registers)
        return len(test.locations) * self.places, registers * self.places, self.teams * self.rounds, _SCRATCH

    def numbers(
        self, seed: int, *, jitter: int = 255, warm: bool = False, noise: int = 200
    ) -> tuple[int, ...]:
        """The scalar arguments. ``jitter`` is a mask of clock cycles, ``noise`` the accesses of a scratch thread."""
        return self.teams, self.rounds, self.places - 1, seed, jitter, int(warm), noise


def tally(layout: Layout, memory: NDArray[np.uint32], out: NDArray[np.uint32]) -> Counter[tuple[int, ...]]:
    """How often each outcome occurred, from the arrays after the launch."""
    test, places = layout.test, layout.places
    instances = np.arange(layout.instances, dtype=np.uint64)
    columns = [out.reshape(-1, places)[n, : layout.instances] for n in range(test.registers)]
    for location in test.finals:
        n = test.locations.index(location)
        at = instances * np.uint64(_FACTORS[n]) & np.uint64(places - 1)
        columns.append(memory.reshape(-1, places)[n, at])
    stacked = np.stack(columns)
    base = int(stacked.max()) + 1
    codes = np.zeros(layout.instances, np.int64)
    for column in stacked:
        codes = codes * base + column
    counts = np.bincount(codes, minlength=1)
    found: Counter[tuple[int, ...]] = Counter()
    for code in np.flatnonzero(counts):
        rest, outcome = int(code), []
        for _ in columns:
            rest, value = divmod(rest, base)
            outcome.append(value)
        found[tuple(reversed(outcome))] = int(counts[code])
    return found
