"""The instructions mov, ld, st, st.async, st.bulk and cvta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import b16, b32, b64, b128
from ..code.propagation import LOADED, copied, stored, taken
from ..code.semantic import Op, executes
from ..copies.st_async import shared_address, store_async
from ..memory.access import AccessKind, MemoryOrder, StateSpace
from ..memory.address_space import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from ..threads.loads import MMIO, READ_ONLY, VOLATILE, load, load_one, store, store_one
from ..threads.warp import Split
from .mbarrier import live_barrier

Array = NDArray[Any]

#: The dtype of a register, by its size in bytes.
_WHOLE = {kind.nbytes: kind.register_dtype for kind in (b16, b32, b64, b128)}
#: The generic address at which a state space begins. Spaces that are not listed begin at 0, as global memory.
_WINDOWS = {
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
    "const": CONST_WINDOW,
    "local": LOCAL_WINDOW,
}


@executes("mov", "mov.b128", scalar="{a}", undefined=copied("a"))
def mov(a: Any) -> Any:
    return a


@executes("mov.vec", undefined=copied("a"))
def mov_vec(a: Array) -> Any:
    return a


@executes(
    "mov.pack.b16",
    "mov.pack.b32",
    "mov.pack.b32.v4",
    "mov.pack.b64",
    "mov.pack.b64.v4",
    "mov.pack.b128",
    "mov.pack.b128.v4",
    undefined=copied("a"),
)
def mov_pack(a: Array) -> Any:
    """Pack the elements into one register; the first element is the least significant part."""
    parts = np.ascontiguousarray(a.T)
    return parts.view(_WHOLE[parts.itemsize * parts.shape[1]])[:, 0]


def _mov_unpack(parts: int) -> Callable[[Array], Array]:
    def unpack(a: Array) -> Array:
        whole = np.ascontiguousarray(np.atleast_1d(a))[:, None]
        return whole.view(f"u{whole.itemsize // parts}").T

    return unpack


_UNPACK = ("mov.unpack.b16", "mov.unpack.b32", "mov.unpack.b64", "mov.unpack.b128")
_UNPACK_4 = ("mov.unpack.b32.v4", "mov.unpack.b64.v4", "mov.unpack.b128.v4")
executes(*_UNPACK, undefined=copied("a"))(_mov_unpack(2))
executes(*_UNPACK_4, undefined=copied("a"))(_mov_unpack(4))


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


_LOADS = {
    None: (
        *("ld", "ld.evict", "ld.v256", "ld.cop.v256", "ld.unified", "ld.param.where", "ld.param.func", "ldu"),
        *("ld.strong", "ld.strong.v256"),
    ),
    VOLATILE: ("ld.volatile", "ld.volatile.v256"),
    MMIO: ("ld.mmio",),
    READ_ONLY: ("ld.nc", "ld.nc.evict", "ld.nc.v256", "ld.nc.cop.v256", "ld.readonly", "ld.readonly.v256"),
}
_LOADS_OF_128_BITS = {
    None: (
        *("ld.b128", "ld.evict.b128", "ld.unified.b128", "ld.param.where.b128", "ld.param.func.b128"),
        *("ldu.b128", "ld.strong.b128"),
    ),
    VOLATILE: ("ld.volatile.b128",),
    MMIO: ("ld.mmio.b128",),
    READ_ONLY: ("ld.nc.b128", "ld.nc.evict.b128"),
}
_STORES = {
    None: ("st", "st.evict", "st.v256", "st.cop.v256", "st.strong", "st.strong.v256"),
    VOLATILE: ("st.volatile", "st.volatile.v256"),
    MMIO: ("st.mmio",),
}
_STORES_OF_128_BITS = {
    None: ("st.b128", "st.evict.b128", "st.strong.b128"),
    VOLATILE: ("st.volatile.b128",),
    MMIO: ("st.mmio.b128",),
}

for order, forms in _LOADS.items():
    executes(*forms, per="warp", lane=load_one, team=True, undefined=LOADED, traits=order)(load)
for order, forms in _LOADS_OF_128_BITS.items():
    executes(*forms, per="warp", team=True, undefined=LOADED, traits=order)(load)
for order, forms in _STORES.items():
    executes(*forms, per="warp", lane=store_one, team=True, undefined=stored("b"), traits=order)(store)
for order, forms in _STORES_OF_128_BITS.items():
    executes(*forms, per="warp", team=True, undefined=stored("b"), traits=order)(store)
executes("st.param", per="warp", lane=store_one, team=True, undefined=stored("b"), takes_undefined=True)(
    store
)
executes("st.param.b128", per="warp", team=True, undefined=stored("b"), takes_undefined=True)(store)


@executes("st.async", "st.async.b128", per="warp", undefined=taken("b"))
def st_async(s: Split, op: Op, lanes: Array, address: Array, b: Any, mbar: Array) -> None:
    barriers = [live_barrier(s, op, one) for one in shared_address(op, mbar).tolist()]
    store_async(s, op, lanes, shared_address(op, address), b, barriers, MemoryOrder.WEAK)


@executes("st.async.release", per="warp")
def st_async_release(s: Split, op: Op, lanes: Array, address: Array, b: Any) -> None:
    store_async(s, op, lanes, address, b, None, MemoryOrder.RELEASE)


@executes("st.bulk", "st.bulk.u32", per="lane")
def st_bulk(s: Split, op: Op, lane: int, address: int, size: int, initial: int) -> None:
    """Write zeros, as weak stores would."""
    if size % 8:
        raise s.warp.cta.machine.fault("misaligned", f"st.bulk of {size} bytes; expected a multiple of 8", s)
    segment, offset = s.access_one(AccessKind.WRITE, op, lane, address, size, align=8)
    if segment.space is not StateSpace.SHARED:
        raise s.warp.cta.machine.fault(
            "out-of-bounds", f"st.bulk in {segment.space.value} memory; expected shared memory", s
        )
    segment.data[offset : offset + size] = 0
