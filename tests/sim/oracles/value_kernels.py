"""Kernels that run every variant of a value form over many operands, and the operands.

:func:`cases` makes, from the instruction table alone, one :class:`Case` per choice of modifiers and of
operand kinds (registers as wide as the type and wider, immediates, a pair of predicates).
:func:`kernel_of` puts cases into one kernel, in one of the shapes of :data:`SHAPES`: each of them makes
the simulator take another of its forms of code.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyptx.core.types import TYPES, ScalarType
from pyptx.isa import Form, Match, variants
from pyptx.isa.notation import OperandSpec
from pyptx.sim.code.semantic import semantic_of
from tests.sim.build import Kernel
from tests.sim.oracles.words import F32, F64, FORMATS

#: Interesting values per type: a square of them, then random rows.
EDGES = 24
ROWS = EDGES * EDGES + 64

#: How the lanes of a warp come to execute the instructions.
SHAPES = ("whole warps", "divergent halves", "guarded", "single lanes")

#: Of a form with more variants than this, each has one case besides the one of registers, drawn ...
MANY = 20
#: ... and with more than this, one case in all.
HUGE = 300

#: Parts of a register that an operand may name, by kind of operand.
_PARTS = {
    "part": ("b0", "b3", "h0", "b1", "b2", "h1"),
    "halves": ("h32", "h01", "h13", "h20", "h22", "h10"),
    "bytes": ("b7654", "b0123", "b5270", "b4444", "b3210"),
    "mask2": ("h0", "h1", "h10"),
    "mask4": ("b0", "b21", "b3", "b310", "b20", "b3210", "b1"),
}


class Source(NamedTuple):
    """A register with values of ``kind`` in operand slot ``slot``, or the immediate with these raw bits.

    ``written``: how the register is written: ``!{}``, ``{}.b0``, ``-{}``.
    """

    slot: int
    kind: ScalarType
    raw: int | None = None
    written: str = "{}"

    @property
    def negated(self) -> bool:
        return self.written[0] == "!"


@dataclass(frozen=True)
class Case:
    """One instruction: its modifiers, where each read operand comes from, its destinations."""

    match: Match
    sources: tuple[Source, ...]
    destination: ScalarType
    pair: bool = False
    #: How the destination is written.
    written: str = "{}"

    def __str__(self) -> str:
        words = [s.written.format(s.kind) if s.raw is None else f"{s.kind}={s.raw:#x}" for s in self.sources]
        target = self.written.format(self.destination)
        return f"{self.match.name} {target}{'|p' if self.pair else ''}, {', '.join(words)}"

    @property
    def chosen(self) -> dict[str, str]:
        """The modifiers, and by its name how each operand is written that is no plain register."""
        (dest,) = [s for s in self.match.form.specs() if s.access == "w"]
        names = [dest.name, *(s.name for s in _reads(self.match))]
        written = [self.written, *(s.written for s in self.sources)]
        return self.match.chosen | {n: w for n, w in zip(names, written, strict=True) if w != "{}"}


# --- cases from the table ---------------------------------------------------------------------


def _reads(match: Match) -> list[OperandSpec]:
    """The operands that are read; optional ones where a modifier goes with them."""
    found = []
    for group in match.form.operands:
        names = {spec.name for spec in group.specs}
        ties = [r.left for r in match.form.relations if r.kind == "iff" and r.right in names]
        if all(tie[1:] in match.chosen for tie in ties):
            found += [spec for spec in group.specs if spec.access == "r"]
    return found


def _declared(kind: ScalarType) -> ScalarType:
    """The type that a register for ``kind`` is declared with."""
    return TYPES[f"b{kind.bits}"] if kind.lanes > 1 else kind


def _registers(spec: OperandSpec, chosen: dict[str, str]) -> list[ScalarType]:
    """Types of registers that hold this operand: of its width, and a wider one where that is allowed."""
    (kind,) = spec.scalar_types(chosen)
    if kind.bits == 8:
        exact = TYPES["u16" if spec.wider else "b8"]  # no kernel declares 8-bit registers but where it must
    elif kind.name in ("f16", "bf16"):
        exact = TYPES["b16"]
    else:
        exact = kind
    return [exact, TYPES["b64"]] if spec.wider and exact.bits < 64 else [exact]


def _immediate_of(spec: OperandSpec, kind: ScalarType, number: int, form: Form) -> int:
    """One of a few immediates as raw bits, by turns."""
    if spec.values is not None:
        return spec.values[37 * number % len(spec.values)]
    if form.id in ("shl", "shr") and kind.name == "u32":
        # No huge ones: ptxas cuts an immediate shift amount of .b16 to 16 bits (13.0, seen on an H200).
        return (5, 16, 0, 300)[number % 4]
    if kind.kind == "p":
        return number % 2
    if kind.kind == "f":
        one, tiny = {"f32": (0x3F800000, 0x00000001), "f64": (0x3FF0000000000000, 1)}[kind.name]
        return (one, tiny, one | 1 << (kind.bits - 1))[number % 3]
    top = 1 << (kind.bits - 1)
    return (5, top, 0, 2 * top - 3)[number % 4]


def cases(form: Form) -> Iterator[Case]:
    """Every variant of a value form with registers, and with what else may stand in each operand's place."""
    turn, draw = count(), random.Random(form.id)
    matches = list(variants(form))
    for match in matches:
        plain, *others = _cases_of(match, turn)
        if len(matches) > HUGE:
            yield draw.choice([plain, *others])
            continue
        yield plain
        yield from others if len(matches) <= MANY else draw.sample(others, min(1, len(others)))


