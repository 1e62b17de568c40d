"""Which registers some path from the start of a block reads."""

from __future__ import annotations

from pyptx import sim
from pyptx.flow.graph import EXIT
from pyptx.isa import bind_instruction
from pyptx.sim.code.function import CodeBlock, FunctionCode
from pyptx.sim.code.image import ModuleImage
from pyptx.sim.code.liveness import live_registers
from pyptx.sim.code.program import EntryProgram

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.func (.reg .b32 back) callee(.reg .b32 given)
{
    .reg .b32 dropped; mov.u32 dropped, 1; mov.u32 back, given; ret;
}
.visible .entry kernel(.param .u64 out)
{
    .reg .pred p; .reg .b32 a, b, c, d, e, f; .reg .b64 to;
    ld.param.u64 to, [out];
    mov.u32 a, 1; mov.u32 b, 2; mov.u32 c, 3; mov.u32 d, 4; mov.u32 e, 5;
AGAIN:
    add.cc.u32 a, a, b;
    addc.u32 c, a, 0;
    setp.lt.u32 p, c, 100;
    @p mov.u32 e, 6;
    @p bra AGAIN;
    mov.u32 b, d;
    call (d), callee, (b);
    add.u32 f, d, e;
    st.global.u32 [to], f;
    ret;
}
"""


def code_of(name: str) -> FunctionCode:
    module = sim.load(TEXT).module
    image = ModuleImage(module, bind_instruction)
    program = EntryProgram(image, image.functions["kernel"])
    return program.code(image.functions[name])


def live_names(code: FunctionCode, block: CodeBlock) -> set[str]:
    names = {place.index: name for name, place in code.places.items()}
    return {names[index].removeprefix("%") for index in live_registers(code)[block.index]}


def test_a_loop_and_a_call() -> None:
    code = code_of("kernel")
    blocks = [block for block in code.program.blocks if block.code is code]
    loop = next(block for block in blocks if block.taken == block.index)
    assert live_names(code, blocks[0]) == set()
    # c is written before it is read; e keeps its value where the guard is false; f is not read in the loop.
    assert live_names(code, loop) == {"a", "b", "d", "e", "to"}
    call = next(block for block in blocks if block.call is not None)
    assert live_names(code, call) == {"b", "e", "to"}
    assert call.next is not None
    assert live_names(code, code.program.blocks[call.next]) == {"d", "e", "to"}


def test_the_results_of_a_function() -> None:
    code = code_of("callee")
    assert live_names(code, code.program.blocks[code.first]) == {"given"}
    last = next(block for block in code.program.blocks if block.returns)
    assert last.index != EXIT and live_names(code, last) == {"back"}
