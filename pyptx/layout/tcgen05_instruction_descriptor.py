"""The instruction descriptor of ``tcgen05.mma``: 32 bits that tell it shapes, types and options.

Owns the word in its three formats (kinds without block scaling; mxf8f6f4; mxf4 and mxf4nvf4) and the shapes,
types and options that each kind has.  See `PTX ISA, #tcgen05-instruction-descriptor`_ (the words) and
``#tcgen05-kind-shapes`` (the shapes); the fields agree with CUTLASS ``cute/arch/mma_sm100_desc.hpp``.
Where CUTLASS ``cute/arch/mma_sm100_umma.hpp`` asks for a larger step of N than the manual (sparse f8f6f4,
K = 96), so do we; not for A in tensor memory, where CuTe DSL's attention has M x N = 128 x 8.

Bits that sm_107 adds to the words (longer K, ue5m3 scales, scales in 128 lanes) are reserved here.

.. _PTX ISA, #tcgen05-instruction-descriptor:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-instruction-descriptor
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ..core.errors import SpecError

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
    """What ``.kind::name`` has.

    Attributes:
        name: the kind.
        operands: types of A and B, with their codes.
        results: types of D, with their codes; block-scaled words have no field for it.
        k: elements of K that a dense instruction takes.
        transposable: types that may be MN-major.
        negatable: whether A and B may be negated.
        scales: for block-scaled kinds, types of scales, each with the block sizes that it goes with.
        reserved: bits of the word that must be 0.
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
        """Whether blocks of A and B have scales."""
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
    """What ``.kind::name`` has.

    Raises:
        SpecError: no such kind.
    """
    kind = _KINDS.get(name)
    if kind is None:
        raise SpecError(f"there is no kind::{name}; expected one of {', '.join(KINDS)}", see=_SEE)
    return kind


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """What ``tcgen05.mma`` is told about the matrices: D[m, n] (+)= A[m, k] * B[k, n].

    ``kind``, ``cta_group``, ``ws``, ``a_in_tensor_memory`` and ``block`` belong to the instruction, not
    to the word; they decide what is legal.

    Attributes:
        kind: one of :data:`KINDS`.
        m: rows of D; of the whole pair with ``cta_group`` 2.
        n: columns of D.
        a_type, b_type: PTX names: f16, bf16 | tf32 | e4m3, e5m2, e2m3, e3m2, e2m1 | u8, s8 | s1z4m11.
        d_type: ``"f16"``, ``"f32"`` or ``"s32"``; f32 for block-scaled kinds.
        a_major, b_major: ``"K"``, or ``"MN"`` (the manual's "transpose").
        negate_a, negate_b: multiply by -A, -B; not for i8.
        saturate: clamp D instead of wrapping; i8 only.
        sparse: A is 2:4 sparse (tf32: 1:2, mxf4 kinds: 4:8), and K per instruction doubles.
        sparsity_selector: 0..3, which metadata columns to use, for 16- and 32-bit types; 0 when dense.
        max_shift: largest shift of B's columns in ``.ws``: 0, 8, 16 or 32.
        scale_type: block-scaled kinds: ``"ue8m0"``, or ``"ue4m3"`` (mxf4nvf4); None for the others.
        scale_a_id, scale_b_id: block-scaled kinds: byte of the 32-bit cells at which the scales begin.
        wide_k: mxf4 and mxf4nvf4: K = 96 instead of 64 (sm_103a).
        cta_group: 1 or 2.
        ws: whether the instruction is ``tcgen05.mma.ws``.
        a_in_tensor_memory: whether A comes from tensor memory: then it is K-major.
        block: elements along K with one scale, 16 or 32; None where it is not known.
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
        """Elements of K that one instruction consumes: 32 bytes of A (wide: 48), twice that when sparse."""
        return (96 if self.wide_k else mma_kind(self.kind).k) * (2 if self.sparse else 1)

    def encode(self) -> int:
        """The 32-bit word, after :meth:`validate`."""
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
        """The descriptor that ``word`` encodes for an instruction with these qualifiers.

        Raises:
            SpecError: an unused type code, a reserved bit that is set, or what :meth:`validate` refuses.
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
                f"code {code} is no type of {what} for kind::{kind} (descriptor {word:#010x}); "
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
        """Raise what the manual forbids.

        Raises:
            SpecError: a type, shape or option that the kind does not have; the message has the value
                given and the values allowed.
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
                raise SpecError("A in tensor memory is MN-major; it must be K-major", see=_SEE)
            if major == "MN" and given not in kind.transposable:
                can = f"of types {', '.join(sorted(kind.transposable & set(kind.operands)))}"
                raise SpecError(
                    f"{what} of type {given} is MN-major; kind::{self.kind} takes MN-major operands "
                    f"{can if kind.transposable else 'of no type'}, others must be K-major",
                    see=_SEE_TRANSPOSE,
                )

    def _validate_options(self, kind: MmaKind) -> None:
        if self.saturate and self.kind != "i8":
            raise SpecError(f"saturate is for kind::i8 only, not kind::{self.kind}", see=_SEE)
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
                "it exists for dense mxf4 and mxf4nvf4 only",
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
        """Bytes of a cell at which the scales of one row may begin."""
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
        """The values that N may have here, and the rule in words."""
        if self.ws:
            values = (64, 128) if self.sparse else (64, 128, 256)
            return frozenset(values), " or ".join(map(str, values))
        # Of a B of bytes that is MN-major, each CTA brings whole 16-byte rows.
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
