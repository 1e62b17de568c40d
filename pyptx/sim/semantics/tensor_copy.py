"""Tensor copies as events: copies of boxes of a tensor map, with the steps of :mod:`.bulk_copy`.

Not modeled: reports of validity, overrides of a map's fields, and the im2col orders along W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..code.semantic import Op, executes
from ..copies import tensor_copy
from ..copies.boxes import LoadMode
from ..engine.events import Engine
from ..numbers.read_modify_write import combination
from ..threads.warp import Split
from .bulk_copy import Bytes, grouped, ranks_of, signaled, targets

#: The tensor map's address, and the coordinates, innermost first.
Tensor = tuple[int, tuple[int, ...]]


def _mode(op: Op) -> LoadMode:
    """Return the load mode that a modifier or the instruction form names."""
    named = op.chosen.get("load_mode")
    if named is not None:
        return LoadMode(named)
    mode: LoadMode = op.traits or LoadMode.TILE
    return mode


def _load(
    s: Split, op: Op, dst: int, tensor: Tensor, mbar: int, offsets: tuple[int, ...], mask: int | None
) -> None:
    cta = s.warp.cta
    operation = cta.machine.operation(s, Engine.TMA, takes_padding=True)
    copy = tensor_copy(cta, tensor, _mode(op), offsets, operation)
    copies = targets(s, op, dst, mbar, mask)
    operation.work = copy.asked(tensor, targets=ranks_of(copies), loads=True)
    signaled(
        s,
        op,
        operation,
        copies,
        copy.counted,
        lambda: copy.read_tensor(cta, operation),
        lambda where, data: copy.write_shared(cta, where, data, operation),
    )


@executes("cp.async.bulk.tensor.load", "cp.async.bulk.tensor.load.wide_multicast", per="lane")
@executes(
    "cp.async.bulk.tensor.load.gather4",
    "cp.async.bulk.tensor.load.gather4.wide_multicast",
    per="lane",
    traits=LoadMode.GATHER4,
)
def load_box(
    s: Split,
    op: Op,
    lane: int,
    dst: int,
    tensor: Tensor,
    mbar: int,
    mask: int | None = None,
    policy: int | None = None,
) -> None:
    _load(s, op, dst, tensor, mbar, (), mask)


@executes(
    "cp.async.bulk.tensor.load.im2col",
    "cp.async.bulk.tensor.load.im2col.wide_multicast",
    per="lane",
    traits=LoadMode.IM2COL,
)
def load_pixels(
    s: Split,
    op: Op,
    lane: int,
    dst: int,
    tensor: Tensor,
    mbar: int,
    offsets: tuple[int, ...],
    mask: int | None = None,
    policy: int | None = None,
) -> None:
    _load(s, op, dst, tensor, mbar, tuple(offsets), mask)


def _store(
    s: Split,
    op: Op,
    lane: int,
    tensor: Tensor,
    src: int,
    combine: Callable[..., Bytes] | None = None,
    reduction: tuple[str, str] | None = None,
) -> None:
    cta = s.warp.cta
    operation = cta.machine.operation(s, Engine.TMA, takes_padding=combine is None)
    operation.reduction = reduction
    copy = tensor_copy(cta, tensor, _mode(op), (), operation)
    operation.work = copy.asked(tensor, targets=(), loads=False)
    if min(tensor[1]) < 0:
        # Measured on an H200: elements past the end are dropped; a start before 0 is an illegal instruction.
        raise cta.machine.fault(
            "bad-tensor-map",
            f"{op.name} at the coordinates {tensor[1]} (innermost first); expected none below 0",
            operation,
        )
    for what in (copy.kind.name, copy.decoded.swizzle):
        # The manual allows these two for loads only.
        if what in ("b4x16_p64", "128B_ATOM_32B_FLIP_8B"):
            raise cta.machine.fault(
                "bad-tensor-map",
                f"{op.name} through a tensor map with {what}: only loads support {what}",
                operation,
            )
    grouped(
        s,
        lane,
        operation,
        copy.nbytes,
        lambda: copy.read_shared(cta, src, operation),
        lambda data: copy.write_tensor(cta, data, operation, combine),
    )


@executes("cp.async.bulk.tensor.store", per="lane")
@executes("cp.async.bulk.tensor.store.im2col", per="lane", traits=LoadMode.IM2COL_NO_OFFS)
@executes("cp.async.bulk.tensor.store.scatter4", per="lane", traits=LoadMode.SCATTER4)
def store_box(s: Split, op: Op, lane: int, tensor: Tensor, src: int, policy: int | None = None) -> None:
    _store(s, op, lane, tensor, src)


#: Operation -> element types of the tensor map that support it. Bitwise operations support integers of 4 or 8
#: bytes (``_WORDS``).
_WORDS = {4: "b32", 8: "b64"}
_REDUCED = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
}


@executes("cp.reduce.async.bulk.tensor", per="lane")
def reduce_box(s: Split, op: Op, lane: int, tensor: Tensor, src: int, policy: int | None = None) -> None:
    name = op.chosen["op"]
    kind = tensor_copy(s.warp.cta, tensor, _mode(op), (), s).kind
    if name in _REDUCED:
        type = kind.name.removesuffix(".ftz")
        known = type in _REDUCED[name]
    else:
        type = _WORDS.get(kind.nbytes, "")
        known = bool(type) and not kind.type.is_float
    if not known:
        raise s.warp.cta.machine.fault(
            "bad-tensor-map", f"{op.name}: elements of type {kind.name} have no reduction .{name}", s
        )
    combine = combination(name, type, ftz=kind.name == "f32.ftz", in_shared=False)
    _store(s, op, lane, tensor, src, combine, (name, type))


@executes("cp.async.bulk.prefetch.tensor", per="lane")
@executes("cp.async.bulk.prefetch.tensor.im2col", per="lane", traits=LoadMode.IM2COL)
@executes("cp.async.bulk.prefetch.tensor.gather4", per="lane", traits=LoadMode.GATHER4)
def prefetch_box(s: Split, op: Op, lane: int, tensor: Tensor, *rest: Any) -> None:
    """Check the tensor map: a prefetch changes nothing that a thread can observe."""
    mode = _mode(op)
    s.warp.cta.machine.fetch_map(s.warp.cta, tensor[0])
    tensor_copy(s.warp.cta, tensor, mode, tuple(rest[0]) if mode.im2col else (), s)
