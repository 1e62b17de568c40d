"""Kernels of other projects in a folder of texts: their arguments, in the simulator and in predictions."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
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
    names = ("_foreign", "_foreign_cuda", "_foreign_fastcu", "predict_foreign")
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


def test_what_arrays_are_drawn_from(benchmarks: Any) -> None:
    array = benchmarks._foreign.array
    drawn = {
        "uniform": array("f32", 64, 8, values=["uniform", 5.0, 30.0]),
        "integers": array("u8", 512, values=["integers", 0, 256]),
        "permutation": array("s32", 16, 8, values=["permutation"]),
        "fp8": array("e4m3", 512),
    }
    line = {"name": "drawn", "arrays": drawn}
    found = benchmarks._foreign.Foreign(line, "").contents()
    assert 5 <= found["uniform"].min() < 6 and 29 < found["uniform"].max() <= 30
    assert found["integers"].dtype == np.uint8 and len(set(found["integers"].tolist())) > 200
    assert sorted(found["permutation"].ravel().tolist()) == list(range(128))
    assert found["fp8"].dtype.name == "float8_e4m3fn" and 0.8 < found["fp8"].astype(float).std() < 1.2


def test_each_word_of_a_reference_is_known(benchmarks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the third set: launches and checks name references, texts and arrays that there are."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    references = load_module(BENCHMARKS / "_foreign_references.py").REFERENCES
    for name in ("_foreign_samples", "_foreign_leetcuda", "_foreign_deepgemm"):
        module = load_module(BENCHMARKS / f"{name}.py")
        lines = module.launches() + module.checks()
        assert len({line["name"] for line in lines}) == len(lines)
        for line in lines:
            assert line["text"] in module.SOURCES and line["reference"] in references
            named = {each.get("array", each.get("map")) for each in line["args"]} - {None}
            assert named == set(line["arrays"]), line["name"]


def test_a_text_keeps_its_kernel_and_has_its_constants(benchmarks: Any) -> None:
    module = benchmarks._foreign_cuda
    text = """\
\t// .globl\t_Z1av
.const .align 4 .b8 weights[8];
.global .align 1 .b8 _ZN15_INTERNAL_abcde3endE[1];
.visible .entry _Z1av()
{
{ add.s32 %r1, %r1, 1;
}
}
\t// .globl\t_ZN14_GLOBAL__N_abc1bEv
.entry _ZN14_GLOBAL__N_abc1bEv()
{
}
"""
    kept = module._only(text, "1b")
    assert "_Z1av()" not in kept and "weights[8]" in kept and ".entry _ZN14" in kept
    assert module._only(text, "") == text
    equal = module._without_hashes(kept)
    assert "_ZN11_GLOBAL__N_1bEv()" in equal and "abc" not in equal
    constant = module._with_constants(text, {"weights": [1.0, -2.0]})
    assert "weights[8] = {0, 0, 128, 63, 0, 0, 0, 192};" in constant