def _cases_of(match: Match, turn: Iterator[int]) -> list[Case]:
    """All cases of a variant: that of plain registers, and those with one operand that is something else."""
    (dest,) = [s for s in match.form.specs() if s.access == "w"]
    choices = [_choices(spec, i, match, turn) for i, spec in enumerate(_reads(match))]
    plain = tuple(sources[0] for sources in choices)
    target, *wider = _registers(dest, match.chosen)
    masks = [f"{{}}.{part}" for kind, parts in _PARTS.items() if kind in dest.kinds for part in parts]
    if "part" in dest.kinds:
        masks.pop()  # h1, which ptxas 13.0 gets wrong: tests/sim/semantics/test_integer.py has it
    must_be_pair = "reg" not in dest.kinds and not masks
    first = "{}" if "reg" in dest.kinds or not masks else masks.pop()
    found = [Case(match, plain, target, must_be_pair, first)]
    found += [Case(match, plain, other) for other in wider]
    if "pair" in dest.kinds and not must_be_pair:
        found.append(Case(match, plain, target, pair=True))
    found += [Case(match, plain, target, written=mask) for mask in masks]
    for i, sources in enumerate(choices):
        for source in sources[1:]:
            operands = (*plain[:i], source, *plain[i + 1 :])
            found.append(Case(match, operands, target, must_be_pair, first))
    return found


def _choices(spec: OperandSpec, slot: int, match: Match, turn: Iterator[int]) -> list[Source]:
    """What may stand for an operand that is read, a plain register first."""
    kinds = _registers(spec, match.chosen)
    found = [Source(slot, kind) for kind in kinds] if "reg" in spec.kinds else []
    if "neg" in spec.kinds:
        found.append(Source(slot, kinds[0], None, "!{}"))
    for kind in spec.kinds & set(_PARTS):
        found.append(Source(slot, kinds[0], None, f"{{}}.{_PARTS[kind][next(turn) % len(_PARTS[kind])]}"))
    if "minus" in spec.kinds:
        found.append(Source(slot, kinds[0], None, "-{}"))
    (kind_read,) = spec.scalar_types(match.chosen)
    if "imm" in spec.kinds and kind_read.name not in ("f16", "bf16"):
        for _ in range(1 if found else 8):
            found.append(
                Source(slot, kind_read, _immediate_of(spec, kind_read, next(turn) + slot, match.form))
            )
    return found


