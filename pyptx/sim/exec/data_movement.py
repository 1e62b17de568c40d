"""mov, ld, st, cvta."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES
from ..memory import PARAM_WINDOW, SHARED_WINDOW, Scattered
from ..semantics import Op, executes
from ..warp import Split

Array = NDArray[Any]

_WINDOWS = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "param": PARAM_WINDOW, "global": 0}


@executes("mov", scalar="{a}")
def mov(a: Any) -> Any:
    return a


def _cvta_scalar(chosen: dict[str, str]) -> str:
    return f"{{a}} + {_WINDOWS.get(chosen['space'], 0)}"


def _cvta_to_scalar(chosen: dict[str, str]) -> str:
    return f"{{a}} - {_WINDOWS.get(chosen['space'], 0)}"


@executes("cvta", scalar=_cvta_scalar)
def cvta(op: Op, a: Array) -> Any:
    return a + np.uint64(_WINDOWS.get(op.chosen["space"], 0))


@executes("cvta.to", scalar=_cvta_to_scalar)
def cvta_to(op: Op, a: Array) -> Any:
    return a - np.uint64(_WINDOWS.get(op.chosen["space"], 0))


def _order(op: Op) -> tuple[str, str]:
    return op.chosen.get("sem", "weak"), op.chosen.get("scope", "")


def _shape(op: Op) -> tuple[int, int, np.dtype[Any]]:
    """Elements, bytes of one, and its dtype."""
    kind = TYPES[op.chosen["type"]]
    vector = op.chosen.get("vec")
    return (int(vector[1:]) if vector else 1), kind.nbytes, kind.register_dtype


def _load_lane(s: Split, op: Op, lane: int, address: int, policy: Any = None) -> Any:
    count, nbytes, dtype = _shape(op)
    cta = s.warp.cta
    segment, offset = cta.machine.memory.access(
        "read", op.space, address, count * nbytes, s, cta.reach, "generic", *_order(op)
    )
    raw = segment.data[offset : offset + count * nbytes]
    if dtype.kind == "f":
        dtype = np.dtype(f"u{nbytes}")
    values = raw.view(dtype).tolist()
    return values if "vec" in op.chosen else values[0]


@executes("ld", "ld.evict", "ld.strong", per="warp", lane=_load_lane)
def ld(s: Split, op: Op, lanes: Array, address: Array, policy: Any = None) -> Any:
    count, nbytes, dtype = _shape(op)
    cta = s.warp.cta
    try:
        segment, offset = cta.machine.memory.access(
            "read", op.space, address, count * nbytes, s, cta.reach, "generic", *_order(op)
        )
    except Scattered:
        one_by_one = []
        for i in range(len(address)):
            s.acting = lanes[i : i + 1]
            one_by_one.append(ld(s, op, s.acting, address[i : i + 1]))
        return np.concatenate(one_by_one, axis=-1)
    words = segment.words(nbytes)
    first = offset // nbytes
    if "vec" not in op.chosen:
        return words[first].view(dtype)
    return np.stack([words[first + i] for i in range(count)]).view(dtype)


def _store_lane(s: Split, op: Op, lane: int, address: int, value: Any, policy: Any = None) -> None:
    count, nbytes, _ = _shape(op)
    cta = s.warp.cta
    segment, offset = cta.machine.memory.access(
        "write", op.space, address, count * nbytes, s, cta.reach, "generic", *_order(op)
    )
    mask = (1 << (8 * nbytes)) - 1
    for i, item in enumerate(value if "vec" in op.chosen else (value,)):
        start = offset + i * nbytes
        segment.data[start : start + nbytes] = np.frombuffer(
            (item & mask).to_bytes(nbytes, "little"), np.uint8
        )


@executes("st", "st.evict", "st.strong", per="warp", lane=_store_lane)
def st(s: Split, op: Op, lanes: Array, address: Array, value: Any, policy: Any = None) -> None:
    count, nbytes, _ = _shape(op)
    cta = s.warp.cta
    try:
        segment, offset = cta.machine.memory.access(
            "write", op.space, address, count * nbytes, s, cta.reach, "generic", *_order(op)
        )
    except Scattered:
        values = np.broadcast_to(value, (*np.shape(value)[:-1], len(address)))
        for i in range(len(address)):
            s.acting = lanes[i : i + 1]
            st(s, op, s.acting, address[i : i + 1], values[..., i : i + 1])
        return
    raw = np.dtype(f"u{nbytes}")
    words = segment.words(nbytes)
    first = offset // nbytes
    value = np.asarray(value).view(raw)
    if "vec" not in op.chosen:
        words[first] = value
    else:
        # [lane, element] indices and values: one scatter for the whole vector.
        words[first[:, None] + np.arange(count)] = value.T
