"""Control-flow graphs, post-dominators and undefined reads against brute force on random functions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyptx.core.errors import TraceError
from pyptx.core.source import SourceLocation
from pyptx.flow import accesses, control_flow, maybe_undefined, read_after, read_from, reconvergence
from pyptx.flow.graph import EXIT, Graph
from pyptx.ir import Function, Instruction, LabelStatement, Raw, parse_module
from tests.sim.build import Kernel

REGISTERS = ["a", "b", "c"]


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """A random function over three registers and up to six labels, guards anywhere."""
    labels = draw(st.integers(1, 6))
    lines: list[str] = []
    for _ in range(draw(st.integers(0, 16))):
        guard = draw(st.sampled_from(["", "", "@p ", "@!p "]))
        kind = draw(st.sampled_from(["mov", "add", "bra", "bra", "ret", "exit"]))
        target, source = draw(st.sampled_from(REGISTERS)), draw(st.sampled_from(REGISTERS))
        text = {
            "mov": f"mov.u32 {target}, 1",
            "add": f"add.u32 {target}, {source}, 1",
            "bra": f"bra L{draw(st.integers(0, labels - 1))}",
        }.get(kind, kind)
        lines.append(guard + text)
    for label in range(labels):
        lines.insert(draw(st.integers(0, len(lines))), f"L{label}:")
    return "\n".join([".reg u32 a b c", ".reg pred p", *lines])


def function(body: str) -> Function:
    return Kernel(body).module.functions[0]


# --- a second opinion -------------------------------------------------------------------------


def successors(f: Function) -> dict[int, set[int]]:
    """Statement-level flow among instructions; EXIT is the end."""
    place = {s.name: i for i, s in enumerate(f.body) if isinstance(s, LabelStatement)}

    def instruction_from(index: int) -> int:
        while index < len(f.body) and not isinstance(f.body[index], Instruction):
            index += 1
        return index if index < len(f.body) else EXIT

    flow = {}
    for i, s in enumerate(f.body):
        if not isinstance(s, Instruction):
            continue
        found = set()
        if s.opcode not in ("bra", "ret", "exit") or s.guard is not None:
            found.add(instruction_from(i + 1))
        if s.opcode == "bra":
            found.add(instruction_from(place[s.operands[0].name]))  # type: ignore[union-attr]
        elif s.opcode in ("ret", "exit"):
            found.add(EXIT)
        flow[i] = found
    return flow


def reaches(start: int, goal: int, edges: dict[int, set[int]], without: int | None = None) -> bool:
    seen, stack = set(), [start]
    while stack:
        node = stack.pop()
        if node == without or node in seen:
            continue
        if node == goal:
            return True
        seen.add(node)
        stack.extend(edges.get(node, ()))
    return False


def immediate_post_dominator(node: int, edges: dict[int, set[int]]) -> int:
    """By definition: of the nodes on every way to the end, the one that the others come after."""
    if not reaches(node, EXIT, edges):
        return EXIT
    strict = [p for p in edges if p != node and not reaches(node, EXIT, edges, without=p)]
    for candidate in strict:
        if all(not reaches(candidate, EXIT, edges, without=other) for other in strict if other != candidate):
            return candidate
    return EXIT


def first_instruction(graph: Graph, block: int) -> int:
    """Statement where control is when it enters a block, past empty ones."""
    while block != EXIT and not graph.blocks[block].instructions:
        (block,) = graph.blocks[block].successors
    return EXIT if block == EXIT else graph.blocks[block].instructions[0][0]


# --- properties -------------------------------------------------------------------------------


@pytest.mark.full
@settings(max_examples=150, deadline=None, derandomize=True)
@given(bodies(), st.sets(st.integers(0, 25)), st.sets(st.integers(0, 25)))
def test_blocks_are_the_statements(body: str, before: set[int], after: set[int]) -> None:
    """Every instruction is in one block, in order; edges are the statements'; cuts are where they were asked."""
    f = function(body)
    flow = successors(f)
    graph = control_flow(f, before.__contains__, after.__contains__)
    indices = [i for block in graph.blocks for i, _ in block.instructions]
    assert indices == sorted(flow)
    for number, block in enumerate(graph.blocks):
        assert block.index == number
        for (i, _), (j, _) in zip(block.instructions, block.instructions[1:], strict=False):
            assert flow[i] == {j}
            assert j not in before and i not in after
        if block.instructions:
            last = block.instructions[-1][0]
            assert {first_instruction(graph, s) for s in block.successors} == flow[last]
            if block.taken is not None and f.body[last].opcode != "bra":  # type: ignore[union-attr]
                assert block.taken == EXIT
        else:
            assert block.taken is None


