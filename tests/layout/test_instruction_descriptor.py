"""Instruction descriptors: words seen in other compilers' code, and the shapes of each kind."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError, UnsupportedError
from pyptx.layout import InstructionDescriptor

OPERANDS = {
    "f16": ("f16", "bf16"),
    "tf32": ("tf32",),
    "f8f6f4": ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"),
    "i8": ("u8", "s8"),
}
RESULTS = {"f16": ("f32", "f16"), "tf32": ("f32",), "f8f6f4": ("f32", "f16"), "i8": ("s32",)}

BF16 = InstructionDescriptor("f16", 128, 256, "bf16", "bf16", "f32")


def dense(kind: str, m: int, n: int, **options: object) -> InstructionDescriptor:
    a, d = OPERANDS[kind][0], RESULTS[kind][0]
    return InstructionDescriptor(kind, m, n, a, a, d, **options)  # type: ignore[arg-type]


def test_known_words() -> None:
    assert BF16.encode() == 0x08400490
    assert replace(BF16, m=256, cta_group=2).encode() == 0x10400490
    assert dense("f16", 256, 256, cta_group=2).encode() == 0x10400010


def test_every_field_by_hand() -> None:
    word = InstructionDescriptor(
        "i8", 64, 64, "s8", "u8", "s32", "MN", "MN", saturate=True, sparse=True,
        sparsity_selector=2, max_shift=16, ws=True,
    ).encode()  # fmt: skip
    assert (
        word
        == 2 << 30 | 4 << 24 | 8 << 17 | 1 << 16 | 1 << 15 | 0 << 10 | 1 << 7 | 2 << 4 | 1 << 3 | 1 << 2 | 2
    )
    word = dense("tf32", 128, 32, negate_a=True, negate_b=True).encode()
    assert word == 8 << 24 | 4 << 17 | 1 << 14 | 1 << 13 | 2 << 10 | 2 << 7 | 1 << 4
    word = InstructionDescriptor("f8f6f4", 64, 8, "e2m1", "e3m2", "f16").encode()
    assert word == 4 << 24 | 1 << 17 | 4 << 10 | 5 << 7


@pytest.mark.parametrize(("kind", "k"), [("f16", 16), ("tf32", 8), ("f8f6f4", 32), ("i8", 32)])
def test_k_is_32_bytes(kind: str, k: int) -> None:
    assert dense(kind, 128, 64).k == k
    assert dense(kind, 128, 64, sparse=True).k == 2 * k


@st.composite
def descriptors(draw: st.DrawFn) -> InstructionDescriptor:
    kind = draw(st.sampled_from(sorted(OPERANDS)))
    ws = draw(st.booleans())
    sparse = draw(st.booleans())
    group = 1 if ws else draw(st.sampled_from([1, 2]))
    result = InstructionDescriptor(
        kind=kind,
        m=draw(st.sampled_from([32, 64, 128] if ws else [64, 128] if group == 1 else [128, 256])),
        n=draw(st.sampled_from([64, 128] if ws else range(32, 257, 32))),
        a_type=draw(st.sampled_from(OPERANDS[kind])),
        b_type=draw(st.sampled_from(OPERANDS[kind])),
        d_type=draw(st.sampled_from(RESULTS[kind])),
        a_major=draw(st.sampled_from(["K", "MN"])),
        b_major=draw(st.sampled_from(["K", "MN"])),
        negate_a=kind != "i8" and draw(st.booleans()),
        negate_b=kind != "i8" and draw(st.booleans()),
        saturate=kind == "i8" and draw(st.booleans()),
        sparse=sparse,
        sparsity_selector=draw(st.integers(0, 3)) if sparse else 0,
        max_shift=draw(st.sampled_from([0, 8, 16, 32])) if ws else 0,
        cta_group=group,
        ws=ws,
    )
    try:
        result.validate()
    except SpecError:
        assume(False)  # bf16 into f16, or 6-bit types MN-major
    return result


@given(descriptors())
def test_round_trip(descriptor: InstructionDescriptor) -> None:
    word = descriptor.encode()
    assert 0 <= word < 1 << 32
    assert (
        InstructionDescriptor.decode(word, descriptor.kind, cta_group=descriptor.cta_group, ws=descriptor.ws)
        == descriptor
    )


EVERY_8 = set(range(8, 257, 8))
EVERY_16 = set(range(16, 257, 16))
EVERY_32 = set(range(32, 257, 32))


def legal(kind: str, group: int, b_major: str, in_tmem: bool, m: int) -> set[int]:
    """The table of facts.md section 3 (f16, tf32) and of the manual's #tcgen05-kind-shapes (bytes)."""
    if m not in ((64, 128) if group == 1 else (128, 256)):
        return set()
    bytes_across = kind in ("f8f6f4", "i8") and b_major == "MN"
    if group == 2:
        return EVERY_32 if kind == "i8" or in_tmem or bytes_across else EVERY_16
    if bytes_across:
        return EVERY_16
    if kind == "i8":
        return {8, 16, 24, 32, *range(48, 257, 16)}
    return EVERY_8 if m == 64 else EVERY_16


