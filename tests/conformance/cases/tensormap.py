"""Tensor maps changed in memory: every field, in shared and in global memory, then used by a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ..case import In, KernelCase, Map, Out, kernel
from ..reference import Expected
from ..reference.tensor import TensorBox
from .bulk_copy import DECLARED, DUMP, FILL, ROOM, WAIT, expect

_TENSOR = np.arange(1, 16 * 64 + 1, dtype=np.uint16).reshape(16, 64)
_BEFORE = np.full(ROOM // 8, 0xA5A5A5A5A5A5A5A5, np.uint64)

#: Each thread copies 4 bytes of the map at %map to shared memory, at %r20. %d10 is the third row of the tensor.
_COPY = """
mov.u32 %r20, image;
add.u64 %d10, %tensor, 256;
mad.wide.u32 %d6, %thread, 4, %map;
ld.b32 %r21, [%d6];
mad.lo.u32 %r22, %thread, 4, %r20;
st.shared.b32 [%r22], %r21;
bar.sync 0;
"""
#: The changed map goes to global memory, where copies may use it.
_PUBLISH = """
bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%place], [%r20], 128;
fence.proxy.tensormap::generic.acquire.gpu [%place], 128;
"""
#: The other way: the map is copied first and then changed in global memory.
_IN_GLOBAL = """
mad.wide.u32 %d7, %thread, 4, %place;
st.global.b32 [%d7], %r21;
bar.warp.sync -1;
"""
_FENCES = """
bar.warp.sync -1;
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [%place], 128;
"""
_IMAGE = ".shared .align 128 .b8 image[128];"


def _case(
    name: str,
    lines: list[str],
    nbytes: int,
    point: str,
    *,
    rank: int = 2,
    space: str = "shared",
    seen: NDArray[Any] = _TENSOR,
    becomes: dict[str, Any] | None = None,
    **options: Any,
) -> KernelCase:
    """The map, changed by ``lines``, loads ``nbytes`` from ``point``; ``{at}`` in a line is the map.

    For the reference: the tensor that the changed map shows, and which options it has then.
    """
    where = "%r20" if space == "shared" else "%place"
    suffix = "shared::cta" if space == "shared" else "global"
    changes = "".join(f"@%p1 tensormap.replace.tile.{line.format(s=suffix, at=where)};\n" for line in lines)
    body = [
        FILL,
        _COPY,
        changes + _PUBLISH if space == "shared" else _IN_GLOBAL + changes + _FENCES,
        expect(nbytes),
        f"@%p1 cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%r0], [%place, {{{point}}}], [%r1];\n",
        WAIT,
        DUMP,
    ]
    fields = {
        "global_address": "address",
        "global_stride": "stride",
        **dict.fromkeys(("box_dim", "global_dim", "element_stride"), "dim"),
    }
    changed = {line.split(".")[0] for line in lines}
    covers = {f"tensormap.replace.{fields.get(field, field)}" for field in changed}
    if space == "shared":
        covers.add("tensormap.cp_fenceproxy")
    now = {"box": (8, 16), **options, **(becomes or {})}

    def reference() -> list[Expected]:
        room = _BEFORE.copy()
        box = TensorBox(seen.shape, seen.itemsize, now, [int(at) for at in point.split(",")])
        assert box.nbytes == nbytes
        box.loaded(seen, room.view(np.uint8))
        return [Expected(room)]

    return KernelCase(
        f"{name} in {space} memory",
        kernel(
            "".join(body),
            "given:u64 out:u64 tensor:u64 place:u64 map:map",
            registers=f"{DECLARED}\n{_IMAGE}",
        ),
        (
            In(_BEFORE),
            Out(np.uint64, ROOM // 8),
            In(_TENSOR),
            In(np.zeros(128, np.uint8)),
            Map(2, {"box": (8, 16), **options}),
        ),
        covers=tuple(sorted(covers)),
        reference=reference,
    )


def _cases(space: str) -> list[KernelCase]:
    def case(name: str, lines: list[str], nbytes: int, point: str, **options: Any) -> KernelCase:
        return _case(name, lines, nbytes, point, space=space, **options)

    b64, b32 = ("{s}.b1024.b64 [{at}]", "{s}.b1024.b32 [{at}]")
    return [
        case("an address", [f"global_address.{b64}, %d10"], 256, "8, 1", seen=_TENSOR[2:]),
        case(
            "a rank",
            [f"rank.{b32}, 0", f"box_dim.{b32}, 0, 32"],
            64,
            "16",
            rank=1,
            seen=_TENSOR[0],
            becomes={"box": (32,)},
        ),
        case("a dimension", [f"global_dim.{b32}, 1, 5"], 256, "8, 2", seen=_TENSOR[:5]),
        case(
            "both dimensions",
            [f"global_dim.{b32}, 1, 5", f"global_dim.{b32}, 0, 20"],
            256,
            "8, 2",
            seen=_TENSOR[:5, :20],
        ),
        case(
            "a stride",
            [f"global_stride.{b64}, 0, 64"],
            256,
            "8, 2",
            seen=as_strided(_TENSOR, (16, 64), (64, 2)),
        ),
        case(
            "a box", [f"box_dim.{b32}, 1, 3", f"box_dim.{b32}, 0, 24"], 144, "8, 2", becomes={"box": (3, 24)}
        ),
        case(
            "an element stride",
            [f"element_stride.{b32}, 1, 2"],
            128,
            "8, 3",
            becomes={"element_strides": (2, 1)},
        ),
        case(
            "an element type",
            [f"elemtype.{b32}, 2"],
            512,
            "8, 1",
            seen=as_strided(_TENSOR.view(np.uint32), (16, 64), (128, 4)),
        ),
        case(
            "a fill",
            [f"elemtype.{b32}, 6", f"fill_mode.{b32}, 1"],
            256,
            "56, 12",
            becomes={"oob_fill": "nan"},
        ),
        case(
            "a fill of bf16",
            [f"elemtype.{b32}, 10", f"fill_mode.{b32}, 1"],
            256,
            "56, 12",
            becomes={"oob_fill": "nan"},
        ),
        case("a swizzle", [f"swizzle_mode.{b32}, 1"], 256, "8, 2", becomes={"swizzle": "32B"}),
        case(
            "a swizzle taken away",
            [f"swizzle_mode.{b32}, 0"],
            256,
            "8, 2",
            swizzle="32B",
            becomes={"swizzle": "none"},
        ),
        case("an interleave as it was", [f"interleave_layout.{b32}, 0"], 256, "8, 2"),
    ]


CASES = [case for space in ("shared", "global") for case in _cases(space)]
