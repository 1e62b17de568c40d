"""``ptx.tensormap``: tensor maps in memory: a kernel changes, publishes and prefetches them.

A map is 128 bytes, aligned to 64.  The usual steps: copy a map to shared memory, replace fields, publish the
map to the TMA engine with :func:`cp_fenceproxy`, and execute ``ptx.fence.proxy_tensormap_acquire`` before the
first use of the new map.  A map in shared memory is given as a 32-bit address or a buffer; a 64-bit address
is generic unless ``space="global"`` is given. Every function records exactly one instruction.

``axis`` counts in PTX order, innermost dimension first.

PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import OperandError
from ...core.types import ScalarType
from ...layout.tensor_map_rules import FILLS, INTERLEAVES, SWIZZLES
from ..choices import Scope
from ..emit import Predicate, checked, emit
from ..operands import Addr, addr
from ..records import records
from ..registers import Reg
from ..types import as_whole
from .places import Shared, check_place, is_wide
from .qualifiers import one_of

__all__ = [
    "cp_fenceproxy",
    "prefetch",
    "replace_box_dim",
    "replace_element_stride",
    "replace_elemtype",
    "replace_fill_mode",
    "replace_global_address",
    "replace_global_dim",
    "replace_global_stride",
    "replace_interleave_layout",
    "replace_rank",
    "replace_swizzle_atomicity",
    "replace_swizzle_mode",
]

#: Element types in the order of their codes.
ELEMENTS = (
    *("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz"),
    *("b4x16", "b4x16_p64", "b6x16_p32"),
)
#: Swizzle atoms in the order of their codes.
ATOMS = ("16B", "32B", "32B_FLIP_8B", "64B")

_SEE = "data-movement-and-conversion-instructions-tensormap-replace"
_BYTES = 128
_ALIGNMENT = 64


def _replace(
    field: str,
    place: Shared,
    values: tuple[Any, ...],
    space: str | None,
    pred: Predicate,
    *,
    wide: bool = False,
) -> None:
    check_place("the tensor map", place, _BYTES, _ALIGNMENT, see=_SEE)
    if space == "auto":
        space = None if is_wide(place) else "cta"
    one_of("space", space, ("global", "cta", None), see=_SEE)
    state_space = "shared::cta" if space == "cta" else space
    modifiers = ("replace", "tile", field, state_space, "b1024", "b64" if wide else "b32")
    emit("tensormap", modifiers, addr(place), *values, pred=pred)


def _axis(axis: int, last: int) -> int:
    number = as_whole(axis)
    if number is None or not 0 <= number <= last:
        raise OperandError(f"axis is {axis!r}: expected a number, 0..{last}, innermost first", see=_SEE)
    return number


# --- numbers --------------------------------------------------------------------------------------


@records("tensormap.replace.address")
def replace_global_address(
    tensor_map: Shared, address: Reg, *, space: str | None = "auto", pred: Predicate = None
) -> None:
    """Set the address of the tensor's first element.

    Records one ``tensormap.replace.tile.global_address``.

    Args:
        tensor_map: address of the map.
        address: the new address, a 64-bit register; a multiple of 16.
        space: ``"auto"``, ``"cta"``, ``"global"``, or None for a generic address.
        pred: guard.

    Raises:
        OperandError: a buffer that is misaligned or smaller than a map, or another space.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    _replace("global_address", tensor_map, (address,), space, pred, wide=True)


@records("tensormap.replace.rank")
def replace_rank(
    tensor_map: Shared, rank: Reg | int, *, space: str | None = "auto", pred: Predicate = None
) -> None:
    """Set the rank. Records one ``tensormap.replace.tile.rank``, whose operand is the rank minus one.

    Args:
        tensor_map: address of the map.
        rank: 1..5; a register is passed unchanged and must hold the rank minus one.
        space, pred: as for :func:`replace_global_address`.

    Raises:
        OperandError: a number outside 1..5.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    number = checked("rank", rank, 1, 5, see=_SEE)
    value = number - 1 if isinstance(number, int) else number
    _replace("rank", tensor_map, (value,), space, pred)


@records("tensormap.replace.dim")
def replace_box_dim(
    tensor_map: Shared,
    axis: int,
    value: Reg | int,
    *,
    space: str | None = "auto",
    pred: Predicate = None,
) -> None:
    """Set the box's extent along ``axis``. Records one ``tensormap.replace.tile.box_dim``.

    Args:
        tensor_map: address of the map.
        axis: 0..4, innermost first.
        value: 1..256 elements.
        space, pred: as for :func:`replace_global_address`.

    Raises:
        OperandError: an axis or a value out of range.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    values = (_axis(axis, 4), checked("value", value, 1, 256, see=_SEE))
    _replace("box_dim", tensor_map, values, space, pred)


