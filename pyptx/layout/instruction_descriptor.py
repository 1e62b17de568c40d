"""The instruction descriptor of ``tcgen05.mma`` for kinds f16, tf32, f8f6f4 and i8.

Owns the 32-bit word and the shapes and types that each kind has.  See `PTX ISA,
#tcgen05-instruction-descriptor`_ (the word) and ``#tcgen05-kind-shapes`` (the shapes).

.. _PTX ISA, #tcgen05-instruction-descriptor:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-instruction-descriptor
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..core.errors import SpecError, UnsupportedError

__all__ = ["KINDS", "InstructionDescriptor"]

_SEE = "tcgen05-instruction-descriptor"
_SEE_SHAPES = "tcgen05-kind-shapes"

_FP8 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
_OPERANDS: dict[str, dict[str, int]] = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": _FP8,
    "i8": {"u8": 0, "s8": 1},
}
_RESULTS: dict[str, dict[str, int]] = {
    "f16": {"f16": 0, "f32": 1},
    "tf32": {"f32": 1},
    "f8f6f4": {"f16": 0, "f32": 1},
    "i8": {"s32": 2},
}
_NAMES = {kind: {code: name for name, code in codes.items()} for kind, codes in _OPERANDS.items()}
_RESULT_NAMES = {kind: {code: name for name, code in codes.items()} for kind, codes in _RESULTS.items()}
_ELEMENTS_OF_K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}  # 32 bytes of the dense A
_MAJORS = ("K", "MN")
_SHIFTS = (0, 8, 16, 32)
_RESERVED = 1 << 6 | 1 << 23 | 1 << 29
_BLOCK_SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")

#: The kinds that this descriptor serves; the block-scaled ones have another format.
KINDS = tuple(_OPERANDS)


def _check_kind(kind: str) -> None:
    if kind in _BLOCK_SCALED:
        raise UnsupportedError(
            f"the descriptor of the block-scaled kind::{kind} is not modelled yet; "
            f"supported: {', '.join(KINDS)}",
            see=_SEE,
        )
    if kind not in KINDS:
        raise SpecError(f"there is no kind::{kind}; expected one of {', '.join(KINDS)}", see=_SEE)


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """What ``tcgen05.mma`` is told about the matrices: D[m, n] (+)= A[m, k] * B[k, n].

    ``kind``, ``cta_group``, ``ws`` and ``a_in_tensor_memory`` belong to the instruction, not to the
    word; they decide which shapes are legal.

    Attributes:
        kind: ``"f16"``, ``"tf32"``, ``"f8f6f4"`` or ``"i8"``.
        m: rows of D; of the whole pair with ``cta_group`` 2.
        n: columns of D.
        a_type, b_type: PTX names: f16, bf16 | tf32 | e4m3, e5m2, e2m3, e3m2, e2m1 | u8, s8.
        d_type: ``"f16"``, ``"f32"`` or ``"s32"``.
        a_major, b_major: ``"K"``, or ``"MN"`` (the manual's "transpose").
        negate_a, negate_b: multiply by -A, -B; not for i8.
        saturate: clamp D instead of wrapping; i8 only.
        sparse: A is 2:4 sparse, and K per instruction doubles.
        sparsity_selector: 0..3, which metadata columns to use; 0 when dense.
        max_shift: largest shift of B's rows in ``.ws``: 0, 8, 16 or 32.
        cta_group: 1 or 2.
        ws: whether the instruction is ``tcgen05.mma.ws``.
        a_in_tensor_memory: whether A comes from tensor memory: then it is K-major, and a pair of CTAs
            takes N by 32.
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
    cta_group: int = 1
    ws: bool = False
    a_in_tensor_memory: bool = False

    @property
    def k(self) -> int:
        """Elements of K that one instruction consumes: 32 bytes of A, twice that when sparse."""
        _check_kind(self.kind)
        return _ELEMENTS_OF_K[self.kind] * (2 if self.sparse else 1)

    def encode(self) -> int:
        """The 32-bit word, after :meth:`validate`."""
        self.validate()
        return (
            self.sparsity_selector  # 0-1    sparsity selector
            | self.sparse << 2  # 2      sparse
            | self.saturate << 3  # 3      saturate (i8)
            | _RESULTS[self.kind][self.d_type] << 4  # 4-5    type of D: 0 f16, 1 f32, 2 s32
            | _OPERANDS[self.kind][self.a_type] << 7  # 7-9    type of A, by kind
            | _OPERANDS[self.kind][self.b_type] << 10  # 10-12  type of B, by kind
            | self.negate_a << 13  # 13     negate A
            | self.negate_b << 14  # 14     negate B
            | (self.a_major == "MN") << 15  # 15     A is MN-major
            | (self.b_major == "MN") << 16  # 16     B is MN-major
            | self.n >> 3 << 17  # 17-22  N / 8
            | self.m >> 4 << 24  # 24-28  M / 16
            | _SHIFTS.index(self.max_shift) << 30  # 30-31  maximum shift (.ws)
        )

    @staticmethod
    @lru_cache(maxsize=256)  # a kernel issues few descriptors many times
    def decode(
        word: int, kind: str, *, cta_group: int = 1, ws: bool = False, a_in_tensor_memory: bool = False
    ) -> InstructionDescriptor:
        """The descriptor that ``word`` encodes for an instruction with these qualifiers.

        Raises:
            SpecError: an unused type code, a reserved bit that is set, or what :meth:`validate` refuses.
            UnsupportedError: a block-scaled kind.
        """
        _check_kind(kind)
        if not 0 <= word < 1 << 32:
            raise SpecError(f"an instruction descriptor is an unsigned 32-bit word, got {word:#x}", see=_SEE)
        if word & _RESERVED:
            raise SpecError(
                f"the instruction descriptor {word:#010x} has reserved bits set ({word & _RESERVED:#010x}); "
                f"bits 6, 23 and 29 must be 0 for kind::{kind}",
                see=_SEE,
            )

        def name(what: str, names: dict[int, str], code: int) -> str:
            if code not in names:
                known = ", ".join(f"{c} {n}" for c, n in names.items())
                raise SpecError(
                    f"code {code} is no type of {what} for kind::{kind} (descriptor {word:#010x}); "
                    f"expected {known}",
                    see=_SEE,
                )
            return names[code]

        descriptor = InstructionDescriptor(
            kind=kind,
            m=(word >> 24 & 0x1F) << 4,
            n=(word >> 17 & 0x3F) << 3,
            a_type=name("A", _NAMES[kind], word >> 7 & 7),
            b_type=name("B", _NAMES[kind], word >> 10 & 7),
            d_type=name("D", _RESULT_NAMES[kind], word >> 4 & 3),
            a_major=_MAJORS[word >> 15 & 1],
            b_major=_MAJORS[word >> 16 & 1],
            negate_a=bool(word >> 13 & 1),
            negate_b=bool(word >> 14 & 1),
            saturate=bool(word >> 3 & 1),
            sparse=bool(word >> 2 & 1),
            sparsity_selector=word & 3,
            max_shift=_SHIFTS[word >> 30],
            cta_group=cta_group,
            ws=ws,
            a_in_tensor_memory=a_in_tensor_memory,
        )
        descriptor.validate()
        return descriptor

    def validate(self) -> None:
        """Raise what the manual forbids.

        Raises:
            SpecError: a type, shape or option that the kind does not have; the message has the value
                given and the values allowed.
            UnsupportedError: a block-scaled kind.
        """
        _check_kind(self.kind)
        self._validate_types()
        self._validate_options()
        self._validate_shape()

    def _validate_types(self) -> None:
        for what, given, allowed in (
            ("a_type", self.a_type, _OPERANDS[self.kind]),
            ("b_type", self.b_type, _OPERANDS[self.kind]),
            ("d_type", self.d_type, _RESULTS[self.kind]),
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
            if major == "MN" and given in ("e2m3", "e3m2", "e2m1"):
                raise SpecError(
                    f"{what} of type {given} is MN-major; 6- and 4-bit types must be K-major",
                    see="tcgen05-transpose-and-negate-operations",
                )

    def _validate_options(self) -> None:
        if self.saturate and self.kind != "i8":
            raise SpecError(f"saturate is for kind::i8 only, not kind::{self.kind}", see=_SEE)
        if self.kind == "i8" and (self.negate_a or self.negate_b):
            raise SpecError(
                f"kind::i8 cannot negate (negate_a = {self.negate_a}, negate_b = {self.negate_b})", see=_SEE
            )
        if not 0 <= self.sparsity_selector <= (3 if self.sparse else 0):
            raise SpecError(
                f"sparsity_selector = {self.sparsity_selector} with sparse = {self.sparse}: "
                "expected 0..3 when sparse, 0 when dense",
                see=_SEE,
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

    def _validate_shape(self) -> None:
        rows = (32, 64, 128) if self.ws else (64, 128) if self.cta_group == 1 else (128, 256)
        columns, rule = self._legal_n()
        if self.m not in rows or self.n not in columns:
            expected = " or ".join(map(str, rows))
            raise SpecError(
                f"M x N = {self.m} x {self.n} does not exist for kind::{self.kind}, "
                f"cta_group::{self.cta_group}{', .ws' if self.ws else ''}"
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
        byte_rows = self.kind in ("f8f6f4", "i8") and self.b_major == "MN"
        if self.kind == "i8" and self.cta_group == 1 and not byte_rows:
            return frozenset({8, 24, *range(16, 257, 16)}), "8, 16, 24, 32, then up to 256 by 16"
        if self.cta_group == 2:
            step = 32 if byte_rows or self.kind == "i8" or self.a_in_tensor_memory else 16
        else:
            # facts.md, section 3; newer manuals and CUTLASS allow steps of 8 with M = 128 as well.
            step = 16 if byte_rows or self.m == 128 else 8
        return frozenset(range(step, 257, step)), f"{step}..256 by {step}"
