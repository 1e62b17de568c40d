"""``ptx.inst``: every instruction of the table, written as attributes or in the manual's spelling.

``ptx.inst.st.global_.v4.b32(ptx.addr(p, 16), [a, b, c, d])`` and ``ptx.inst["st.global.v4.b32"](...)`` are
the same.  In attributes, ``__`` stands for ``::``, a trailing ``_`` escapes a Python keyword (``global_``,
``and_``), and a leading ``_`` precedes a digit (``_2d``, ``_32x32b``).  A call records exactly one
instruction.

Editors complete ``ptx.inst`` from the stubs in ``_instructions``, which ``python -m pyptx.tools.generate``
writes from the table.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any

from ..core.errors import InstructionError, OperandError
from ..ir import Guard, Negated, Operand
from ..isa import Binding, forms_of, opcodes
from ..isa.notation import ModifierGroup
from .call_sites import here
from .labels import Label
from .operands import branch_target, guard, operand
from .registers import NotPred, Reg, materialize, writable
from .trace import Trace, current

if TYPE_CHECKING:
    from ._instructions import Instructions

__all__ = ["Inst", "InstRoot", "attribute_name", "inst", "modifier_of"]


class Inst:
    """An opcode and some of its modifiers. Attributes and ``[...]`` add more; a call records it."""

    __slots__ = ("_children", "_modifiers", "_opcode")

    def __init__(self, opcode: str, modifiers: tuple[str, ...]) -> None:
        self._opcode = opcode
        self._modifiers = modifiers
        self._children: dict[str, Inst] = {}

    def __getattr__(self, name: str) -> Inst:
        _public(name)
        child = self._children.get(name)
        if child is None:
            child = self._children[name] = Inst(self._opcode, (*self._modifiers, modifier_of(name)))
        return child

    def __getitem__(self, text: str) -> Inst:
        child = self._children.get("." + text)
        if child is None:
            child = self._children["." + text] = Inst(self._opcode, (*self._modifiers, *_split(text)))
        return child

    def __call__(self, *operands: Any, pred: Reg | NotPred | None = None) -> None:
        """Record this instruction.

        Args:
            operands: destination first, in the manual's order: registers, lists or ``reg.array`` for
                vectors, numbers, ``ptx.addr(...)`` or a shared-memory buffer, ``ptx.pair(d, p)``,
                ``ptx.sink`` or None for ``_``, and for ``bra`` a label or its name. For a ``~p`` where the
                instruction does not take ``!p``, one ``not.pred`` is recorded first.
            pred: guard, ``p`` or ``~p``.

        Raises:
            InstructionError: no such instruction; the message names the nearest legal spelling.
            OperandError: an operand of the wrong kind, type, width, count or range.
            TargetError: the kernel's architecture lacks the instruction.
            TraceError: the call is outside a kernel, or a register belongs to another recording.
        """
        trace = current()
        if self._opcode in ("bra", "brx"):
            self._branch(trace, operands, pred)
            return
        condition = guard(pred, trace)
        values = [operand(value, trace) for value in operands]
        if any(type(value) is Negated for value in values):
            self._negated(trace, operands, values, condition)
            return
        binding = trace.check(self._opcode, self._modifiers, values)
        for value in operands:
            if isinstance(value, Reg) and value.read_only:
                _check_shared(binding, value)
        trace.append(binding, condition, here()[1])

    def _negated(
        self, trace: Trace, given: tuple[Any, ...], values: list[Operand], condition: Guard | None
    ) -> None:
        """Record an instruction with ``~p`` operands: as ``!p`` if PTX allows it, else after ``not.pred``."""
        try:
            trace.record(self._opcode, self._modifiers, values, condition)
        except OperandError:
            with trace.atomic():
                values = [operand(materialize(value, trace), trace) for value in given]
                trace.record(self._opcode, self._modifiers, values, condition)

    def _branch(self, trace: Trace, operands: tuple[Any, ...], pred: Reg | NotPred | None) -> None:
        before = 0 if self._opcode == "bra" else 1
        if len(operands) == before + 1 and isinstance(operands[-1], (str, Label)):
            condition = guard(pred, trace)
            index = [operand(value, trace) for value in operands[:-1]]
            target = branch_target(operands[-1])
            trace.to_label(self._opcode, self._modifiers, index, target, condition, here()[1])
            return
        raise OperandError(
            f"a branch takes {'an index and the name of a list' if before else 'one label'}, "
            f"got {operands!r}",
            hint='ptx.inst.brx.idx(index, "targets") with ptx.branchtargets("targets", [...])'
            if before
            else 'ptx.bra("name"), or a Label from ptx.new_label()',
            see="control-flow-instructions-bra",
        )

    def __dir__(self) -> list[str]:
        return sorted(map(attribute_name, _next_modifiers(self._opcode, self._modifiers)))

    def __repr__(self) -> str:
        return f"<ptx.inst {'.'.join((self._opcode, *self._modifiers))}>"


class InstRoot:
    """The root of ``ptx.inst``: attributes are opcodes."""

    __slots__ = ("_children",)

    def __init__(self) -> None:
        self._children: dict[str, Inst] = {}

    def __getattr__(self, name: str) -> Inst:
        _public(name)
        child = self._children.get(name)
        if child is None:
            child = self._children[name] = Inst(modifier_of(name), ())
        return child

    def __getitem__(self, text: str) -> Inst:
        child = self._children.get("." + text)
        if child is None:
            opcode, *modifiers = _split(text)
            child = self._children["." + text] = Inst(opcode, tuple(modifiers))
        return child

    def __dir__(self) -> list[str]:
        return sorted(map(attribute_name, opcodes()))

    def __repr__(self) -> str:
        return "<ptx.inst: every instruction of the table>"


def _check_shared(binding: Binding, register: Reg) -> None:
    for name, spec in binding.specs.items():
        if spec.access in ("w", "rw") and binding.operands[name] == register.operand:
            writable(register)


def _public(name: str) -> None:
    """Raise AttributeError for the names that Python's own protocols (copy, pickle, inspect) look up."""
    if name[0] == "_" and not name[1:2].isdigit():
        raise AttributeError(name)


