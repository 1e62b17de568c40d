"""A register is named after the Python variable that it is bound to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyptx.core.errors import OperandError
from pyptx.core.types import b16, b32, b64, f32, pred, u32
from pyptx.dsl import ptx, reg
from pyptx.dsl.registers import Reg
from tests.counting import calls_in

from .helpers import in_kernel, recorded, text_of

pytestmark = pytest.mark.smoke

GLOBAL: Reg


def test_plain_targets() -> None:
    def check() -> None:
        tile_m = reg.scalar(u32)
        total = tile_m + 1
        is_odd = (total & 1) != 0
        annotated: Reg = tile_m * 2
        assert [r.name for r in (tile_m, total, is_odd, annotated)] == [
            "tile_m",
            "total",
            "is_odd",
            "annotated",
        ]

    in_kernel(check)


def test_tuple_chained_and_walrus_targets() -> None:
    def check() -> None:
        a, b = reg.scalar(u32), reg.scalar(b64)
        c, d, e = reg.scalar(u32), a + 1, reg.scalar(f32)
        f, g, h, i = reg.scalar(u32), reg.scalar(u32), reg.scalar(u32), reg.scalar(u32)
        j = k = reg.scalar(u32)
        if (n := reg.scalar(u32)) is not None:
            pass
        names = [r.name for r in (a, b, c, d, e, f, g, h, i, j, k, n)]
        assert names == ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "j", "n"]

    in_kernel(check)


def test_results_that_are_unpacked() -> None:
    def check() -> None:
        x = reg.scalar(u32)
        moved, inside = ptx.warp.shfl_down(x, 1, with_pred=True)
        low, high = ptx.unpack(x, b16)
        first, *rest = ptx.unpack(x, b16)
        both = ptx.unpack(x, b16)
        names = [r.name for r in (moved, inside, low, high, first, *rest, *both)]
        assert names == ["moved", "inside", "low", "high", "part0", "part1", "both0", "both1"]

    in_kernel(check)


def test_two_statements_on_a_line() -> None:
    def check() -> None:
        desc_a = reg.scalar(b64)
        desc_b = reg.scalar(b64)
        assert (desc_a.name, desc_b.name) == ("desc_a", "desc_b")

    in_kernel(check)


def test_closure_global_and_attribute_targets() -> None:
    class Box:
        held: Reg

    def check() -> None:
        global GLOBAL
        box = Box()
        captured = reg.scalar(u32)
        GLOBAL = reg.scalar(u32)
        box.held = reg.scalar(u32)

        def inner() -> Reg:
            return captured

        assert inner().name == "captured"
        assert (GLOBAL.name, box.held.name) == ("GLOBAL", "held")

    in_kernel(check)


def test_loop_variable() -> None:
    def check() -> None:
        with ptx.for_(0, 4) as row:
            assert row.name == "row"

    in_kernel(check)


def test_what_another_call_consumes_is_no_target() -> None:
    """The intermediate of an expression must not take the name of the result."""

    def check() -> None:
        x = reg.scalar(u32)
        result = (x + 1) * 2
        assert result.name == "result"
        text = ptx.addr(x + 8)
        assert text.base.name not in ("text", "result")
        kept = [reg.scalar(u32), reg.scalar(u32)]
        assert "kept" not in kept[0].name

    in_kernel(check)


def test_repeated_names_get_numbers() -> None:
    def check() -> None:
        names = []
        for _ in range(3):
            slot = reg.scalar(u32)
            names.append(slot.name)
        slot_1 = reg.scalar(u32)
        assert names == ["slot", "slot_1", "slot_2"]
        assert slot_1.name == "slot_1_1"

    in_kernel(check)


def test_special_registers_keep_their_names() -> None:
    def check() -> None:
        tid = ptx.special.tid.x()
        clock = reg.scalar(u32)
        envreg3 = reg.scalar(u32)
        assert (tid.name, clock.name, envreg3.name) == ("tid_1", "clock_1", "envreg3_1")
        assert (ptx.special.laneid() + 0).type is u32

    in_kernel(check)


def test_names_that_ptx_cannot_spell() -> None:
    def check() -> None:
        größe = reg.scalar(u32)
        _ = reg.scalar(u32)
        assert größe.name.isascii() and größe.name.startswith("gr")
        assert _.name == "r"

    in_kernel(check)


def test_arrays() -> None:
    def check() -> None:
        out = reg.array(b32, 3)
        assert [r.name for r in out] == ["out0", "out1", "out2"]
        acc0 = reg.array(b32, 2)
        assert [r.name for r in acc0] == ["acc0_0", "acc0_1"]
        out1 = reg.scalar(b32)
        assert out1.name == "out1_1"
        größe = reg.array(f32, 2)
        assert len({r.name for r in größe}) == 2

    in_kernel(check)


def test_an_explicit_name() -> None:
    def check() -> None:
        x = reg.scalar(pred, name="flag")
        v = reg.array(f32, 2, name="acc")
        assert (x.name, v[1].name) == ("flag", "acc1")

    in_kernel(check)


def _kernel() -> None:
    for n in range(3):
        tid = ptx.special.tid.x()
        out = reg.array(b32, 5)
        with ptx.if_(tid < 3):
            for register in out:
                register.set(tid)
        with ptx.loop() as again:
            ptx.label(f"start_{n}")
            again.break_(tid > 4)
            ptx.bra(f"start_{n}", pred=~(tid == 2))


@pytest.mark.full
@pytest.mark.parametrize("seed", ["0", "1", "77"])
def test_the_text_is_the_same_in_every_process(seed: str) -> None:
    program = "from tests.dsl import helpers, test_names; print(helpers.text_of(test_names._kernel))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
    )
    assert done.stdout.rstrip("\n") == text_of(_kernel).rstrip("\n") == text_of(_kernel).rstrip("\n")


def test_helpers_of_the_package_name_their_registers_and_show_the_authors_line() -> None:
    """``pyptx.kit`` is made of DSL calls: its variables are names, its caller's lines are locations."""
    import pyptx

    source = """
def next_slot(slot, count):
    following = slot + 1
    wrapped = following % count
    return wrapped
"""
    scope: dict[str, Any] = {}
    exec(compile(source, str(Path(pyptx.__file__).parent / "kit" / "imagined.py"), "exec"), scope)

    def body() -> None:
        slot = reg.scalar(u32)
        result = scope["next_slot"](slot, 4)  # the author's line
        assert result.name == "wrapped"

    recording = recorded(body)
    instructions = list(recording.module.functions[0].instructions())[:2]
    assert [i.operands[0].name for i in instructions] == ["following", "wrapped"]  # type: ignore[union-attr]
    assert all(i.source is not None and i.source.text.endswith("# the author's line") for i in instructions)


def test_many_labels_and_names_stay_cheap() -> None:
    def body(count: int) -> None:
        p = reg.scalar(pred)
        for _ in range(count):
            with ptx.if_(p):
                x = reg.scalar(u32)
                x += 1

    few, many = (calls_in(lambda n=n: recorded(lambda: body(n))) for n in (250, 2000))
    assert many < 9 * few


def test_many_arrays_of_one_name_stay_cheap() -> None:
    def body(count: int) -> None:
        for _ in range(count):
            reg.array(u32, 4, name="part")

    few, many = (calls_in(lambda n=n: recorded(lambda: body(n))) for n in (100, 800))
    assert many < 9 * few


def test_names_of_arrays_that_a_refused_call_made_are_free_again() -> None:
    def body() -> None:
        with pytest.raises(OperandError):
            reg.array(u32, 2, init=[1, "two"], name="part")  # type: ignore[list-item]
        again = reg.array(u32, 2, name="part")
        following = reg.array(u32, 2, name="part")
        assert [r.name for r in (*again, *following)] == ["part0", "part1", "part_1_0", "part_1_1"]

    in_kernel(body)