@pytest.mark.full
@settings(max_examples=150, deadline=None, derandomize=True)
@given(bodies())
def test_post_dominators(body: str) -> None:
    graph = control_flow(function(body))
    edges = {block.index: set(block.successors) for block in graph.blocks}
    assert list(graph.ipdom) == [immediate_post_dominator(n, edges) for n in edges]


@pytest.mark.full
@settings(max_examples=150, deadline=None, derandomize=True)
@given(bodies())
def test_maybe_undefined(body: str) -> None:
    """A read counts if some path from the entry reaches it without an unguarded write."""
    f = function(body)
    flow = successors(f)
    expected: dict[int, set[str]] = {}
    entry = min(flow, default=EXIT)
    for name in [*REGISTERS, "p"]:
        seen, stack = set(), [entry]
        while stack:
            i = stack.pop()
            if i == EXIT or i in seen:
                continue
            seen.add(i)
            s = f.body[i]
            assert isinstance(s, Instruction)
            reads, writes = reads_and_writes(s)
            if name in reads:
                expected.setdefault(i, set()).add(name)
            if name not in writes or s.guard is not None:
                stack.extend(flow[i])
    assert maybe_undefined(f, control_flow(f)) == expected


def reads_and_writes(s: Instruction) -> tuple[set[str], set[str]]:
    """Of the three kinds of instruction that the random functions use."""
    names = [str(o).lstrip("%") for o in s.operands]
    reads = {"p"} if s.guard is not None else set()
    if s.opcode == "add":
        return reads | {names[1]}, {names[0]}
    return reads, {names[0]} if s.opcode == "mov" else set()


# --- examples ---------------------------------------------------------------------------------


def test_parameters_in_registers_have_values() -> None:
    text = """.version 8.0
    .target sm_90
    .address_size 64
    .func (.reg .u32 r) f(.reg .u32 x) { .reg .u32 y; add.u32 r, x, 1; add.u32 r, x, y; ret; }
    """
    (function,) = parse_module(text).functions
    assert list(maybe_undefined(function, control_flow(function)).values()) == [{"y"}]


def test_an_empty_function() -> None:
    graph = control_flow(Function("f"))
    assert [block.successors for block in graph.blocks] == [(EXIT,)]
    assert graph.ipdom == (EXIT,)


def test_a_diamond_reconverges_at_its_join() -> None:
    f = function(
        ".reg u32 a\n.reg pred p\n@p bra THEN\nmov.u32 a, 1\nbra JOIN\nTHEN:\nmov.u32 a, 2\nJOIN:\nmov.u32 a, 3\nret"
    )
    graph = control_flow(f)
    assert [b.successors for b in graph.blocks[:4]] == [(2, 1), (3,), (3,), (EXIT,)]
    assert graph.ipdom[:4] == (3, 3, 3, EXIT)


def test_an_endless_loop_reconverges_nowhere() -> None:
    graph = control_flow(function(".reg pred p\n@p bra LOOP\nret\nLOOP:\nbra LOOP"))
    assert graph.ipdom[0] == 1  # the only way to the end
    assert graph.ipdom[2] == EXIT


@pytest.mark.parametrize(
    ("end", "last"),
    [("@q exit", "ret"), ("@q ret", "ret"), ("@q bra END", "END:\nret"), ("@!q bra ON\nexit\nON:", "ret")],
)
def test_nobody_waits_for_threads_that_end(end: str, last: str) -> None:
    """Not all ways from the first branch lead to JOIN, but all that do not, end."""
    f = function(
        ".reg u32 a\n.reg pred p q\n@p bra JOIN\nmov.u32 a, 1\n"
        f"{end}\nmov.u32 a, 2\nJOIN:\nmov.u32 a, 3\n{last}"
    )
    graph = control_flow(f)
    join = next(b.index for b in graph.blocks if b.instructions and str(b.instructions[0][1]).endswith("3;"))
    assert graph.ipdom[0] != join
    assert reconvergence(graph, lambda i: i.opcode in ("ret", "exit"))[0] == join


@settings(max_examples=60, deadline=None)
@given(body=bodies())
def test_threads_that_return_are_waited_for(body: str) -> None:
    """Where a return is not the end of the thread, lanes meet at the immediate post-dominators."""
    graph = control_flow(function(body))
    assert reconvergence(graph, lambda i: False) == graph.ipdom


