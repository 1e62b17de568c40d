"""Forms as nested tuples of texts and numbers, and these as rows of four texts, which Python loads quickly.

Owns both directions, and what the matching of modifiers asks before it decodes a form.  A tuple has the
fields of its class in order, without those at the end that have their defaults.  A modifier without limits of
its own is its text; so is a slot with one such modifier of the slot's name.  A row has the tuple as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from ..notation import (
    Alternative,
    Case,
    Cases,
    Form,
    ModifierGroup,
    ModifierSlot,
    OperandGroup,
    OperandSpec,
    Relation,
)
from ..targets import TargetSet, Version

__all__ = ["Encoded", "Row", "Texts", "decoded", "encoded", "entry_of", "modifiers_of", "row_of"]

#: A form, in nested tuples or lists. Its first three fields are its id, its summary and its opcode, the fourth
#: its groups of modifiers.
Encoded = Sequence[Any]
#: A form's id, its opcode, the modifiers that all its instructions have (between blanks), and itself as JSON.
Row = tuple[str, str, str, str]
#: The modifiers that may stand in each of some slots.
Texts = tuple[frozenset[str], ...]


# --- encoding -------------------------------------------------------------------------------------


def _without_defaults(values: list[Any], defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values without those at the end that equal their defaults; the last values have defaults."""
    required = len(values) - len(defaults)
    while len(values) > required and values[-1] == defaults[len(values) - required - 1]:
        values.pop()
    return tuple(values)


def _alternative(given: Alternative) -> Any:
    if given.since is None and given.on is None:
        return given.text
    return given.text, given.since, None if given.on is None else given.on.terms


def _slot(given: ModifierSlot) -> Any:
    if given.alternatives == (Alternative(given.name),):
        return given.name
    return given.name, tuple(map(_alternative, given.alternatives))


def _cases(given: Cases | None) -> Any:
    if given is None:
        return None
    rows = (
        (key, *_without_defaults([case.types, case.count, case.lead], (None, "")))
        for key, case in given.rows.items()
    )
    return given.slots, tuple(rows)


def _spec(given: OperandSpec) -> tuple[Any, ...]:
    values: Any = given.values
    if isinstance(values, range):
        values = (None, values.start, values.stop, values.step)
    fields = [
        given.name,
        given.access,
        given.types,
        given.wider,
        given.count,
        tuple(sorted(given.kinds)),
        values,
        given.space,
        None if given.coordinates is None else _spec(given.coordinates),
        tuple(map(_spec, given.extra)),
        _cases(given.cases),
    ]
    return _without_defaults(fields, (False, None, (), None, "", None, (), None))


def encoded(form: Form) -> Encoded:
    """Return a form as nested tuples, from which :func:`decoded` makes an equal form."""
    fields = [
        form.id,
        form.summary,
        form.opcode,
        tuple((tuple(map(_slot, group.slots)), group.optional) for group in form.modifiers),
        tuple((tuple(map(_spec, group.specs)), group.optional) for group in form.operands),
        form.syntax,
        form.since,
        form.on.terms,
        form.anchor,
        tuple((relation.left, relation.kind, relation.right) for relation in form.relations),
        form.check,
        form.operand_check,
        form.notes,
        tuple(map(_alternative, form.operand_limits)),
        tuple(map(_alternative, form.sequence_limits)),
    ]
    return _without_defaults(fields, ((), "", "", (), (), ()))


# --- decoding -------------------------------------------------------------------------------------

_plain = cache(Alternative)


@cache
def _target_set(terms: tuple[str, ...]) -> TargetSet:
    return TargetSet(terms)


def _targets(terms: Iterable[str]) -> TargetSet:
    return _target_set(tuple(terms))


def _version(given: Sequence[int] | None) -> Version | None:
    return None if given is None else (given[0], given[1])


def _to_alternative(given: Any) -> Alternative:
    if given.__class__ is str:
        return _plain(given)
    text, since, terms = given
    return Alternative(text, _version(since), None if terms is None else _targets(terms))


@cache
def _literal(name: str) -> ModifierSlot:
    return ModifierSlot(name, (_plain(name),))


def _to_slot(given: Any) -> ModifierSlot:
    if given.__class__ is str:
        return _literal(given)
    name, alternatives = given
    return ModifierSlot(name, tuple(map(_to_alternative, alternatives)))


def _to_cases(given: Any) -> Cases:
    slots, rows = given
    return Cases(tuple(slots), {tuple(key): Case(tuple(types), *rest) for key, types, *rest in rows})


def _to_spec(given: Sequence[Any]) -> OperandSpec:
    fields = list(given)
    fields[2] = tuple(fields[2])
    if len(fields) > 5:
        fields[5] = frozenset(fields[5])
        if len(fields) > 6 and fields[6] is not None:
            fields[6] = tuple(fields[6]) if fields[6][0] is not None else range(*fields[6][1:])
        if len(fields) > 8:
            fields[8] = None if fields[8] is None else _to_spec(fields[8])
        if len(fields) > 9:
            fields[9] = tuple(map(_to_spec, fields[9]))
        if len(fields) > 10:
            fields[10] = _to_cases(fields[10])
    return OperandSpec(*fields)


def decoded(given: Encoded) -> Form:
    """Return the form that :func:`encoded` made these tuples of."""

    def build(
        id: str,
        summary: str,
        opcode: str,
        modifiers: Sequence[Any],
        operands: Sequence[Any],
        syntax: str,
        since: Sequence[int],
        on: Sequence[str],
        anchor: str,
        relations: Iterable[Sequence[str]] = (),
        check: str = "",
        operand_check: str = "",
        notes: Iterable[str] = (),
        operand_limits: Iterable[Any] = (),
        sequence_limits: Iterable[Any] = (),
    ) -> Form:
        return Form(
            id,
            summary,
            opcode,
            tuple(ModifierGroup(tuple(map(_to_slot, slots)), optional) for slots, optional in modifiers),
            tuple(OperandGroup(tuple(map(_to_spec, specs)), optional) for specs, optional in operands),
            tuple(Relation(*relation) for relation in relations),
            (since[0], since[1]),
            _targets(on),
            anchor,
            check,
            operand_check,
            tuple(notes),
            tuple(map(_to_alternative, operand_limits)),
            tuple(map(_to_alternative, sequence_limits)),
            syntax,
        )

    return build(*given)


def _texts(slot: Any) -> frozenset[str]:
    if slot.__class__ is str:
        return frozenset((slot,))
    return frozenset(each if each.__class__ is str else each[0] for each in slot[1])


def modifiers_of(given: Encoded) -> tuple[Texts, Texts]:
    """Return the modifiers that may stand in each slot of a form.

    The first tuple is that of the slots that each instruction of the form has, the second that of the others.
    """
    always: list[frozenset[str]] = []
    others: list[frozenset[str]] = []
    for slots, optional in given[3]:
        (others if optional else always).extend(map(_texts, slots))
    return tuple(always), tuple(others)


# --- rows -----------------------------------------------------------------------------------------


def row_of(given: Encoded) -> Row:
    """Return the row of a form."""
    fixed = [text for slot in modifiers_of(given)[0] if len(slot) == 1 for text in slot]
    text = json.dumps(given, separators=(",", ":"), ensure_ascii=False)
    return given[0], given[2], " ".join(fixed), text


def entry_of(row: Row) -> Encoded:
    """Return the form that :func:`row_of` made the row of, with lists in place of tuples."""
    entry: Encoded = json.loads(row[3])
    return entry
