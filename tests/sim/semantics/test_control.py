"""Control flow: the machine, the control-flow graph and the interleaving agree about the forms."""

from __future__ import annotations

import pytest

from pyptx.flow import control_flow
from pyptx.ir import Function, LabelStatement
from pyptx.isa import all_forms
from pyptx.isa.table import chapter_of
from pyptx.sim.code.semantic import Control, semantics
from tests.isa.samples import instructions

FORMS = {form.id: form for form in all_forms() if chapter_of(form.id) == "control"}


@pytest.mark.parametrize("form_id", FORMS)
def test_forms_that_end_a_block_of_the_graph_are_branches(form_id: str) -> None:
    instruction = next(i for b, i in instructions(FORMS[form_id]) if b.form_id == form_id)
    body = (LabelStatement("there"), instruction, instruction)
    blocks = control_flow(Function("f", (), (), (), (), body)).blocks
    ends = [len(block.instructions) for block in blocks if block.instructions] == [1, 1]
    assert ends == (semantics()[form_id].control is Control.BRANCH)


def test_calls_are_control() -> None:
    calls = {form_id for form_id, form in FORMS.items() if form.opcode == "call"}
    assert calls == {i for i, meaning in semantics().items() if meaning.control is Control.CALL}


def test_no_other_chapter_has_control() -> None:
    assert {i for i, meaning in semantics().items() if meaning.control is not None} == FORMS.keys() - {"trap"}
