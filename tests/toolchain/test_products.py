"""Products in the machine code get the statements that they came from."""

from __future__ import annotations

import pytest

from pyptx import Tile, bf16, f32, kernel, ptx, u64
from pyptx.ir import Instruction
from pyptx.toolchain.schedule.products import locate_products, serialized_functions
from pyptx.toolchain.schedule.statements import code_of, statement_cubin, statement_of
from pyptx.tools.calibrate.kernels import cleared


@pytest.mark.parametrize("n", [64, 256])
def test_each_product_has_its_own_statement(n: int) -> None:
    @kernel(out_specs=(Tile(2, u64),), block=128, arch="sm_90a")
    def batches(Out):
        tile_a, tile_b = cleared((64, 64), bf16, 128), cleared((n, 64), bf16, 128)
        a, b = ptx.wgmma.descriptor(tile_a), ptx.wgmma.descriptor(tile_b)
        acc = ptx.wgmma.accumulator(n=n)
        for register in acc:
            ptx.inst.mov.b32(register, 0)
        for products in (3, 4):
            ptx.wgmma.fence()
            for _ in range(products):
                ptx.wgmma.mma_async(acc, a, b, atype=bf16)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
        never = ptx.special.nctaid.z() == 0
        for value in acc:
            ptx.store(ptx.addr(Out.ptr), value, pred=never)

    module = batches.module()
    (function,) = module.functions
    code = locate_products(code_of(statement_cubin(module, "sm_90a", function.name)), module)
    products = [each for each in code[function.name] if each.opcode.startswith("HGMMA")]
    located = [statement_of(each) for each in products]
    assert len(located) == len(set(located)) == 7
    for statement in located:
        assert statement is not None
        instruction = function.body[statement.number]
        assert isinstance(instruction, Instruction)
        assert "mma_async" in instruction.modifiers


@pytest.mark.parametrize("changed", [False, True])
def test_products_between_which_sums_change_are_serialized(changed: bool) -> None:
    """ptxas says so, too (C7515): it waits for each product, and puts a fence before the next one."""

    @kernel(out_specs=(Tile(64, f32),), block=128, arch="sm_90a")
    def sums(Out):
        tile = cleared((64, 64), bf16, 128)
        operand = ptx.wgmma.descriptor(tile)
        acc = ptx.wgmma.accumulator(n=64)
        for register in acc:
            ptx.inst.mov.b32(register, 0)
        with ptx.for_(0, 4):
            ptx.pragma("nounroll")
            ptx.wgmma.fence()
            for _ in range(2):
                ptx.wgmma.mma_async(acc, operand, operand, atype=bf16)
                if changed:
                    ptx.inst.add.f32(acc[0], acc[0], 1.0)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
        for value in acc:
            ptx.store(ptx.addr(Out.ptr), value, pred=ptx.special.nctaid.z() == 0)

    module = sums.module()
    code = code_of(statement_cubin(module, "sm_90a", "sums"))
    assert serialized_functions(code, module) == ({"sums"} if changed else set())
    waits, products = (
        sum(each.opcode.startswith(name) for each in code["sums"]) for name in ("WARPGROUP.DEPBAR", "HGMMA")
    )
    assert (waits >= products) == changed  # behind each product, and where the text has it
