"""Python lines from a kernel's recording to ptxas, the driver, the simulator, and people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any
from unittest import mock

import numpy as np
import pytest

import pyptx.kit
from pyptx.core.errors import AssembleError, InstructionError, SpecError
from pyptx.core.source import SourceLocation
from pyptx.core.types import u32
from pyptx.dsl import Reg, Tile, TileParam, ptx, reg, smem
from pyptx.entry import Kernel, kernel
from pyptx.ir import Instruction
from pyptx.toolchain import Tool, ToolReport, read_report

pytestmark = pytest.mark.smoke


def put(address: Any, value: Any) -> None:
    ptx.inst.st.volatile.global_.u32(ptx.addr(address), value)  # put


def put_plainly(address: Any, value: Any) -> None:
    ptx.inst.st.global_.u32(ptx.addr(address), value)  # put plainly


def put_twice(address: Any, value: Any) -> None:
    put(address, value)  # first
    put(address, value)  # second


@contextmanager
def stored_before(address: Any) -> Iterator[None]:
    put(address, 8)  # before
    yield


def made(body: Any, arch: str = "sm_90a") -> Kernel:
    """A kernel of one output with 32 words."""
    return kernel(out_specs=(Tile(32, u32),), grid=1, block=32, arch=arch, name="k")(body)


def lines_of(body: Any, opcode: str = "st") -> list[list[str]]:
    """For each instruction its line and callers, innermost first, by the comments at their ends."""
    return [
        [f"{place.function}: {place.text.rpartition('# ')[2]}" for place in chain_of(statement.source)]
        for statement in made(body).module().functions[0].instructions()
        if statement.opcode == opcode
    ]


def chain_of(source: SourceLocation | None) -> tuple[SourceLocation, ...]:
    assert source is not None
    return source.chain


# --- what a recording keeps -----------------------------------------------------------------------


def test_the_calls_that_led_to_an_instruction() -> None:
    def body(D: TileParam) -> None:
        ptx.inst.st.global_.u32(ptx.addr(D.ptr), 1)  # plain
        put(D.ptr, 2)  # call
        put_twice(D.ptr, 3)  # twice

    assert lines_of(body) == [
        ["body: plain"],
        ["put: put", "body: call"],
        ["put: put", "put_twice: first", "body: twice"],
        ["put: put", "put_twice: second", "body: twice"],
    ]


def test_a_comprehension_belongs_to_its_function() -> None:
    def body(D: TileParam) -> None:
        [
            put(D.ptr, i)  # element
            for i in range(2)
        ]
        tuple(put(D.ptr, i) for i in range(1))  # generator

    assert lines_of(body) == [["put: put", "body: element"]] * 2 + [["put: put", "body: generator"]]


def test_lambdas_and_context_managers_are_functions() -> None:
    def body(D: TileParam) -> None:
        write = lambda value: put(D.ptr, value)  # noqa: E731 # lambda
        write(1)  # call
        with stored_before(D.ptr):  # with
            pass

    assert lines_of(body) == [
        ["put: put", "<lambda>: lambda", "body: call"],
        ["put: put", "stored_before: before", "body: with"],
    ]


def test_pyptx_itself_is_left_out() -> None:
    """A function of ``pyptx.kit``, which calls back a function of the author's."""
    source = "def helper(call, address):\n    ptx.inst.st.global_.u32(ptx.addr(address), 1)\n    call()\n"
    code = compile(source, pyptx.kit.__file__, "exec")
    scope: dict[str, Any] = {"ptx": ptx}
    exec(code, scope)

    def body(D: TileParam) -> None:
        scope["helper"](lambda: put(D.ptr, 2), D.ptr)  # kit

    assert lines_of(body) == [["body: kit"], ["put: put", "<lambda>: kit", "body: kit"]]


def test_the_prologue_is_of_the_def() -> None:
    def body(
        D: TileParam,
    ) -> None:
        put(D.ptr, 1)

    module = made(body).module()
    found = next(module.functions[0].instructions())
    assert found.opcode == "ld" and chain_of(found.source)[0].text == "def body("
    assert chain_of(module.functions[0].source) == chain_of(found.source)


def test_files_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "relative.py").write_text("")
    monkeypatch.chdir(tmp_path)

    def body_in(filename: str) -> str:
        source = "def body(D):\n    ptx.inst.st.global_.u32(ptx.addr(D.ptr), 1)\n"
        scope: dict[str, Any] = {"ptx": ptx}
        code: CodeType = compile(source, filename, "exec")
        exec(code, scope)
        statements = made(scope["body"]).module().functions[0].instructions()
        return next(chain_of(s.source)[0].file for s in statements if s.opcode == "st")

    assert body_in("relative.py") == str(tmp_path / "relative.py")
    assert body_in("<stdin>") == "<stdin>"


