"""Computes which bits of an instruction's results are undefined, by the rule of its form."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir import Element, Minus, Negated, Operand, Register, Vector
from ..code.bit_flow import BitFlow, Dest, Source
from ..code.function import CodeBlock
from ..code.liveness import CARRY
from ..code.propagation import Rule
from ..code.semantic import Op, RegisterPlace
from ..code.translate import operands_function
from .frames import WIDE, Frame
from .origins import COMPUTED
from .undefined import ALL_BITS
from .warp import Split

__all__ = ["BitRules", "controls", "register_bits"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]
_NONE = np.uint64(0)


def controls(flow: BitFlow) -> tuple[Source, ...]:
    """Return the operands of a form that moves bits which say where the bits go."""
    return tuple(source for source in flow.sources if source.name not in flow.propagation.operands)


def register_bits(frame: Frame, operand: Operand, dtype: np.dtype[Any]) -> Array:
    """Return the undefined bits of a scalar operand in each thread, as values of ``dtype``."""
    if isinstance(operand, Minus | Negated | Element):
        operand = operand.operand if isinstance(operand, Minus) else operand.register
    bits = None
    if isinstance(operand, Register):
        place = frame.code.places[operand.name]
        bits = frame.registers.undefined.bits(place.index, frame.span)
    if bits is None:
        return np.zeros(frame.columns, dtype)
    value: Array
    if dtype == WIDE:
        value = np.ascontiguousarray(bits).view(WIDE)[:, 0]
    elif dtype == np.bool_:
        value = bits != 0
    else:
        value = bits.astype(f"u{dtype.itemsize}").view(dtype)
    return value


class BitRules:
    """The undefined bits of operands and results of the instructions of one block, for one split."""

    def __init__(self, s: Split, block: CodeBlock) -> None:
        self.s, self.block, self.frame, self.code = s, block, s.frame, block.code
        self.undefined = s.frame.registers.undefined
        self.span = s.frame.span
        #: The threads of the split, by column.
        self.mask = np.ones(s.frame.columns, np.bool_) if s.k is None else s.k

    def all_bits(self, place: RegisterPlace, flags: Mask) -> Array:
        """Return all bits of a register in the threads that ``flags`` marks, and none in the others."""
        bits = np.where(flags, ALL_BITS[place.cls], _NONE)
        return np.stack([bits, bits], axis=1) if place.cls == "128" else bits

    def results(self, op: Op, flow: BitFlow) -> list[tuple[Dest, Array, Array]]:
        """Return the undefined bits of each result, and their origins, in all threads."""
        flags, origins = self.gather(flow.sources, carry=flow.propagation.reads_carry)
        if not flow.propagation.copies:
            origins = origins | COMPUTED
        if flow.rule is Rule.MOVED:
            control, _ = self.gather(controls(flow))
            found = self._moved(op, flow, origins)
            if control.any():
                every = [self.all_bits(dest.place, control) for dest in flow.dests]
                found = [
                    (dest, bits | more, np.where(control, known | COMPUTED, known))
                    for (dest, bits, known), more in zip(found, every, strict=True)
                ]
            return found
        if flow.rule is Rule.BITWISE:
            return self._bitwise(op, flow, origins)
        if flow.rule is Rule.UPWARD:
            return self._upward(flow, origins)
        if flow.rule is Rule.PARTS:
            return self._parts(flow, origins)
        if flow.rule is Rule.EACH and _packed(flow):
            return self._each_element(flow, origins)
        return [(dest, self.all_bits(dest.place, flags), origins) for dest in flow.dests]

    def gather(self, sources: tuple[Source, ...], *, carry: bool = False) -> tuple[Mask, Array]:
        """Return in which threads some register of ``sources`` has undefined bits, and their origins.

        With ``carry``, the carry flag counts, too.
        """
        flags = np.zeros(self.frame.columns, np.bool_)
        origins = np.zeros(self.frame.columns, np.int64)
        places = [place for source in sources for place in source.places]
        for place in (*places, CARRY) if carry else places:
            more = self.undefined.flags(place.index, self.span)
            if more is not None:
                known = self.undefined.origins(place.index, self.span)
                origins = np.where(more & ~flags, known, origins)
                flags |= more
        return flags, origins

    def _moved(self, op: Op, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        """Compute the undefined bits of the results as the form moves them."""
        if op.semantic.per == "value":
            lanes = None
            values = operands_function(self.block, op, select=False)(self.s, self.frame, None)
        else:
            lanes = np.flatnonzero(self.mask)
            values = operands_function(self.block, op, select=True)(self.s, self.frame, lanes)
        arguments = [
            self.shadow(source, lanes) if source.name in flow.propagation.operands else value
            for source, value in zip(flow.sources, values, strict=True)
        ]
        meaning = op.semantic
        if meaning.per == "value":
            result = meaning.function(op, *arguments) if meaning.wants_op else meaning.function(*arguments)
        else:
            result = meaning.function(self.s, op, lanes, *arguments)
            origins = np.full(self.frame.columns, origins[np.argmax(origins > 0)])
        return [
            (dest, self.words(result if dest.part is None else result[dest.part], dest, lanes), origins)
            for dest in flow.dests
        ]

    def _bitwise(self, op: Op, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        """Compute which bits of the results change if undefined bits of the operands change."""
        values = operands_function(self.block, op, select=False)(self.s, self.frame, None)
        shadows = [self.shadow(source, None) if source.places else None for source in flow.sources]
        meaning = op.semantic

        def evaluate(chosen: tuple[bool, ...]) -> Any:
            given = [
                value ^ shadow if flip and shadow is not None else value
                for value, shadow, flip in zip(values, shadows, chosen, strict=True)
            ]
            return meaning.function(op, *given) if meaning.wants_op else meaning.function(*given)

        known = evaluate((False,) * len(values))
        changing = [(False, True) if shadow is not None else (False,) for shadow in shadows]
        changed: Any = known ^ known
        for chosen in product(*changing):
            if any(chosen):
                changed = changed | (evaluate(chosen) ^ known)
        return [(dest, self.words(changed, dest, None), origins) for dest in flow.dests]

    def _upward(self, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        together = np.zeros(self.frame.columns, np.uint64)
        for source in flow.sources:
            for place in source.places:
                bits = self.undefined.bits(place.index, self.span)
                if bits is not None:
                    together |= bits
        bits = together | (~together + np.uint64(1))
        bits[together == 0] = 0
        return [(dest, bits & ALL_BITS[dest.place.cls], origins) for dest in flow.dests]

    def _each_element(self, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        """Apply the rule to each element of packed operands."""
        (dest,) = flow.dests
        width = dest.kind.bits // dest.kind.lanes
        element = np.uint64((1 << width) - 1)
        bits = np.zeros(self.frame.columns, np.uint64)
        for source in flow.sources:
            for place in source.places:
                more = self.undefined.bits(place.index, self.span)
                for start in range(0, dest.kind.bits if more is not None else 0, width):
                    assert more is not None
                    part = element << np.uint64(start)
                    bits |= np.where(more & part != 0, part, _NONE)
        return [(dest, bits, origins)]

    def _parts(self, flow: BitFlow, origins: Array) -> list[tuple[Dest, Array, Array]]:
        """Mark an element of the result for each operand with undefined bits."""
        (dest,) = flow.dests
        width = dest.kind.bits // len(flow.sources)
        bits = np.zeros(self.frame.columns, np.uint64)
        for number, source in enumerate(reversed(flow.sources)):
            flags, _ = self.gather((source,))
            bits |= np.where(flags, np.uint64(((1 << width) - 1) << number * width), _NONE)
        return [(dest, bits, origins)]

    # --- conversions between flags and values -------------------------------------------------

    def shadow(self, source: Source, lanes: Array | None) -> Any:
        """Return the undefined bits of an operand as a value of the operand's type."""
        operand, dtype = source.operand, source.kind.register_dtype
        if isinstance(operand, Vector):
            value = np.stack([register_bits(self.frame, element, dtype) for element in operand.elements])
        elif isinstance(operand, Register | Element | Minus | Negated):
            value = register_bits(self.frame, operand, dtype)
        else:
            return np.zeros((), dtype)[()]
        return value if lanes is None else value[..., lanes]

    def words(self, value: Any, dest: Dest, lanes: Array | None) -> Array:
        """Return a computed value as undefined bits of a register, in all threads."""
        value = np.asarray(value)
        if dest.place.cls == "128":
            found = np.ascontiguousarray(np.broadcast_to(value, value.shape or (1,))).view(np.uint64)
            found = found.reshape(-1, 2)
        elif value.dtype.kind == "i":
            found = value.astype(np.int64).view(np.uint64) & ALL_BITS[dest.place.cls]
        else:
            raw = value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "f" else value
            found = raw.astype(np.uint64) & ALL_BITS[dest.place.cls]
        shape = (self.frame.columns, 2) if dest.place.cls == "128" else (self.frame.columns,)
        if lanes is None:
            everywhere: Array = np.broadcast_to(found, shape)
            return everywhere
        spread = np.zeros(shape, np.uint64)
        spread[lanes] = found
        return spread


def _packed(flow: BitFlow) -> bool:
    """True if the result and all registers that the instruction reads have the same number of elements."""
    if len(flow.dests) != 1:
        return False
    kind = flow.dests[0].kind
    kinds = [source.kind for source in flow.sources if source.places]
    return kind.lanes > 1 and all(k.lanes == kind.lanes and k.bits == kind.bits for k in kinds)
