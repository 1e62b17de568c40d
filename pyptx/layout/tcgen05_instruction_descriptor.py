"""The instruction descriptor of ``tcgen05.mma``: 32 bits that hold the shape, the types and the options.

Owns the three formats of the descriptor (kinds without block scaling; mxf8f6f4; mxf4 and mxf4nvf4) and the
shapes, types and options that each kind has.  See `PTX ISA, #tcgen05-instruction-descriptor`_ (the formats)
and ``#tcgen05-kind-shapes`` (the shapes).  The fields agree with CUTLASS ``cute/arch/mma_sm100_desc.hpp``.
CUTLASS ``cute/arch/mma_sm100_umma.hpp`` requires a larger step of N than the manual for sparse f8f6f4 and for
K = 96; this module requires it too.  It does not require the step of CUTLASS for A in tensor memory, since
CuTe DSL's attention has M x N = 128 x 8 there.

This module treats bits that sm_107 adds (longer K, ue5m3 scales, scales in 128 lanes) as reserved.

.. _PTX ISA, #tcgen05-instruction-descriptor:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-instruction-descriptor
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache

from ..core.errors import SpecError
from ..core.records import dataclass

__all__ = ["KINDS", "InstructionDescriptor", "MmaKind", "mma_kind"]

_SEE = "tcgen05-instruction-descriptor"
_SEE_SHAPES = "tcgen05-kind-shapes"
_SEE_SCALES = "tcgen05-mma-scale-valid-comb-detail"
_SEE_TRANSPOSE = "tcgen05-transpose-and-negate-operations"

_MAJORS = ("K", "MN")
_SHIFTS = (0, 8, 16, 32)
_SCALE_CODES = {"ue4m3": 0, "ue8m0": 1}
_SCALE_NAMES = {code: name for name, code in _SCALE_CODES.items()}


@dataclass(frozen=True, slots=True)
class MmaKind:
    """The types, shapes and options of one ``.kind``.

    Attributes:
        name: name of the kind, without ``kind::``.
        operands: type of A and B -> its code in the descriptor.
        results: type of D -> its code in the descriptor. Block-scaled descriptors have no field for D.
        k: elements of K that a dense instruction consumes.
        transposable: types of A and B that may be MN-major.
        negatable: True if the instruction can negate A and B.
        scales: for block-scaled kinds, type of the scales -> the block sizes that it can have.
        reserved: numbers of the descriptor's bits that must be 0.
    """

    name: str
    operands: Mapping[str, int]
    results: Mapping[str, int]
    k: int
    transposable: frozenset[str]
    negatable: bool = True
    scales: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reserved: tuple[int, ...] = (6, 23, 29)

    @property
    def scaled(self) -> bool:
        """True if the kind is block-scaled: blocks of A and B have scales."""
        return bool(self.scales)


_FP8 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
_BYTES = frozenset({"e4m3", "e5m2", "u8", "s8"})
_MXF4_RESERVED = (0, 1, 3, 6, 12, 24, 25, 26)

_KINDS = {
    kind.name: kind
    for kind in (
        MmaKind("f16", {"f16": 0, "bf16": 1}, {"f16": 0, "f32": 1}, 16, frozenset({"f16", "bf16"})),
        MmaKind("tf32", {"tf32": 2}, {"f32": 1}, 8, frozenset({"tf32"})),
        MmaKind("f8f6f4", _FP8, {"f16": 0, "f32": 1}, 32, _BYTES),
        MmaKind("i8", {"u8": 0, "s8": 1}, {"s32": 2}, 32, _BYTES, negatable=False),
        MmaKind("ti16", {"s1z4m11": 3}, {"s32": 2}, 16, frozenset()),
        MmaKind(
            "mxf8f6f4", _FP8, {"f32": 1}, 32, _BYTES, scales={"ue8m0": (32,)},
            reserved=(0, 1, 3, 6, 24, 25, 26, 31),
        ),
        MmaKind(
            "mxf4", {"e2m1": 1}, {"f32": 1}, 64, frozenset(), scales={"ue8m0": (32,)},
            reserved=_MXF4_RESERVED,
        ),
        MmaKind(
            "mxf4nvf4", {"e2m1": 1}, {"f32": 1}, 64, frozenset(),
            scales={"ue4m3": (16,), "ue8m0": (16, 32)}, reserved=_MXF4_RESERVED,
        ),
    )
}  # fmt: skip

#: Every ``.kind`` of ``tcgen05.mma``.
KINDS = tuple(_KINDS)


def mma_kind(name: str) -> MmaKind:
    """Return the description of ``.kind::name``: its types, shapes and options.

    Raises:
        SpecError: there is no such kind.
    """
    kind = _KINDS.get(name)
    if kind is None:
        raise SpecError(f"there is no kind::{name}; expected one of {', '.join(KINDS)}", see=_SEE)
    return kind


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """The shape, the types and the options of one ``tcgen05.mma``: D[m, n] (+)= A[m, k] * B[k, n].

    ``kind``, ``cta_group``, ``ws``, ``a_in_tensor_memory`` and ``block`` are properties of the instruction;
    the 32 bits do not hold them.  They decide which descriptors are legal.

    Attributes:
        kind: one of :data:`KINDS`.
        m: rows of D; with ``cta_group`` 2, the rows of the whole pair.
        n: columns of D.
        a_type, b_type: PTX names: f16, bf16 | tf32 | e4m3, e5m2, e2m3, e3m2, e2m1 | u8, s8 | s1z4m11.
        d_type: ``"f16"``, ``"f32"`` or ``"s32"``; f32 for block-scaled kinds.
        a_major, b_major: ``"K"``, or ``"MN"`` (the manual's "transpose").
        negate_a, negate_b: multiply by -A, -B; not for i8.
        saturate: clamp D instead of wrapping; i8 only.
        sparse: A is 2:4 sparse (tf32: 1:2, mxf4 kinds: 4:8), and K per instruction doubles.
        sparsity_selector: 0..3, selects the metadata columns for 16- and 32-bit types; 0 when dense.
        max_shift: largest shift of B's columns in ``.ws``: 0, 8, 16 or 32.
        scale_type: for block-scaled kinds, ``"ue8m0"`` or (mxf4nvf4 only) ``"ue4m3"``; otherwise None.
        scale_a_id, scale_b_id: for block-scaled kinds, the first byte of the scales in each 32-bit cell.
        wide_k: True for K = 96 instead of 64; mxf4 and mxf4nvf4 only (sm_103a).
        cta_group: 1 or 2.
        ws: True if the instruction is ``tcgen05.mma.ws``.
        a_in_tensor_memory: True if A is in tensor memory. Then A must be K-major.
        block: elements along K that share one scale, 16 or 32; None if it is not known.
    """

    kind: str
    m: int
    n: int
    a_type: str
    b_type: str
    d_type: str
    a_major: str = "K"
    b_major: str = "K"
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    sparse: bool = False
    sparsity_selector: int = 0
    max_shift: int = 0
    scale_type: str | None = None
    scale_a_id: int = 0
    scale_b_id: int = 0
    wide_k: bool = False
    cta_group: int = 1
    ws: bool = False
    a_in_tensor_memory: bool = False
    block: int | None = None

    @property
    def k(self) -> int:
        """Elements of K that one instruction consumes: 32 bytes of A (48 if wide); sparse: twice as many."""
        return (96 if self.wide_k else mma_kind(self.kind).k) * (2 if self.sparse else 1)

    def encode(self) -> int:
        """Check the fields with :meth:`validate` and return the descriptor as a 32-bit number."""
        self.validate()
        kind = mma_kind(self.kind)
        word = (
            self.sparse << 2  # 2      sparse
            | kind.operands[self.a_type] << 7  # 7-9    type of A, by kind
            | kind.operands[self.b_type] << 10  # 10-12  type of B, by kind
            | self.negate_a << 13  # 13     negate A
            | self.negate_b << 14  # 14     negate B
            | (self.a_major == "MN") << 15  # 15     A is MN-major
            | (self.b_major == "MN") << 16  # 16     B is MN-major
            | self.n >> 3 << 17  # 17-22  N / 8
            | self.m >> 4 << 24  # 24-28  M / 16; block-scaled: 27-28  M / 128
        )
        if self.scale_type is None:
            return (
                word
                | self.sparsity_selector  # 0-1    sparsity selector
                | self.saturate << 3  # 3      saturate (i8)
                | kind.results[self.d_type] << 4  # 4-5    type of D: 0 f16, 1 f32, 2 s32
                | _SHIFTS.index(self.max_shift) << 30  # 30-31  maximum shift (.ws)
            )
        return (
            word
            | self.scale_b_id << 4  # 4-5    scale factors of B: first byte
            | _SCALE_CODES[self.scale_type] << 23  # 23     scales: 0 ue4m3, 1 ue8m0
            | self.scale_a_id << 29  # 29-30  scale factors of A: first byte
            | self.wide_k << 31  # 31     K = 96 (mxf4 kinds)
        )

    @staticmethod
    @lru_cache(maxsize=256)  # a kernel issues few descriptors many times
    def decode(
        word: int,
        kind: str,
        *,
        cta_group: int = 1,
        ws: bool = False,
        a_in_tensor_memory: bool = False,
        block: int | None = None,
    ) -> InstructionDescriptor:
        """Return the descriptor that ``word`` encodes for an instruction with these qualifiers.

        Raises:
            SpecError: ``word`` has an unused type code or a reserved bit that is set, or :meth:`validate`
                refuses the descriptor.
        """
        has = mma_kind(kind)
        if not 0 <= word < 1 << 32:
            raise SpecError(f"an instruction descriptor is an unsigned 32-bit word, got {word:#x}", see=_SEE)
        reserved = word & sum(1 << bit for bit in has.reserved)
        if reserved:
            *most, last = map(str, has.reserved)
            raise SpecError(
                f"the instruction descriptor {word:#010x} has reserved bits set ({reserved:#010x}); "
                f"bits {', '.join(most)} and {last} must be 0 for kind::{kind}",
                see=_SEE,
            )

        def name(what: str, codes: Mapping[str, int], code: int) -> str:
            for known, its_code in codes.items():
                if its_code == code:
                    return known
            expected = ", ".join(f"{its_code} {known}" for known, its_code in codes.items())
            raise SpecError(
                f"code {code} is not a type of {what} for kind::{kind} (descriptor {word:#010x}); "
                f"expected {expected}",
                see=_SEE,
            )

        scaled = has.scaled
        descriptor = InstructionDescriptor(
            kind=kind,
            m=(word >> 24 & 0x1F) << 4,
            n=(word >> 17 & 0x3F) << 3,
            a_type=name("A", has.operands, word >> 7 & 7),
            b_type=name("B", has.operands, word >> 10 & 7),
            d_type="f32" if scaled else name("D", has.results, word >> 4 & 3),
            a_major=_MAJORS[word >> 15 & 1],
            b_major=_MAJORS[word >> 16 & 1],
            negate_a=bool(word >> 13 & 1),
            negate_b=bool(word >> 14 & 1),
            saturate=bool(word >> 3 & 1),
            sparse=bool(word >> 2 & 1),
            sparsity_selector=word & 3,
            max_shift=0 if scaled else _SHIFTS[word >> 30],
            scale_type=_SCALE_NAMES[word >> 23 & 1] if scaled else None,
            scale_a_id=word >> 29 & 3 if scaled else 0,
            scale_b_id=word >> 4 & 3 if scaled else 0,
            wide_k=scaled and bool(word >> 31),
            cta_group=cta_group,
            ws=ws,
            a_in_tensor_memory=a_in_tensor_memory,
            block=block,
        )
        descriptor.validate()
        return descriptor

    def validate(self) -> None:
        """Raise an error if the manual forbids this descriptor.

        Raises:
            SpecError: the kind does not have the type, shape or option. The message has the value given and
                the values allowed.
        """
        kind = mma_kind(self.kind)
        self._validate_types(kind)
        self._validate_options(kind)
        self._validate_scales(kind)
        self._validate_shape(kind)

    def _validate_types(self, kind: MmaKind) -> None:
        for what, given, allowed in (
            ("a_type", self.a_type, kind.operands),
            ("b_type", self.b_type, kind.operands),
            ("d_type", self.d_type, kind.results),
        ):
            if given not in allowed:
                raise SpecError(
                    f"{what} = {given!r} does not exist for kind::{self.kind}; expected {', '.join(allowed)}",
                    see=_SEE_SHAPES,
                )
        if self.kind == "f16" and self.d_type == "f16" and "bf16" in (self.a_type, self.b_type):
            raise SpecError(
                f"d_type = 'f16' with A {self.a_type} and B {self.b_type}: a bf16 product needs d_type 'f32'",
                see=_SEE_SHAPES,
            )
        for what, major, given in (("A", self.a_major, self.a_type), ("B", self.b_major, self.b_type)):
            if major not in _MAJORS:
                raise SpecError(f"{what} is {major!r}-major; expected 'K' or 'MN'", see=_SEE)
            if what == "A" and major == "MN" and self.a_in_tensor_memory:
                raise SpecError("A is in tensor memory and MN-major; there it must be K-major", see=_SEE)
            if major == "MN" and given not in kind.transposable:
                can = f"only of types {', '.join(sorted(kind.transposable & set(kind.operands)))}"
                raise SpecError(
                    f"{what} of type {given} is MN-major; kind::{self.kind} takes MN-major operands "
                    f"{can if kind.transposable else 'of no type'}; make {what} K-major",
                    see=_SEE_TRANSPOSE,
                )

    def _validate_options(self, kind: MmaKind) -> None:
        if self.saturate and self.kind != "i8":
            raise SpecError(f"saturate exists for kind::i8 only, not for kind::{self.kind}", see=_SEE)
        if not kind.negatable and (self.negate_a or self.negate_b):
            raise SpecError(
                f"kind::{self.kind} cannot negate (negate_a = {self.negate_a}, negate_b = {self.negate_b})",
                see=_SEE_TRANSPOSE,
            )
        # With elements of a byte or less, one instruction uses all of the metadata's columns.
        selectable = self.sparse and kind.k <= 16
        if not 0 <= self.sparsity_selector <= (3 if selectable else 0):
            raise SpecError(
                f"sparsity_selector = {self.sparsity_selector} with sparse = {self.sparse}, "
                f"kind::{self.kind}: expected 0..3 for sparse f16, tf32 and ti16, else 0",
                see="tcgen05-sparse-matrices-sparsity-selector",
            )
        if self.max_shift not in _SHIFTS:
            raise SpecError(f"max_shift = {self.max_shift} is not one of {_SHIFTS}", see=_SEE)
        if self.max_shift and not self.ws:
            raise SpecError(f"max_shift = {self.max_shift} needs tcgen05.mma.ws", see=_SEE)
        if self.cta_group not in (1, 2):
            raise SpecError(f"cta_group = {self.cta_group} is neither 1 nor 2", see="tcgen05-cta-pair")
        if self.ws and self.cta_group == 2:
            raise SpecError(
                "tcgen05.mma.ws exists for cta_group::1 only, not cta_group::2", see="tcgen05-mma-ws"
            )
        if self.ws and kind.scaled:
            raise SpecError(
                f"tcgen05.mma.ws has no block-scaled kinds, and kind::{self.kind} is one",
                see=_SEE_SHAPES,
            )
        if self.wide_k and (kind.k != 64 or self.sparse):
            raise SpecError(
                f"wide_k (K = 96) with kind::{self.kind}, sparse = {self.sparse}: "
                "K = 96 exists for dense mxf4 and mxf4nvf4 only",
                see=_SEE_SHAPES,
            )

    def _validate_scales(self, kind: MmaKind) -> None:
        if not kind.scaled:
            for what, given in (
                ("scale_type", self.scale_type),
                ("block", self.block),
                ("scale_a_id", self.scale_a_id),
                ("scale_b_id", self.scale_b_id),
            ):
                if given:
                    raise SpecError(
                        f"{what} = {given!r} with kind::{self.kind}, which has no scales; "
                        f"block-scaled kinds are {', '.join(name for name, k in _KINDS.items() if k.scaled)}",
                        see=_SEE_SCALES,
                    )
            return
        if self.scale_type is None or self.scale_type not in kind.scales:
            raise SpecError(
                f"scale_type = {self.scale_type!r} does not exist for kind::{self.kind}; "
                f"expected {' or '.join(kind.scales)}",
                see=_SEE_SCALES,
            )
        sizes = kind.scales[self.scale_type]
        if self.block is not None and self.block not in sizes:
            raise SpecError(
                f"block = {self.block} does not exist for kind::{self.kind} with {self.scale_type} scales; "
                f"expected {' or '.join(map(str, sizes))}",
                see=_SEE_SCALES,
            )
        legal = self._legal_scale_ids(kind)
        for what, number in (("scale_a_id", self.scale_a_id), ("scale_b_id", self.scale_b_id)):
            if number not in legal:
                raise SpecError(
                    f"{what} = {number} with kind::{self.kind}, K = {self.k}, blocks of "
                    f"{self.block or ' or '.join(map(str, sizes))}: expected {' or '.join(map(str, legal))}",
                    see="tcgen05-mma-scale-factor-a",
                )

    def _legal_scale_ids(self, kind: MmaKind) -> tuple[int, ...]:
        """Return the bytes of a 32-bit cell at which the scales of one row may begin."""
        if kind.k == 32:
            return (0, 1, 2, 3)  # one scale
        assert self.scale_type is not None
        blocks = (self.block,) if self.block is not None else kind.scales[self.scale_type]
        if self.wide_k:
            return (0, 1, 2, 3) if 32 in blocks else (0, 2)  # three scales, or six
        return (0, 2) if 32 in blocks else (0,)  # two scales, or four

    def _validate_shape(self, kind: MmaKind) -> None:
        if self.ws:
            rows: tuple[int, ...] = (32, 64, 128)
        elif kind.scaled:
            rows = (128,) if self.cta_group == 1 else (256,) if self.sparse or self.wide_k else (128, 256)
        else:
            rows = (64, 128) if self.cta_group == 1 else (128, 256)
        columns, rule = self._legal_n()
        if self.m not in rows or self.n not in columns:
            expected = " or ".join(map(str, rows))
            raise SpecError(
                f"M x N = {self.m} x {self.n} does not exist for kind::{self.kind}, "
                f"cta_group::{self.cta_group}{', .ws' if self.ws else ''}{', sparse' if self.sparse else ''}"
                f"{', K = 96' if self.wide_k else ''}"
                f"{', A in tensor memory' if self.a_in_tensor_memory else ''}; "
                f"expected M {expected}, N {rule}",
                see=_SEE_SHAPES,
            )

    def _legal_n(self) -> tuple[frozenset[int], str]:
        """Return the legal values of N for the other fields, and the rule as text for messages."""
        if self.ws:
            values = (64, 128) if self.sparse else (64, 128, 256)
            return frozenset(values), " or ".join(map(str, values))
        # If B has byte elements and is MN-major, each CTA supplies whole 16-byte rows of it.
        byte_rows = self.b_type in _BYTES and self.b_major == "MN"
        if self.kind == "i8" and self.cta_group == 1 and not byte_rows:
            return frozenset({8, 24, *range(16, 257, 16)}), "8, 16, 24, 32, then up to 256 by 16"
        sparse_bytes = self.sparse and self.kind == "f8f6f4"
        if self.cta_group == 2:
            twice = byte_rows or self.kind in ("i8", "ti16") or sparse_bytes
            step = 32 if twice else 16
        else:
            tall = self.m == 128 and (self.kind == "ti16" or sparse_bytes)
            step = 16 if byte_rows or self.wide_k or tall else 8
        return frozenset(range(step, 257, step)), f"{step}..256 by {step}"