def test_one_site_has_one_location() -> None:
    def body(D: TileParam) -> None:
        for _ in range(3):
            put(D.ptr, 1)

    statements = made(body).module().functions[0].instructions()
    assert len({id(s.source) for s in statements if s.opcode == "st"}) == 1


# --- text, assembly, machine code -----------------------------------------------------------------


def sample(D: TileParam) -> None:
    put(D.ptr, 1)  # call
    put_twice(D.ptr, 2)  # twice


def test_plain_by_default() -> None:
    k = made(sample)
    plain, lined, annotated = k.ptx(), k.ptx(lines=True), k.ptx(annotate=True)
    assert plain == k.printed().text and "//" not in plain and ".loc" not in plain
    assert ".loc" in lined and "//" not in lined and __file__ in lined
    assert "// test_lines.py:" in annotated and ".loc" not in annotated
    both = k.ptx(lines=True, annotate=True).splitlines()
    assert [row for row in both if not row.lstrip().startswith("//")] == lined.splitlines()


def test_annotated() -> None:
    text = made(sample).ptx(annotate=True)
    rows = [re.sub(r":\d+:", ":", row) for row in text.splitlines()]
    start = rows.index("    // test_lines.py: put(D.ptr, 1)  # call")
    store = "    // test_lines.py: ptx.inst.st.volatile.global_.u32(ptx.addr(address), value)  # put"
    assert rows[start + 1 : start + 7] == [
        store.replace("// ", "//   "),
        "    st.volatile.global.u32 [%D_ptr], 1;",
        "    // test_lines.py: put_twice(D.ptr, 2)  # twice",
        "    //   test_lines.py: put(address, value)  # first",
        store.replace("// ", "//     "),
        "    st.volatile.global.u32 [%D_ptr], 2;",
    ]


def test_a_cubin_with_and_without_lines(ptxas: Tool, nvdisasm: Tool) -> None:
    k = made(sample)
    lined, plain = k.assemble(), k.assemble(lines=False)
    assert b"test_lines.py" in lined.cubin and b"test_lines.py" not in plain.cubin
    assert k.assemble(lines=True) is lined and k.assemble(lines=False) is plain
    assert lined.resources == plain.resources
    assert lined.registers == lined.resources[0].registers > 0 and lined.shared == lined.spills == 0


@pytest.mark.full
def test_sass_with_lines(ptxas: Tool, nvdisasm: Tool) -> None:
    k = made(sample)
    plain, lined = k.sass(), k.sass(lines=True)
    assert "STG" in plain and "test_lines.py" not in plain
    assert [row for row in lined.splitlines() if "// test_lines.py" not in row and "//   " not in row] == [
        row for row in plain.splitlines() if "//   " not in row
    ]
    assert "put(D.ptr, 1)  # call" in lined and "//     test_lines.py:" in lined


def test_keywords_of_methods_are_not_constants() -> None:
    with pytest.raises(SpecError, match="a constant cannot be called 'annotate'"):

        @kernel(grid=1, block=32)
        def k(*, annotate: bool) -> None: ...

    with pytest.raises(SpecError, match="a constant cannot be called 'seeds'"):

        @kernel(grid=1, block=32)
        def other(*, seeds: int) -> None: ...


def test_the_driver_gets_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyptx.core.arrays import describe
    from pyptx.entry import gpu
    from pyptx.entry.arguments import KernelArguments

    given: list[Any] = []
    plan = mock.Mock()
    monkeypatch.setattr(gpu, "load", lambda printed, entry, **options: given.append(printed))
    monkeypatch.setattr(gpu, "make_plan", lambda *arguments: plan)
    monkeypatch.setattr(gpu, "entry", lambda *arguments: None)
    k = made(sample)
    array = np.zeros(32, np.uint32)
    arguments = KernelArguments((array,), (describe(array),), (array,), False)
    gpu.launch(k.specialize(), k.options, arguments, 0, 5)
    plan.assert_called_once_with([array.ctypes.data], 5)
    (printed,) = given
    assert printed.text == k.ptx(lines=True) and printed.lines == k.printed().lines


# --- messages -------------------------------------------------------------------------------------


def refused(address: Any) -> None:
    ptx.raw("st.global.u23 [%D_ptr], 1;")  # refused


