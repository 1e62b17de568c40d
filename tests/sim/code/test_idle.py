"""Which results a machine that keeps time need not compute."""

from __future__ import annotations

import pytest

from pyptx import sim
from pyptx.isa import bind_instruction
from pyptx.sim.code.idle import Values
from pyptx.sim.code.image import ModuleImage
from pyptx.sim.code.program import EntryProgram

TEXT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out)
{{
    .reg .pred p; .reg .b32 a, b, c, d, e, f, i; .reg .b64 from, to, at;
    .shared .align 128 .b8 smem[256];
    ld.param.u64 from, [in];
    ld.param.u64 to, [out];
    mov.u32 i, 0;
AGAIN:
    ld.global.f32 a, [from];
    add.f32 b, a, a;
    mul.f32 c, b, b;
    st.global.f32 [to], c;
    add.u32 i, i, 1;
    {more}
    setp.lt.u32 p, i, 4;
    @p bra AGAIN;
    ret;
}}
"""


def idle(more: str = "", values: Values = Values.DECIDING) -> set[str]:
    """Return the registers whose values are not computed."""
    image = ModuleImage(sim.load(TEXT.format(more=more)).module, bind_instruction)
    program = EntryProgram(image, image.functions["kernel"], values=values)
    body = program.function.body
    return {str(body[statement].operands[0]).removeprefix("%") for statement in program.idle}


def test_what_is_only_stored_is_idle() -> None:
    assert idle() == {"b", "c"}
    assert idle("add.u32 d, i, 1; mov.u32 e, d;") == {"b", "c", "d", "e"}


def test_a_run_that_computes_all_has_none() -> None:
    assert idle(values=Values.ALL) == set()


@pytest.mark.parametrize(
    "more",
    [
        "setp.gt.f32 p, c, 0f00000000; @p bra AGAIN;",
        "cvt.u64.u32 at, c; add.u64 at, at, from; ld.global.f32 d, [at];",
        "shfl.sync.idx.b32 d, i, c, 31, -1;",
        "red.global.add.f32 [to], c;",
        "tensormap.replace.tile.rank.shared::cta.b1024.b32 [smem], 1;",
    ],
    ids=["a branch", "an address", "a lane", "a sum in memory", "a tensor map"],
)
def test_what_decides_is_computed(more: str) -> None:
    assert not idle(more) & {"b", "c"}


def test_what_is_stored_decides_where_a_loaded_value_does() -> None:
    more = "ld.global.u32 d, [to]; setp.eq.u32 p, d, 1; @p bra AGAIN;"
    assert not idle(more) & {"b", "c"}
    # Memory that the launch does not write holds none of its results.
    assert idle(more.replace("global", "global.nc")) == {"b", "c"}


def test_values_that_only_pass_between_lanes_are_idle() -> None:
    assert {"b", "c", "e"} <= idle("shfl.sync.bfly.b32 d, c, 1, 31, -1; add.f32 e, d, d;")


def test_a_kernel_that_reads_a_clock_computes_all() -> None:
    assert idle("mov.u32 d, %clock;") == set()
