"""What the decorator of a wrapper says it records is what a call of it records, and what its docstring says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from pyptx.core.errors import TargetError
from pyptx.dsl import current, ptx, record, reg, smem
from pyptx.dsl.records import recorded_forms, records
from pyptx.ir import Instruction
from pyptx.isa import Form, all_forms, bind_instruction, form
from pyptx.tools.wrappers import functions_of, recorded
from tests.dsl.valid_calls import VALID, Bench

ARCHS = ("sm_100a", "sm_90a", "sm_107a", "sm_103a")
SENTENCE = re.compile(r"\bRecords one ``([\w.:]+?)\.*``")


def functions() -> dict[str, Callable[..., Any]]:
    roots = (("ptx", ptx), ("reg", reg), ("smem", smem))
    return {name: found for root, owner in roots for name, found in functions_of(owner, root)}


def forms_of_a_call(name: str) -> list[str]:
    """The forms that a valid call of a wrapper records."""
    made: list[Instruction] = []

    def body() -> None:
        bench = Bench()
        positional, named = VALID[name](bench)
        before = len(current().statements)
        functions()[name](*positional, **named)
        for statement in current().statements[before:]:
            instruction = getattr(statement, "instruction", statement)  # a branch waits for its label
            if isinstance(instruction, Instruction):
                made.append(instruction)
        ptx.label("x")

    for arch in ARCHS:
        try:
            record(body, (), (), entry="k", arch=arch)
        except TargetError:
            made.clear()
            continue
        return [bind_instruction(instruction).form_id for instruction in made]
    raise AssertionError(f"no target takes {name}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", sorted(recorded().keys() - {"ptx.call"}))  # a call needs its function
def test_a_call_records_a_form_of_its_decorator(name: str) -> None:
    (made,) = forms_of_a_call(name)
    assert made in recorded()[name]


def has_modifiers(entry: Form, words: list[str]) -> bool:
    """Whether ``entry`` takes all of ``words``, in this order."""
    slots = entry.slots()
    return all(any(slot.find(word) is not None for slot in slots) for word in words)


def test_docstrings_say_what_decorators_say() -> None:
    for name, function in functions().items():
        said = SENTENCE.findall(inspect.getdoc(function) or "")
        entries = [form(identifier) for identifier in recorded_forms(function)]
        assert bool(said) == bool(entries), f"{name}: {said}, {entries}"
        for spelling in said[:1]:
            opcode, *words = spelling.split(".")
            assert any(e.opcode == opcode and has_modifiers(e, words) for e in entries), f"{name}: {spelling}"


def test_decorators_name_forms_of_the_table_once() -> None:
    known = {entry.id for entry in all_forms()}
    for name, forms in recorded().items():
        assert set(forms) <= known, name
        assert len(set(forms)) == len(forms), name


def test_of_an_object_and_of_its_class() -> None:
    class Called:
        @records("ret")
        def __call__(self) -> None: ...

    plain, special = Called(), records("exit")(Called())
    assert recorded_forms(plain) == ("ret",)
    assert recorded_forms(special) == ("exit",)
    assert recorded_forms(lambda: None) == ()