@records("tensormap.replace.dim")
def replace_global_dim(
    tensor_map: Shared,
    axis: int,
    value: Reg | int,
    *,
    space: str | None = "auto",
    pred: Predicate = None,
) -> None:
    """Set the tensor's extent along ``axis``. Records one ``tensormap.replace.tile.global_dim``.

    ``value`` is 1..2**32-1 elements; the other arguments and errors are those of :func:`replace_box_dim`.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    values = (_axis(axis, 4), checked("value", value, 1, 0xFFFFFFFF, see=_SEE))
    _replace("global_dim", tensor_map, values, space, pred)


@records("tensormap.replace.dim")
def replace_element_stride(
    tensor_map: Shared,
    axis: int,
    value: Reg | int,
    *,
    space: str | None = "auto",
    pred: Predicate = None,
) -> None:
    """Set the step along ``axis`` within the box. Records one ``tensormap.replace.tile.element_stride``.

    ``value`` is 1..8 elements; the other arguments and errors are those of :func:`replace_box_dim`.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    values = (_axis(axis, 4), checked("value", value, 1, 8, see=_SEE))
    _replace("element_stride", tensor_map, values, space, pred)


@records("tensormap.replace.stride")
def replace_global_stride(
    tensor_map: Shared,
    axis: int,
    value: Reg | int,
    *,
    space: str | None = "auto",
    pred: Predicate = None,
) -> None:
    """Set the stride in bytes of dimension ``axis + 1``; the innermost dimension has no stride.

    Records one ``tensormap.replace.tile.global_stride``.

    Args:
        tensor_map: address of the map.
        axis: 0..3: 0 is the stride of the second innermost dimension.
        value: bytes, a multiple of 16 below 2**40, or a 64-bit register.
        space, pred: as for :func:`replace_global_address`.

    Raises:
        OperandError: an axis or a value out of range, or a value that is not a multiple of 16.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    number = checked("value", value, 0, (1 << 40) - 16, see=_SEE, hint="bytes, a multiple of 16")
    if isinstance(number, int) and number % 16:
        raise OperandError(f"value is {value!r}: expected a multiple of 16 bytes below 2**40", see=_SEE)
    _replace("global_stride", tensor_map, (_axis(axis, 3), number), space, pred, wide=True)


# --- choices --------------------------------------------------------------------------------------


@records("tensormap.replace.elemtype", "tensormap.replace.packed_elemtype")
def replace_elemtype(
    tensor_map: Shared, dtype: ScalarType | str, *, space: str | None = "auto", pred: Predicate = None
) -> None:
    """Set the element type. Records one ``tensormap.replace.tile.elemtype``.

    Args:
        tensor_map: address of the map.
        dtype: u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, tf32, ``"f32.ftz"``, ``"tf32.ftz"``; on
            sm_100f, sm_110f and sm_120f also ``"b4x16"``, ``"b4x16_p64"``, ``"b6x16_p32"``.
        space, pred: as for :func:`replace_global_address`.

    Raises:
        OperandError: another type.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    name = dtype.name if isinstance(dtype, ScalarType) else dtype
    code = ELEMENTS.index(one_of("dtype", name, ELEMENTS, see=_SEE))
    _replace("elemtype", tensor_map, (code,), space, pred)


