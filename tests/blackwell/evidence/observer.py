"""Records the fields of descriptors and tensor maps with which instructions execute in the simulator.

Owns :func:`observed`.  While its block runs, the functions of these instructions are wrapped: ``tcgen05.mma`` (the
instruction descriptor, the descriptors of A and B), ``tcgen05.cp`` (its descriptor), tensor copies (the tensor map, and
where in the swizzle's pattern the box begins), ``tcgen05.alloc`` (columns), multicasts (the mask).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pyptx.core.errors import PyptxError
from pyptx.layout import TensorMap
from pyptx.layout.swizzle import SWIZZLE_BYTES
from pyptx.layout.tcgen05_smem_descriptor import OPERAND_SWIZZLES, Tcgen05SmemDescriptor
from pyptx.layout.tensor_map_image import IMAGE_BYTES
from pyptx.sim.code.semantic import Op, Semantic, semantics
from pyptx.sim.memory.access import AccessKind, Proxy, StateSpace

from .facts import Fact, Kind
from .forms import form_name
from .products import product_fact

__all__ = ["observed"]

Note = Callable[[Fact], None]
Operands = dict[str, Any]

#: Bits of an element in shared memory, where they are not 8.
_BITS = {"tf32": 32, "f16": 16, "bf16": 16}


def _name(op: Op) -> str:
    return form_name(op.binding.match)[1]


# --- products -----------------------------------------------------------------------------------------


def _product(s: Any, op: Op, given: Operands, note: Note) -> None:
    """The fields of the instruction descriptor, and those of each operand's descriptor."""
    fact, fields = product_fact(op.binding, int(given["idesc"]))
    note(fact)
    if fields is None:
        return
    packed = fields.kind in ("mxf4", "mxf4nvf4")
    where = f"tcgen05.mma.{op.chosen['cta_group']}"
    for side, key, element, major in (
        ("A", "a-desc", fields.a_type, fields.a_major),
        ("B", "b-desc", fields.b_type, fields.b_major),
    ):
        if key in given:
            bits = 4 if packed else _BITS.get(element, 8)
            for each in _operand(where, int(given[key]), side=side, bits=bits, major=major):
                note(each)


def _operand(name: str, word: int, **fields: object) -> Iterator[Fact]:
    """Yield the fields of a descriptor of an operand in shared memory.

    Two of them are facts of their own: the leading offset where the ISA says that it is not used, and the row of the
    swizzle's pattern at which the address lies.
    """
    try:
        tile = Tcgen05SmemDescriptor.decode(word)
    except PyptxError:
        yield Fact.of(Kind.OPERAND, name, **fields, raw=hex(word >> 14 << 14))
        return
    span = OPERAND_SWIZZLES[tile.swizzle]
    unused = bool(span) and fields.get("major") == "K" and not tile.leading_mode
    yield Fact.of(
        Kind.OPERAND,
        name,
        **fields,
        swizzle=tile.swizzle,
        leading=None if unused else tile.leading_bytes,
        stride=tile.stride_bytes,
        base=tile.base_offset,
        absolute="yes" if tile.leading_mode else None,
        step=tile.address % span if span else None,
    )
    if unused:
        yield Fact.of(
            Kind.OPERAND, "leading offset, not used", swizzle=tile.swizzle, leading=tile.leading_bytes
        )
    if span:
        row = tile.address // span % 8
        yield Fact.of(Kind.OPERAND, "first row in the pattern", swizzle=tile.swizzle, row=row)


def _to_tensor_memory(s: Any, op: Op, given: Operands, note: Note) -> None:
    for fact in _operand(_name(op), int(given["s-desc"])):
        note(fact)


# --- copies -------------------------------------------------------------------------------------------


def _copy(s: Any, op: Op, given: Operands, note: Note) -> None:
    """The fields of the tensor map; a swizzled box: where in the pattern it begins."""
    cta = s.warp.cta
    address, _ = given["tensorMap"]
    segment, offset = cta.machine.memory.access(
        AccessKind.PROBE,
        StateSpace.GENERIC,
        address,
        IMAGE_BYTES,
        s,
        cta.cluster_memory,
        Proxy.TENSORMAP,
        align=64,
    )
    try:
        found = TensorMap.decode(segment.data[int(offset) : int(offset) + IMAGE_BYTES].tobytes())
    except PyptxError:
        return
    what = op.binding.form_id
    place = given.get("dstMem", given.get("srcMem"))
    period = 8 * SWIZZLE_BYTES.get(found.swizzle, 128)
    note(
        Fact.of(
            Kind.COPY,
            what,
            element=found.kind.name,
            rank=found.rank,
            row=found.row_bytes,
            swizzle=found.swizzle,
            begins=place % period if place is not None and period else None,
            interleave=found.interleave if found.interleave != "none" else None,
            fill=found.oob_fill if found.oob_fill != "zeros" else None,
            steps="yes" if any(step != 1 for step in found.element_strides) else None,
            im2col="yes" if found.im2col else None,
        )
    )
    _mask(s, op, given, note)


# --- numbers ------------------------------------------------------------------------------------------


def _columns(s: Any, op: Op, given: Operands, note: Note) -> None:
    note(Fact.of(Kind.NUMBER, _name(op), columns=int(np.atleast_1d(given["nCols"])[0])))
    x, y, z = (*s.warp.cta.grid.launch.cluster, 1, 1)[:3]
    note(Fact.of(Kind.NUMBER, "cluster", extents=f"{x}x{y}x{z}"))


def _mask(s: Any, op: Op, given: Operands, note: Note) -> None:
    mask = given.get("ctaMask")
    if mask is not None:
        note(Fact.of(Kind.NUMBER, _name(op), mask=bin(int(np.atleast_1d(mask)[0]))))


_WATCHED: dict[str, Callable[[Any, Op, Operands, Note], None]] = {
    "tcgen05.mma": _product,
    "tcgen05.cp": _to_tensor_memory,
    "tcgen05.alloc": _columns,
    "tcgen05.dealloc": _columns,
    "tcgen05.commit": _mask,
    "cp.async.bulk.tensor": _copy,
    "cp.reduce.async.bulk.tensor": _copy,
    "cp.async.bulk.prefetch.tensor": _copy,
}


def _watch(form: str) -> Callable[[Any, Op, Operands, Note], None] | None:
    return next(
        (how for start, how in _WATCHED.items() if form == start or form.startswith(start + ".")), None
    )


def _wrapped(meaning: Semantic, how: Callable[[Any, Op, Operands, Note], None], note: Note) -> Semantic:
    @functools.wraps(meaning.function)
    def function(s: Any, op: Op, lane: Any, *values: Any) -> Any:
        names = [spec.name for spec in op.binding.match.form.specs() if spec.access != "w"]
        how(s, op, {k: v for k, v in zip(names, values, strict=False) if v is not None}, note)
        return meaning.function(s, op, lane, *values)

    return replace(meaning, function=function)


@contextmanager
def observed(note: Note) -> Iterator[None]:
    """Call ``note`` with each fact of the instructions that modules loaded in this block execute; a fact may come often."""
    table = semantics()
    before = dict(table)
    for form, meaning in before.items():
        how = _watch(form)
        if how is not None:
            table[form] = _wrapped(meaning, how, note)
    try:
        yield
    finally:
        table.update(before)
