"""The reader against lines recorded from ptxas 13.0 and 13.5 and from the JIT of driver 580.159 (H200)."""

from __future__ import annotations

import pytest

from pyptx.toolchain import Message, Resources, read_report

PTXAS_SPILL = """\
ptxas warning : Registers are spilled to local memory in function 'spill', \
1512 bytes spill stores, 1560 bytes spill loads
ptxas info    : 100 bytes gmem
ptxas info    : Compiling entry function 'spill' for 'sm_90a'
ptxas info    : Function properties for spill
    1464 bytes stack frame, 1512 bytes spill stores, 1560 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 1464 bytes cumulative stack size, 64 bytes smem
ptxas info    : Compile time = 150.863 ms
"""

JIT_NOTE = """\
ptxas application ptx input, line 9; warning : Vector Type not specified properly
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; \
unable to determine register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 2 barriers, 64 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 0.406 ms"""

SEVERAL_ERRORS = """\
ptxas kernel.ptx, line 9; error   : Arguments mismatch for instruction 'add'
ptxas kernel.ptx, line 14; warning : .minnctapersm is ignored when neither .maxntid nor .reqntid is specified.
ptxas kernel.ptx, line 11; error   : Unknown symbol '%undefined'
ptxas fatal   : Ptx assembly aborted due to errors
"""


def test_spills() -> None:
    report = read_report(PTXAS_SPILL)
    spill = Resources(
        "spill", True, 64, spill_stores=1512, spill_loads=1560, stack=1464, shared=64, barriers=1
    )
    assert report.resources == (spill,)
    assert spill.spills == 1512 + 1560
    assert report.global_memory == 100
    (warning,) = report.messages
    assert warning.severity == "warning" and "spilled" in warning.text
    assert report.ok and report.of("spill") is report.resources[0]


def test_jit_log_with_note() -> None:
    report = read_report(JIT_NOTE)
    assert report.resources == (Resources("k", True, 4, shared=64, constant=368, barriers=2),)
    warning, note = report.messages
    assert warning == Message("warning", "Vector Type not specified properly", 9)
    assert (note.severity, note.code, note.line) == ("info", "C7508", None)
    assert note.text.startswith("Potential Performance Loss")
    assert report.warnings == (warning,) and report.notes == (note,)


def test_several_errors_in_printed_order_without_the_closing_line() -> None:
    report = read_report(SEVERAL_ERRORS)
    assert [(m.severity, m.line) for m in report.messages] == [("error", 9), ("warning", 14), ("error", 11)]
    assert [m.line for m in report.errors] == [9, 11]
    assert not report.ok


def test_closing_line_is_kept_when_it_is_all_there_is() -> None:
    assert not read_report("ptxas fatal   : Ptx assembly aborted due to errors\n").ok


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (
            "ptxas application ptx input, line 7; fatal   : Parsing error near '%r': syntax error",
            Message("fatal", "Parsing error near '%r': syntax error", 7),
        ),
        (
            "ptxas fatal   : Unresolved extern function 'e'",
            Message("fatal", "Unresolved extern function 'e'", function="e"),
        ),
        (
            "ptxas error   : Entry function 'k' uses too much shared data (0x49420 bytes, 0x38c00 max)",
            Message(
                "error",
                "Entry function 'k' uses too much shared data (0x49420 bytes, 0x38c00 max)",
                function="k",
            ),
        ),
        (
            "ptxas warning : Too many maxnreg specified for entry roles, will be ignored",
            Message(
                "warning", "Too many maxnreg specified for entry roles, will be ignored", function="roles"
            ),
        ),
        (
            "error   : Binary format for key='0', ident='' is not recognized",
            Message("error", "Binary format for key='0', ident='' is not recognized"),
        ),
        (
            "ptxas fatal   : Unexpected non-ASCII character encountered on line 4",
            Message("fatal", "Unexpected non-ASCII character encountered on line 4", 4),
        ),
        (
            "ptxas info    : (C7517) warpgroup.wait is injected in around line 44 by compiler to allow use of"
            " registers defined by GMMA in function 'k'",
            Message(
                "info",
                "warpgroup.wait is injected in around line 44 by compiler to allow use of registers defined"
                " by GMMA in function 'k'",
                44,
                "C7517",
                function="k",
            ),
        ),
        (
            "ptxas odd, name.ptx, line 12; error   : Unknown symbol 'x'",
            Message("error", "Unknown symbol 'x'", 12),
        ),
        (
            "nvdisasm fatal   : File x does not appear to be an Elf file",
            Message("fatal", "File x does not appear to be an Elf file"),
        ),
    ],
)
def test_one_line(printed: str, expected: Message) -> None:
    assert read_report(printed).messages == (expected,)


def test_unknown_lines_are_kept_as_notes() -> None:
    report = read_report("Segmentation fault\n\nptxas info    : something new\n")
    assert [m.text for m in report.notes] == ["Segmentation fault", "something new"]


def test_device_function_has_no_register_count() -> None:
    report = read_report(
        "ptxas info    : Function properties for dev\n"
        "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
    )
    assert report.resources == (Resources("dev", False, 0, spill_stores=12, spill_loads=8, stack=16),)


def test_unknown_function_names_what_there_is() -> None:
    with pytest.raises(KeyError, match=r"'spill'"):
        read_report(PTXAS_SPILL).of("other")


def test_message_shows_line_and_code() -> None:
    assert str(Message("info", "text", 3, "C7517")) == "info: PTX line 3: (C7517) text"