@pytest.mark.parametrize("kind", OPERANDS)
def test_every_shape_is_accepted_or_refused_as_the_tables_say(kind: str) -> None:
    for group, b_major, in_tmem, m in itertools.product(
        (1, 2), ("K", "MN"), (False, True), (16, 32, 64, 96, 128, 192, 256)
    ):
        accepted = set()
        for n in range(0, 273, 4):
            descriptor = dense(kind, m, n, b_major=b_major, cta_group=group, a_in_tensor_memory=in_tmem)
            try:
                descriptor.validate()
            except SpecError as error:
                assert f"M x N = {m} x {n}" in str(error)
            else:
                accepted.add(n)
        assert accepted == legal(kind, group, b_major, in_tmem, m), (group, b_major, in_tmem, m)


def test_shapes_of_ws() -> None:
    for m, n, sparse in itertools.product((32, 64, 128, 256), range(8, 257, 8), (False, True)):
        descriptor = dense("f16", m, n, ws=True, sparse=sparse)
        if m <= 128 and n in ((64, 128) if sparse else (64, 128, 256)):
            descriptor.validate()
        else:
            with pytest.raises(SpecError, match="does not exist for kind::f16, cta_group::1, .ws"):
                descriptor.validate()


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
        ({"saturate": True}, "kind::i8 only, not kind::f16"),
        ({"sparsity_selector": 1}, "sparsity_selector = 1 with sparse = False"),
        ({"sparse": True, "sparsity_selector": 4}, "sparsity_selector = 4"),
        ({"max_shift": 8}, "needs tcgen05.mma.ws"),
        ({"max_shift": 4, "ws": True}, r"4 is not one of \(0, 8, 16, 32\)"),
        ({"cta_group": 3}, "cta_group = 3"),
        ({"cta_group": 2, "ws": True}, "cta_group::1 only"),
        ({"m": 256}, "M x N = 256 x 256 .*expected M 64 or 128, N 8..256 by 8"),
        ({"n": 40}, "M x N = 128 x 40 .*N 16..256 by 16"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        replace(BF16, **change).encode()  # type: ignore[arg-type]


def test_options_of_other_kinds() -> None:
    with pytest.raises(SpecError, match="cannot negate"):
        dense("i8", 128, 64, negate_b=True).encode()
    with pytest.raises(SpecError, match="e2m3 is MN-major"):
        InstructionDescriptor("f8f6f4", 128, 64, "e4m3", "e2m3", "f32", b_major="MN").encode()
    with pytest.raises(UnsupportedError, match="mxf4nvf4"):
        replace(BF16, kind="mxf4nvf4").encode()
    with pytest.raises(UnsupportedError, match="mxf8f6f4"):
        InstructionDescriptor.decode(0, "mxf8f6f4")


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        (0x08400490 | 1 << 6, "f16", "bits 6, 23 and 29"),
        (0x08400490 | 1 << 23, "f16", "0x00800000"),
        (0x08400490 | 1 << 29, "f16", "reserved"),
        (0x08400490 | 3 << 7, "f16", "code 3 is no type of A for kind::f16 .*expected 0 f16, 1 bf16"),
        (0x08400490 | 2 << 10, "f16", "code 3 is no type of B"),
        (0x08400490 | 3 << 4, "f16", "code 3 is no type of D"),
        (0x08400490, "tf32", "code 1 is no type of A for kind::tf32"),
        (1 << 32, "f16", "32-bit"),
        (0x10400490, "f16", "M x N = 256 x 256"),
    ],
)
def test_decode_refuses(word: int, kind: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        InstructionDescriptor.decode(word, kind)
