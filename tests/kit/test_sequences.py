"""Where sequences are: numbers and registers for rows, ragged arrays and pages, and blocks of keys from each."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import SpecError, Tile, b64, bf16, f32, kernel, kit, ptx, s32, smem

COUNT, KEYS, BLOCK, HEADS = 3, 48, 16, 2


def _arrays(
    kind: str, x: np.ndarray, lengths: list[int]
) -> tuple[np.ndarray, list[np.ndarray], dict[str, Any]]:
    """Keys [COUNT, KEYS, HEADS, 64] as the array that holds them, what says where, and options."""
    if kind == "rows":
        return x, [], {}
    if kind == "lengths":
        return x, [np.array(lengths, np.int32)], {"lengths": True}
    if kind == "ragged":
        begins = np.cumsum([0, *lengths]).astype(np.int32)
        whole = np.concatenate([x[b, :n] for b, n in enumerate(lengths)])[None]
        return whole, [begins, begins], {"ragged": True}
    page = int(kind.removeprefix("pages "))
    order = np.random.default_rng(page).permutation(COUNT * KEYS // page + 2)[: COUNT * KEYS // page]
    pool = np.zeros((COUNT * KEYS // page + 2, page, HEADS, 64), x.dtype)
    pool[order] = x.reshape(-1, page, HEADS, 64)
    table = order.reshape(COUNT, -1).astype(np.int32)
    for b, n in enumerate(lengths):
        table[b, -(-n // page) :] = 1 << 30
    options = {"lengths": True, "page": page, "pages": len(pool)}
    return pool, [np.array(lengths, np.int32), table], options


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", ["rows", "lengths", "ragged", "pages 8", "pages 16", "pages 48"])
def test_blocks_of_keys(kind: str) -> None:
    lengths = [KEYS] * COUNT if kind == "rows" else [KEYS, 5, 19]
    x = np.random.default_rng(0).integers(1, 1 << 14, (COUNT, KEYS, HEADS, 64), np.uint16)
    array, places, options = _arrays(kind, x, lengths)
    where = kit.Sequences(COUNT, 7, KEYS, **options)
    operand = kit.HeadOperand(BLOCK, 64, bf16, piece=where.pieces(BLOCK))
    words = operand.nbytes // 4
    blocks = KEYS // BLOCK

    def body(X: Any, arrays: dict[str, Any], Y: Any, Z: Any) -> None:
        tile = operand.stages(1)
        full = smem.alloc(1, b64)
        with ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(full, 1)
            ptx.fence.mbarrier_init()
        ptx.warp.sync()
        number, lane = ptx.special.ctaid.x(), ptx.special.laneid()
        sequence = where.at(number, arrays)
        for i, size in enumerate((sequence.queries, sequence.keys)):
            ptx.store(Z.at(number, i), size, s32, space="global", pred=lane == 0)
        phase = 0
        for block in range(blocks):
            with ptx.if_(ptx.warp.elect()):
                ptx.mbarrier.arrive_expect_tx(full, operand.nbytes)
                key = ptx.add(ptx.special.ctaid.y().view(s32), BLOCK * block)
                where.load(
                    operand, [(tile[0], X)], arrays, sequence=sequence, key=key, head=1, mbar=full.addr
                )
            ptx.mbarrier.wait(full, phase)
            phase ^= 1
            with ptx.for_(lane, words, 32) as word:
                value = smem.load(f32, ptx.addr(tile[0].addr + word * 4))
                ptx.store(Y.at(number, block, word), value, space="global")
            ptx.fence.proxy_async("shared::cta")
            ptx.warp.sync()

    rows = array.shape[:2]
    outputs = (Tile(COUNT, blocks, words, f32), Tile(COUNT, 2, s32))
    common = {"out_specs": outputs, "grid": COUNT, "block": 32, "arch": "sm_90a"}
    given = (operand.spec(*rows, HEADS), *where.specs)
    if not places:

        @kernel(in_specs=given, **common)
        def load(X, Y, Z):  # type: ignore[no-untyped-def]
            body(X, {}, Y, Z)
    elif len(places) == 1:

        @kernel(in_specs=given, **common)
        def load(X, a, Y, Z):  # type: ignore[no-untyped-def]
            body(X, dict(zip(where.names, (a,), strict=True)), Y, Z)
    else:

        @kernel(in_specs=given, **common)
        def load(X, a, b, Y, Z):  # type: ignore[no-untyped-def]
            body(X, dict(zip(where.names, (a, b), strict=True)), Y, Z)

    report = load.simulate(array.view(ml_dtypes.bfloat16), *places, sanitize="strict")
    assert report.verdict == "clean", str(report)
    found, counts = report.outputs
    assert counts[:, 1].tolist() == lengths
    assert counts[:, 0].tolist() == (lengths if kind == "ragged" else [7] * COUNT)
    halves = found.view(np.uint16).reshape(COUNT, KEYS, 64)
    for b, length in enumerate(lengths):
        for row in range(length):
            for chunk in range(8):
                place = 8 * (chunk ^ row % 8)
                assert np.array_equal(
                    halves[b, row, place : place + 8], x[b, row, 1, 8 * chunk : 8 * chunk + 8]
                )
        if kind.startswith("pages"):  # pages behind the end are zeros
            page = int(kind.removeprefix("pages "))
            assert not halves[b, -(-length // page) * page :].any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"page": 16}, "expected both or none"),
        ({"ragged": True, "lengths": True}, "ragged sequences with lengths"),
        ({"page": 16, "pages": 9}, "lengths=False"),
        ({"page": 12, "pages": 9, "lengths": True}, "page = 12"),
        ({"page": 32, "pages": 9, "lengths": True}, "page = 32 for 48 keys"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        kit.Sequences(COUNT, 7, KEYS, **options)


def test_pages_and_blocks_divide_each_other() -> None:
    where = kit.Sequences(COUNT, 7, KEYS, lengths=True, page=24, pages=9)
    assert where.pieces(48) == 24 and where.pieces(8) == 8
    with pytest.raises(SpecError, match="blocks of 16 keys"):
        where.pieces(16)
