"""What PTX statements cost by ptxas's schedule: stalls, pipes, copies of loops, moved code, expansions."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pyptx.ir import Module, parse_module, print_module
from pyptx.timing.constants import Gpu, gpu
from pyptx.timing.opcodes import Pipes
from pyptx.toolchain import Tool, assemble, machine_instructions
from pyptx.toolchain.schedule.costs import StatementCost, statement_costs
from pyptx.toolchain.schedule.graph import machine_graph
from pyptx.toolchain.schedule.statements import StatementCode, code_of, statement_cubin, statement_of

GPUS = pytest.mark.parametrize("where", [gpu("h200"), gpu("b200")], ids=["h200", "b200"])


def statement_code(made: Module, target: str, entry: str) -> StatementCode:
    """Return the machine code of each function of a module."""
    return code_of(statement_cubin(made, target, entry))


def module(body: str, target: str) -> Module:
    """Return an entry that runs ``body`` with two f32 of memory, their address, and a number of rounds."""
    return parse_module(
        f".version 8.7\n.target {target}\n.address_size 64\n"
        ".visible .entry f(.param .u64 p, .param .u32 n) {\n"
        ".reg .b64 %a<9>; .reg .f32 %f<99>; .reg .b32 %r<9>; .reg .pred %p<9>;\n"
        "ld.param.u64 %a0, [p]; ld.param.u32 %r0, [n];\n"
        "ld.global.f32 %f0, [%a0]; ld.global.f32 %f1, [%a0+4];\n"
        f"{body}\nst.global.f32 [%a0], %f0;\nret;\n}}\n"
    )


def costs(body: str, where: Gpu) -> dict[str, list[StatementCost]]:
    """Return the costs of the statements of ``body``, by PTX opcode."""
    made = module(body, where.target)
    found = statement_costs(statement_code(made, where.target, "f"), made, Pipes(where))
    named: dict[str, list[StatementCost]] = {}
    for (_, number), cost in found.items():
        named.setdefault(made.functions[0].body[number].opcode, []).append(cost)  # type: ignore[union-attr]
    return named


def loop(body: str, *, unrolled: bool) -> str:
    """Return a loop of n rounds."""
    pragma = "" if unrolled else '.pragma "nounroll";'
    test = "add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r0; @%p0 bra again;"
    return f"mov.u32 %r1, 0;\nagain: {pragma}\n{body}\n{test}"


def total(found: dict[str, list[StatementCost]], *opcodes: str) -> tuple[float, float]:
    """Return cycles and issues of the statements with these opcodes; of all without any."""
    each: Iterable[StatementCost] = [
        c for name, cs in found.items() if not opcodes or name in opcodes for c in cs
    ]
    return sum(cost.cycles for cost in each), sum(cost.issues for cost in each)


@GPUS
def test_each_statement_may_have_a_line_of_its_own(where: Gpu, ptxas: Tool, nvdisasm: Tool) -> None:
    made = module(loop("fma.rn.f32 %f0, %f0, %f1, %f1;", unrolled=True), where.target)
    plain = assemble(print_module(made), ptxas=ptxas).cubin
    named = statement_code(made, where.target, "f")["f"]
    assert [(i.text, i.control) for i in named] == [
        (i.text, i.control) for i in machine_instructions(plain, nvdisasm=nvdisasm)
    ]
    fused = {statement_of(i) for i in named if i.opcode == "FFMA"}
    assert {made.functions[0].body[s.number].opcode for s in fused if s} == {"fma"}  # type: ignore[union-attr]


@GPUS
def test_dependent_arithmetic_takes_its_latency(where: Gpu, nvdisasm: Tool) -> None:
    fused = costs("fma.rn.f32 %f0, %f0, %f1, %f1;\n" * 32, where)["fma"]
    assert len(fused) == 32
    assert {cost.issues for cost in fused} == {1.0}
    # The store that reads the last result may take it a cycle later.
    assert sum(cost.cycles for cost in fused) == pytest.approx(32 * where.value("fma.latency_clk"), abs=2)


@GPUS
def test_independent_arithmetic_is_issued_without_waiting(where: Gpu, nvdisasm: Tool) -> None:
    chains = 16
    start = "".join(f"add.f32 %f{n}, %f0, 0f{0x3F800000 + n:08x};\n" for n in range(2, 2 + chains))
    round_ = "".join(f"fma.rn.f32 %f{n}, %f{n}, %f1, %f1;\n" for n in range(2, 2 + chains))
    end = "".join(f"add.f32 %f0, %f0, %f{n};\n" for n in range(2, 2 + chains))
    fused = costs(start + round_ * 8 + end, where)["fma"]
    assert sum(cost.pipes["fma"] for cost in fused) == 8 * chains
    assert 8 * chains <= sum(cost.cycles for cost in fused) <= 2.5 * 8 * chains


@pytest.mark.one_in(2)
@GPUS
@pytest.mark.parametrize("unrolled", [False, True])
def test_a_loop_of_exponentials_takes_the_pipe_and_the_latency(
    where: Gpu, unrolled: bool, nvdisasm: Tool
) -> None:
    found = costs(
        loop("ex2.approx.ftz.f32 %f0, %f0;\nadd.f32 %f0, %f0, %f1;", unrolled=unrolled),
        where,
    )
    (exponential,) = found["ex2"]
    # The sum may pay for time of the pipe behind the issue of the exponential.
    occupied = sum(cost.pipes.get("mufu", 0.0) for each in found.values() for cost in each)
    assert occupied == pytest.approx(32 / (where.value("mufu.lanes_per_clk") / 4))
    assert exponential.issues == 1
    # One round: the result of MUFU, then the sum. What is beyond them is the loop's own code.
    least = where.value("mufu.latency_clk") + where.value("fma.latency_clk")
    round_ = total(found, "ex2", "add", "setp", "bra")[0]
    assert least - 1 <= round_ <= least + 25


@GPUS
def test_no_statement_needs_more_of_a_pipe_than_its_cycles_where_the_code_has_time(
    where: Gpu, nvdisasm: Tool
) -> None:
    """ptxas spaces exponentials by the stalls of sums between them, which pay for the pipe then."""
    registers = range(2, 18)
    exponentials = "".join(f"ex2.approx.ftz.f32 %f{n}, %f{n};\n" for n in registers)
    sums = "".join(f"add.f32 %f0, %f0, %f{n};\n" for n in registers)
    start = "".join(f"add.f32 %f{n}, %f0, 0f{0x3F800000 + n:08x};\n" for n in registers)
    found = costs(start + exponentials + sums, where)
    each = 32 / (where.value("mufu.lanes_per_clk") / 4)
    pipes = [cost.pipes.get("mufu", 0.0) for some in found.values() for cost in some]
    assert sum(pipes) == pytest.approx(each * len(registers))
    own = [cost.pipes["mufu"] for cost in found["ex2"]]
    assert sum(own) < 0.75 * sum(pipes)
    for cost in found["add"]:
        assert cost.pipes.get("mufu", 0.0) <= cost.cycles + 1e-9


@pytest.mark.full
@GPUS
def test_an_unrolled_loop_costs_as_much_for_each_round(where: Gpu, nvdisasm: Tool) -> None:
    body = "ex2.approx.ftz.f32 %f0, %f0;\nadd.f32 %f0, %f0, %f1;\n" * 4
    code = statement_code(module(loop(body, unrolled=True), where.target), where.target, "f")["f"]
    assert sum(each.opcode.startswith("MUFU") for each in code) > 4  # ptxas has copied the loop
    rolled, copied = (costs(loop(body, unrolled=unrolled), where) for unrolled in (False, True))
    cycles = [total(found, "ex2", "add", "setp", "bra")[0] for found in (rolled, copied)]
    assert cycles[1] == pytest.approx(cycles[0], rel=0.05)
    assert total(copied, "ex2")[1] == total(rolled, "ex2")[1] == 4


#: Forms of wmma.mma: registers of A, B and the sum, and cycles of a tensor core of an H200 for one product.
_PRODUCTS = {
    "row.col.m16n16k16.f32.f32": (8, 8, 8, 12.0),
    "row.col.m16n16k16.f32.bf16.bf16.f32": (4, 4, 8, 12.0),
    "row.col.m16n16k8.f32.tf32.tf32.f32": (4, 4, 8, 16.0),
}


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("form", _PRODUCTS)
def test_a_product_of_several_instructions_is_no_copy_of_a_loop(
    form: str, unrolled: bool, nvdisasm: Tool
) -> None:
    *counts, clk = _PRODUCTS[form]
    a, b, sums = (
        [f"%{name}{n}" for n in range(int(count))]
        for name, count in zip(("x", "y", "s"), counts, strict=True)
    )
    start = ".reg .b32 %x<8>; .reg .b32 %y<8>; .reg .f32 %s<8>;\n"
    start += "".join(f"ld.global.b32 {each}, [%a0+{4 * n}];\n" for n, each in enumerate([*a, *b]))
    start += "".join(f"mov.f32 {each}, %f0;\n" for each in sums)
    end = "".join(f"add.f32 %f0, %f0, {each};\n" for each in sums)
    operands = ", ".join(f"{{{', '.join(each)}}}" for each in (sums, a, b, sums))
    found = costs(
        start + loop(f"wmma.mma.sync.aligned.{form} {operands};", unrolled=unrolled) + end, gpu("h200")
    )
    pipes = [cost.pipes.get("hmma", 0.0) for some in found.values() for cost in some]
    assert sum(pipes) == pytest.approx(clk, rel=0.02)


@GPUS
def test_code_without_loops_pays_for_every_instruction(where: Gpu, nvdisasm: Tool) -> None:
    body = (
        "setp.gt.f32 %p1, %f0, %f1;\n@%p1 bra other;\nmul.f32 %f0, %f0, %f1;\nbra end;\n"
        "other: ex2.approx.ftz.f32 %f0, %f0;\nst.global.f32 [%a0+8], %f0;\nend: add.f32 %f0, %f0, %f1;"
    )
    made = module(body, where.target)
    code = statement_code(made, where.target, "f")
    graph = machine_graph(code["f"])
    instructions = sum(len(graph.blocks[index].instructions) for index in graph.active)
    found = statement_costs(code, made, Pipes(where))
    assert sum(cost.issues for cost in found.values()) == pytest.approx(instructions)


@GPUS
def test_a_branch_that_became_predicates_costs_its_instructions_always(where: Gpu, nvdisasm: Tool) -> None:
    body = "setp.gt.f32 %p1, %f0, %f1;\n@%p1 bra end;\nmul.f32 %f0, %f0, %f1;\nend:"
    made = module(body, where.target)
    code = statement_code(made, where.target, "f")
    assert any(i.text.startswith("@") and i.opcode.startswith("FMUL") for i in code["f"])
    found = statement_costs(code, made, Pipes(where))
    (branched,) = (
        cost
        for (_, number), cost in found.items()
        if made.functions[0].body[number].opcode == "mul"  # type: ignore[union-attr]
    )
    assert branched.cycles == branched.issues == 0  # the block in front of it pays
    assert branched.place is not None
    assert sum(cost.pipes.get("fma", 0.0) for cost in found.values()) >= 1


@GPUS
def test_invariant_code_is_paid_once(where: Gpu, nvdisasm: Tool) -> None:
    invariant = "div.full.f32 %f2, %f1, 0f40E00000;\n"
    found = costs(loop(invariant + "fma.rn.f32 %f0, %f0, %f2, %f2;", unrolled=False), where)
    assert "div" not in found or total(found, "div")[1] < 1


@GPUS
def test_a_division_takes_its_short_way(where: Gpu, nvdisasm: Tool) -> None:
    found = costs("div.rn.f32 %f0, %f0, %f1;", where)
    _, issues = total(found, "div")
    # A reciprocal, a check and five FFMA; the routine for denormals has over fifty instructions.
    assert 7 <= issues <= 14
    assert sum(cost.pipes.get("mufu", 0.0) for cost in found["div"]) == 32 / (
        where.value("mufu.lanes_per_clk") / 4
    )


@GPUS
def test_a_routine_that_is_always_called_is_paid(where: Gpu, nvdisasm: Tool) -> None:
    found = costs("ld.global.u64 %a1, [%a0+8];\ndiv.u64 %a2, %a1, %a0;\nst.global.u64 [%a0+16], %a2;", where)
    # Two reciprocal steps of 64-bit products; ptxas may test for 32-bit operands first.
    assert total(found, "div")[1] > 10


def test_code_for_another_target_is_that_of_the_gpu(nvdisasm: Tool) -> None:
    made = module("fma.rn.f32 %f0, %f0, %f1, %f1;", "sm_80")
    newer, older = (statement_code(made, target, "f")["f"] for target in ("sm_90a", "sm_80"))
    assert [i.text for i in newer] != [i.text for i in older]


def test_functions_and_indirect_branches(nvdisasm: Tool) -> None:
    made = parse_module(
        ".version 8.7\n.target sm_90a\n.address_size 64\n"
        ".func (.reg .f32 %o) g(.reg .f32 %x) {\n.reg .f32 %y;\n"
        + "fma.rn.f32 %x, %x, %x, %x;\n"
        * 200
        + "mov.f32 %o, %x;\nret;\n}\n"
        ".visible .entry f(.param .u64 p, .param .u32 n) {\n"
        ".reg .b64 %a; .reg .f32 %f<9>; .reg .b32 %r;\n"
        "ld.param.u64 %a, [p]; ld.param.u32 %r, [n]; ld.global.f32 %f0, [%a];\n"
        "call (%f1), g, (%f0);\ncall (%f2), g, (%f1);\n"
        "targets: .branchtargets first, second;\nbrx.idx %r, targets;\n"
        "first: add.f32 %f2, %f2, %f2; bra end;\nsecond: ex2.approx.ftz.f32 %f2, %f2;\n"
        "end: st.global.f32 [%a], %f2;\nret;\n}\n"
    )
    found = statement_costs(statement_code(made, "sm_90a", "f"), made, Pipes(gpu("h200")))
    bodies = {function.name: function.body for function in made.functions}
    issues: dict[tuple[str, str], float] = {}
    for (function, number), cost in found.items():
        key = function, bodies[function][number].opcode  # type: ignore[union-attr]
        issues[key] = issues.get(key, 0.0) + cost.issues
    # The function is called, not copied: its own statements cost what one call runs.
    assert 200 <= issues["g", "fma"] <= 204  # with what ptxas adds around them
    assert issues["f", "call"] < 10
    assert issues["f", "ex2"] >= 1 and issues["f", "st"] >= 1


@pytest.mark.full
def test_a_text_with_lines_of_its_own(nvdisasm: Tool) -> None:
    body = "fma.rn.f32 %f0, %f0, %f1, %f1;\n"
    plain = module(body, "sm_90a")
    text = print_module(plain).text.replace("fma.rn", ".loc 1 7 0\n    fma.rn") + '.file 1 "a.cu"\n'
    lined = parse_module(text)
    pipes = Pipes(gpu("h200"))
    found = [
        {
            made.functions[0].body[number].opcode: cost.cycles  # type: ignore[union-attr]
            for (_, number), cost in statement_costs(statement_code(made, "sm_90a", "f"), made, pipes).items()
        }
        for made in (plain, lined)
    ]
    assert found[0] == found[1] and "fma" in found[0]


@GPUS
def test_a_first_try_is_paid_where_it_is_written(where: Gpu, nvdisasm: Tool) -> None:
    """ptxas puts it in front of the loop, with the location of the instruction before."""
    body = ".shared .b64 s; mov.u32 %r1, s; mbarrier.init.shared::cta.b64 [%r1], 1;\n"
    for number in range(3):
        body += (
            f"mbarrier.arrive.shared::cta.b64 _, [%r1];\nwait{number}:\n"
            f"mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], {number & 1};\n@!%p0 bra wait{number};\n"
        )
    made = module(body, where.target)
    found = statement_costs(statement_code(made, where.target, "f"), made, Pipes(where))
    cost = {number: each for (_, number), each in found.items()}
    statements = made.functions[0].body
    tries = [n for n, each in enumerate(statements) if "try_wait" in getattr(each, "modifiers", ())]
    assert len(tries) == 3
    for number in tries:
        taken = cost[number].cycles + cost[number + 1].cycles
        # The first one may have the code of its parity with it.
        assert -2 <= taken - where.value("mbarrier.test_clk") <= 12
        assert cost[number + 1].issues == 1
        # The arrival before it, three statements up with the label, does not pay for the try.
        arrive = next(n for n in range(number, 0, -1) if "arrive" in getattr(statements[n], "modifiers", ()))
        assert cost[arrive].cycles < where.value("mbarrier.arrive_clk") + 30


@pytest.mark.full
def test_a_fence_behind_stores_waits_for_them(nvdisasm: Tool) -> None:
    where = gpu("h200")
    fence = "fence.proxy.async.shared::cta;\n"
    body = ".shared .align 16 .b32 s[512]; mov.u32 %r1, s;\n"
    store = "st.volatile.shared.b32 [%r1], %r0;\n"
    few, many = (total(costs(body + (store + fence) * n, where), "st", "fence")[0] for n in (2, 4))
    assert (many - few) / 2 == pytest.approx(where.value("fence.behind_store_clk"), abs=1)


def test_work_behind_a_try_that_failed_is_paid(nvdisasm: Tool) -> None:
    """Only further tries are rare: other code behind a failed try may run as often as the try."""
    work = "ex2.approx.ftz.f32 %f0, %f0;\n" * 8
    body = (
        ".shared .b64 s; mov.u32 %r1, s; mbarrier.init.shared::cta.b64 [%r1], 1;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], 0;\n@%p0 bra done;\n" + work + "done:\n"
    )
    code = loop(body.replace("done", "$d"), unrolled=False).replace("$d", "done")
    assert total(costs(code, gpu("h200")), "ex2")[1] == 8
