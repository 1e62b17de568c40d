"""The facts about products: the fields of instruction descriptors, and those that are constants in a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pyptx.core.errors import PyptxError
from pyptx.ir import Immediate, Instruction, Module, Operand, Register
from pyptx.isa import Binding, bind_instruction
from pyptx.layout.tcgen05_instruction_descriptor import InstructionDescriptor

from .facts import Fact, Kind

__all__ = ["constant_products", "product_fact"]


def product_fact(binding: Binding, word: int) -> tuple[Fact, InstructionDescriptor | None]:
    """Return the fact about a product with this instruction descriptor, and the fields; None if no field has a meaning."""
    chosen = binding.chosen
    kind, pair = chosen["kind"].removeprefix("kind::"), int(chosen["cta_group"][-1])
    inside = "a-tmem" in binding.specs
    variants = [part for part in binding.form_id.split(".") if part in ("ws", "sp")]
    name = ".".join(("tcgen05.mma", *variants, chosen["cta_group"], chosen["kind"]))
    try:
        fields = InstructionDescriptor.decode(
            word, kind, cta_group=pair, ws="ws" in variants, a_in_tensor_memory=inside
        )
    except PyptxError:
        return Fact.of(Kind.MMA, name, raw=hex(word)), None
    negated = "".join(side for side, is_so in (("A", fields.negate_a), ("B", fields.negate_b)) if is_so)
    return (
        Fact.of(
            Kind.MMA,
            name,
            shape=f"{fields.m}x{fields.n}",
            types=f"{fields.a_type} {fields.b_type} {fields.d_type}",
            majors=f"{fields.a_major} {fields.b_major}",
            a="tensor memory" if inside else "shared memory",
            negated=negated or None,
            saturate="yes" if fields.saturate else None,
            selector=fields.sparsity_selector if fields.sparse else None,
            shift=fields.max_shift or None,
            scales=fields.scale_type and f"{fields.scale_type} {fields.scale_a_id} {fields.scale_b_id}",
            block=chosen.get("scale"),
            wide="yes" if fields.wide_k else None,
        ),
        fields,
    )


def constant_products(module: Module) -> set[Fact]:
    """Return the facts about products whose instruction descriptor is a constant, or one of several.

    A register counts as a constant where ``mov`` or ``selp`` give it one; what else it may be is not seen.
    """
    found = set()
    for function in module.functions:
        given: dict[str, list[Instruction]] = defaultdict(list)
        products = []
        for statement in function.body:
            if isinstance(statement, Instruction) and statement.operands:
                if isinstance(statement.operands[0], Register):
                    given[statement.operands[0].name].append(statement)
                if statement.name.startswith("tcgen05.mma"):
                    products.append(bind_instruction(statement))
        for binding in products:
            for word in _constants(binding.operands["idesc"], given, set()):
                found.add(product_fact(binding, word & 0xFFFFFFFF)[0])
    return found


def _constants(operand: Operand, given: dict[str, list[Instruction]], seen: set[str]) -> Iterator[int]:
    if isinstance(operand, Immediate):
        yield int(operand.value)
    elif isinstance(operand, Register) and operand.name not in seen:
        seen.add(operand.name)
        for each in given[operand.name]:
            if each.opcode in ("mov", "selp"):
                for source in each.operands[1 : 2 if each.opcode == "mov" else 3]:
                    yield from _constants(source, given, seen)
