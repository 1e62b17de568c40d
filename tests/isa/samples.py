"""Instructions made from the table itself: every legal choice of modifiers with operands of each kind.

Used to hold the table against ptxas.  Registers are declared once per file; an instruction names the
registers that fit its operands' types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyptx.core.types import TYPES, ScalarType
from pyptx.ir import (
    Address,
    BranchTarget,
    Element,
    Immediate,
    Instruction,
    Minus,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from pyptx.isa import Binding, Form, Match, bind, variants
from pyptx.isa.notation import Chosen, OperandGroup, OperandSpec

#: Registers that a file of samples may declare: 128 of each width for vectors, typed ones for scalars.
_PREFIX = {"p": "p", "u": "u", "s": "s", "b": "b", "f": "f"}
DECLARED = {
    f"{kind.name}_{i}": kind
    for kind in TYPES.values()
    if kind.name
    in {
        "pred",
        "b8",
        "u16",
        "u32",
        "u64",
        "s16",
        "s32",
        "s64",
        "b16",
        "b32",
        "b64",
        "f16",
        "f32",
        "f64",
        "b128",
    }
    for i in range(128 if kind.name == "b32" else 8)
}
#: From this variant of a form on, each variant gets one choice of operands, in turn.
_THOROUGH = 500
#: How many instructions an entry of a file of samples has.
_ENTRY = 128
#: Names of the variables that a file of samples declares, by state space.
VARIABLES = {
    "shared": ".shared .align 1024 .b8 in_shared[4096];",
    "local": ".local .align 16 .b8 in_local[64];",
}

#: Selectors of each kind of part of a register.
PARTS = {
    "part": ("b0", "b1", "b2", "b3", "h0", "h1"),
    "halves": ("h00", "h10", "h32", "h33"),
    "bytes": ("b0000", "b3210", "b7654", "b7777"),
    "mask2": ("h0", "h1", "h10"),
    "mask4": ("b0", "b1", "b10", "b2", "b20", "b21", "b210", "b3", "b30", "b31", "b310", "b321", "b3210"),
}


def register(kind: ScalarType, number: int, exact: bool = False) -> Register:
    """A declared register that serves for ``kind``; ``exact``: one of 8 bits for 8 bits."""
    name = kind.name
    if kind.name == "b8" and exact:
        return Register(f"b8_{number % 8}", DECLARED["b8_0"])
    if f"{name}_0" not in DECLARED or name == "b8":
        # 8-bit values live in 16-bit registers; formats that cannot be declared live in bits.
        name = (
            f"{'s' if kind.kind == 's' else 'u'}16" if kind.bits == 8 and kind.lanes == 1 else f"b{kind.bits}"
        )
    return Register(f"{name}_{number % (128 if name == 'b32' else 8)}", DECLARED[f"{name}_0"])


def _scalars(spec: OperandSpec, chosen: Chosen, number: int) -> list[Operand]:
    """One operand of each kind that the spec allows."""
    kinds = spec.scalar_types(chosen)
    found: list[Operand] = []
    if "reg" in spec.kinds:
        found += [register(kind, number, not spec.wider) for kind in kinds]
    if "pair" in spec.kinds:
        found.append(Pair(register(kinds[0], number), Register("pred_1", TYPES["pred"])))
    if "sink" in spec.kinds:
        found.append(Sink())
    if "imm" in spec.kinds:
        if spec.values is not None:
            found += [Immediate(spec.values[0]), Immediate(spec.values[-1])]
        elif kinds[0].kind == "f":
            found.append(Immediate(0.5, kinds[0].bits))
        elif kinds[0].name != "f16":
            found.append(Immediate(1))
    if "special" in spec.kinds and kinds[0].name in ("u32", "b32", "s32"):
        found.append(Special("tid.x"))
    if "symbol" in spec.kinds and kinds[0].name in ("u32", "b32", "u64", "b64"):
        found.append(Symbol("in_shared", 16))
    if "label" in spec.kinds:
        found.append(BranchTarget("there"))
    for kind, selectors in PARTS.items():
        if kind in spec.kinds:
            found += [Element(register(kinds[0], number), selector) for selector in selectors]
    if "minus" in spec.kinds:
        found += [Minus(operand) for operand in found if isinstance(operand, Register | Element)]
    if "neg" in spec.kinds:
        found.append(Negated(register(TYPES["pred"], number)))
    return found


def _operands(spec: OperandSpec, chosen: Chosen, number: int) -> list[Operand]:
    if spec.access == "a":
        # A 32-bit register addresses shared memory alone.
        kinds = [TYPES["u32"], TYPES["u64"]] if _space(spec, chosen) == "shared" else [TYPES["u64"]]
        if spec.space == "tensor":
            kinds = [TYPES["b32"]]
        coordinates = None
        if spec.coordinates is not None:
            (coordinates,) = _operands(spec.coordinates, chosen, number)
            assert isinstance(coordinates, Vector)
        offsets = (0,) if spec.space == "tensor" or coordinates is not None else (0, 16)
        found: list[Operand] = [
            Address(register(kind, number), offset, coordinates) for kind in kinds for offset in offsets
        ]
        if "unified" in spec.kinds:
            found.append(Address(register(TYPES["u64"], number), suffix="unified"))
        return found
    length = spec.length(chosen)
    if length is None:
        return _scalars(spec, chosen, number)
    kind, lead = spec.scalar_types(chosen)[0], spec.lead_type(chosen)
    kinds = [lead if lead is not None and i == 0 else kind for i in range(length)]
    vector = Vector(tuple(register(k, number + i, not spec.wider) for i, k in enumerate(kinds)))
    return [vector, Pair(vector, Register("pred_1", TYPES["pred"]))] if "pair" in spec.kinds else [vector]


def _space(spec: OperandSpec, chosen: Chosen) -> str:
    named = chosen.get(spec.space[1:], "generic") if spec.space.startswith(".") else spec.space
    return named.partition("::")[0]


def _groups(form: Form, match: Match) -> Iterator[tuple[OperandGroup, ...]]:
    """The operand groups with every choice of the optional ones that the relations allow."""
    choices: list[tuple[OperandGroup, ...]] = [()]
    for group in form.operands:
        grown = [(*c, group) for c in choices]
        choices = grown + choices if group.optional else grown
    for choice in choices:
        names = {spec.name for group in choice for spec in group.specs}

        def present(side: str, names: set[str] = names) -> bool:
            if side[0] != ".":
                return side in names
            return side[1:] in match.chosen or side[1:] in match.spelling

        allowed = all(
            {
                "requires": not present(r.left) or present(r.right),
                "iff": present(r.left) == present(r.right),
                "excludes": not (present(r.left) and present(r.right)),
            }[r.kind]
            for r in form.relations
        )
        if allowed:
            yield choice


def instructions(form: Form) -> Iterator[tuple[Binding, Instruction]]:
    """For every variant: each kind of operand in each place (in turn where there are many variants)."""
    for number, match in enumerate(variants(form)):
        choices = list(choices_of(form, match))
        for instruction in choices if number < _THOROUGH else [choices[number % len(choices)]]:
            yield bind(form.opcode, match.spelling, instruction.operands), instruction


def choices_of(form: Form, match: Match) -> Iterator[Instruction]:
    """Instructions of one variant: each kind of operand in each place, one place at a time."""
    for groups in _groups(form, match):
        specs = [spec for group in groups for spec in group.specs]
        options = [_operands(spec, match.chosen, 2 * i) for i, spec in enumerate(specs)]
        base = [choices[0] for choices in options]
        seen = set()
        for position, choices in enumerate(options or [[]]):
            for choice in choices or [None]:
                operands = list(base)
                if choice is not None:
                    operands[position] = choice
                instruction = Instruction(form.opcode, match.spelling, tuple(operands))
                if str(instruction) not in seen:
                    seen.add(str(instruction))
                    yield instruction


def file_of(lines: list[str], version: tuple[int, int], target: str) -> tuple[str, int]:
    """A PTX file with one instruction per line, and the line number of the first."""
    used = set(re.findall(r"%(\w+)", " ".join(lines)))
    registers: dict[str, list[str]] = {}
    for name, kind in DECLARED.items():
        if name in used:
            registers.setdefault(kind.name, []).append("%" + name)
    entry = [
        ".visible .entry sample(.param .u64 x)",
        "{",
        *(f".reg .{kind} {', '.join(names)};" for kind, names in registers.items()),
        VARIABLES["local"],
    ]
    head = [
        f".version {version[0]}.{version[1]}",
        f".target {target}",
        ".address_size 64",
        *(text for space, text in VARIABLES.items() if space == "shared"),
        *entry,
    ]
    end = ["there:", "ret;", "}"]
    body = list(lines)
    for i in range(_ENTRY - 1, len(body) - 1, _ENTRY):
        # ptxas's time grows with the square of an entry: a new one begins on the same line.
        body[i] = " ".join([body[i], *end, *entry]).replace("sample(", f"sample_{i}(")
    return "\n".join([*head, *body, *end, ""]), len(head) + 1
