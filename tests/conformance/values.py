"""Cases of value forms, made from the instruction table alone: every variant, with operands of each kind.

A :class:`ValueCase` is one instruction (with what sets and reads the condition code, where it has to do with that);
:func:`batch` puts many into one kernel, each in a scope of its own: it loads its operands, executes, and stores
every result into a row of the output.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from string import Template

import numpy as np

from pyptx.core.types import TYPES, ScalarType
from pyptx.isa import Form, Match, target, variants
from pyptx.isa.notation import Chosen, OperandSpec
from pyptx.isa.table import all_forms, chapter_of

from .case import ARCH, In, Out, Run, kernel
from .operands import tuples
from .words import Words, splitmix64

__all__ = ["CHAPTERS", "NEWEST", "ValueCase", "available", "batch", "cases", "since", "value_forms"]

#: Chapters whose forms compute values, and how many tuples of operands each of their cases gets.
CHAPTERS = {
    "integer": 512,
    "extended": 512,
    "floating": 1024,
    "half": 1024,
    "transcendental": 2048,
    "logic": 512,
    "comparison": 256,
    "conversion": 512,
    "video": 128,
    "data_movement": 128,
}
#: A form with fewer variants gets more choices of operands for each.
_CASES = 64
_BLOCK = 128
#: The version of the texts that the driver of the recordings takes.
NEWEST = (9, 0)

#: u32 operands that are amounts, positions or lengths, by form: the kinds of :mod:`.operands`.
_KINDS = {
    "shl": {"b": "amount"},
    "shr": {"b": "amount"},
    "shf": {"c": "amount"},
    "vshl": {"b": "amount"},
    "vshr": {"b": "amount"},
    "szext": {"b": "amount"},
    "bmsk": {"a": "amount", "b": "amount"},
    # The manual restricts these to a byte; beyond it there is no defined result.
    "bfe": {"b": "byte", "c": "byte"},
    "bfi": {"c": "byte", "d": "byte"},
    "fns": {"base": "lane", "offset": "offset"},
}


@dataclass(frozen=True, eq=False)
class ValueCase:
    """One instruction of a value form.

    Attributes:
        match: its modifiers.
        instruction: its text, with the names of its registers: what a disagreement shows.
        lines: PTX with ``$S0`` for the place of operand word 0 in the input, ``$R0`` for that of result 0.
        kinds: what each operand word is (:func:`.operands.tuples`).
        widths: bits of each result.
    """

    match: Match
    instruction: str
    lines: tuple[str, ...]
    kinds: tuple[str, ...]
    widths: tuple[int, ...]

    @property
    def form(self) -> Form:
        return self.match.form

    @property
    def name(self) -> str:
        return f"{self.form.id}: {self.instruction}"

    @property
    def count(self) -> int:
        """Tuples of operands."""
        return CHAPTERS[chapter_of(self.form.id)]

    def operands(self) -> Words:
        """Words ``[operand, tuple]``."""
        return (
            tuples(self.kinds, self.result, self.count)
            if self.kinds
            else np.zeros((0, self.count), np.uint64)
        )

    @property
    def result(self) -> str:
        """The type whose rounding and limits the operands should try."""
        chosen = self.match.chosen
        for slot in ("dtype", "type"):
            if slot in chosen and (slot == "dtype" or chosen[slot] in TYPES):
                return chosen[slot]
        dest = next(s for s in self.form.specs() if s.access == "w")
        return dest.scalar_types(chosen)[0].name

    @property
    def fingerprint(self) -> int:
        return zlib.crc32(repr((self.lines, self.count)).encode(), _crc(self.kinds, self.result, self.count))


@cache
def _crc(kinds: tuple[str, ...], result: str, count: int) -> int:
    return zlib.crc32(tuples(kinds, result, count).tobytes()) if kinds else 0


def available(form: Form) -> list[Match]:
    """The variants that the target of the recordings has."""
    arch = target(ARCH)
    if arch not in form.on:
        return []
    return [m for m in variants(form) if all(a.on is None or arch in a.on for a in m.alternatives)]


def value_forms(chapter: str) -> list[Form]:
    """The forms of a chapter that have cases here."""
    if chapter not in CHAPTERS:
        return []
    found = [form for form in all_forms() if chapter_of(form.id) == chapter]
    return [f for f in found if chapter != "data_movement" or f.opcode == "mov"]


@cache
def cases(form: Form) -> tuple[ValueCase, ...]:
    """Every variant of a form that the target has, each with some choices of operands."""
    matches = [m for m in available(form) if since(m) <= NEWEST]
    return tuple(case for match in matches for case in _choices(match, max(1, _CASES // len(matches))))


def since(match: Match) -> tuple[int, int]:
    """The version that a variant needs."""
    return max([match.form.since, *(a.since for a in match.alternatives if a.since is not None)])


# --- operands of a variant ----------------------------------------------------------------------

#: One way to write an operand: its text (``#`` for the register), and the register's type; or the text alone.
_Choice = tuple[str, "ScalarType | None"]


def _choices(match: Match, limit: int) -> Iterator[ValueCase]:
    """Cases of a variant: ways to write its operands, drawn evenly from all combinations."""
    specs = [
        s for group in match.form.operands for s in group.specs if not group.optional or _present(match, s)
    ]
    ways = [_ways(spec, match) for spec in specs]
    total = prod(map(len, ways))
    start = zlib.crc32(match.name.encode())
    step = next(s for s in range(max(1, round(total * 0.618)), 2 * total + 2) if np.gcd(s, total) == 1)
    made = 0
    for turn in range(total):
        place = (start + turn * step) % total
        chosen = []
        for way in ways:
            place, at = divmod(place, len(way))
            chosen.append(way[at])
        if sum(text.startswith("-") for text, _ in chosen) > 1:
            continue  # of vmad, one operand is negated at most
        yield _Writer(match, specs, chosen).case()
        made += 1
        if made == limit:
            return


def _present(match: Match, spec: OperandSpec) -> bool:
    """Is an optional operand there? The table relates each to a modifier."""
    (other,) = (r.left for r in match.form.relations if r.kind == "iff" and r.right == spec.name)
    return other[1:] in match.chosen or other[1:] in match.spelling


def _ways(spec: OperandSpec, match: Match) -> list[_Choice]:
    if "reg" not in spec.kinds and "pair" not in spec.kinds and spec.values is not None:
        return [(str(value), None) for value in spec.values]
    kind = spec.scalar_types(match.chosen)[0]
    exact = _register_type(kind, spec)
    found: list[_Choice] = []
    if spec.kinds & {"reg"} or not spec.kinds & {"pair", "part"}:
        found.append(("#", exact))
        if spec.wider and exact.bits < 64:
            found += [("#", TYPES[f"b{bits}"]) for bits in (32, 64) if bits > exact.bits]
    if "pair" in spec.kinds:
        found.append(("#|#q", exact))
    if "neg" in spec.kinds:
        found.append(("!#", exact))
    if "minus" in spec.kinds:
        found.append(("-#", exact))
    draws = splitmix64(
        np.arange(6, dtype=np.uint64) + np.uint64(zlib.crc32(f"{match.name} {spec.name}".encode()))
    )
    if "part" in spec.kinds:
        # Not into h1: the recording driver's ptxas, 13.0, merges the wrong half of the result there; 13.5 does not.
        parts = ("b0", "b1", "b2", "b3", "h0", "h1")[: 5 if spec.access == "w" else 6]
        found += [(f"#.{part}", exact) for part in parts]
    if "halves" in spec.kinds:
        found += [(f"#.h{int(d) >> 8 & 3}{int(d) & 3}", exact) for d in draws]
    if "bytes" in spec.kinds:
        found += [(f"#.b{''.join(str(int(d) >> s & 7) for s in (0, 8, 16, 24))}", exact) for d in draws]
    if "mask2" in spec.kinds:
        found += [(f"#.{mask}", exact) for mask in ("h0", "h1", "h10")]
    if "mask4" in spec.kinds:
        found += [(f"#.b{mask}", exact) for mask in ("0", "1", "20", "31", "210", "321", "3210")]
    return found


def _register_type(kind: ScalarType, spec: OperandSpec) -> ScalarType:
    """A declarable type that holds ``kind`` exactly; of 16 bits for 8 where registers may be wider."""
    if kind.bits == 8:
        return TYPES["b16" if spec.wider else "b8"]
    declarable = kind.kind in "usbp" and kind.lanes == 1
    return kind if declarable or kind.name in ("f32", "f64") else TYPES[f"b{kind.bits}"]


def _kind_of(spec: OperandSpec, chosen: Chosen, form: Form) -> str:
    """What the words of an operand are."""
    opcode = form.opcode
    own = _KINDS.get(form.id, _KINDS.get(opcode, {})).get(spec.name)
    return own or spec.scalar_types(chosen)[0].name


class _Writer:
    """Writes the PTX of one case."""

    def __init__(self, match: Match, specs: Sequence[OperandSpec], ways: Sequence[_Choice]) -> None:
        self.match, self.specs, self.ways = match, specs, ways
        self.lines: list[str] = []
        self.kinds: list[str] = []
        self.widths: list[int] = []
        self.registers = 0

    def case(self) -> ValueCase:
        operands, stores = [], []
        for spec, (text, kind) in zip(self.specs, self.ways, strict=True):
            if kind is None:
                operands.append(text)
                continue
            length = spec.length(self.match.chosen)
            # A register that may be wider shows how wide it is.
            names = [self.register(kind, f"_{kind}" if spec.wider else "") for _ in range(length or 1)]
            if spec.access == "w":
                stores += [(name, kind) for name in names]
                if "#q" in text:
                    second = self.register(TYPES["pred"])
                    stores.append((second, TYPES["pred"]))
                    text = text.replace("#q", second)
            else:
                for name in names:
                    self.load(name, kind, _kind_of(spec, self.match.chosen, self.match.form))
            written = [text.replace("#", name) for name in names]
            operands.append(written[0] if length is None else f"{{{', '.join(written)}}}")
        instruction = f"{self.match.name} {', '.join(operands)}"
        self.set_carry()
        self.lines.append(f"{instruction};")
        stores += self.read_carry()
        for name, kind in stores:
            self.store(name, kind)
        return ValueCase(self.match, instruction, tuple(self.lines), tuple(self.kinds), tuple(self.widths))

    def set_carry(self) -> None:
        """Set the condition code from an operand word, for an instruction that reads it."""
        form = self.match.form
        if chapter_of(form.id) == "extended" and form.opcode.endswith("c"):
            bit, sink = self.register(TYPES["u32"]), self.register(TYPES["u32"])
            self.load(bit, TYPES["u32"], "bit")
            borrow = form.opcode.startswith("sub")
            self.lines.append(f"sub.cc.u32 {sink}, 0, {bit};" if borrow else f"add.cc.u32 {sink}, {bit}, -1;")

    def read_carry(self) -> list[tuple[str, ScalarType]]:
        """Read the condition code into one more result, if the instruction writes it."""
        if "cc" not in self.match.spelling:
            return []
        carry = self.register(TYPES["u32"])
        self.lines.append(
            f"{'subc' if self.match.form.opcode.startswith('sub') else 'addc'}.u32 {carry}, 0, 0;"
        )
        return [(carry, TYPES["u32"])]

    def register(self, kind: ScalarType, suffix: str = "") -> str:
        name = f"v{self.registers}{suffix}"
        self.registers += 1
        self.lines.append(f".reg .{kind} {name};")
        return name

    def word(self, kind: str) -> str:
        self.kinds.append(kind)
        return f"[%given+$S{len(self.kinds) - 1}]"

    def load(self, name: str, kind: ScalarType, what: str) -> None:
        """Load an operand word into a register."""
        if kind.kind == "p":
            held = self.register(TYPES["b32"])
            self.lines += [f"ld.global.b32 {held}, {self.word(what)};", f"setp.ne.b32 {name}, {held}, 0;"]
        elif kind.bits == 128:
            low, high = self.register(TYPES["b64"]), self.register(TYPES["b64"])
            self.lines += [f"ld.global.b64 {part}, {self.word('b64')};" for part in (low, high)]
            self.lines.append(f"mov.b128 {name}, {{{low}, {high}}};")
        else:
            self.lines.append(f"ld.global.b{kind.bits} {name}, {self.word(what)};")

    def result(self, bits: int) -> str:
        self.widths.append(bits)
        return f"[%results+$R{len(self.widths) - 1}]"

    def store(self, name: str, kind: ScalarType) -> None:
        if kind.kind == "p":
            held = self.register(TYPES["b32"])
            self.lines += [f"selp.b32 {held}, 1, 0, {name};", f"st.global.b32 {self.result(1)}, {held};"]
        elif kind.bits == 128:
            low, high = self.register(TYPES["b64"]), self.register(TYPES["b64"])
            self.lines.append(f"mov.b128 {{{low}, {high}}}, {name};")
            self.lines += [f"st.global.b64 {self.result(64)}, {part};" for part in (low, high)]
        else:
            self.lines.append(f"st.global.b{kind.bits} {self.result(kind.bits)}, {name};")


# --- many cases in one kernel -------------------------------------------------------------------


def batch(group: Sequence[ValueCase]) -> Run:
    """One launch that executes every case: ``given[word, tuple]``, ``results[result, tuple]`` of 64 bits each."""
    count = group[0].count
    row = 8 * count
    streams: dict[tuple[tuple[str, ...], str, int], int] = {}
    lines: list[str] = []
    results = 0
    for case in group:
        places = {}
        for slot in range(len(case.kinds)):
            places[f"S{slot}"] = row * streams.setdefault((case.kinds, case.result, slot), len(streams))
        for number in range(len(case.widths)):
            places[f"R{number}"] = row * (results + number)
        results += len(case.widths)
        text = "\n".join(case.lines)
        lines.append("{\n" + Template(text).substitute(places) + "\n}")
    given = [tuples(kinds, result, count)[slot] for kinds, result, slot in streams]
    body = "mad.wide.u32 %given, %index, 8, %given;\nmad.wide.u32 %results, %index, 8, %results;\n"
    return Run(
        f"{group[0].name} and {len(group) - 1} more",
        kernel(body + "\n".join(lines), "given:u64 results:u64"),
        (In(np.stack(given) if given else np.zeros((1, count), np.uint64)), Out(np.uint64, (results, count))),
        grid=(count // _BLOCK,),
        block=(_BLOCK,),
    )
