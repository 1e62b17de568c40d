"""Instruction descriptors: words seen in other compilers' code, and what each kind has."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError
from pyptx.layout import InstructionDescriptor
from pyptx.layout.tcgen05_instruction_descriptor import KINDS

pytestmark = pytest.mark.one_in(2)

FP8 = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
OPERANDS = {
    "f16": ("f16", "bf16"),
    "tf32": ("tf32",),
    "f8f6f4": FP8,
    "i8": ("u8", "s8"),
    "ti16": ("s1z4m11",),
    "mxf8f6f4": FP8,
    "mxf4": ("e2m1",),
    "mxf4nvf4": ("e2m1",),
}
RESULTS = {
    "f16": ("f32", "f16"), "tf32": ("f32",), "f8f6f4": ("f32", "f16"), "i8": ("s32",), "ti16": ("s32",),
    "mxf8f6f4": ("f32",), "mxf4": ("f32",), "mxf4nvf4": ("f32",),
}  # fmt: skip
SCALES = {"mxf8f6f4": ("ue8m0",), "mxf4": ("ue8m0",), "mxf4nvf4": ("ue8m0", "ue4m3")}
UNSCALED = tuple(kind for kind in OPERANDS if kind not in SCALES)

BF16 = InstructionDescriptor("f16", 128, 256, "bf16", "bf16", "f32")
MXF8 = InstructionDescriptor("mxf8f6f4", 128, 128, "e4m3", "e2m1", "f32", scale_type="ue8m0")
MXF4 = InstructionDescriptor("mxf4", 128, 256, "e2m1", "e2m1", "f32", scale_type="ue8m0")
NVF4 = InstructionDescriptor("mxf4nvf4", 128, 256, "e2m1", "e2m1", "f32", scale_type="ue4m3")


def plain(kind: str, m: int, n: int, **options: object) -> InstructionDescriptor:
    """A descriptor of the kind with the first of its types."""
    a, d = OPERANDS[kind][0], RESULTS[kind][0]
    if kind in SCALES:
        options.setdefault("scale_type", SCALES[kind][0])
    return InstructionDescriptor(kind, m, n, a, a, d, **options)  # type: ignore[arg-type]


def test_every_kind_is_here() -> None:
    assert list(OPERANDS) == list(KINDS)


@pytest.mark.parametrize(
    ("word", "descriptor"),
    [
        # CuTe DSL and CUTLASS
        (0x08400490, BF16),
        (0x10400490, replace(BF16, m=256, cta_group=2)),
        (0x10400010, plain("f16", 256, 256, cta_group=2)),
        # Triton (and, the first, TileLang): one word for each scale factor id
        (144708608, MXF8),
        (681579536, replace(MXF8, scale_a_id=1, scale_b_id=1)),
        (1755382448, replace(MXF8, a_type="e2m1", b_type="e4m3", b_major="MN", scale_a_id=3, scale_b_id=3)),
        (146801792, MXF4),
        (1220543648, replace(MXF4, scale_a_id=2, scale_b_id=2)),
        (138413184, NVF4),
    ],
)
def test_words_of_other_compilers(word: int, descriptor: InstructionDescriptor) -> None:
    assert descriptor.encode() == word
    assert InstructionDescriptor.decode(word, descriptor.kind, cta_group=descriptor.cta_group) == descriptor


def test_every_field_by_hand() -> None:
    word = InstructionDescriptor(
        "i8", 64, 64, "s8", "u8", "s32", "MN", "MN", saturate=True, sparse=True, max_shift=16, ws=True,
    ).encode()  # fmt: skip
    assert (
        word == 2 << 30 | 4 << 24 | 8 << 17 | 1 << 16 | 1 << 15 | 0 << 10 | 1 << 7 | 2 << 4 | 1 << 3 | 1 << 2
    )
    word = plain("tf32", 128, 32, negate_a=True, negate_b=True, sparse=True, sparsity_selector=2).encode()
    assert word == 8 << 24 | 4 << 17 | 1 << 14 | 1 << 13 | 2 << 10 | 2 << 7 | 1 << 4 | 1 << 2 | 2
    word = InstructionDescriptor("f8f6f4", 64, 8, "e2m1", "e3m2", "f16").encode()
    assert word == 4 << 24 | 1 << 17 | 4 << 10 | 5 << 7
    assert plain("ti16", 128, 16).encode() == 8 << 24 | 2 << 17 | 3 << 10 | 3 << 7 | 2 << 4
    word = InstructionDescriptor(
        "mxf8f6f4", 256, 32, "e5m2", "e4m3", "f32", "MN", "MN", True, True, sparse=True,
        scale_type="ue8m0", scale_a_id=2, scale_b_id=1, cta_group=2,
    ).encode()  # fmt: skip
    assert word == (
        2 << 29
        | 2 << 27
        | 1 << 23
        | 4 << 17
        | 1 << 16
        | 1 << 15
        | 1 << 14
        | 1 << 13
        | 1 << 7
        | 1 << 4
        | 1 << 2
    )
    word = replace(NVF4, wide_k=True, scale_a_id=2, negate_b=True).encode()
    assert word == 1 << 31 | 2 << 29 | 1 << 27 | 32 << 17 | 1 << 14 | 1 << 10 | 1 << 7


@pytest.mark.parametrize(
    ("kind", "k"),
    [("f16", 16), ("tf32", 8), ("f8f6f4", 32), ("i8", 32), ("ti16", 16), ("mxf8f6f4", 32), ("mxf4", 64)],
)
def test_k_is_32_bytes(kind: str, k: int) -> None:
    assert plain(kind, 128, 64).k == k
    assert plain(kind, 128, 64, sparse=True).k == 2 * k


def test_k_is_48_bytes_where_it_is_wide() -> None:
    assert replace(NVF4, wide_k=True).k == replace(MXF4, wide_k=True).k == 96


@st.composite
def descriptors(draw: st.DrawFn, kind: str) -> InstructionDescriptor:
    """Legal descriptors of a kind: every field is drawn, what the rules refuse is dropped."""
    scaled = kind in SCALES
    ws = not scaled and draw(st.booleans())
    sparse = draw(st.booleans())
    group = 1 if ws else draw(st.sampled_from([1, 2]))
    nibbles = kind in ("mxf4", "mxf4nvf4")
    majors = st.just("K") if nibbles else st.sampled_from(["K", "MN"])
    ids = st.sampled_from([0, 2] if nibbles else [0, 1, 2, 3]) if scaled else st.just(0)
    negations = st.just(False) if kind == "i8" else st.booleans()
    result = InstructionDescriptor(
        kind=kind,
        m=draw(st.sampled_from([32, 64, 128] if ws else [128 * group, 128] if scaled else [64 * group, 128])),
        n=draw(st.sampled_from([64, 128] if ws else range(32, 257, 32))),
        a_type=draw(st.sampled_from(OPERANDS[kind])),
        b_type=draw(st.sampled_from(OPERANDS[kind])),
        d_type=draw(st.sampled_from(RESULTS[kind])),
        a_major=draw(majors),
        b_major=draw(majors),
        negate_a=draw(negations),
        negate_b=draw(negations),
        saturate=kind == "i8" and draw(st.booleans()),
        sparse=sparse,
        sparsity_selector=draw(st.integers(0, 3)) if sparse else 0,
        max_shift=draw(st.sampled_from([0, 8, 16, 32])) if ws else 0,
        scale_type=draw(st.sampled_from(SCALES[kind])) if scaled else None,
        scale_a_id=draw(ids),
        scale_b_id=draw(ids),
        wide_k=nibbles and not sparse and draw(st.booleans()),
        cta_group=group,
        ws=ws,
        a_in_tensor_memory=draw(st.booleans()),
        block=draw(st.sampled_from([None, 16, 32])) if scaled else None,
    )
    try:
        result.validate()
    except SpecError:
        assume(False)
    return result


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", OPERANDS)
@given(data=st.data())
def test_round_trip(kind: str, data: st.DataObject) -> None:
    d = data.draw(descriptors(kind))
    word = d.encode()
    assert 0 <= word < 1 << 32
    again = InstructionDescriptor.decode(
        word, kind, cta_group=d.cta_group, ws=d.ws, a_in_tensor_memory=d.a_in_tensor_memory, block=d.block
    )
    assert again == d and again.encode() == word


@pytest.mark.parametrize("kind", OPERANDS)
@given(word=st.integers(0, (1 << 32) - 1))
def test_any_word_is_refused_or_comes_back(kind: str, word: int) -> None:
    try:
        descriptor = InstructionDescriptor.decode(word, kind)
    except SpecError:
        return
    assert descriptor.encode() == word


# --- shapes ---------------------------------------------------------------------------------------

EVERY_8 = set(range(8, 257, 8))
EVERY_16 = set(range(16, 257, 16))
EVERY_32 = set(range(32, 257, 32))


def legal(kind: str, group: int, b_major: str, sparse: bool, m: int) -> set[int]:
    """N by the manual's #tcgen05-kind-shapes, wherever A lies; with sparse bytes by CUTLASS."""
    if kind in SCALES:
        rows: tuple[int, ...] = (128,) if group == 1 else (256,) if sparse else (128, 256)
    else:
        rows = (64, 128) if group == 1 else (128, 256)
    if m not in rows:
        return set()
    bytes_across = kind in ("f8f6f4", "i8", "mxf8f6f4") and b_major == "MN"
    sparse_bytes = sparse and kind == "f8f6f4"
    if group == 2:
        wide = kind in ("i8", "ti16") or bytes_across or sparse_bytes
        return EVERY_32 if wide else EVERY_16
    if bytes_across:
        return EVERY_16
    if kind == "i8":
        return {8, 16, 24, 32, *range(48, 257, 16)}
    return EVERY_16 if m == 128 and (sparse_bytes or kind == "ti16") else EVERY_8