# --- operands ---------------------------------------------------------------------------------


def _float32(*values: float) -> list[int]:
    return [struct.unpack("<I", struct.pack("<f", v))[0] for v in values]


def _element(kind: ScalarType) -> ScalarType:
    """Half of a packed kind: values are made by halves."""
    return TYPES["f32" if kind.name == "f32x2" else f"b{kind.bits // 2}"]


def _edges(kind: ScalarType) -> list[int]:
    """:data:`EDGES` values as raw bits."""
    if kind.lanes > 1:
        single = _edges(_element(kind))
        width = _element(kind).bits
        return [a | b << width for a, b in zip(single, single[-7:] + single[:-7], strict=True)]
    if kind.name == "f32":
        bits = [0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000]
        bits += [0x7FC00000, 0xFFA00001, 0x3F800001, 0x3F7FFFFF, 0x00FFFFFF]
        bits += _float32(1, -1, 0.5, -2.5, 2.0**24, 2.0**-24, 0.1, -(2.0**31), 2.0**63, 255.5)
    elif kind.name == "f64":
        top = 1 << 63
        bits = [0, top, 1, top | ((1 << 52) - 1), 1 << 52, F64.infinity - 1, F64.infinity, F64.infinity | top]
        bits += [0x7FF8 << 48, 0xFFF4 << 48]
        values = (
            1,
            -1,
            0.5,
            1.5,
            -2.5,
            127.5,
            2.0**24,
            2.0**53,
            0.1,
            -(2.0**31),
            2.0**31,
            2.0**63,
            2.0**64,
            -1e300,
        )
        bits += [struct.unpack("<Q", struct.pack("<d", v))[0] for v in values]
    elif kind.kind == "p":
        bits = [0, 1] * (EDGES // 2)
    elif kind.bits == 16:
        # As integers and as f16 or bf16 bits.
        bits = [0, 1, 2, 7, 8, 15, 16, 17, 100, 0x7F, 0x80, 0xFF, 0x3FF, 0x400, 0x5555, 0x7BFF]
        bits += [0x7C00, 0x7C01, 0x7F80, 0x7FFF, 0x8000, 0x8001, 0xFC00, 0xFFFF]
    else:
        top = 1 << (kind.bits - 1)
        bits = [0, 1, 2, 3, 5, 7, 8, 16, 31, 32, 33, 63, 64, 65, 100, 128, 0xFFFF, 0x8000]
        bits += [top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, (2 * top - 1) // 3]
    assert len(bits) == EDGES, (kind, len(bits))
    return bits


def _random(kind: ScalarType, row: int, generator: random.Random) -> int:
    """A random value; rows of a kind: uniform bits, small numbers, floats near each other or near ties."""
    style = row % 4
    if kind.lanes > 1:
        half = _element(kind)
        return _random(half, row, generator) | _random(half, row + 1, generator) << half.bits
    if kind.name in ("f32", "f64"):
        f = FORMATS[kind.name]
        fraction = generator.getrandbits(f.precision - 1)
        bias = (1 << (f.bits - f.precision - 1)) - 1
        if style == 0:
            return generator.getrandbits(f.bits)
        if style == 1 and f is F32:
            # Halfway, or one off, between neighbors in f16 and in bf16.
            cut = generator.choice((13, 16))
            fraction = (fraction >> cut << cut) + (1 << (cut - 1)) + generator.choice((-1, 0, 1))
            return generator.getrandbits(1) << 31 | generator.randrange(90, 145) << 23 | fraction
        if style == 2:
            whole = generator.randrange(-70000, 70000) + generator.choice((0.0, 0.5))
            return _float32(whole)[0] if f is F32 else struct.unpack("<Q", struct.pack("<d", whole))[0]
        exponent = bias + generator.randrange(-30, 30)
        return generator.getrandbits(1) << (f.bits - 1) | exponent << (f.precision - 1) | fraction
    if style == 1:
        return generator.randrange(70) & ((1 << kind.bits) - 1)
    if style == 2:
        return -generator.randrange(300) & ((1 << kind.bits) - 1)
    return generator.getrandbits(kind.bits)


#: Rows of f32 operands that random ones do not hit: products and quotients about the least normal number,
#: which .ftz judges after rounding, and sums that a double would round twice.
_CHOSEN_F32 = (
    (0x00800001, 0x3F7FFFFE, 0x00000000),
    (0x80800001, 0x3F7FFFFE, 0x80000001),
    (0x00FFFFFE, 0x3F000001, 0x3FFFFFFF),
    (0x00FFFFFF, 0x3F000000, 0x80800000),
    (0x00800003, 0x3F7FFFFB, 0x3F800004),
    (0x01000001, 0x3F7FFFFF, 0x80800003),
    (0x3F800800, 0x3F800800, 0x00000001),  # (1 + 2**-12)**2 is a tie: the addend decides
    (0x3F800800, 0x3F800800, 0x80000001),
    (0x3F800001, 0x3F000000, 0x97000000),
    (0x4B800000, 0x3F800000, 0x3F800000),  # 2**24 + 1
    (0x4B800001, 0x3F800000, 0xBF800000),
    (0x7F7FFFFF, 0x73000000, 0x72FFFFFF),  # about half a unit beyond the largest
)


@cache
def operand_rows(kind: ScalarType, slot: int) -> NDArray[np.uint64]:
    """Raw bits of operand ``slot`` for each row."""
    edges = _edges(kind)
    rows = []
    for row in range(EDGES * EDGES):
        first, second = divmod(row, EDGES)
        others = ((7 * first + 5 * second + 11 * (s - 2)) % EDGES for s in range(2, slot + 1))
        rows.append(edges[(first, second, *others)[slot]])
    if kind.name == "f32":
        rows += [chosen[slot % 3] for chosen in _CHOSEN_F32]
    generator = random.Random(f"{kind.name} {slot}")
    rows += [_random(kind, row, generator) for row in range(ROWS - len(rows))]
    return np.array(rows, np.uint64)


# --- kernels ----------------------------------------------------------------------------------


def _register(slot: int, kind: ScalarType) -> str:
    return f"v{slot}_{kind.name}"


def _immediate(kind: ScalarType, raw: int) -> str:
    if kind.kind == "f":
        return f"0f{raw:08X}" if kind.bits == 32 else f"0d{raw:016X}"
    if kind.kind == "s" and raw >> (kind.bits - 1):
        return str(raw - (1 << kind.bits))
    return str(raw)


class Batch:
    """Some cases of one form, as kernels of all shapes, with their input array."""

    def __init__(self, group: Iterable[Case]) -> None:
        self.cases = list(group)
        loads = {(s.slot, s.kind): None for case in self.cases for s in case.sources if s.raw is None}
        self.loads = list(loads)
        self.inputs = (
            np.stack([operand_rows(kind, slot) for slot, kind in self.loads])
            if loads
            else (np.zeros((1, ROWS), np.uint64))
        )

    @property
    def step(self) -> int:
        """Every how manieth lane the single-lane shape runs: few where there is no scalar expression,
        for then one-lane code calls the array function too, slowly."""
        meanings = [(semantic_of(case.match.form.id), case.match.chosen) for case in self.cases]
        return 1 if any(m is not None and m.expression(chosen) for m, chosen in meanings) else 4

    @property
    def results(self) -> int:
        """Rows of the output: two for a pair."""
        return sum(2 if case.pair else 1 for case in self.cases)

    def kernel(self, shape: str, target: str = "sm_100a") -> Kernel:
        """The kernel of a shape: ``kernel(inputs, outputs)`` with :data:`ROWS` threads in all."""
        lines = [".reg u32 thread cta threads lane turn", ".reg u64 row i o wide", ".reg pred half go"]
        lines += [f".reg {_declared(kind)} {_register(slot, kind)}" for slot, kind in self.loads]
        kinds = dict.fromkeys([c.destination for c in self.cases])
        lines += [f".reg {_declared(kind)} d_{kind.name}" for kind in kinds]
        lines += [".reg pred second", ".reg u32 n32", ".reg b16 n16", ".reg u64 zero"]
        lines += [
            "mov.u32 thread, %tid.x",
            "mov.u32 cta, %ctaid.x",
            "mov.u32 threads, %ntid.x",
            "mov.u32 lane, %laneid",
            "mad.lo.u32 thread, cta, threads, thread",
            "mul.wide.u32 row, thread, 8",
            "add.u64 i, input, row",
            "add.u64 o, output, row",
        ]
        lines += [line for n, load in enumerate(self.loads) for line in self._load(n, *load)]
        if shape == "whole warps":
            lines += self._body("", "")
        elif shape == "guarded":
            lines += ["and.b32 turn, lane, 1", "setp.ne.u32 half, turn, 0"]
            lines += self._body("@half ", "") + self._body("@!half ", "")
        elif shape == "divergent halves":
            lines += ["and.b32 turn, lane, 1", "setp.ne.u32 half, turn, 0", "@half bra ODD"]
            lines += [*self._body("", ""), "bra END", "ODD:", *self._body("", ""), "END:"]
        else:
            lines += ["mov.u32 turn, 0", "LOOP:", "setp.ne.u32 half, turn, lane", "@half bra NEXT"]
            lines += [*self._body("", ""), "NEXT:", f"add.u32 turn, turn, {self.step}"]
            lines += ["setp.lt.u32 go, turn, 32", "@go bra LOOP"]
        return Kernel("\n".join([*lines, "ret"]), "input:u64 output:u64", target=target)

    @staticmethod
    def _load(number: int, slot: int, kind: ScalarType) -> list[str]:
        name, at = _register(slot, kind), f"[i+{8 * ROWS * number}]"
        if kind.kind == "p":
            return [f"ld.global.b32 n32, {at}", f"setp.ne.u32 {name}, n32, 0"]
        return [f"ld.global.b{kind.bits} {name}, {at}"]

    def _body(self, guard: str, _: str) -> list[str]:
        lines, result = [], 0
        for case in self.cases:
            target = f"d_{case.destination.name}"
            sources = [
                s.written.format(_register(s.slot, s.kind)) if s.raw is None else _immediate(s.kind, s.raw)
                for s in case.sources
            ]
            written = f"{target}|second" if case.pair else case.written.format(target)
            lines.append(f"{guard}{case.match.name} {', '.join([written, *sources])}")
            for name, kind in [(target, case.destination)] + [("second", TYPES["pred"])] * case.pair:
                if kind.kind == "p":
                    lines.append(f"{guard}selp.b32 n32, 1, 0, {name}")
                    name, bits = "n32", 32
                else:
                    bits = kind.bits
                lines.append(f"{guard}st.global.b{bits} [o+{8 * ROWS * result}], {name}")
                result += 1
        return lines

    def run(self, shape: str) -> NDArray[np.uint64]:
        """Results ``[result, row]`` as raw bits of the destination registers; 0 for lanes that do not run."""
        outputs = np.zeros((self.results, ROWS), np.uint64)
        # Each thread has inputs and outputs of its own: there is no order to check.
        kernel = self.kernel(shape)
        kernel.clean(self.inputs, outputs, block=128, grid=ROWS // 128, sanitize=False)
        return outputs

    def operands(self, case: Case) -> list[list[int]]:
        """Raw bits of each operand, per row."""
        columns = []
        for source in case.sources:
            if source.raw is None:
                row = self.inputs[self.loads.index((source.slot, source.kind))]
                columns.append((row ^ np.uint64(source.negated)).tolist())
            else:
                columns.append([source.raw] * ROWS)
        return columns


def extended(raw: int, kind: str, register: ScalarType) -> int:
    """Result bits of a type as the register holds them: sign- or zero-extended."""
    width = TYPES[kind].bits
    if kind[0] == "s" and register.bits > width and raw >> (width - 1):
        raw |= (1 << register.bits) - (1 << width)
    return raw
