"""Places in straight-line code where other threads and engines may act.

Translated code runs one block at a time. For schedules that choose the order of threads at random, blocks
also end between two instructions that other threads or engines can observe: accesses to memory that they
share, synchronization, or work for an engine. A read of a clock is a block of its own: it returns the time at
which the instructions before it have been issued, and none of those behind it.

In a machine that keeps time, arithmetic that waits for a load is a block of its own, too: it takes issue
slots and pipes when the warp goes on, not when it comes to the load.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from ...flow import accesses
from ...ir import Address, Function, Indexed, Instruction, LabelStatement, Special
from ...isa import Binding
from ...isa.special import CLOCKS
from ..memory.access import StateSpace
from .semantic import Semantic
from .spaces import named_space

__all__ = ["interleaving_cuts", "is_noticed", "waiting_cuts"]

#: State spaces that no other thread can access, or that no thread writes.
_OWN_SPACES = frozenset({StateSpace.PARAM, StateSpace.CONST, StateSpace.LOCAL})

#: Instructions behind a wait for loads for which a block of their own is worth its while.
_WORTHWHILE = 8


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


def waiting_cuts(
    function: Function,
    bindings: Mapping[int, Binding],
    meanings: Mapping[int, Semantic],
    cuts: Container[int],
) -> set[int]:
    """Return the statements before which a block ends so that a warp can wait there for what it has loaded.

    They begin arithmetic behind an access to memory, at the first use of what was loaded before.

    Args:
        function: the function; its statements are identified by their indices.
        bindings, meanings: binding and semantics of each of its instructions; control flow has no semantics.
        cuts: statements at which a block begins or ends anyway.
    """
    found: set[int] = set()
    loaded: set[str] = set()
    accessed, first, behind = False, -1, 0
    for index, statement in enumerate(function.body):
        if isinstance(statement, LabelStatement):
            loaded.clear()
        if isinstance(statement, LabelStatement) or index in cuts:
            if behind >= _WORTHWHILE:
                found.add(first)
            accessed, first, behind = False, -1, 0
        if not isinstance(statement, Instruction) or index not in meanings:
            continue
        read, written = accesses(statement, bindings[index])
        if is_noticed(bindings[index], meanings[index]):
            accessed = True
            loaded.update(register.name for register in written)
            continue
        if accessed and first < 0 and any(register.name in loaded for register in read):
            first = index
        behind += first >= 0
        loaded.difference_update(register.name for register in written)
    if behind >= _WORTHWHILE:
        found.add(first)
    return found


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