def modifier_of(name: str) -> str:
    """Return the PTX modifier of a Python attribute: ``shared::cta`` for ``shared__cta``.

    A name that is a PTX modifier already is returned as it is.
    """
    if name[0] == "_" and name[1:2].isdigit():
        name = name[1:]
    if name.endswith("_"):
        name = name[:-1]
    return name.replace("__", "::")


def attribute_name(modifier: str) -> str:
    """Return the Python attribute of a PTX modifier: ``shared__cta`` for ``shared::cta``."""
    name = modifier.replace("::", "__")
    if name[0].isdigit():
        return "_" + name
    return name + "_" if keyword.iskeyword(name) else name


def _split(text: str) -> tuple[str, ...]:
    modifiers = tuple(str(text).split("."))
    if not all(modifiers):
        raise InstructionError(
            f"{text!r} does not spell an instruction", hint='write it as the manual does: "ld.global.v4.b32"'
        )
    return modifiers


def _next_modifiers(opcode: str, given: tuple[str, ...]) -> set[str]:
    """Return the modifiers that may follow ``given`` in some form of the instruction ``opcode``."""
    found: set[str] = set()

    def walk(groups: tuple[ModifierGroup, ...], at: int) -> None:
        for number, group in enumerate(groups):
            position = at
            for slot in group.slots:
                if position == len(given):
                    found.update(a.text for a in slot.alternatives)
                    break
                if slot.find(given[position]) is None:
                    break
                position += 1
            else:
                walk(groups[number + 1 :], position)
            if not group.optional:
                return

    for form in forms_of(opcode):
        walk(form.modifiers, 0)
    return found


if TYPE_CHECKING:
    #: ``ptx.inst``, as type checkers and editors see it: a generated class for each choice of modifiers.
    inst: Instructions
else:
    #: ``ptx.inst``.
    inst = InstRoot()
