"""Places in straight-line code where other threads and engines may act.

Translated code runs one block at a time. For schedules that choose the order of threads at random, blocks
also end between two instructions that other threads or engines can observe: accesses to memory that they
share, synchronization, or work for an engine. A read of a clock is a block of its own: it returns the time at
which the instructions before it have been issued, and none of those behind it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from ...ir import Address, Function, Indexed, Instruction, LabelStatement, Special
from ...isa import Binding
from ...isa.special import CLOCKS
from ..memory.access import StateSpace
from .semantic import Semantic
from .spaces import named_space

__all__ = ["interleaving_cuts", "is_noticed"]

#: State spaces that no other thread can access, or that no thread writes.
_OWN_SPACES = frozenset({StateSpace.PARAM, StateSpace.CONST, StateSpace.LOCAL})


def interleaving_cuts(
    function: Function,
    bindings: Mapping[int, Binding],
    meanings: Mapping[int, Semantic],
    starts: Container[int],
    ends: Container[int],
) -> set[int]:
    """Return the statements before which a block ends so that other threads and engines can act there.

    Args:
        function: the function; its statements are identified by their indices.
        bindings, meanings: binding and semantics of each of its instructions; control flow has no semantics.
        starts, ends: statements at which a block begins or ends anyway.
    """
    cuts: set[int] = set()
    noticed = read = False
    for index, statement in enumerate(function.body):
        if isinstance(statement, LabelStatement):
            noticed = read = False
        elif isinstance(statement, Instruction):
            noticed = noticed and index not in starts
            reads = any(isinstance(each, Special) and each.name in CLOCKS for each in statement.operands)
            if reads or read:
                cuts.add(index)
                noticed = False
            read = reads
            if index in meanings and is_noticed(bindings[index], meanings[index]):
                if noticed:
                    cuts.add(index)
                noticed = True
            if index in ends:
                noticed = False
    return cuts


def is_noticed(binding: Binding, meaning: Semantic) -> bool:
    """True if other threads or engines may notice when the instruction executes."""
    if meaning.per == "value" or meaning.registers_only:
        return False
    for name, operand in binding.operands.items():
        spec = binding.specs[name]
        is_address = isinstance(operand, Address) or (isinstance(operand, Indexed) and spec.access == "a")
        if is_address and named_space(spec, binding.match.chosen) in _OWN_SPACES:
            return False
    return True
