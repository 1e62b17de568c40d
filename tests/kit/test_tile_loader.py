"""Tiles that cp.async loads: every byte where TMA's swizzle puts it, padded outside of the matrix, any
pitch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import (
    OperandError,
    Scalar,
    SpecError,
    Tile,
    TraceError,
    b16,
    f16,
    f32,
    kernel,
    kit,
    layout,
    ptx,
    reg,
    smem,
    u32,
)
from pyptx.dsl import Reg

THREADS = 64
SPAN = {"32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128}


def copies_of(
    columns: int,
    dtype: Any,
    tile: tuple[int, int],
    swizzle: str,
    *,
    along: int,
    count: int,
    padding: kit.Padding = kit.Padding.ZERO,
    ragged: tuple[bool, bool] = (True, True),
    stages: int | None = None,
) -> Any:
    """A kernel that loads ``count`` tiles from an element on, and dumps the bytes of each as they lie in memory."""
    rows, width = tile

    @kernel(
        in_specs=(Tile("M", columns, dtype), Scalar(u32), Scalar(u32)),
        out_specs=(Tile(count, rows * width * dtype.nbytes // 2, b16),),
        block=THREADS,
        arch="sm_80",
    )
    def dump(source: Any, row: Reg, column: Reg, out: Any) -> None:
        tid = ptx.special.tid.x()
        buffer = smem.alloc(tile, dtype, swizzle=swizzle, stages=stages)
        load = kit.TileLoader(
            source,
            buffer,
            (row, column),
            along=along,
            thread=tid,
            threads=THREADS,
            ragged=ragged,
            padding=padding,
        )
        with ptx.for_(0, count) as number:
            stage = None if stages is None else number % stages
            load.copy(stage)
            ptx.cp.async_.wait_all()
            ptx.bar.sync(0)
            place = buffer.addr if stage is None else buffer[stage].addr
            with ptx.for_(tid, rows * width * dtype.nbytes // 2, THREADS) as i:
                value = reg.scalar(b16)
                ptx.inst.ld.shared.b16(value, ptx.addr(place + i * 2))
                ptx.inst.st.global_.b16(out.at(number, i), value)
            ptx.bar.sync(0)

    return dump


def laid_out(tile: np.ndarray[Any, Any], swizzle: str) -> np.ndarray[Any, Any]:
    """The bytes of a tile as TMA writes them, box after box, in units of 16 bits."""
    span = SPAN[swizzle] // tile.itemsize
    found = np.empty(tile.nbytes // 2, np.uint16)
    words = (
        np.concatenate([tile[:, n : n + span] for n in range(0, tile.shape[1], span)])
        .reshape(-1)
        .view(np.uint16)
    )
    places = layout.swizzle(2 * np.arange(len(words)), swizzle) // 2
    found[places] = words
    return found


def expected(
    a: np.ndarray[Any, Any], row: int, column: int, tile: tuple[int, int], along: int, count: int, pad: float
) -> np.ndarray[Any, Any]:
    """The tiles, padded."""
    tiles = []
    for number in range(count):
        whole = np.full(tile, pad, a.dtype)
        r, c = row + (1 - along) * number * tile[0], column + along * number * tile[1]
        part = a[r : r + tile[0], c : c + tile[1]]
        whole[: part.shape[0], : part.shape[1]] = part
        tiles.append(whole)
    return tiles  # type: ignore[return-value]


CASES = [
    # rows, columns of the matrix, tile, swizzle, along
    (40, 72, (32, 16), "32B", 1),
    (40, 72, (32, 32), "64B", 1),
    (40, 72, (32, 64), "128B", 1),
    (40, 70, (32, 64), "128B", 1),
    (40, 71, (32, 64), "128B", 1),
    (70, 72, (32, 128), "128B", 0),
    (70, 76, (32, 128), "128B", 0),
    (70, 70, (16, 128), "64B", 0),
    (35, 67, (16, 128), "32B", 0),
    # More than 32 copies of a thread: a loop.
    (140, 71, (64, 64), "128B", 1),
    (140, 70, (64, 128), "128B", 1),
    (140, 71, (64, 64), "64B", 0),
    (140, 71, (128, 32), "64B", 0),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [f16, f32])
@pytest.mark.parametrize(("rows", "columns", "tile", "swizzle", "along"), CASES)
def test_bytes_lie_where_tma_puts_them(
    rows: int, columns: int, tile: tuple[int, int], swizzle: str, along: int, dtype: Any
) -> None:
    a = np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype.name.replace("f", "float"))
    first = (3, 0) if along else (0, 0)
    report = copies_of(columns, dtype, tile, swizzle, along=along, count=3).simulate(
        a, *first, sanitize="strict"
    )
    assert report.verdict == "clean", str(report)
    assert report.holds == "every schedule"
    for found, whole in zip(report.outputs[0], expected(a, *first, tile, along, 3, 0.0), strict=True):
        assert np.array_equal(found.view(np.uint16), laid_out(whole, swizzle))


@pytest.mark.parametrize("columns", [128, 70])
def test_atoms_of_32_bytes(columns: int) -> None:
    """The swizzle of MN-major tf32."""
    a = np.random.default_rng(3).standard_normal((40, columns)).astype(np.float32)
    mode = "128B_ATOM_32B"
    dump = copies_of(columns, f32, (16, 64), mode, along=0, count=3, stages=2)
    report = dump.simulate(a, 0, 0, sanitize="strict")
    assert report.verdict == "clean", str(report)
    for found, whole in zip(report.outputs[0], expected(a, 0, 0, (16, 64), 0, 3, 0.0), strict=True):
        assert np.array_equal(found.view(np.uint16), laid_out(whole, mode))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("columns", "stages", "height"), [(72, 2, 32), (70, 2, 32), (71, 3, 32), (71, 2, 64), (70, 2, 128)]
)
def test_stages_and_paddings(columns: int, stages: int, height: int) -> None:
    a = np.random.default_rng(1).standard_normal((40, columns)).astype(np.float16)
    for padding in kit.Padding:
        dump = copies_of(columns, f16, (height, 64), "128B", along=1, count=3, stages=stages, padding=padding)
        report = dump.simulate(a, 16, 0)
        assert report.verdict == "clean", str(report)
        pad = np.nan if padding is kit.Padding.NAN else 0.0
        inside = expected(a, 16, 0, (height, 64), 1, 3, 0.0)
        for number, whole in enumerate(expected(a, 16, 0, (height, 64), 1, 3, pad)):
            found = report.outputs[0][number].view(np.float16)
            places = np.zeros((height, 64), np.float16)
            places[: max(0, 40 - 16), : max(0, columns - 64 * number)] = 1
            if padding is kit.Padding.UNDETERMINED:
                chosen = laid_out(places, "128B").view(np.float16) == 1
                assert np.array_equal(
                    found[chosen], laid_out(inside[number], "128B").view(np.float16)[chosen]
                )
            else:
                assert np.array_equal(found, laid_out(whole, "128B").view(np.float16), equal_nan=True)


def test_without_guards() -> None:
    """Whole tiles need no guards: one ``cp.async`` for each 16 bytes, one step, and nothing else."""
    a = np.random.default_rng(2).standard_normal((64, 128)).astype(np.float16)
    dump = copies_of(128, f16, (32, 64), "128B", along=1, count=2, ragged=(False, False))
    (out,) = dump.simulate(a, 32, 0).outputs
    for found, whole in zip(out, expected(a, 32, 0, (32, 64), 1, 2, 0.0), strict=True):
        assert np.array_equal(found.view(np.uint16), laid_out(whole, "128B"))
    text = dump.ptx(M=64)
    assert text.count("cp.async.cg") == 32 * 64 * 2 // 16 // THREADS
    assert "selp" not in text and "min." not in text


@pytest.mark.parametrize(("columns", "width"), [(72, 16), (36, 8), (34, 4), (33, 2)])
def test_widths(columns: int, width: int) -> None:
    def check() -> None:
        @kernel(in_specs=(Tile("M", columns, f16),), block=32, arch="sm_80")
        def one(source):  # type: ignore[no-untyped-def]
            tile = smem.alloc((32, 64), f16, swizzle="128B")
            load = kit.TileLoader(source, tile, (0, 0), along=1, thread=ptx.special.tid.x(), threads=32)
            assert load.width == width
            assert load.copies == 32 * 64 * 2 // width // 32
            load.copy()

        text = one.ptx(M=32)
        assert text.count("cp.async.c") == (load_count if width > 2 else 0)
        # 64 copies are a loop over 16, after which the swizzle of a row repeats.
        assert text.count("st.shared.b16") == (0 if width > 2 else 16)
        assert ("bra loop" in text) == (load_count > 32)

    load_count = 32 * 64 * 2 // width // 32
    check()


def test_refusals() -> None:
    def attempt(
        words: str, dims: Any = ("M", 64), tile: Any = (32, 64), error: Any = SpecError, **given: Any
    ) -> None:
        options = {"swizzle": "128B", "threads": 64, "along": 1, "dtype": f16, **given}

        @kernel(in_specs=(Tile(*dims, f16),), block=64, arch="sm_80")
        def refused(source):  # type: ignore[no-untyped-def]
            smem.alloc(16)
            buffer = smem.alloc(tile, options["dtype"], swizzle=options["swizzle"])
            kit.TileLoader(
                source,
                buffer,
                (0, 0),
                along=options["along"],
                thread=ptx.special.tid.x(),
                threads=options["threads"],
            )

        with pytest.raises(error, match=words):
            refused.ptx(**{d: 64 for d in dims if isinstance(d, str)})

    attempt("expected two, the second one a number", dims=("M", "N"))
    attempt("expected two, the second one a number", dims=(64, 64, 64))
    attempt("expected one type", dtype=f32)
    attempt("a swizzle, and rows that fill", swizzle="none")
    attempt("rows that fill whole widths", tile=(32, 32))
    attempt("expected a multiple of 8", tile=(28, 64))
    attempt("threads is 48: expected a power of two", threads=48)
    attempt(r"along is 2: expected 0 \(rows\) or 1", along=2)
    attempt("a multiple of 512 threads", threads=512)
    attempt("2 GiB or more", dims=("M", 1 << 27))


def test_a_stage_must_be_named() -> None:
    def body(source):  # type: ignore[no-untyped-def]
        tile = smem.alloc((32, 64), f16, swizzle="128B", stages=2)
        load = kit.TileLoader(source, tile, (0, 0), along=1, thread=ptx.special.tid.x(), threads=32)
        with pytest.raises(TraceError, match="choose one first"):
            load.copy()
        with pytest.raises(OperandError, match="stage 2"):
            load.copy(2)

    kernel(in_specs=(Tile("M", 64, f16),), block=32, arch="sm_80")(body).ptx(M=64)