@records("tensormap.replace.interleave_layout")
def replace_interleave_layout(
    tensor_map: Shared, interleave: str, *, space: str | None = "auto", pred: Predicate = None
) -> None:
    """Set the interleave layout: ``"none"``, ``"16B"`` or ``"32B"``.

    Records one ``tensormap.replace.tile.interleave_layout``.  The other arguments and errors are those of
    :func:`replace_elemtype`.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    code = INTERLEAVES.index(one_of("interleave", interleave, INTERLEAVES, see=_SEE))
    _replace("interleave_layout", tensor_map, (code,), space, pred)


@records("tensormap.replace.swizzle_mode")
def replace_swizzle_mode(
    tensor_map: Shared, swizzle: str, *, space: str | None = "auto", pred: Predicate = None
) -> None:
    """Set the swizzle: ``"none"``, ``"32B"``, ``"64B"`` or ``"128B"``.

    Records one ``tensormap.replace.tile.swizzle_mode``.  The other arguments and errors are those of
    :func:`replace_elemtype`.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    code = SWIZZLES.index(one_of("swizzle", swizzle, SWIZZLES, see=_SEE))
    _replace("swizzle_mode", tensor_map, (code,), space, pred)


@records("tensormap.replace.swizzle_atomicity")
def replace_swizzle_atomicity(
    tensor_map: Shared, atom: str, *, space: str | None = "auto", pred: Predicate = None
) -> None:
    """Set the atom of the swizzle: ``"16B"``, ``"32B"``, ``"32B_FLIP_8B"`` or ``"64B"`` (PTX 8.6).

    Records one ``tensormap.replace.tile.swizzle_atomicity``.  The other arguments and errors are those of
    :func:`replace_elemtype`.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    code = ATOMS.index(one_of("atom", atom, ATOMS, see=_SEE))
    _replace("swizzle_atomicity", tensor_map, (code,), space, pred)


@records("tensormap.replace.fill_mode")
def replace_fill_mode(
    tensor_map: Shared, fill: str, *, space: str | None = "auto", pred: Predicate = None
) -> None:
    """Set the value that loads return outside the tensor: ``"zeros"`` or ``"nan"``.

    Records one ``tensormap.replace.tile.fill_mode``.  The other arguments and errors are those of
    :func:`replace_elemtype`.

    PTX ISA: `#data-movement-and-conversion-instructions-tensormap-replace`.
    """
    code = FILLS.index(one_of("fill", fill, FILLS, see=_SEE))
    _replace("fill_mode", tensor_map, (code,), space, pred)


# --- copies of a map to global memory -------------------------------------------------------------


@records("tensormap.cp_fenceproxy")
def cp_fenceproxy(dst: Reg | Addr, src: Shared, scope: Scope, *, pred: Predicate = None) -> None:
    """Copy a map from shared to global memory and release it to the tensormap proxy.

    Records one ``tensormap.cp_fenceproxy``.  All threads of the warp execute it together.

    Args:
        dst: global address of 128 bytes, a multiple of 64.
        src: the map in this CTA's shared memory.
        scope: ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``: it must include the threads that execute the
            matching ``ptx.fence.proxy_tensormap_acquire``.
        pred: guard.

    Raises:
        OperandError: a buffer that is misaligned or smaller than a map, or another scope.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy`.
    """
    see = "parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy"
    check_place("the tensor map", src, _BYTES, _ALIGNMENT, see=see)
    modifiers = (
        *("cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", scope),
        *("sync", "aligned"),
    )
    emit("tensormap", modifiers, addr(dst), addr(src), _BYTES, pred=pred)


@records("prefetch.tensormap")
def prefetch(tensor_map: Reg | Addr, *, space: str | None = None, pred: Predicate = None) -> None:
    """Prefetch a tensor map for later tensor copies. Records one ``prefetch.tensormap``.

    Args:
        tensor_map: the map of a parameter, ``A.tma_desc()``, or any 64-bit address of a map.
        space: None for a generic address, such as ``A.tma_desc()``; ``"param"`` or ``"const"``.
        pred: guard.

    Raises:
        OperandError: another space.

    PTX ISA: `#data-movement-and-conversion-instructions-prefetch-prefetchu`.
    """
    see = "data-movement-and-conversion-instructions-prefetch-prefetchu"
    one_of("space", space, (None, "param", "const"), see=see)
    emit("prefetch", (space, "tensormap"), addr(tensor_map), pred=pred)
