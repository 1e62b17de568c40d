"""Lines in PTX text: ``.loc`` and inlined frames, comments, and that neither changes the machine code."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyptx.core.source import SourceLocation, comment_lines
from pyptx.core.types import TYPES
from pyptx.ir import (
    Address,
    Function,
    Instruction,
    Loc,
    Module,
    Param,
    Raw,
    Register,
    Symbol,
    parse_module,
    print_module,
    without_lines,
)
from pyptx.ir import File as FileDirective
from pyptx.toolchain import Tool, assemble, disassemble
from tests.examples.loading import load_example

from .roundtrip import contents

KERNEL = "/src/kernel.py"
HELPER = "/src/helper.py"

EXAMPLES = {
    "vector_add": lambda: load_example("hopper/vector_add.py").vector_add.module(N=256),
    "tma_copy": lambda: load_example("hopper/tma_copy.py").tma_copy.module(M=128, N=256),
    "wrong_address": lambda: load_example("hopper/wrong_address.py").double.module(),
    "probe": lambda: load_example("blackwell/tcgen05_mma_probe.py").probe.module(),
    "gemm": lambda: load_example("blackwell/gemm_highperf_blackwell.py").build_gemm(512, 512, 512).module(),
}


def at(line: int, *, file: str = KERNEL, function: str = "kernel", caller: Any = None) -> SourceLocation:
    return SourceLocation(file, line, function, caller)


def inlined(line: int, caller: SourceLocation, function: str = "helper") -> SourceLocation:
    return at(line, file=HELPER, function=function, caller=caller)


def stores(
    *sources: SourceLocation | None, version: tuple[int, int] = (8, 0), target: str = "sm_90a"
) -> Module:
    """A kernel that stores a register once for each source, four bytes apart."""
    pointer, value = Register("pointer", TYPES["u64"]), Register("value", TYPES["u32"])
    first = at(1)
    body: list[Any] = [
        Instruction("ld", ("param", "u64"), (pointer, Address(Symbol("p"))), None, first),
        Instruction("ld", ("volatile", "global", "u32"), (value, Address(pointer)), None, first),
    ]
    for index, source in enumerate(sources):
        operands = (Address(pointer, 4 * index), value)
        body.append(Instruction("st", ("volatile", "global", "u32"), operands, None, source))
    body.append(Instruction("ret", (), (), None, at(99)))
    param = Param("p", TYPES["u64"])
    function = Function("kernel", (param,), registers=(pointer, value), body=tuple(body))
    return Module(version, target, (function,))


def locs(module: Module) -> list[str]:
    """The ``.loc`` before each store of the printed text."""
    lines = print_module(module, lines=True).text.splitlines()
    return [line.partition("st.")[0].strip() for line in lines if "st.volatile" in line]


def places(module: Module, ptxas: Tool, nvdisasm: Tool) -> list[list[str]]:
    """For each STG of the machine code its line and callers, innermost first, as nvdisasm has them."""
    cubin = assemble(print_module(module, lines=True), ptxas=ptxas).cubin
    text = disassemble(cubin, nvdisasm=nvdisasm, options=("--print-code", "--print-line-info-inline"))
    found: list[list[str]] = []
    now: list[str] = []
    inside = False
    for line in text.splitlines():
        if marker := re.match(r'\s*//## File "[^"]*/([^"]*)", line (\d+)( inlined at)?', line):
            now = [*now] if inside else []
            now.append(f"{marker[1]}:{marker[2]}")
            inside = marker[3] is not None
        elif "STG" in line:
            found.append(now)
    return found


# --- the text -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_lines_keep_their_numbers(name: str) -> None:
    module = EXAMPLES[name]()
    plain, lined = print_module(module), print_module(module, lines=True)
    assert lined.lines == plain.lines
    given, expected = lined.text.splitlines(), plain.text.splitlines()
    for with_loc, without in zip(given, expected, strict=False):
        stripped = re.sub(r"\.loc \d+ \d+ 0(, function_name \$\w+, inlined_at \d+ \d+ 0)? ", "", with_loc)
        assert stripped == without
    assert all(not line or line.startswith((".file", ".section", "{", "}", "$", ".b8"))
               for line in given[len(expected) :])  # fmt: skip
    assert ".loc" in lined.text and ".loc" not in plain.text and ".file" not in plain.text


@pytest.mark.parametrize("name", EXAMPLES)
def test_reads_back_and_is_the_plain_module_without_lines(name: str) -> None:
    module = EXAMPLES[name]()
    text = print_module(module, lines=True).text
    back = parse_module(text)
    assert back != module and without_lines(back) == module
    assert parse_module(print_module(back).text) == back
    # It has lines of its own now, which are kept alone.
    assert print_module(back, lines=True).text == print_module(back).text


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", EXAMPLES)
def test_machine_code_is_the_same(name: str, ptxas: Tool, nvdisasm: Tool) -> None:
    module = EXAMPLES[name]()
    plain = contents(assemble(print_module(module), ptxas=ptxas).cubin, nvdisasm)
    for options in ({"lines": True}, {"annotate": True}, {"lines": True, "annotate": True}):
        text = print_module(module, **options)
        assert contents(assemble(text, ptxas=ptxas).cubin, nvdisasm) == plain


def test_only_changes_are_said() -> None:
    same = at(5)
    assert locs(stores(same, at(5), None, at(6))) == [".loc 1 5 0", "", "", ".loc 1 6 0"]


def test_inlined_frames() -> None:
    call, other = at(10), at(11)
    found = locs(stores(inlined(3, call), inlined(4, call), inlined(3, other), other))
    helper = "function_name $helper, inlined_at 1"
    assert found == [
        f".loc 1 10 0 .loc 2 3 0, {helper} 10 0",
        f".loc 2 4 0, {helper} 10 0",
        # Another call: the other number of the file, so that ptxas keeps the two apart.
        f".loc 1 11 0 .loc 3 3 0, {helper} 11 0",
        ".loc 1 11 0",
    ]
    files = [d for d in parse_module(print_module(stores(inlined(3, call), inlined(3, other)), lines=True).text)
             .directives if isinstance(d, FileDirective)]  # fmt: skip
    assert [(f.index, f.name) for f in files] == [(1, KERNEL), (2, HELPER), (3, HELPER)]


def test_names_of_functions_are_kept_and_apart() -> None:
    call = at(10)
    module = stores(*(inlined(n, call, name) for n, name in enumerate(("<lambda>", "_lambda_", "größe"), 1)))
    text = print_module(module, lines=True).text
    section = text[text.index(".section .debug_str") :]
    names = re.findall(r"(\$\w+):\n\.b8 ([\d, ]+), 0$", section, re.MULTILINE)
    decoded = {label: bytes(map(int, data.split(", "))).decode() for label, data in names}
    assert decoded == {"$_lambda_": "<lambda>", "$_lambda__1": "_lambda_", "$gr__e": "größe"}
    assert "function_name $_lambda__1," in text


def test_names_of_files_that_a_string_of_ptx_cannot_hold(ptxas: Tool) -> None:
    odd = at(2, file='/src/a"b/größe\\x.py')
    printed = print_module(stores(odd), lines=True)
    assert "/src/a'b/gr??e\\x.py\"" in printed.text
    assemble(printed, ptxas=ptxas)
    line = next(n for n, text in enumerate(printed.text.splitlines(), 1) if "st." in text)
    assert printed.source_of(line) is odd


@pytest.mark.parametrize("version", [(6, 3), (7, 1), (7, 2)])
def test_before_inlined_functions_the_innermost_line(version: tuple[int, int], ptxas: Tool) -> None:
    module = stores(inlined(3, at(10)), version=version, target="sm_75")
    (found,) = locs(module)
    assert found == (
        ".loc 1 10 0 .loc 2 3 0, function_name $helper, inlined_at 1 10 0"
        if version >= (7, 2)
        else ".loc 2 3 0"
    )
    assemble(print_module(module, lines=True), ptxas=ptxas)


def test_raw_text_has_its_line_too() -> None:
    module = stores(at(5))
    function = module.functions[0]
    raw = Raw("mov.u32 %value, 1;\nmov.u32 %value, 2;", at(7))
    changed = Module((8, 0), "sm_90a", (Function("kernel", function.params, registers=function.registers,
                                                 body=(raw, *function.body)),))  # fmt: skip
    text = print_module(changed, lines=True).text
    assert "    .loc 1 7 0 mov.u32 %value, 1;\n    mov.u32 %value, 2;\n    .loc 1 1 0 ld.param" in text


def test_without_lines_drops_nothing_else() -> None:
    module = stores(at(5), at(6))
    function = module.functions[0]
    marked = Module(
        module.version,
        module.target,
        (
            Function(
                function.name,
                function.params,
                registers=function.registers,
                body=(Loc(1, 2, 3), *function.body[:3], Loc(1, 4, 0), *function.body[3:]),
            ),
        ),
        directives=(FileDirective(1, "a.py"),),
    )
    assert marked != module and without_lines(marked) == module == without_lines(module)


# --- comments -------------------------------------------------------------------------------------


def test_comments_are_the_frames_that_changed() -> None:
    call = at(10)
    deep = inlined(7, inlined(4, call), "deep")
    assert comment_lines(deep, None) == ["kernel.py:10", "  helper.py:4", "    helper.py:7"]
    assert comment_lines(inlined(5, call), deep) == ["  helper.py:5"]
    assert comment_lines(at(11), deep) == ["kernel.py:11"]
    assert comment_lines(call, deep) == ["kernel.py:10"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_annotated_text_is_the_same_module(name: str) -> None:
    module = EXAMPLES[name]()
    printed = print_module(module, annotate=True)
    assert parse_module(printed.text) == module
    rows = printed.text.splitlines()
    for number, statement in printed.lines.items():
        assert rows[number - 1].strip() == str(statement)
    comments = [row.strip() for row in rows if row.strip().startswith("// ")]
    for source in {s.source for s in module.functions[0].body if s.source is not None}:
        assert any(c.lstrip("/ ") == f"{source.short}: {source.text}" for c in comments)


# --- what nvdisasm reads in the cubin -------------------------------------------------------------


@pytest.mark.full
def test_calls_in_calls(ptxas: Tool, nvdisasm: Tool) -> None:
    first, second = at(10), at(11)
    module = stores(
        inlined(7, inlined(4, first), "deep"),
        inlined(8, inlined(4, first), "deep"),
        inlined(9, inlined(4, second), "deep"),
        inlined(5, second),
        at(12),
    )
    assert places(module, ptxas, nvdisasm) == [
        ["helper.py:7", "helper.py:4", "kernel.py:10"],
        ["helper.py:8", "helper.py:4", "kernel.py:10"],
        ["helper.py:9", "helper.py:4", "kernel.py:11"],
        ["helper.py:5", "kernel.py:11"],
        ["kernel.py:12"],
    ]


@pytest.mark.full
def test_neighbors_on_one_line_called_from_several(ptxas: Tool, nvdisasm: Tool) -> None:
    found = places(stores(*(inlined(7, at(10 + n)) for n in range(4))), ptxas, nvdisasm)
    assert found == [["helper.py:7", f"kernel.py:{10 + n}"] for n in range(4)]


@pytest.mark.full
def test_back_to_an_earlier_call(ptxas: Tool, nvdisasm: Tool) -> None:
    first, second = inlined(4, at(10)), inlined(4, at(11))
    module = stores(*(inlined(7 + n, call, "deep") for n, call in enumerate((first, second, first))))
    assert [p[-1] for p in places(module, ptxas, nvdisasm)] == [
        "kernel.py:10",
        "kernel.py:11",
        "kernel.py:10",
    ]


@pytest.mark.full
def test_recursion(ptxas: Tool, nvdisasm: Tool) -> None:
    """ptxas leaves out a frame on the line of its caller."""
    once = inlined(4, at(10))
    thrice = inlined(4, inlined(4, once))
    module = stores(inlined(5, once), inlined(6, thrice), inlined(7, once), inlined(5, once))
    assert locs(module)[1].count("inlined_at") == 4
    found = places(module, ptxas, nvdisasm)
    assert found == [[f"helper.py:{line}", "helper.py:4", "kernel.py:10"] for line in (5, 6, 7, 5)]


@pytest.mark.full
def test_sass_with_lines_as_comments(ptxas: Tool, nvdisasm: Tool) -> None:
    cubin = assemble(print_module(stores(inlined(7, at(10)), at(12)), lines=True), ptxas=ptxas).cubin
    plain = disassemble(cubin, nvdisasm=nvdisasm)
    lined = disassemble(cubin, nvdisasm=nvdisasm, lines=True)
    assert [
        row for row in lined.splitlines() if "// kernel.py:" not in row and "//   helper.py" not in row
    ] == (plain.splitlines())
    rows = [row.strip() for row in lined.splitlines() if "// " in row or "STG" in row]
    first = next(n for n, row in enumerate(rows) if "STG" in row)
    assert rows[first - 1] == "//   helper.py:7" and rows[first + 1] == "// kernel.py:12"
    without = assemble(print_module(stores(at(10))), ptxas=ptxas).cubin
    assert disassemble(without, nvdisasm=nvdisasm, lines=True) == disassemble(without, nvdisasm=nvdisasm)
