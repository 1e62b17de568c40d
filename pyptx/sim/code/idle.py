"""Which results of an entry decide nothing: neither where threads go, nor what they access or wait for.

A machine that only keeps time need not compute them (:class:`Values`). What an instruction does with memory,
barriers and engines happens all the same; values that are stored may be any values, as long as nothing that
is loaded decides.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from ...core.tuples import NamedTuple
from ...flow import accesses
from ...ir import Function, Instruction, registers_of
from ...isa import Binding
from ...isa.table import chapter_of
from ..memory.access import StateSpace
from .image import ModuleImage
from .propagation import Rule
from .semantic import Semantic, semantic_of
from .spaces import named_space

__all__ = ["Values", "idle_statements"]

#: Stands for the values in memory of any kind, among the names of registers.
_MEMORY = ""
#: Rules of forms that bring values of registers into memory.
_STORING = frozenset({Rule.STORED, Rule.TAKEN})
#: Chapters whose forms read the state of barriers, which is no stored value.
_BARRIERS = frozenset({"mbarrier"})
#: Chapters whose forms give what Values.ZEROS says.
_PRODUCTS = frozenset({"wgmma"})
#: Forms that make tensor maps of what is stored, which then decide what is copied.
_MAPS = ("tensormap.", "fence.proxy.tensormap.")
#: Memory that no thread of the launch writes, and a modifier that says so of other memory.
_CONSTANT, _READ_ONLY = frozenset({StateSpace.PARAM, StateSpace.CONST}), "nc"


class Values(enum.Enum):
    """Which values a run computes.

    ``ALL``: all of them. ``DECIDING``: those that decide something. ``ZEROS``: the same, and products of
    ``wgmma`` are those of zeros, whatever their operands are.
    """

    ALL = "all"
    DECIDING = "deciding"
    ZEROS = "zeros"


class _Flow(NamedTuple):
    """What the values of one instruction depend on.

    Attributes:
        statement: the index of the instruction.
        sources: registers, or memory, whose values it passes on or computes with.
        targets: where its results go.
        decide: registers, or memory, whose values decide something here.
        computes: True if it does nothing but compute registers.
    """

    statement: int
    sources: frozenset[str]
    targets: frozenset[str]
    decide: frozenset[str]
    computes: bool


def idle_statements(image: ModuleImage, function: Function, values: Values) -> frozenset[int]:
    """Return the statements of an entry, which calls no function, whose results are not computed.

    They compute registers from registers, and have no other effect.
    """
    if values is Values.ALL:
        return frozenset()
    flows = [
        _flow(index, statement, image.bind(statement), zeros=values is Values.ZEROS)
        for index, statement in enumerate(function.body)
        if isinstance(statement, Instruction)
    ]
    deciding = _deciding(flows)
    return frozenset(each.statement for each in flows if each.computes and not each.targets & deciding)


def _deciding(flows: Sequence[_Flow]) -> frozenset[str]:
    """Return the registers, and perhaps memory, of which some value decides something."""
    found = {name for each in flows for name in each.decide}
    before = -1
    while len(found) > before:
        before = len(found)
        for each in flows:
            if not found.isdisjoint(each.targets):
                found |= each.sources
    return frozenset(found)


def _flow(index: int, instruction: Instruction, binding: Binding, *, zeros: bool) -> _Flow:
    reads, writes = ({register.name for register in some} for some in accesses(instruction, binding))
    meaning = semantic_of(binding.form_id)
    if meaning is None:
        return _Flow(index, frozenset(), frozenset(writes), frozenset(reads), computes=False)
    guard = set() if instruction.guard is None else {instruction.guard.register.name}
    passed = _passed(binding, meaning, reads) - guard
    sources, targets = set(passed), set(writes)
    if meaning.per != "value":
        if meaning.undefined.rule in _STORING:
            targets.add(_MEMORY)
        if _loads(binding, meaning):
            sources.add(_MEMORY)
    if zeros and chapter_of(binding.form_id) in _PRODUCTS:
        sources.clear()
    decide = reads - passed
    if binding.form_id.startswith(_MAPS):
        decide.add(_MEMORY)
    computes = meaning.per == "value" or _multiplies(meaning)
    return _Flow(index, frozenset(sources), frozenset(targets), frozenset(decide), computes)


def _passed(binding: Binding, meaning: Semantic, reads: set[str]) -> set[str]:
    """Return the registers whose values an instruction only passes on to its results or to memory."""
    if meaning.per == "value" or _multiplies(meaning):
        return reads
    names = {*meaning.undefined.operands, *meaning.held} & binding.operands.keys()
    return {register.name for name in names for register in registers_of(binding.operands[name])}


def _multiplies(meaning: Semantic) -> bool:
    """True for products of a warp in registers."""
    return meaning.registers_only and meaning.collective == "warp"


def _loads(binding: Binding, meaning: Semantic) -> bool:
    """True if the results of an instruction may have been stored before."""
    if meaning.registers_only or chapter_of(binding.form_id) in _BARRIERS:
        return False
    chosen = binding.match.chosen
    spaces = {named_space(spec, chosen) for spec in binding.match.form.specs() if spec.access == "a"}
    return not (spaces & _CONSTANT or _READ_ONLY in binding.form_id.split("."))
