"""ptxas really run: cubins, resource reports, warnings, notes, and refusals at the author's lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyptx.core.errors import AssembleError, TargetError
from pyptx.core.source import SourceLocation
from pyptx.core.types import TYPES
from pyptx.ir import nodes, parse_module
from pyptx.ir.printer import print_module
from pyptx.toolchain import PtxRejectedError, Tool, assemble, check_text, disassemble, machine_instructions
from pyptx.toolchain.ptxas import target_of

from . import texts


def test_assembles(ptxas: Tool) -> None:
    done = assemble(texts.COPY)
    assert done.cubin.startswith(b"\x7fELF")
    assert done.target == "sm_90a" and done.ptxas == ptxas
    (resources,) = done.resources
    assert resources.function == "k" and resources.entry and resources.registers > 0
    assert (resources.shared, resources.barriers) == (64, 1)
    assert (done.spills, done.warnings, done.notes) == (0, (), ())


def test_spills_are_counted_and_warned_of(ptxas: Tool) -> None:
    done = assemble(texts.SPILLS, ptxas=ptxas)
    (resources,) = done.resources
    assert resources.registers == 64
    assert min(resources.spill_stores, resources.spill_loads, resources.stack) > 0
    assert done.spills == resources.spill_stores + resources.spill_loads
    assert any("spilled" in m.text for m in done.warnings)


def test_dropped_setmaxnreg_is_a_note(ptxas: Tool) -> None:
    done = assemble(texts.DROPPED_SETMAXNREG, ptxas=ptxas)
    assert [m.code for m in done.notes] == ["C7508"]
    assert done.warnings == ()


def test_repaired_wgmma_is_a_note_with_its_line(ptxas: Tool) -> None:
    (note,) = assemble(texts.TOUCHED_BEFORE_WAIT, ptxas=ptxas).notes
    assert note.code == "C7517" and note.line is not None
    assert "add.f32" in texts.TOUCHED_BEFORE_WAIT.splitlines()[note.line - 1]


def test_warning_with_line(ptxas: Tool) -> None:
    (warning,) = assemble(texts.WARNS, ptxas=ptxas).warnings
    assert ".minnctapersm is ignored" in warning.text and warning.line is not None


def test_device_function_is_reported_apart(ptxas: Tool) -> None:
    report = assemble(texts.DEVICE_FUNCTION, ptxas=ptxas).report
    assert report.of("k").entry and not report.of("dev").entry


def test_check_text_reports_every_error_and_never_raises(ptxas: Tool) -> None:
    report = check_text(texts.ERRORS, ptxas=ptxas)
    found = {(m.line, m.text) for m in report.errors}
    assert found == {
        (8, "Arguments mismatch for instruction 'add'"),
        (9, "Arguments mismatch for instruction 'mov'"),
        (9, "Unknown symbol '%undefined'"),
        (10, "Unknown symbol 'NOWHERE'"),
    }
    assert check_text(texts.COPY, ptxas=ptxas).ok


@pytest.mark.parametrize(
    "text", ["", "hello", ".version 99.0\n.target sm_90a\n", texts.HEADER.format(target="sm_999"), "\x00é"]
)
def test_check_text_takes_any_text(ptxas: Tool, text: str) -> None:
    report = check_text(text, ptxas=ptxas)
    assert not report.ok and not report.notes


def test_virtual_target_checks_but_cannot_assemble(ptxas: Tool) -> None:
    assert check_text(texts.COPY, "compute_90a", ptxas=ptxas).ok
    assert not check_text(texts.ERRORS, "compute_90a", ptxas=ptxas).ok
    with pytest.raises(TargetError, match="no cubin for 'compute_90a'"):
        assemble(texts.COPY, "compute_90a", ptxas=ptxas)


def test_target_of_the_call_wins(ptxas: Tool) -> None:
    text = texts.kernel(target="sm_90")
    assert assemble(text, "sm_100", ptxas=ptxas).target == "sm_100"


def test_target_of() -> None:
    assert target_of(".version 8.6\n  .target sm_100a, debug\n") == "sm_100a"
    assert target_of("// .target sm_90\n") is None


def test_options_reach_ptxas(ptxas: Tool) -> None:
    plain, debug = (assemble(texts.COPY, ptxas=ptxas, options=o).cubin for o in ((), ("-lineinfo",)))
    assert len(debug) > len(plain)
    with pytest.raises(AssembleError, match="Unknown option"):
        assemble(texts.COPY, ptxas=ptxas, options=("--no-such-option",))


def test_refusal_of_a_plain_text_shows_the_ptx_lines(ptxas: Tool) -> None:
    with pytest.raises(AssembleError) as caught:
        assemble(texts.ERRORS, ptxas=ptxas)
    said = str(caught.value)
    assert f"ptxas {ptxas.version_text} for sm_90a refused the PTX text: 4 errors" in said
    assert "PTX line 8: add.u32 %r, %f0, %r;" in said
    assert __file__ in said


def test_refusal_after_code_generation(ptxas: Tool) -> None:
    with pytest.raises(AssembleError, match="too much shared data"):
        assemble(texts.SHARED_TOO_LARGE, ptxas=ptxas)


def test_syntax_error(ptxas: Tool) -> None:
    with pytest.raises(AssembleError, match="PTX line 7: add.u32 %r %r;"):
        assemble(texts.SYNTAX_ERROR, ptxas=ptxas)


def _author_line() -> SourceLocation:
    frame = sys._getframe(1)
    return SourceLocation(__file__, frame.f_lineno, frame.f_code.co_name)


def _module(*body: nodes.Statement) -> nodes.Module:
    r, f = nodes.Register("r", TYPES["u32"]), nodes.Register("f", TYPES["f32"])
    end = nodes.Instruction("ret")
    return nodes.Module((8, 6), "sm_100a", (nodes.Function("k", registers=(r, f), body=(*body, end)),))


def test_refusal_of_a_recording_shows_the_python_lines(ptxas: Tool) -> None:
    r, f = nodes.Register("r", TYPES["u32"]), nodes.Register("f", TYPES["f32"])
    first = nodes.Instruction("add", ("u32",), (r, f, r), source=_author_line())
    second = nodes.Raw("mov.u32 %r, 1;\nmov.u32 %r, %nothing;", source=_author_line())
    with pytest.raises(AssembleError) as caught:
        assemble(print_module(_module(first, second)), ptxas=ptxas)
    error = caught.value
    assert error.location == first.source
    assert first.source is not None and second.source is not None
    said = str(error)
    assert f"recorded at {first.source}: first = nodes.Instruction(" in said
    assert f"recorded at {second.source}: second = nodes.Raw(" in said
    assert "mov.u32 %r, %nothing;" in said


def test_many_errors_are_cut_in_the_text_and_kept_in_messages(ptxas: Tool) -> None:
    text = texts.kernel(*["bra NOWHERE;"] * 25)
    with pytest.raises(PtxRejectedError, match=r"25 errors(.|\n)*and 15 more, in \.messages") as caught:
        assemble(text, ptxas=ptxas)
    assert len(caught.value.messages) == 25


def _fake(folder: Path, script: str) -> Path:
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo 'release 1.2, V1.2.3' && exit 0\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_ptxas_that_hangs_is_stopped(tmp_path: Path) -> None:
    fake = _fake(tmp_path, "exec sleep 60")
    (error,) = check_text(texts.COPY, ptxas=fake, timeout=0.2).errors
    assert "no result within 0.2 s" in error.text
    with pytest.raises(AssembleError, match="no result within"):
        assemble(texts.COPY, ptxas=fake, timeout=0.2)


def test_a_ptxas_that_crashes_is_an_error(tmp_path: Path) -> None:
    report = check_text(texts.COPY, ptxas=_fake(tmp_path, "echo half a word >&2; kill -SEGV $$"))
    assert [m.text for m in report.errors] == ["ptxas exited with status -11 and printed no error"]
    assert [m.text for m in report.notes][:1] == ["half a word"]


def test_sass(ptxas: Tool, nvdisasm: Tool) -> None:
    assert "STG.E" in disassemble(assemble(texts.COPY, ptxas=ptxas).cubin, nvdisasm=nvdisasm)


def test_sass_of_something_else(nvdisasm: Tool) -> None:
    with pytest.raises(AssembleError, match="cannot disassemble an image of 6 bytes"):
        disassemble(b"no ELF", nvdisasm=nvdisasm)


def test_machine_instructions_have_function_opcode_and_line(ptxas: Tool, nvdisasm: Tool) -> None:
    text = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry first(.param .u64 A) {\n"
        ".reg .b64 %d; .reg .b32 %r; .reg .pred %p;\nld.param.u64 %d, [A];\nmov.u32 %r, %tid.x;\n"
        "setp.eq.u32 %p, %r, 7;\n@%p st.global.u32 [%d], %r;\nret;\n}\n.visible .entry second() { ret; }\n"
    )
    cubin = assemble(print_module(parse_module(text, "k.ptx"), lines=True)).cubin
    found = machine_instructions(cubin, nvdisasm=nvdisasm)
    assert {each.function for each in found} == {"first", "second"}
    (store,) = [each for each in found if each.opcode.partition(".")[0] == "STG"]
    assert store.function == "first" and store.location is not None
    assert (store.location.file.rsplit("/", 1)[-1], store.location.line) == ("k.ptx", 9)
