"""Instructions made from the table itself: every legal choice of modifiers with operands of each kind.

Used to hold the table against ptxas.  Registers are declared once per file; an instruction names the
registers that fit its operands' types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

from pyptx.core.types import TYPES, ScalarType
from pyptx.ir import (
    Address,
    Arguments,
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
from pyptx.isa.notation import Chosen, OperandSpec
from pyptx.isa.operands import address_space, operand_choices

#: Types that the longest vectors have: an instruction may take three of together 253 registers.
_LONG = frozenset({"b32", "f32", "s32"})
#: Registers that a file of samples may declare: 256 of those types, 8 of the others.
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
    for i in range(256 if kind.name in _LONG else 8)
}
#: After so many instructions of a form, each variant gets one choice of operands, in turn.
THOROUGH = 500
#: How many instructions an entry of a file of samples has.
ENTRY = 32
#: Names of the variables that a file of samples declares, by state space.
VARIABLES = {
    "shared": ".shared .align 1024 .b8 in_shared[4096];",
    "local": ".local .align 16 .b8 in_local[64];",
    "param": ".param .align 16 .b8 in_param[64];",
    "const": ".const .align 16 .b8 in_const[64];",
    "global": ".global .align 16 .b8 in_global[64];",
}

#: Types of what is named or pointed to as a whole, by the spec's space word. A file declares a variable and a
#: parameter of those that it uses.
OPAQUE = {"texture": "texref", "sampler": "samplerref", "surface": "surfref"}
#: A lookup with a sampler between the texture and its coordinates, or the name of a sampler.
_SAMPLER = re.compile(r"\b(?:tex|tld4)\.[^\[]*\[[^,\]{]+,[^,\]{]+,|\b(?:in_sampler|sampler_parameter)\b")

#: What a function or a label operand names, by the spec's space word: the name, and what declares it.
FUNCTIONS = {
    "function": ("callee", ".func (.reg .b32 r) callee() { mov.b32 r, 0; ret; }"),
    "procedure": ("procedure", ".func procedure() { ret; }"),
}
#: A function that returns a parameter of the call, and the call before loads from it.
RETURNING = ".func (.param .align 16 .b8 result[64]) returning() { ret; }", "call (in_param), returning;"

LABELS = {
    "targets": ("table", "table: .branchtargets there;"),
    "prototype": ("proto", "proto: .callprototype (.reg .b32 _) _ ();"),
    "void_prototype": ("proto_void", "proto_void: .callprototype _ ();"),
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
    if exact and kind.bits == 8 and kind.kind in "bus":
        return Register(f"b8_{number % 8}", DECLARED["b8_0"])
    if f"{name}_0" not in DECLARED or name == "b8":
        # 8-bit values live in 16-bit registers; formats that cannot be declared live in bits.
        name = (
            f"{'s' if kind.kind == 's' else 'u'}16" if kind.bits == 8 and kind.lanes == 1 else f"b{kind.bits}"
        )
    return Register(f"{name}_{number % (256 if name in _LONG else 8)}", DECLARED[f"{name}_0"])


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
    if "symbol" in spec.kinds and spec.space in FUNCTIONS:
        found.append(Symbol(FUNCTIONS[spec.space][0]))
    elif "symbol" in spec.kinds and spec.space:
        # A parameter has an address in a kernel alone.
        space = _space(spec, chosen)
        found.append(Symbol("x") if space == "param" else Symbol(f"in_{space}", 16))
    elif "symbol" in spec.kinds and kinds and kinds[0].name in ("u32", "b32", "u64", "b64"):
        found.append(Symbol("in_shared", 16))
    if "label" in spec.kinds:
        found.append(BranchTarget(LABELS[spec.space][0] if spec.space else "there"))
    if "arguments" in spec.kinds:
        found.append(Arguments((register(TYPES["b32"], number),) if spec.access == "w" else ()))
    for kind, selectors in PARTS.items():
        if kind in spec.kinds:
            found += [Element(register(kinds[0], number), selector) for selector in selectors]
    if "minus" in spec.kinds:
        found += [Minus(operand) for operand in found if isinstance(operand, Register | Element)]
    if "neg" in spec.kinds:
        found.append(Negated(register(TYPES["pred"], number)))
    return found


def _operands(spec: OperandSpec, chosen: Chosen, number: int) -> list[Operand]:
    if spec.access == "a" and spec.space in OPAQUE:
        return _lookups(spec, chosen, number)
    if spec.access == "a" and "symbol" in spec.kinds:
        return [Address(Symbol(f"in_{_space(spec, chosen)}"), offset) for offset in (0, 16)]
    if spec.access == "a":
        # A 32-bit register addresses every space that has no more.
        narrow = _space(spec, chosen) not in ("generic", "global") or "u32" in spec.types
        kinds = [TYPES["u32"], TYPES["u64"]] if narrow else [TYPES["u64"]]
        if spec.space == "tensor":
            kinds = list(spec.scalar_types(chosen))
        elif spec.space == "fabric":
            kinds = [TYPES["b32"]]
        coordinates = None
        extra = [_operands(part, chosen, number + 1 + i)[0] for i, part in enumerate(spec.extra)]
        if spec.coordinates is not None:
            (coordinates,) = _operands(spec.coordinates, chosen, number)
            assert isinstance(coordinates, Vector)
        offsets = (0,) if extra or coordinates is not None else (0, 16)
        found: list[Operand] = [
            Address(register(kind, number), offset, coordinates, tuple(extra))  # type: ignore[arg-type]
            for kind in kinds
            for offset in offsets
        ]
        if "unified" in spec.kinds:
            found.append(Address(register(TYPES["u64"], number), suffix="unified"))
        return found
    length = spec.length(chosen)
    if length is None:
        found = _scalars(spec, chosen, number)
        if "braces" in spec.kinds and isinstance(found[0], Register):
            found.append(Vector((found[0],)))
        return found
    kind, lead = spec.scalar_types(chosen)[0], spec.lead_type(chosen)
    kinds = [lead if lead is not None and i == 0 else kind for i in range(length)]
    vector = Vector(tuple(register(k, number + i, not spec.wider) for i, k in enumerate(kinds)))
    return [vector, Pair(vector, Register("pred_1", TYPES["pred"]))] if "pair" in spec.kinds else [vector]


def _lookups(spec: OperandSpec, chosen: Chosen, number: int) -> list[Operand]:
    """Addresses of a texture or a surface, by each way to name it; one coordinate without braces."""
    # A sampler that is a parameter too makes ptxas 13.5 fail in large files, with an internal compiler error.
    handles = [register(TYPES["u64"], number + i) for i in range(1 + len(spec.extra))]
    names: list[list[Register | Symbol]] = [
        [*handles],
        [Symbol(f"in_{spec.space}"), *handles[1:]],
        [Symbol(f"{spec.space}_parameter"), *handles[1:]],
        *([handles[0], Symbol(f"in_{part.space}")] for part in spec.extra),
    ]
    if spec.coordinates is None:
        return [Address(base) for (base,) in (names if "symbol" in spec.kinds else names[:1])]
    (coordinates,) = _operands(spec.coordinates, chosen, number)
    assert isinstance(coordinates, Vector)
    found: list[Operand] = [Address(base, 0, coordinates, tuple(extra)) for base, *extra in names]
    if len(coordinates.elements) == 1:
        base, *extra = names[0]
        found.append(Address(base, extra=(*extra, *coordinates.elements)))  # type: ignore[arg-type]
    return found


def texture_mode(line: str) -> str:
    """What ``.target`` must say of textures for this instruction; instructions of one file share it."""
    return "texmode_independent" if _SAMPLER.search(line) else ""


def _space(spec: OperandSpec, chosen: Chosen) -> str:
    return address_space(spec, chosen).partition("::")[0]


def instructions(form: Form, thorough: int = THOROUGH) -> Iterator[tuple[Binding, Instruction]]:
    """For every variant: each kind of operand in each place; after ``thorough`` instructions one, in turn."""
    given = 0
    for number, match in enumerate(variants(form)):
        choices = list(choices_of(form, match))
        for instruction in choices if given < thorough else [choices[number % len(choices)]]:
            given += 1
            yield bind(form.opcode, match.spelling, instruction.operands), instruction


def choices_of(form: Form, match: Match) -> Iterator[Instruction]:
    """Instructions of one variant: each kind of operand in each place, one place at a time."""
    given: dict[tuple[Operand, ...], None] = {}
    for specs in operand_choices(match):
        # No two vectors share a register.
        numbers = accumulate((max(2, spec.length(match.chosen) or 0) for spec in specs), initial=0)
        options = [_operands(spec, match.chosen, n) for spec, n in zip(specs, numbers, strict=False)]
        base = tuple(choices[0] for choices in options)
        given[base] = None
        for position, choices in enumerate(options):
            given.update(((*base[:position], other, *base[position + 1 :]), None) for other in choices[1:])
    return (Instruction(form.opcode, match.spelling, operands) for operands in given)


def file_of(
    lines: list[str], version: tuple[int, int], target: str, per_entry: int = ENTRY
) -> tuple[str, int]:
    """A PTX file with one instruction per line, ``per_entry`` in each kernel, and the line number of the first."""
    used = set(re.findall(r"%(\w+)", " ".join(lines)))
    words = set(re.findall(r"\w+", " ".join(lines)))
    registers: dict[str, list[str]] = {}
    for name, kind in DECLARED.items():
        if name in used:
            registers.setdefault(kind.name, []).append("%" + name)
    opaque = {space: kind for space, kind in OPAQUE.items() if words & {f"in_{space}", f"{space}_parameter"}}
    parameters = [".param .u64 x", *(f".param .{kind} {space}_parameter" for space, kind in opaque.items())]
    mode = max(map(texture_mode, lines), default="")
    declared, call = RETURNING if any(re.match(r"ld\b.*\[in_param\b", line) for line in lines) else ("", "")
    entry = [
        f".entry sample({', '.join(parameters)})",
        "{",
        *(f".reg .{kind} {', '.join(names)};" for kind, names in registers.items()),
        VARIABLES["local"],
        VARIABLES["param"],
        call,
        *(text for name, text in LABELS.values() if name in words),
    ]
    head = [
        f".version {version[0]}.{version[1]}",
        f".target {target}, {mode}" if mode else f".target {target}",
        ".address_size 64",
        *(text for space, text in VARIABLES.items() if space in ("shared", "const", "global")),
        *(f".global .{kind} in_{space};" for space, kind in opaque.items()),
        *(text for name, text in FUNCTIONS.values() if name in words),
        declared,
        *entry,
    ]
    end = ["there:", "ret;", "}"]
    body = list(lines)
    for i in range(per_entry - 1, len(body) - 1, per_entry):
        # ptxas's time grows with the square of an entry: a new one begins on the same line.
        body[i] = " ".join([body[i], *end, *entry]).replace("sample(", f"sample_{i}(")
    return "\n".join([*head, *body, *end, ""]), len(head) + 1
