"""Text that is not PTX: one class of error, that says where and what; nothing else, and always an answer."""

from __future__ import annotations

import random
import re

import pytest

from pyptx.core.errors import ParseError
from pyptx.ir import parse_module, print_module
from tests.counting import calls_in

from .corpus.texts import cuda_text
from .forms import HEADER, MODULES, kernel

SEED = 20261121
#: Mutated texts, 10,000 together: of every piece of `forms`, of functions from a compiler, of its whole output.
PIECES, FUNCTIONS, WHOLE = 7_400, 2_500, 100
_FUNCTION = re.compile(r"^(?:\.\w+ )*\.(?:func|entry)\b", re.MULTILINE)
_WORD = re.compile(r"\s+|[\w$%.:]+|\S")


@pytest.mark.parametrize(
    "text, line, column, read, expected",
    [
        ("", 1, 1, "the end of the text", ".version at the start"),
        (".version x", 1, 10, "'x'", "a version such as 8.6"),
        (".version 8.6\n.entry k {}", 2, 1, "'.entry'", ".target after .version"),
        (HEADER + "mov.u32 a, b;", 4, 1, "'mov.u32'", "a declaration, a function or a directive"),
        (HEADER + ".entry k()\n{ ret }", 5, 7, "'}'", "an operand"),
        (HEADER + ".entry k()\n{ ret;", 5, 7, "the end of the text", "a statement or '}'"),
        (HEADER + ".entry k()\n{ @%p ret; }", 5, 4, "'%p'", "a declared predicate register"),
        (HEADER + ".entry k()\n{ .reg .b33 %r; }", 5, 8, "'.b33'", "a type such as .b32"),
        (HEADER + ".entry k()\n{ .reg .b32 %r, %r; }", 5, 17, "'%r'", "a name that is not declared yet"),
        (HEADER + ".entry k()\n{ L: L: ret; }", 5, 6, "'L'", "a label that is not defined yet"),
        (HEADER + ".entry k()\n{ add.u32 1 2; }", 5, 13, "'2'", "',' or ';'"),
        (HEADER + ".entry k()\n{ ld.u32 {_, ], 3; }", 5, 14, "']'", "an operand"),
        (HEADER + ".entry k()\n{ ld.u32 _, [; }", 5, 14, "';'", "an address"),
        (HEADER + ".entry k()\n{ mov.u32 _, 1/0; }", 5, 16, "'0'", "a divisor that is not zero"),
        (HEADER + ".entry k()\n{ mov.u32 _, 99999999999999999999; }", 5, 14, "'999", "at most 64 bits"),
        (HEADER + ".entry k()\n{ mov.u32 _, 089; }", 5, 14, "'089'", "an integer"),
        (HEADER + ".entry k()\n{ mov.f32 _, 0f3F80; }", 5, 15, "'f3F80'", "',' or ';'"),
        (HEADER + '.file 1 "a.cu\n', 4, 9, "'\"'", "a quoted file name"),
        (HEADER + "  /* never closed", 4, 3, "'/*'", "an end '*/'"),
        (HEADER + ".global .align 3 .b8 x;", 4, 16, "'3'", "a power of two"),
        (HEADER + ".global .u32 a[-1];", 4, 16, "'-'", "an extent that is not negative"),
        (HEADER + ".section .x { .b8 1, }", 4, 22, "'}'", "a number, a label or a section"),
        (HEADER + "\u00e9", 4, 1, "'\u00e9'", "a declaration"),
    ],
)
def test_says_where_and_what(text: str, line: int, column: int, read: str, expected: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text, "some.ptx")
    error = caught.value
    assert (error.line, error.column) == (line, column), error
    assert error.read.startswith(read) and expected in error.expected, error
    assert isinstance(error, ValueError)
    assert f"line {line}, column {column}: read {read}" in str(error) and "some.ptx" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        kernel("mov.u32 _, " + "(" * 100_000 + ";"),
        kernel("mov.u32 _, " + "-" * 100_000 + "1;"),
        kernel("mov.u32 _, " + "1 ? " * 100_000 + ";"),
        kernel("mov.u32 _, " + "{" * 100_000 + ";"),
        kernel("", ".global .u32 a = " + "{" * 100_000 + ";"),
        kernel("mov.u32 _, " + "9" * 100_000 + ";"),
        kernel(".reg .b32 %r<99999999999999999999>;"),
        "/*" * 50_000,
        '"' * 50_001,
    ],
    ids=["parentheses", "minus", "conditions", "vectors", "lists", "digits", "range", "comments", "quotes"],
)
def test_deep_and_long_texts_end_soon(text: str) -> None:
    def read() -> None:
        with pytest.raises(ParseError):
            parse_module(text)

    assert calls_in(read) < 20 * len(text) + 1_000


