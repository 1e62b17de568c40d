"""Every code block of the README and of the pages is executed, from the root of the repository.

``python`` blocks of a page run one after another in one namespace. In a ``console`` block a line that begins
with ``$ `` is a command; what follows is its output, in which ``...`` stands for anything. A ``ptx`` block is
a module that ptxas takes. ``sh`` blocks are the README's own commands, which CI runs. What is no code is
``text``.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from pyptx.toolchain import Tool, check_text

ROOT = Path(__file__).resolve().parents[2]
#: Written by a program from the table: they show PTX syntax, not code.
GENERATED = {ROOT / "docs/fidelity.md", *(ROOT / "docs/isa").glob("*.md")}
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - GENERATED)
#: Libraries that a page's code needs and the tests otherwise do not.
NEEDS = {ROOT / "docs/frameworks.md": "torch"}
LANGUAGES = {"python", "console", "ptx", "sh", "text", "yaml", "toml"}
_FENCE = re.compile(r"^( *)(```+)([^\n`]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "110", "NO_COLOR": "1"}


def run_console(example: Example) -> str | None:
    """Run the commands of a ``console`` block; the difference from the output shown, or None."""
    for piece in re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)[1:]:
        command, _, shown = piece.partition("\n")
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=_environment(), capture_output=True, text=True, timeout=300
        )
        said = done.stdout + done.stderr
        if not doctest.OutputChecker().check_output(shown, said, _FLAGS):
            return f"{example.path}:{example.line}: $ {command}\nshown:\n{shown}\nsaid (status {done.returncode}):\n{said}"
    return None


def _assembles(ptxas: Tool) -> CodeBlockParser:
    def evaluate(example: Example) -> str | None:
        report = check_text(str(example.parsed), ptxas=ptxas)
        return None if report.ok else f"{example.path}:{example.line}: {report}"

    return CodeBlockParser("ptx", evaluate)


def _document(page: Path, ptxas: Tool) -> Document:
    parsers = [PythonCodeBlockParser(), CodeBlockParser("console", run_console), _assembles(ptxas)]
    return Sybil(parsers, path=str(ROOT)).parse(page)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks(page: Path, ptxas: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    for example in _document(page, ptxas).examples():
        example.evaluate()


def _blocks(page: Path) -> Iterator[tuple[str, str]]:
    for match in _FENCE.finditer(page.read_text()):
        yield match[3].strip(), match[4]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_what_it_is(page: Path) -> None:
    """A block in another language, or without one, would be shown and never run."""
    for language, text in _blocks(page):
        assert language.split(" ")[0] in LANGUAGES, f"{page.name}: ```{language}\n{text[:200]}"
        if language == "console":
            assert text.startswith("$ "), f"{page.name}: {text[:200]}"
        if language == "sh":
            assert text.strip() in (ROOT / "README.md").read_text(), f"{page.name}: {text}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```python\nassert 1 == 2\n```\n", "AssertionError"),
        ("```console\n$ echo one\ntwo\n```\n", "one"),
        ("```ptx\n.version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k() { no; }\n```\n", "no"),
    ],
    ids=["python", "console", "ptx"],
)
def test_a_wrong_block_fails(text: str, words: str, tmp_path: Path, ptxas: Tool) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(Exception) as caught:
        for example in _document(page, ptxas).examples():
            example.evaluate()
    assert words in f"{caught.type.__name__} {caught.value}"
