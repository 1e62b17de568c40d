"""Kernels of other projects in a folder of texts: their arguments, in the simulator and in predictions."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyptx import TensorMap
from pyptx.tools.load import load_module

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
#: Adds a matrix of 32 x 32 to an array, which it takes through a tensor map.
TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry _Z3addPfi(
    .param .u64 out, .param .align 64 .b8 map[128], .param .u32 columns, .param .u64 .ptr .global other
) {
    .reg .b64 %p<4>; .reg .b32 %v<8>; .reg .f32 %f<3>; .reg .pred %q;
    .shared .align 128 .b8 tile[4096];
    .shared .align 8 .b64 full;
    mov.u32 %v0, %tid.x;
    mov.u32 %v1, tile;
    mov.u32 %v2, full;
    setp.ne.u32 %q, %v0, 0;
    @%q bra WAIT;
    mbarrier.init.shared::cta.b64 [%v2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%v2], 4096;
    mov.b64 %p0, map;
    cvta.param.u64 %p0, %p0;
    mov.u32 %v3, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%v1], [%p0, {%v3, %v3}], [%v2];
WAIT:
    bar.sync 0;
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%v2], 0;
    @!%q bra AGAIN;
    ld.param.u32 %v4, [columns];
    ld.param.u64 %p1, [out];
    ld.param.u64 %p2, [other];
    shl.b32 %v0, %v0, 2;
    cvt.u64.u32 %p3, %v0;
    add.u64 %p1, %p1, %p3;
    add.u64 %p2, %p2, %p3;
    add.u32 %v1, %v1, %v0;
    mov.u32 %v5, 0;
ROW:
    ld.shared.f32 %f0, [%v1];
    ld.global.f32 %f1, [%p2];
    add.f32 %f2, %f0, %f1;
    st.global.f32 [%p1], %f2;
    mul.wide.u32 %p3, %v4, 4;
    add.u64 %p1, %p1, %p3;
    add.u64 %p2, %p2, %p3;
    add.u32 %v1, %v1, 128;
    add.u32 %v5, %v5, 1;
    setp.lt.u32 %q, %v5, 32;
    @%q bra ROW;
    ret;
}
"""
ARRAY = {"type": "f32", "shape": [32, 32], "role": "in"}
LINE = {
    "name": "project add",
    "text": "add",
    "entry": "add",
    "grid": [1, 1, 1],
    "block": [32, 1, 1],
    "cluster": [1, 1, 1],
    "smem": 0,
    "arrays": {"a": ARRAY, "b": ARRAY, "out": {**ARRAY, "role": "out"}},
    "args": [
        {"array": "out"},
        {"map": "a", "box": [32, 32], "swizzle": "none"},
        {"number": 32, "type": "s32"},
        {"array": "b"},
    ],
    "reference": "sum",
    "rtol": 1e-6,
    "atol": 1e-6,
}


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("_foreign", "_foreign_fastcu", "predict_foreign")
    return SimpleNamespace(**{name: load_module(BENCHMARKS / f"{name}.py") for name in names})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "add.ptx").write_text(TEXT)
    (tmp_path / "launches.json").write_text(json.dumps({"launches": [LINE], "checks": [LINE]}))
    return tmp_path


def test_a_text_is_checked_and_predicted(benchmarks: Any, folder: Path) -> None:
    pytest.importorskip("torch")
    program = benchmarks.predict_foreign
    (foreign,) = program.chosen(folder, ["add"])
    assert not program.chosen(folder, ["another"])
    assert foreign.entry == "_Z3addPfi" and foreign.nbytes == 3 * 4096
    said = program.check(foreign, 60.0)
    assert said.startswith("project add: clean (no findings), worst error 0.0"), said
    found = program.predict(foreign, "burst", 60.0)
    assert found["verdict"] == "clean" and 1 < found["value"] < 50
    json.dumps(found)


def test_why_there_is_no_prediction(benchmarks: Any, folder: Path) -> None:
    (foreign,) = benchmarks.predict_foreign.chosen(folder, [])
    foreign.given["args"].pop()
    assert benchmarks.predict_foreign.predict(foreign, "burst", 60.0)["fault"].startswith("SpecError: 3 arg")


def test_a_list_of_tiles_has_each_tile_once(benchmarks: Any) -> None:
    for rows, columns in ((32, 32), (24, 8), (16, 16)):
        tiles = benchmarks._foreign_fastcu.hilbert(rows, columns)
        assert len(tiles) == 128 * 128
        found = sorted(tile for tile in tiles if tile >= 0)
        assert found == [row << 16 | column for row in range(rows) for column in range(columns)]


def test_launches_of_fastcu(benchmarks: Any) -> None:
    launch = benchmarks._foreign_fastcu.launch
    assert [launch(number, 2048, 2048, 256)["smem"] for number in (2, 3, 4, 9, 10, 11, 12)] == [
        *(0, 32768, 163840, 147456, 213120, 213632, 221824)
    ]
    foreign = benchmarks._foreign.Foreign(launch(7, 2048, 2048, 256), ".visible .entry matmulKernel7(")
    maps = [value for value in foreign.values(foreign.shapes()) if isinstance(value, TensorMap)]
    assert [each.box for each in maps] == [(1, 1, 1, 128, 64), (1, 1, 1, 256, 64)]
    assert maps[0].strides == (0, 0, 128, 512, 2)
