"""What ptxas has made of the accesses to memory of each function of a module."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Module
from ...timing.access_order import AccessOrder
from .ahead import loads_ahead
from .awaited import awaited_loads, sunk_loads
from .costs import StatementCost
from .merged import merged_accesses
from .order import passed_by_loads
from .spills import keeping_locals
from .statements import StatementCode

__all__ = ["access_orders"]


def access_orders(
    code: StatementCode, module: Module, costs: Mapping[tuple[str, int], StatementCost]
) -> dict[str, AccessOrder]:
    """Return the order of the accesses of each function that has machine code.

    Args:
        code: the machine code of ``module``.
        module: the module.
        costs: the cost of each statement, by function and number.
    """
    local = keeping_locals(code, module)
    of_function: dict[str, dict[int, StatementCost]] = {}
    for (name, number), cost in costs.items():
        of_function.setdefault(name, {})[number] = cost
    found: dict[str, AccessOrder] = {}
    for function in module.functions:
        own = of_function.get(function.name)
        if own is None:
            continue
        merged = merged_accesses(function, {number: cost.accessed for number, cost in own.items()})
        places = {number: cost.place for number, cost in own.items() if cost.place is not None}
        # Those without a machine instruction lie where that of their group does.
        of_group = {
            each.statement: places[number]
            for number, each in merged.items()
            if number in own and own[number].accessed
        }
        places.update((number, of_group[each.statement]) for number, each in merged.items())
        found[function.name] = AccessOrder(
            passed_by_loads(function, places),
            merged,
            loads_ahead(function, own),
            awaited_loads(function, own),
            sunk_loads(function, own),
            function.name in local,
            {number: tuple(cost.spills) for number, cost in own.items() if cost.spills},
            frozenset(number for number, cost in own.items() if cost.refilled),
        )
    return found
