"""The instruction forms of a module, and the constants that choose what an instruction is or does.

A form is an entry of the instruction table with its modifiers in canonical order, the optional operands that are
present, and the special registers that it reads.  Which registers or constants the operands are makes no difference,
nor does a guard.  What the ISA says is the same is the same: defaults that are spelled or not, ``bar`` beside ``barrier``.
"""

from __future__ import annotations

from functools import cache

from pyptx.ir import Immediate, Instruction, Module, Special, leaves
from pyptx.isa import Binding, Match, bind_instruction

from .facts import Fact, Kind
from .products import constant_products

__all__ = ["facts_of_text", "form_name"]

_RELEASE = {"sem": "release", "scope": "cta"}
_ACQUIRE = {"sem": "acquire", "scope": "cta"}
#: The value that a modifier has where the instruction does not name it, by the form's id (PTX ISA, each instruction's page).
_DEFAULTS = {
    "mbarrier.arrive": _RELEASE,
    "mbarrier.arrive.remote": _RELEASE,
    "mbarrier.arrive.expect_tx": _RELEASE,
    "mbarrier.arrive.expect_tx.remote": _RELEASE,
    "mbarrier.try_wait.parity": _ACQUIRE,
    "mbarrier.test_wait.parity": _ACQUIRE,
    "mbarrier.try_wait": _ACQUIRE,
    "mbarrier.test_wait": _ACQUIRE,
    "barrier.cluster.arrive": {"sem": "release"},
    "barrier.cluster.wait": {"acquire": "acquire"},
}
#: ``bar.sync`` is ``barrier.sync.aligned`` (PTX ISA #parallel-synchronization-and-communication-instructions-bar).
_BAR = {
    "bar.sync": ("barrier.sync", "barrier.sync.aligned"),
    "bar.arrive": ("barrier.arrive", "barrier.arrive.aligned"),
}
#: Modifiers that say what holds without them: ``.weak`` of loads and stores, ``.cta`` of barriers (``bar.cta.sync``),
#: ``.tile`` of tensor copies, ``.collector::a::discard`` of products.
_SILENT = {
    ("weak", "weak"),
    ("cta", "cta"),
    ("load_mode", "tile"),
    ("collector_a", "collector::a::discard"),
}


def form_name(match: Match) -> tuple[str, str]:
    """Return the id of a form in the table and its spelling: canonical order, defaults as words."""
    form = match.form
    if form.id in _BAR:
        return _BAR[form.id]
    chosen = {**_DEFAULTS.get(form.id, {}), **match.chosen}
    words = [
        "shared::cta" if chosen[slot.name] == "shared" else chosen[slot.name]
        for slot in form.slots()
        if slot.name in chosen and (slot.name, chosen[slot.name]) not in _SILENT
    ]
    return form.id, ".".join((form.opcode, *words))


@cache
def _fact(form: str, name: str, given: tuple[str, ...], read: tuple[str, ...]) -> Fact:
    return Fact.of(Kind.FORM, name, form=form, given=" ".join(given) or None, reads=" ".join(read) or None)


def _form(binding: Binding) -> Fact:
    match = binding.match
    optional = {spec.name for group in match.form.operands if group.optional for spec in group.specs}
    special = {
        f"%{leaf.name}" for operand in binding.fitted for leaf in leaves(operand) if isinstance(leaf, Special)
    }
    given = tuple(name for name in binding.operands if name in optional)
    return _fact(*form_name(match), given, tuple(sorted(special)))


def facts_of_text(module: Module) -> set[Fact]:
    """Return the forms of all instructions of a module, the register counts of ``setmaxnreg``, and constant products.

    Raises:
        PyptxError: an instruction is not in the table.
    """
    found = constant_products(module)
    for function in module.functions:
        for statement in function.body:
            if not isinstance(statement, Instruction):
                continue
            binding = bind_instruction(statement)
            found.add(_form(binding))
            if binding.form_id == "setmaxnreg":
                (count,) = binding.fitted
                assert isinstance(count, Immediate)
                found.add(Fact.of(Kind.NUMBER, binding.match.name, registers=count.value))
    return found