def calls_refused(D: TileParam) -> None:
    put(D.ptr, 1)
    refused(D.ptr)  # from here


def test_ptxas_errors_name_the_line_and_the_call(ptxas: Tool) -> None:
    k = made(calls_refused)
    with pytest.raises(AssembleError) as caught:
        k.assemble()
    chain = chain_of(caught.value.location)
    assert [place.text.rpartition("# ")[2] for place in chain] == ["refused", "from here"]
    row = next(n for n, text in enumerate(k.ptx().splitlines(), 1) if "u23" in text)
    assert f"    PTX line {row}: st.global.u23 [%D_ptr], 1;\n    recorded at {chain[0]}:" in str(caught.value)
    assert f"\n        called from {chain[1]}: refused(D.ptr)  # from here" in str(caught.value)


def test_notes_of_lost_speed_are_kept(ptxas: Tool) -> None:
    def body(D: TileParam) -> None:
        put(D.ptr, 1)
        ptx.inst.setmaxnreg.inc.sync.aligned.u32(64)

    assembly = made(body).assemble()
    assert [note.code for note in assembly.notes] == ["C7508"] and not assembly.warnings


def test_warnings_name_the_line(monkeypatch: pytest.MonkeyPatch, ptxas: Tool) -> None:
    """ptxas warns of few lines: here it is made to, of one that a helper recorded."""
    from pyptx.toolchain import ptxas as running

    k = made(sample)
    row = next(n for n, text in enumerate(k.ptx().splitlines(), 1) if "st." in text)

    def said(printed: str) -> ToolReport:
        return read_report(f"ptxas kernel.ptx, line {row}; warning : an imitation\n{printed}")

    monkeypatch.setattr(running, "read_report", said)
    (warning,) = k.assemble().warnings
    first, second = chain_of(warning.source)
    assert (first.function, second.function) == ("put", "sample")
    assert str(warning).startswith(f"warning: PTX line {row}: an imitation\n    recorded at {first}: ")
    assert str(warning).endswith(f"\n        called from {second}: put(D.ptr, 1)  # call")


def test_an_error_of_a_call_names_the_calls() -> None:
    def wrong() -> None:
        ptx.inst.mov.u23(reg.scalar(u32), 1)  # wrong

    def body(D: TileParam) -> None:
        wrong()  # called

    with pytest.raises(InstructionError) as caught:
        made(body).ptx()
    assert [place.text.rpartition("# ")[2] for place in chain_of(caught.value.location)] == [
        "wrong",
        "called",
    ]
    assert re.search(r"  at:   .*# wrong\n        called from .*: wrong\(\)  # called$", str(caught.value))


def test_outside_a_recording_there_are_no_callers() -> None:
    def unknown() -> None:
        made(sample).ptx(N=1)  # here

    with pytest.raises(SpecError) as caught:
        unknown()
    (place,) = chain_of(caught.value.location)
    assert place.text.endswith("# here") and place.function == "unknown"


def test_findings_name_the_line_and_the_call() -> None:
    def body(D: TileParam) -> None:
        put_plainly(D.ptr + 128, 1)  # past the end

    report = made(body).simulate()
    assert report.verdict == "error"
    chain = chain_of(report.findings[0].location)
    assert [place.text.rpartition("# ")[2] for place in chain] == ["put plainly", "past the end"]
    assert re.search(r"  at:     .*# put plainly\n          called from .*# past the end\n", str(report))


def wait_for(barrier: Any) -> None:
    ptx.mbarrier.wait(barrier, 0)  # waits


def test_deadlocks_name_the_line_and_the_call() -> None:
    def body(D: TileParam) -> None:
        barrier = smem.alloc(8, align=8)
        with ptx.if_(ptx.special.tid.x() == 0):
            ptx.mbarrier.init(barrier, 1)  # init
            wait_for(barrier)  # from here

    report = made(body).simulate()
    assert report.verdict == "error" and report.findings[0].rule.name == "deadlock", str(report)
    texts = [place.text.rpartition("# ")[2] for place in chain_of(report.findings[0].location)]
    assert texts == ["waits", "from here"]
    assert "called from" in str(report)


def test_every_instruction_has_a_line() -> None:
    def body(D: TileParam) -> None:
        total: Reg = ptx.special.tid.x() + 1
        with ptx.for_(0, 4) as i:
            total += i
        put(D.ptr, total)

    statements = made(body).module().functions[0].body
    assert all(s.source is not None for s in statements if isinstance(s, Instruction))
