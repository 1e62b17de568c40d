"""Whatever compilers write loads: every function of every committed text becomes blocks, in all three forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyptx import sim
from pyptx.sim.code.program import EntryProgram
from pyptx.sim.code.translate import translate
from tests.sim.compiled.sources import TEXTS

_FILES = sorted(TEXTS.rglob("*.ptx"))


def programs(text: str) -> list[EntryProgram]:
    """A program for each entry, all functions that it reaches read."""
    loaded = sim.load(text)
    found = [EntryProgram(loaded.image, entry) for entry in loaded.module.entries.values()]
    for program in found:
        for function in program.reachable:
            if not function.prototype:
                program.code(function)
    return found


def unmodeled(program: EntryProgram) -> list[str]:
    """Statements that would end a run as incomplete."""
    return [
        f"{operation.binding.form_id}: {statement}"
        for block in program.blocks
        for statement, operation in block.ops
        if not operation.semantic.form_id
    ]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("file", _FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_block_translates(file: Path) -> None:
    for program in programs(file.read_text()):
        assert unmodeled(program) == []
        for block in program.blocks:
            if block.call is None and not block.returns:
                for form in ("wide", "masked", *(() if block.deferred else ("lane",))):
                    assert callable(translate(block, form))


def test_there_are_texts() -> None:
    assert len(_FILES) >= 80


_REST = """
.version 8.8
.target sm_90a
.address_size 64
.extern .global .u32 elsewhere;
.visible .entry k(.param .u64 p) {
    .reg .b32 %r<4>;
    mov.b32 %r1, %envreg3;
    add.u32 %r2, %r1, 1;
    ld.global.u32 %r3, [elsewhere];
    ret;
}
"""


def test_what_is_not_modeled_is_known_before_it_runs() -> None:
    (program,) = programs(_REST)
    first, second = unmodeled(program)
    assert "%envreg3" in first
    assert "[elsewhere]" in second
