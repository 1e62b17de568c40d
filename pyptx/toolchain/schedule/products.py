"""Which ``wgmma.mma_async`` each product in the machine code is, and in which functions they are serialized.

Owns a correction: ptxas gives all products of a batch the location of an instruction in front of them, often
the ``wgmma.fence``. A product is one machine instruction, and a ``NOP`` that prolongs its stall; ptxas keeps
the order of a batch, and the location of its fence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ...core.source import SourceLocation
from ...ir import Function, Instruction, Module
from ..nvdisasm import MachineInstruction
from .graph import base_of
from .statements import Statement, StatementCode, statement_of

__all__ = ["locate_products", "serialized_functions"]

_FENCE = "WARPGROUP.ARRIVE"
_PRODUCTS = frozenset({"HGMMA", "IGMMA", "QGMMA", "BGMMA"})


def locate_products(code: StatementCode, module: Module) -> StatementCode:
    """Return the machine code with each product at its own statement.

    Args:
        code: the machine code of ``module``, by function.
        module: the module.
    """
    batches = {function.name: _batches(function) for function in module.functions}
    if not any(batches.values()):
        return code
    return {name: _located(instructions, batches) for name, instructions in code.items()}


def serialized_functions(code: StatementCode, module: Module) -> frozenset[str]:
    """Return the functions whose products ptxas lets run one by one, with a wait behind each.

    It does so, and says so, where it cannot keep the sums of products that are in flight apart from other
    instructions. In their machine code each product of a batch has a fence of its own.
    """
    return frozenset(
        function.name
        for function in module.functions
        if any(len(products) > 1 for products in _batches(function).values())
        and _fenced_one_by_one(code.get(function.name, ()))
    )


def _fenced_one_by_one(instructions: Iterable[MachineInstruction]) -> bool:
    fenced, products = False, 0
    for instruction in instructions:
        if instruction.opcode == _FENCE:
            fenced = True
        elif base_of(instruction.opcode) in _PRODUCTS:
            if not fenced:
                return False
            fenced, products = False, products + 1
    return products > 1


def _batches(function: Function) -> dict[int, list[int]]:
    """Return the products behind each ``wgmma.fence``, up to the next one, by numbers of statements."""
    found: dict[int, list[int]] = {}
    batch: list[int] = []
    for number, statement in enumerate(function.body):
        if not isinstance(statement, Instruction) or statement.opcode != "wgmma":
            continue
        if "fence" in statement.modifiers:
            batch = found[number] = []
        elif "mma_async" in statement.modifiers:
            batch.append(number)
    return {fence: products for fence, products in found.items() if products}


def _located(
    instructions: list[MachineInstruction], batches: dict[str, dict[int, list[int]]]
) -> list[MachineInstruction]:
    counts: Counter[Statement] = Counter()
    found: list[MachineInstruction] = []
    fence: Statement | None = None
    product: SourceLocation | None = None
    for instruction in instructions:
        opcode = base_of(instruction.opcode)
        if instruction.opcode == _FENCE:
            fence = statement_of(instruction)
        if opcode in _PRODUCTS:
            batch = None if fence is None else batches.get(fence.function, {}).get(fence.number)
            if fence is None or batch is None:
                product = None
            else:
                product = SourceLocation(fence.function, batch[counts[fence] % len(batch)] + 1)
                counts[fence] += 1
        elif opcode != "NOP":
            product = None
        found.append(instruction if product is None else replace(instruction, location=product))
    return found
