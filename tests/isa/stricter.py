"""Where the table refuses on purpose what ptxas takes: one rule for each reason, with an instruction that shows it.

A difference between the two that no rule here explains is a fault, of an entry or of the checks.  The other
direction has no rules: what the table takes, ptxas takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from pyptx.ir import Instruction
from pyptx.isa import Match, Version
from pyptx.isa.operands import Mismatch, fit
from pyptx.isa.table import spelled
from tests.isa.near_misses import orders, words_of

__all__ = ["MODIFIERS", "RULES", "Refusal", "Rule", "explanation"]

#: The reason where no entry has the modifiers.
MODIFIERS = "modifiers"


@dataclass(frozen=True)
class Refusal:
    """An instruction that the table refuses and ptxas takes, with the table's reason."""

    instruction: Instruction
    reason: str


@dataclass(frozen=True)
class Rule:
    """Why one kind of instruction is refused; ``anchor`` is the section of the PTX ISA, or MEASURED.

    ``version`` is one in which ptxas takes the example.
    """

    name: str
    reason: str
    anchor: str
    applies: Callable[[Refusal], bool]
    example: str
    version: Version = (9, 5)


# --- modifiers ----------------------------------------------------------------------------------


def _legal(instruction: Instruction, words: Iterable[str]) -> bool:
    """Do these modifiers, in some order, make the instruction legal?"""
    return any(
        _fits(match, instruction)
        for spelling in orders(instruction.opcode, tuple(words))
        for match in spelled(instruction.opcode, spelling)
    )


def _fits(match: Match, instruction: Instruction) -> bool:
    """Do the operands fit, but for what a rule of operands explains?"""
    try:
        fit(match, instruction.operands)
    except Mismatch as mismatch:
        return explanation(Refusal(instruction, str(mismatch))) is not None
    return True


def _reordered(refusal: Refusal) -> bool:
    return refusal.reason == MODIFIERS and _legal(refusal.instruction, refusal.instruction.modifiers)


def _repeated(refusal: Refusal) -> bool:
    words = refusal.instruction.modifiers
    again = (i for i, word in enumerate(words) if word in words[:i])
    return refusal.reason == MODIFIERS and any(
        _legal(refusal.instruction, words[:i] + words[i + 1 :]) for i in again
    )


def _own(instruction: Instruction) -> tuple[str, ...]:
    """The modifiers that some instruction with this first word has."""
    own = words_of(instruction.opcode)
    return tuple(word for word in instruction.modifiers if word in own)


def _foreign(refusal: Refusal) -> bool:
    given, rest = refusal.instruction, _own(refusal.instruction)
    return refusal.reason == MODIFIERS and rest != given.modifiers and _legal(given, rest)


#: Modifiers that the manual's syntax has and ptxas does without: first words of instructions, and the words.
_LEFT_OUT = {
    "testp": ("finite", "infinite", "number", "notanumber", "normal", "subnormal"),
    "wgmma": ("sync", "aligned"),
    "mbarrier": ("shared::cluster",),
    "mapa": ("shared::cluster",),
    "getctarank": ("shared::cluster",),
    "fabric": ("relaxed",),
    "st": ("release", "mbarrier::complete_tx::bytes"),
    "add": ("rn", "rz"),
    "sub": ("rn", "rz"),
    "fma": ("rn", "rz"),
    "prefetch": ("global",),
    "applypriority": ("2d",),
}
#: Modifiers of some instructions with this first word that ptxas skips on others.
_SKIPPED = {
    opcode: re.compile(pattern).fullmatch
    for opcode, pattern in {
        "rcp": "ftz",
        "cvt": "ftz",
        "ld": r"L2::evict_\w+",
        "cp": r"cta|cluster|gpu|sys|b128|mbarrier::report::.*",
        "mbarrier": "cta|cluster",
        "multimem": r"b128|acc::f\d+",
        "fabric": r"acc::f\d+",
        "fence": r"async|alias|mbarrier_init|shared::\w+|sync_restrict::.*",
        "tcgen05": "b2|b8x16|b6x16_p32|b4x16_p64",
        "tensormap": r"elemtype|element_stride|swizzle_\w+|interleave_layout|fill_mode|box_dim|rank",
        "createpolicy": r"global|L2::evict_\w+",
        "st": r"w[bt]|c[ags]|weak|shared|cluster|L2::evict_\w+",
        "prefetch": "tensormap|L2",
        "applypriority": "global",
    }.items()
}
#: Types that ptxas takes for another one of the same instruction.
_TAKEN_FOR = {
    "clmad": {"s64": "u64"},
    **dict.fromkeys(("ld", "st"), dict.fromkeys(("b8", "u8", "s8", "b16", "u16", "s16"), "u32")),
}