def test_large_but_right() -> None:
    parse_module(kernel("{" * 5_000 + "}" * 5_000))
    parse_module(kernel("{ .reg .b32 t; mov.b32 t, 1; }" * 3_000))
    parse_module(kernel(".reg .b32 %r<1000000000>; mov.b32 %r999999999, 1;"))
    parse_module(kernel("mov.u32 _, " + "1 + " * 10_000 + "1;"))


def _answer(text: str) -> bool:
    """Whether the text is PTX; any exception but ParseError fails the test."""
    try:
        parse_module(text)
    except ParseError as error:
        assert error.line >= 1 and error.column >= 1 and error.read and error.expected
        return False
    return True


@pytest.mark.full
def test_truncated_anywhere() -> None:
    for text in MODULES.values():
        complete = len(text.rstrip())
        for end in range(complete):
            _answer(text[:end])
        assert _answer(text[:complete])


def _mutated(text: str, words: list[str], chance: random.Random) -> str:
    """``text`` with one to four faults: in its words, its lines, its bits, or at its end."""
    for _ in range(chance.randint(1, 4)):
        kind = chance.choice(("words", "words", "lines", "bits", "end"))
        if kind == "words":
            text = "".join(_faulty(_WORD.findall(text), words, chance))
        elif kind == "lines":
            lines = text.split("\n")
            text = "\n".join(_faulty(lines, lines[:], chance))
        elif kind == "bits" and text:
            at = chance.randrange(len(text))
            text = text[:at] + chr(ord(text[at]) ^ 1 << chance.randrange(7)) + text[at + 1 :]
        elif kind == "end":
            text = text[: chance.randrange(len(text) + 1)]
    return text


def _faulty(pieces: list[str], others: list[str], chance: random.Random) -> list[str]:
    """``pieces`` with some lost, repeated, replaced, exchanged or turned into noise."""
    if pieces:
        at, other = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        kind = chance.randrange(5)
        if kind == 0:
            del pieces[at : at + chance.choice((1, 1, 2, 5))]
        elif kind == 1:
            pieces.insert(other, pieces[at])
        elif kind == 2:
            pieces[at] = chance.choice(others)
        elif kind == 3:
            pieces[at], pieces[other] = pieces[other], pieces[at]
        else:
            pieces[at] = "".join(chr(chance.randrange(1, 256)) for _ in range(chance.randint(1, 5)))
    return pieces


def _try_mutations(texts: list[str], number: int) -> None:
    """Of every mutated text: a ParseError, or a module that its print gives back."""
    chance = random.Random(SEED)
    words = sorted({w for t in texts for w in _WORD.findall(t)})
    refused = 0
    for turn in range(number):
        text = _mutated(texts[turn % len(texts)], words, chance)
        if _answer(text):
            module = parse_module(text)
            assert parse_module(print_module(module).text) == module
        else:
            refused += 1
    assert number / 2 < refused < number


@pytest.mark.full
def test_mutated_pieces() -> None:
    _try_mutations(list(MODULES.values()), PIECES)


@pytest.mark.full
def test_mutated_compiler_output() -> None:
    text = cuda_text("functions")
    starts = [m.start() for m in _FUNCTION.finditer(text)]
    head = text[: starts[0]]
    functions = [head + text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    assert len(functions) > 40
    _try_mutations(functions, FUNCTIONS)
    _try_mutations([text], WHOLE)


def test_random_bytes() -> None:
    chance = random.Random(SEED)
    for _ in range(1_000):
        noise = bytes(chance.randrange(256) for _ in range(chance.randint(1, 200))).decode("latin-1")
        assert not _answer(noise)
        _answer(HEADER + noise)
        _answer(kernel(noise))