@pytest.mark.parametrize("kind", OPERANDS)
def test_every_shape_is_accepted_or_refused_as_the_tables_say(kind: str) -> None:
    majors = ("K",) if kind in ("ti16", "mxf4", "mxf4nvf4") else ("K", "MN")
    for group, b_major, in_tmem, sparse, m in itertools.product(
        (1, 2), majors, (False, True), (False, True), (32, 64, 96, 128, 256)
    ):
        accepted = set()
        for n in (4, 12, *range(0, 273, 8)):
            descriptor = plain(
                kind, m, n, b_major=b_major, cta_group=group, a_in_tensor_memory=in_tmem, sparse=sparse
            )
            try:
                descriptor.validate()
            except SpecError as error:
                assert f"M x N = {m} x {n}" in str(error)
            else:
                accepted.add(n)
        assert accepted == legal(kind, group, b_major, sparse, m), (group, b_major, in_tmem, m)


@pytest.mark.parametrize("kind", UNSCALED)
def test_shapes_of_ws(kind: str) -> None:
    for m, n, sparse in itertools.product((32, 64, 128, 256), range(8, 257, 8), (False, True)):
        descriptor = plain(kind, m, n, ws=True, sparse=sparse)
        if m <= 128 and n in ((64, 128) if sparse else (64, 128, 256)):
            descriptor.validate()
        else:
            with pytest.raises(SpecError, match=f"does not exist for kind::{kind}, cta_group::1, .ws"):
                descriptor.validate()