def _without_skipped(instruction: Instruction) -> Iterator[tuple[str, ...]]:
    """The modifiers without some of those that ptxas skips."""
    words = instruction.modifiers
    skipped = _SKIPPED.get(instruction.opcode)
    places = [i for i, word in enumerate(words) if skipped is not None and skipped(word)]
    for count in range(1, len(places) + 1):
        for gone in combinations(places, count):
            yield tuple(word for i, word in enumerate(words) if i not in gone)


def _left_out(refusal: Refusal) -> bool:
    given = refusal.instruction
    return refusal.reason == MODIFIERS and any(
        _legal(given, (*kept, word))
        for word in _LEFT_OUT.get(given.opcode, ())
        for kept in (given.modifiers, _own(given), *_without_skipped(given))
    )


def _spare(refusal: Refusal) -> bool:
    given, words = refusal.instruction, refusal.instruction.modifiers
    return (
        refusal.reason == MODIFIERS
        and given.opcode in ("mma", "wmma")
        and any(_legal(given, words[:i] + words[i + 1 :]) for i in range(len(words)))
    )


def _skips(refusal: Refusal) -> bool:
    given = refusal.instruction
    return refusal.reason == MODIFIERS and any(_legal(given, kept) for kept in _without_skipped(given))


def _other_type(refusal: Refusal) -> bool:
    given = refusal.instruction
    types = _TAKEN_FOR.get(given.opcode, {})
    return refusal.reason == MODIFIERS and _legal(given, (types.get(word, word) for word in given.modifiers))


def _swapped(refusal: Refusal) -> bool:
    given, words = refusal.instruction, refusal.instruction.modifiers
    return (
        refusal.reason == MODIFIERS
        and given.opcode == "tensormap"
        and words[-1:] == ("b1024",)
        and _legal(given, (*words[:-2], "b1024", words[-2]))
    )


# --- operands -----------------------------------------------------------------------------------


def _because(pattern: str, *opcodes: str) -> Callable[[Refusal], bool]:
    """The table's reason matches ``pattern``; of these first words alone, where some are named."""
    search = re.compile(pattern).search

    def applies(refusal: Refusal) -> bool:
        return search(refusal.reason) is not None and (not opcodes or refusal.instruction.opcode in opcodes)

    return applies


def _packs(refusal: Refusal) -> bool:
    words = refusal.instruction.modifiers
    packed = "pack" in words or any(re.fullmatch(r"\w+x[24]", word) for word in words)
    fault = re.search(r"register \S+ \(\w+\): its type does not fit", refusal.reason)
    return refusal.instruction.opcode == "cvt" and packed and fault is not None