def test_a_branch_to_an_unknown_label() -> None:
    body = Kernel("bra NOWHERE\nNOWHERE:").module.functions[0].body[:1]
    with pytest.raises(TraceError, match="unknown label NOWHERE"):
        control_flow(Function("f", body=body))


def test_raw_text_has_no_flow() -> None:
    where = SourceLocation("k.py", 7)
    with pytest.raises(TraceError, match="raw PTX") as error:
        control_flow(Function("f", body=(Raw("nop;", where),)))
    assert error.value.location == where


def statements(text: str) -> Iterator[Instruction]:
    return function(text).instructions()


@pytest.mark.parametrize(("text", "reads", "writes"), [
    ("add.u32 a, b, 1", ["b"], ["a"]),
    ("@!p mad.lo.u32 a, a, b, c", ["p", "a", "b", "c"], ["a"]),
    ("setp.eq.u32 p|q, a, b", ["a", "b"], ["p", "q"]),
    ("elect.sync _|p, c", ["c"], ["p"]),
    ("st.global.v2.u32 [x+8], {a, 3}", ["x", "a"], []),
    ("ld.shared.v2.u32 {a, b}, [c]", ["c"], ["a", "b"]),
    ("mbarrier.arrive.shared::cta.b64 _, [c]", ["c"], []),
    ("mbarrier.try_wait.parity.shared::cta.b64 p, [c], a", ["c", "a"], ["p"]),
    ("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [a], [x, {s, 0}], [b]", ["a", "x", "s", "b"], []),
    ("tcgen05.mma.cta_group::1.kind::f16 [t], x, y, b, p", ["t", "x", "y", "b", "p"], []),
    ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {a, b}, [c]", ["c"], ["a", "b"]),
    ("selp.u32 a, b, c, p", ["b", "c", "p"], ["a"]),
    ("bra END", [], []),
    ("@p ret", ["p"], []),
])  # fmt: skip
def test_what_an_instruction_reads_and_writes(text: str, reads: list[str], writes: list[str]) -> None:
    (instruction,) = statements(
        f".reg u32 a b c\n.reg b32 t\n.reg s32 s\n.reg u64 x y\n.reg pred p q\n{text}\nEND:"
    )
    found = accesses(instruction)
    assert ([r.name for r in found[0]], [r.name for r in found[1]]) == (reads, writes)


@pytest.mark.parametrize(("body", "read"), [
    ("add.u32 b, a, 1", True),
    ("mov.u32 a, 1\nadd.u32 b, a, 1", False),
    ("@p mov.u32 a, 1\nadd.u32 b, a, 1", True),
    ("@p bra L\nmov.u32 a, 1\nL:\nadd.u32 b, a, 1", True),
    ("@p bra L\nmov.u32 a, 1\nL:\nmov.u32 a, 1\nadd.u32 b, a, 1", False),
])  # fmt: skip
def test_reads_after_a_write(body: str, read: bool) -> None:
    f = function(f".reg u32 a b\n.reg pred p\nmov.u32 a, 2\n{body}\nret")
    assert read_after(control_flow(f), 0, frozenset({"a"})) is read


@pytest.mark.parametrize(("position", "read"), [(0, True), (1, True), (2, False)])
def test_reads_from_a_statement_of_a_block(position: int, read: bool) -> None:
    graph = control_flow(function(".reg u32 a b\nmov.u32 b, 2\nadd.u32 b, a, 1\nmov.u32 a, b\nret"))
    assert read_from(graph, 0, frozenset({"a"}), position=position) is read
    assert not read_from(graph, EXIT, frozenset({"a"}))


@pytest.mark.parametrize(("body", "read"), [
    ("@p bra L\nL:", False),
    ("@p bra L\nmov.u32 a, 1\nL:", True),
    ("@p bra L\nbra M\nL:\nbra M\nmov.u32 a, 1\nM:", False),
    ("@p bra L\nbra M\nL:\nmov.u32 a, 1\nM:", True),
    ("@p bra L\n@q bra M\nL:\nM:", False),
    ("@p bra L\n@q bra M\nL:\nmov.u32 a, 1\nM:", True),
    ("L:\n@p bra L", True),
    ("@p bra L\nM:\nbra M\nL:", True),
    ("@p bra L\nL:\n@p mov.u32 a, 1", True),
    ("@p ret", True),
])  # fmt: skip
def test_a_branch_that_leads_to_one_place_reads_nothing(body: str, read: bool) -> None:
    f = function(f".reg u32 a\n.reg pred p q\nsetp.eq.u32 p, a, 0\n{body}\nret")
    assert read_after(control_flow(f), 0, frozenset({"p"})) is read