def test_shapes_of_a_wide_k() -> None:
    for group, m, n in itertools.product((1, 2), (64, 128, 256), range(8, 257, 8)):
        descriptor = replace(NVF4, wide_k=True, cta_group=group, m=m, n=n)
        if n % 16 == 0 and m == 128 * group:
            descriptor.validate()
        else:
            with pytest.raises(
                SpecError, match=f"M x N = {m} x {n} .*K = 96; expected M {128 * group}, N 16"
            ):
                descriptor.validate()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "f64"}, "no kind::f64"),
        ({"a_type": "e4m3"}, "a_type = 'e4m3' does not exist for kind::f16; expected f16, bf16"),
        ({"b_type": "tf32"}, "b_type = 'tf32'"),
        ({"d_type": "s32"}, "d_type = 's32'"),
        ({"d_type": "f16"}, "bf16 product needs d_type 'f32'"),
        ({"a_major": "M"}, "'M'-major"),
        ({"a_major": "MN", "a_in_tensor_memory": True}, "must be K-major"),
        ({"saturate": True}, "kind::i8 only, not for kind::f16"),
        ({"sparsity_selector": 1}, "sparsity_selector = 1 with sparse = False"),
        ({"sparse": True, "sparsity_selector": 4}, "sparsity_selector = 4"),
        ({"max_shift": 8}, "needs tcgen05.mma.ws"),
        ({"max_shift": 4, "ws": True}, r"4 is not one of \(0, 8, 16, 32\)"),
        ({"cta_group": 3}, "cta_group = 3"),
        ({"cta_group": 2, "ws": True}, "cta_group::1 only"),
        ({"m": 256}, "M x N = 256 x 256 .*expected M 64 or 128, N 8..256 by 8"),
        ({"n": 36}, "M x N = 128 x 36 .*N 8..256 by 8"),
        ({"n": 36, "a_in_tensor_memory": True}, "M x N = 128 x 36 .*A in tensor memory; .*N 8..256 by 8"),
        ({"scale_type": "ue8m0"}, "scale_type = 'ue8m0' with kind::f16, .*mxf8f6f4, mxf4, mxf4nvf4"),
        ({"scale_a_id": 1}, "scale_a_id = 1 with kind::f16, which has no scales"),
        ({"scale_b_id": 1}, "scale_b_id = 1 with kind::f16"),
        ({"block": 32}, "block = 32 with kind::f16"),
        ({"wide_k": True}, r"wide_k \(K = 96\) with kind::f16, .*dense mxf4 and mxf4nvf4"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        replace(BF16, **change).encode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (plain("i8", 128, 64, negate_b=True), "kind::i8 cannot negate .*negate_b = True"),
        (plain("i8", 128, 64, sparse=True, sparsity_selector=1), "sparsity_selector = 1 .*kind::i8"),
        (
            InstructionDescriptor("f8f6f4", 128, 64, "e4m3", "e2m3", "f32", b_major="MN"),
            "e2m3 is MN-major.*e4m3",
        ),
        (plain("ti16", 128, 64, a_major="MN"), "s1z4m11 is MN-major; kind::ti16 .*of no type"),
        (plain("mxf4", 128, 64, b_major="MN"), "e2m1 is MN-major"),
        (
            replace(MXF8, scale_type=None),
            "scale_type = None does not exist for kind::mxf8f6f4; expected ue8m0",
        ),
        (replace(MXF8, scale_type="ue4m3"), "scale_type = 'ue4m3' .*expected ue8m0"),
        (replace(MXF8, d_type="f16"), "d_type = 'f16' does not exist for kind::mxf8f6f4; expected f32"),
        (replace(MXF8, m=64), "M x N = 64 x 128 .*expected M 128"),
        (replace(MXF8, ws=True), "no block-scaled kinds, and kind::mxf8f6f4"),
        (replace(MXF8, scale_a_id=4), "scale_a_id = 4 .*expected 0 or 1 or 2 or 3"),
        (replace(MXF8, sparse=True, sparsity_selector=1), "sparsity_selector = 1"),
        (replace(MXF8, block=16), "block = 16 does not exist for kind::mxf8f6f4 with ue8m0 .*expected 32"),
        (replace(MXF8, wide_k=True), "with kind::mxf8f6f4"),
        (replace(MXF4, scale_b_id=1), "scale_b_id = 1 .*blocks of 32: expected 0 or 2"),
        (replace(MXF4, wide_k=True, sparse=True), "sparse = True"),
        (replace(NVF4, block=32), "block = 32 .*with ue4m3 scales; expected 16"),
        (replace(NVF4, scale_a_id=2), "scale_a_id = 2 .*blocks of 16: expected 0"),
        (replace(NVF4, wide_k=True, scale_a_id=1), "scale_a_id = 1 .*K = 96, blocks of 16: expected 0 or 2"),
        (
            replace(NVF4, scale_type="ue8m0", block=16, scale_b_id=2),
            "scale_b_id = 2 .*blocks of 16: expected 0",
        ),
    ],
)
def test_options_of_other_kinds(descriptor: InstructionDescriptor, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        descriptor.encode()


def test_scale_ids_where_blocks_of_both_sizes_may_be_meant() -> None:
    nvf4 = replace(NVF4, scale_type="ue8m0")
    replace(nvf4, scale_a_id=2).validate()
    replace(nvf4, scale_a_id=2, block=32).validate()
    replace(nvf4, scale_a_id=3, wide_k=True).validate()


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        (0x08400490 | 1 << 6, "f16", "bits 6, 23 and 29"),
        (0x08400490 | 1 << 23, "f16", "0x00800000"),
        (0x08400490 | 1 << 29, "f16", "reserved"),
        (0x08400490 | 3 << 7, "f16", "code 3 is not a type of A for kind::f16 .*expected 0 f16, 1 bf16"),
        (0x08400490 | 2 << 10, "f16", "code 3 is not a type of B"),
        (0x08400490 | 3 << 4, "f16", "code 3 is not a type of D"),
        (0x08400490, "tf32", "code 1 is not a type of A for kind::tf32"),
        (1 << 32, "f16", "32-bit"),
        (-1, "mxf4", "32-bit"),
        (0x10400490, "f16", "M x N = 256 x 256"),
        (0, "f64", "no kind::f64"),
        (144708608 | 1, "mxf8f6f4", "bits 0, 1, 3, 6, 24, 25, 26 and 31"),
        (144708608 | 1 << 31, "mxf8f6f4", "0x80000000"),
        (144708608 & ~(1 << 23), "mxf8f6f4", "scale_type = 'ue4m3'"),
        (146801792 | 1 << 12, "mxf4", "bits 0, 1, 3, 6, 12, 24, 25 and 26"),
        (146801792 | 2 << 7, "mxf4", "code 3 is not a type of A for kind::mxf4 .*expected 1 e2m1"),
    ],
)
def test_decode_refuses(word: int, kind: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        InstructionDescriptor.decode(word, kind)