RULES = (
    Rule(
        "order of modifiers",
        "The table has the order of the manual's syntax, ptxas takes most orders.",
        "MEASURED",
        _reordered,
        "add.f32.rn %f32_0, %f32_1, %f32_2;",
    ),
    Rule(
        "modifier given twice",
        "ptxas takes some modifiers again; no syntax of the manual repeats one.",
        "MEASURED",
        _repeated,
        "bra.uni.uni there;",
    ),
    Rule(
        "modifier of another opcode",
        "ptxas skips some words that only other opcodes have; the manual gives them no meaning here.",
        "MEASURED",
        _foreign,
        "setp.eq.fill_mode.s32 %pred_0, %s32_0, %s32_1;",
    ),
    Rule(
        "modifier left out",
        "ptxas does without some modifiers that the manual's syntax does not put in braces.",
        "floating-point-instructions-testp",
        _left_out,
        "testp.f32 %pred_0, %f32_0;",
    ),
    Rule(
        "modifier that says nothing",
        "ptxas counts the types and kinds of a matrix product by what it looks for, and skips others.",
        "warp-level-matrix-instructions-mma",
        _spare,
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.bf16 {%f64_0, %f64_1}, {%f64_2}, {%f64_3}, {%f64_4, %f64_5};",
    ),
    Rule(
        "modifier of another instruction",
        "ptxas skips some words that only other instructions with the same first word have.",
        "MEASURED",
        _skips,
        "fence.proxy.shared::cta.tensormap::generic.release.cta;",
    ),
    Rule(
        "size of a tensor map's field before .b1024",
        "The manual's syntax has .b1024 first; ptxas takes the two types either way.",
        "data-movement-and-conversion-instructions-tensormap-replace",
        _swapped,
        "tensormap.replace.tile.swizzle_mode.global.b32.b1024 [%u64_0], 3;",
    ),
    Rule(
        "type that another stands for",
        "The manual's syntax has other types; ptxas takes these too, where the bits are the same or fill a register.",
        "MEASURED",
        _other_type,
        "clmad.hi.s64 %u64_0, %u64_2, 1, %u64_6;",
    ),
    Rule(
        "braces around a scalar",
        "The operand is a scalar in the manual; ptxas takes a vector of the same size, or of one element.",
        "vectors-as-operands",
        _because(r"a vector is not allowed here|coordinates: expected a vector of \d+ elements"),
        "st.mmio.relaxed.sys.u32 [%u64_0], {%u32_0};",
    ),
    Rule(
        "scalar for a vector",
        "The manual's operand is a vector; ptxas takes one register for st.async and for coordinates.",
        "vectors-as-operands",
        _because(r": expected vector of \d+ x "),
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%u32_0], %u32_2, [%u32_4];",
    ),
    Rule(
        "scalar for an offset",
        "The offset of a texture lookup is a vector; ptxas takes one register or constant.",
        "texture-instructions-tex",
        _because(r"4 operands given, expected 3|\(f\) is register \S+ \([us]32\)", "tex", "tld4"),
        "tld4.b.a2d.v4.s32.f32 {%s32_0, %s32_1, %s32_2, %s32_3}, [%u64_4, %u64_5, {%u32_4, %f32_5, %f32_6, %f32_7}], 1, %f32_8;",
    ),
    Rule(
        "register for an address",
        "An address stands in brackets; ptxas takes the bare register in some places.",
        "addresses-as-operands",
        _because(r"is register \S+ \(\w+\): expected an address"),
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%u64_0, {%s32_0}], %u64_2;",
    ),
    Rule(
        "type of an address register",
        "An address is an integer of 32 or 64 bits; ptxas takes registers of any type and width.",
        "addresses-as-operands",
        _because(r"the address register \S+ is .* expected a 32- or 64-bit integer"),
        "ld.global.u32 %u32_0, [%u16_0];",
    ),
    Rule(
        "address of 32 bits",
        "Modules have 64-bit addresses; only shared and tensor memory fit a 32-bit register.",
        "addresses-as-operands",
        _because(r"an address of \S+ space has 64 bits|\(results\) is register %[bus]32_\d+ "),
        "ld.global.u32 %u32_0, [%u32_1];",
    ),
    Rule(
        "register for a parameter",
        "The parameter of a call is named; ptxas takes a register of any type.",
        "parameter-state-space",
        _because(r"expected the name of a variable, got register", "st"),
        "st.param.b128 [%b8_3], %b128_2;",
    ),
    Rule(
        "unified address of non-coherent memory",
        "The manual's syntax of ld.global.nc has no .unified.",
        "data-movement-and-conversion-instructions-ld-global-nc",
        _because(r"\.unified after the address is not allowed here", "ld"),
        "ld.global.nc.b128 %b128_0, [%u64_2].unified;",
    ),
    Rule(
        "constant beyond its type",
        "ptxas cuts a constant to the operand's width without a word; what was written is not what would run.",
        "integer-constants",
        _because(r"immediate -?\d+ does not fit"),
        "add.u16 %u16_0, %u16_1, 70000;",
    ),
    Rule(
        "constant beyond what the manual allows",
        "The manual limits the value; ptxas cuts it or ignores the rest.",
        "parallel-synchronization-and-communication-instructions-bar",
        _because(r"immediate \S+ is not one of"),
        "bar.sync 0, -2147483648;",
    ),
    Rule(
        "count of threads beyond the manual's",
        "A constant that is no count of threads is not read as one, and leaves an operand over; ptxas cuts it.",
        "parallel-synchronization-and-communication-instructions-bar",
        _because(r"4 operands given, expected 3", "bar", "barrier"),
        "bar.red.popc.u32 %u32_0, 1, -2147483648, %pred_0;",
    ),
    Rule(
        "special register for a register",
        "Only mov reads a special register; ptxas takes one as a vector element too.",
        "special-registers",
        _because(r"a special register is not allowed here"),
        "st.global.v2.u32 [%u64_0], {%u32_0, %tid.x};",
    ),
    Rule(
        "part of a register",
        "Only video instructions select parts; elsewhere ptxas reads the whole register.",
        "scalar-video-instructions",
        _because(r"a part of a register is not allowed here"),
        "st.global.v2.u32 [%u64_0], {%u32_0, %u32_1.b0};",
    ),
    Rule(
        "constant for a register",
        "The operand is a register in the manual: packed, opaque, or written by another instruction.",
        "operand-types",
        _because(r"an immediate is not allowed here|a vector of \d+ .*; expected|\(missing: cache-policy\)"),
        "mbarrier.pending_count.b64 %u32_0, 1;",
    ),
    Rule(
        "discarded result",
        "The manual's syntax has a register here; ptxas takes _ as well.",
        "destination-operands",
        _because(r"a sink is not allowed here|one of the two must be a register"),
        "lop3.b32 _, %b32_1, %b32_2, %b32_3, 0;",
    ),
    Rule(
        "negated predicate",
        "The manual does not negate this predicate; ptxas takes !p.",
        "data-movement-and-conversion-instructions-cp-async",
        _because(r"a negated predicate is not allowed here", "cp", "and", "or", "xor"),
        "cp.async.cg.shared.global [%u32_0], [%u64_0], 16, !%pred_0;",
    ),
    Rule(
        "predicate for bits",
        "Metadata, scales and a matrix to transpose are 32-bit registers in the manual; ptxas takes predicates too.",
        "warp-level-matrix-instructions-movmatrix",
        _because(
            r"register \S+ \(pred\): its type does not fit|a negated predicate is not allowed here",
            "mma",
            "movmatrix",
            "wgmma",
        ),
        "movmatrix.sync.aligned.m8n8.trans.b16 %b32_0, %pred_1;",
    ),
    Rule(
        "wider bits for a float of cvt",
        "A float operand of cvt has a register of its own width; ptxas takes wider ones without a type.",
        "operand-size-exceeding-instruction-type-size",
        _because(r"register %b(?:32|64)_\d+ \(b\d+\): its type does not fit", "cvt"),
        "cvt.f64.f16 %f64_0, %b64_0;",
    ),
    Rule(
        "other register for a packed conversion",
        "The operands of a packed conversion have the types of the manual; ptxas looks at some of them loosely.",
        "data-movement-and-conversion-instructions-cvt",
        _packs,
        "cvt.pack.sat.s16.s32 %u32_0, %u64_3, %s32_4;",
    ),
    Rule(
        "wider register for multimem.st.async",
        "The value has a register of its own width; ptxas takes wider ones.",
        "operand-size-exceeding-instruction-type-size",
        _because(r"register \S+ \([busf](?:16|32|64)\): its type does not fit", "multimem"),
        "multimem.st.async.release.gpu.global.u8 [%u64_0+16], %u64_3;",
    ),
    Rule(
        "vector longer than an offset",
        "An offset has as many elements as the geometry has dimensions; ptxas takes more.",
        "texture-instructions-tex",
        _because(r"expected a vector of \d+ elements, got \d+", "tex", "tld4"),
        "tex.2d.v4.f32.s32 {%f32_0, %f32_1, %f32_2, %f32_3}, [%u64_4, {%s32_4, %s32_5}], {%s32_6, %s32_7, %s32_6, %s32_7};",
    ),
    Rule(
        "128-bit register for less",
        "A register wider than 64 bits holds 128-bit values alone; ptxas takes it for narrower ones.",
        "operand-size-exceeding-instruction-type-size",
        _because(r"register %b128_\d+ \(b128\): its type does not fit"),
        "ld.global.u32 %b128_0, [%u64_0];",
    ),
    Rule(
        "video instruction with c and nothing to do with it",
        "c is combined by a second operation, or merged into where d is a part; ptxas takes it without either.",
        "scalar-video-instructions-vadd-vsub-vabsdiff-vmin-vmax",
        _because(
            r"4 operands given, expected 3",
            "vadd",
            "vsub",
            "vabsdiff",
            "vmin",
            "vmax",
            "vshl",
            "vshr",
            "vset",
        ),
        "vadd.u32.u32.u32 %u32_0, %u32_1, %u32_2, %u32_3;",
    ),
    Rule(
        "operand that is not looked at",
        "The manual's syntax ends before it; ptxas takes one operand more and leaves it alone.",
        "MEASURED",
        _because(r"(?:3 operands given, expected 2|1 operands given, expected 0)", "cvt", "fabric"),
        "fabric.wait.sync_restrict::reads 1;",
    ),
    Rule(
        "name to unpack",
        "What is taken apart is a value in the manual; ptxas takes the address of a variable too.",
        "data-movement-and-conversion-instructions-mov",
        _because(r"a symbol is not allowed here", "mov"),
        "mov.b64 {%b16_0, %b16_1, %b16_2, %b16_3}, in_shared;",
    ),
    Rule(
        "signed size of st.bulk before PTX 9.0",
        "A size of 32 bits came with PTX 9.0; ptxas misses it where the register is signed.",
        "data-movement-and-conversion-instructions-st-bulk",
        lambda refusal: refusal.reason == "needs PTX 9.0" and refusal.instruction.modifiers[:1] == ("bulk",),
        "st.bulk.weak [%u64_0], %s32_3, 0;",
        (8, 7),
    ),
    Rule(
        "elements of a vector",
        "Each element has the instruction's type; ptxas looks at the elements together.",
        "operand-type-checking",
        _because(r"element \d+, (?:register .*: its type does not fit|immediate 0[fd])"),
        "st.global.v2.f64 [%u64_0], {%u64_0, %b64_1};",
    ),
)


def explanation(refusal: Refusal) -> Rule | None:
    """The first rule that explains why the table refuses it."""
    return next((rule for rule in RULES if rule.applies(refusal)), None)
