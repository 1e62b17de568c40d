"""Reads A and B of tcgen05.mma from shared memory or tensor memory, and decodes them to numbers.

The packing is that of PTX ISA `#tcgen05-packing-formats`_. In shared memory, 16 elements of 6 or 4 bits are
packed and padded to 16 bytes (TMA's ``.b6x16_p32`` and ``.b4x16_p64``). In tensor memory each element takes a
byte; a 4-bit element is in the middle of its byte, ``00SEEM00``. The mxf4 kinds pack two elements into a byte
in both memories.

.. _#tcgen05-packing-formats:
   https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-packing-formats
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import PyptxError, UnsupportedError
from ...core.findings import RULES, Finding
from ...core.tuples import NamedTuple
from ...layout.tcgen05_smem_descriptor import OPERAND_SWIZZLES, Major, Tcgen05SmemDescriptor, tile_offsets
from ..matrices.shared_operand import TileOffsets, read_words
from ..memory.access import AccessKind, Footprint, Proxy, StateSpace
from ..memory.segments import Actor, Fault
from ..numbers.formats import decoded

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = [
    "PADDED",
    "contained",
    "descriptor_fault",
    "not_modeled",
    "read_shared",
    "shared_words",
    "unpacked",
]

Array = NDArray[Any]
F32 = NDArray[np.float32]

#: Element type -> bytes of an element. Types that are not listed take one byte or have their own packing.
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4}
#: Packed type -> number of bytes that 16 elements fill; padding fills the rest of the 16 bytes.
PADDED = {"e2m1": 8, "e2m3": 12, "e3m2": 12}
#: Largest number of panels of one CTA whose decoded numbers are cached.
_PANELS = 32
#: Bits 10 to 17 of a descriptor's address (the page). They change no offset in the pattern of 1024 bytes.
_PAGE = 0xFF << 6
#: The bit of a descriptor that makes its leading offset an absolute address.
_ABSOLUTE = 52


def not_modeled(what: str, actor: Actor) -> Fault:
    """Return a fault that ends the run as incomplete, since ``what`` is not modeled."""
    return Fault(Finding(RULES["not-modeled"], what, actor.location, actor.description()))


def descriptor_fault(cta: CTA, error: PyptxError, actor: Actor) -> Fault:
    """Return the fault for a descriptor that is invalid or describes a layout that is not modeled."""
    if isinstance(error, UnsupportedError):
        return not_modeled(error.message, actor)
    return cta.machine.fault("bad-descriptor", error.message, actor)


@lru_cache(maxsize=512)
def _places(
    word: int, rows: int, k: int, element: str, nibbles: bool, major: Major, first: int
) -> TileOffsets:
    """Return the byte offset of each element of an operand tile from the descriptor's address.

    ``word`` is the descriptor without the page bits. ``first`` is the number of rows between the descriptor's
    address and the tile.
    """
    nbytes = _BYTES.get(element, 1)
    count = k // 2 if nibbles else k
    height = rows if not first else (first + rows + 15) // 16 * 16
    tile = Tcgen05SmemDescriptor.decode(word)
    offsets = tile_offsets(tile, height, count, nbytes, major)[first : first + rows]
    if element in PADDED and not nibbles:
        offsets = offsets[:, np.arange(count) % 16 < PADDED[element]]
    return TileOffsets.of(offsets, nbytes)


class _Panel(NamedTuple):
    """The tiles along K that lie side by side in one span of the swizzle, which are decoded together.

    Attributes:
        low, nbytes: offset of the tile from its page, and its size, in bytes.
        inside: offset of the tile's address from the panel's address.
        first, end: offsets of the panel's start and end from the page.
        units: the panel's units of 16 bytes, counted from the page.
        columns: the tile's columns in the panel.
    """

    low: int
    nbytes: int
    inside: int
    first: int
    end: int
    units: NDArray[np.int64]
    columns: slice


@lru_cache(maxsize=512)
def _panel(word: int, rows: int, k: int, element: str, major: Major) -> _Panel | None:
    """Return the panel that contains a tile, or None. ``word`` is the descriptor without the page bits."""
    tile = Tcgen05SmemDescriptor.decode(word)
    nbytes = _BYTES.get(element, 1)
    span = OPERAND_SWIZZLES[tile.swizzle]
    if major != "K" or element in PADDED or span <= k * nbytes:
        return None
    inside = tile.address % span
    if inside % (k * nbytes):
        return None
    wide = replace(tile, address=tile.address - inside).encode()
    whole = _places(wide, rows, span // nbytes, element, False, major, 0)
    part = _places(word, rows, k, element, False, major, 0)
    columns = slice(inside // nbytes, inside // nbytes + k)
    if not np.array_equal(whole.offsets[:, columns], part.offsets):
        return None
    units = np.ascontiguousarray(whole.offsets[:, :: 16 // nbytes]) // 16
    return _Panel(part.low, part.nbytes, inside, whole.low, whole.low + whole.nbytes, units, columns)


def _from_panel(cta: CTA, word: int, rows: int, k: int, element: str, major: Any, actor: Actor) -> F32 | None:
    """Return the numbers of a tile from the cached panel that contains it, or None if no panel contains it.

    A panel's numbers stay cached until the next write to the segment.
    """
    panel = _panel(word & ~_PAGE, rows, k, element, major)
    if panel is None:
        return None
    page = (word & _PAGE) << 4
    address = cta.shared_base + page + panel.low
    segment, offset = cta.machine.memory.access(
        AccessKind.READ,
        StateSpace.SHARED,
        address,
        panel.nbytes,
        actor,
        cta.cluster_memory,
        Proxy.ASYNC,
        align=1,
        check_written=False,
        announce=False,
    )
    key = (word - (panel.inside >> 4), rows, element)
    writes, values = segment.derived.get(key, (-1, None))
    if writes != segment.writes:
        start = int(offset) - panel.low
        if start + panel.end > segment.size or not segment.whole(start + panel.first, start + panel.end):
            return None
        if len(segment.derived) >= _PANELS:
            segment.derived.clear()
        units = segment.words(16).view(np.complex128).take(start // 16 + panel.units)
        values = decode(units.view(f"<u{_BYTES.get(element, 1)}"), element)
        values.flags.writeable = False
        segment.derived[key] = (segment.writes, values)

    def footprint() -> Footprint:
        part = _places(word & ~_PAGE, rows, k, element, False, major, 0)
        return part.footprint(int(offset) - panel.low, _BYTES.get(element, 1))

    cta.machine.memory.announce(AccessKind.READ, segment, footprint, actor, Proxy.ASYNC)
    tile: F32 = values[:, panel.columns]
    return tile


def shared_words(
    cta: CTA,
    word: int,
    rows: int,
    k: int,
    element: str,
    major: Any,
    actor: Actor,
    *,
    nibbles: bool = False,
    first: int = 0,
) -> Array:
    """Return the raw bits of each element of an operand tile in shared memory, as ``[rows, k]``.

    Reads through the async proxy and removes padding. ``word`` is the descriptor. ``nibbles`` is True if a
    byte holds two elements. ``first`` is the number of rows between the descriptor's address and the tile.
    """
    if word >> _ABSOLUTE & 1:
        return _in_two_chunks(cta, word, rows, k, element, major, actor, nibbles=nibbles)
    try:
        places = _places(word & ~_PAGE, rows, k, element, nibbles, major, first)
    except PyptxError as error:
        raise descriptor_fault(cta, error, actor) from None
    return read_words(cta, (word & _PAGE) << 4, places, _BYTES.get(element, 1), actor)


def _in_two_chunks(
    cta: CTA, word: int, rows: int, k: int, element: str, major: Any, actor: Actor, *, nibbles: bool
) -> Array:
    """Read a tile whose rows continue at an absolute address after the end of their 128 bytes.

    An instruction with rows of 48 bytes needs this (PTX ISA
    ``#tcgen05-leading-dimension-byte-offset-absolute-address``).
    """
    nbytes = k // 2 if nibbles else k * _BYTES.get(element, 1)
    if nbytes != 48:
        raise not_modeled(f"an absolute leading address with {nbytes} bytes of K is not modeled yet", actor)
    try:
        tile = Tcgen05SmemDescriptor.decode(word)
    except PyptxError as error:
        raise descriptor_fault(cta, error, actor) from None
    head = min(nbytes, 128 - tile.address % 128)
    chunks = []
    for address, part in ((tile.address, head), (tile.leading_bytes, nbytes - head)):
        if part:
            chunk = replace(tile, address=address, leading_bytes=16, leading_mode=0).encode()
            taken = part * k // nbytes
            chunks.append(shared_words(cta, chunk, rows, taken, element, major, actor, nibbles=nibbles))
    return np.concatenate(chunks, axis=1)


def read_shared(
    cta: CTA,
    word: int,
    rows: int,
    k: int,
    element: str,
    major: Any,
    actor: Actor,
    *,
    nibbles: bool = False,
    first: int = 0,
) -> F32:
    """Read the numbers of an operand tile ``[rows, k]`` that a descriptor lays out in shared memory."""
    if not nibbles and not first:
        try:
            values = _from_panel(cta, word, rows, k, element, major, actor)
        except PyptxError:
            values = None  # shared_words raises the fault below
        if values is not None:
            return values
    words = shared_words(cta, word, rows, k, element, major, actor, nibbles=nibbles, first=first)
    if nibbles:
        words = unpacked(words, 4)
    elif element in PADDED:
        words = unpacked(words, PADDED[element] // 2)
    return decode(words, element)


def unpacked(words: Array, bits: int) -> Array:
    """Return elements of 4 or 6 bits, one per byte, unpacked along the last axis of ``words``.

    The first element is in the low bits.
    """
    if bits == 4:
        codes = np.stack([words & np.uint8(15), words >> np.uint8(4)], -1)
    else:
        three = words.reshape(*words.shape[:-1], -1, 3).astype(np.uint32)
        joined = three[..., 0] | three[..., 1] << np.uint32(8) | three[..., 2] << np.uint32(16)
        codes = (joined[..., None] >> np.array([0, 6, 12, 18], np.uint32) & np.uint32(63)).astype(np.uint8)
    return codes.reshape(*words.shape[:-1], -1)


def contained(cells: NDArray[np.uint32], element: str, nibbles: bool) -> F32:
    """Return the numbers that these cells of tensor memory hold as elements of A."""
    nbytes = _BYTES.get(element, 1)
    words: Array = np.ascontiguousarray(cells).view(f"<u{nbytes}")
    if nibbles:
        words = unpacked(words, 4)
    elif element == "e2m1":
        words = words >> np.uint8(2) & np.uint8(15)
    elif element in PADDED:
        words = words & np.uint8(63)
    return decode(words, element)


@cache
def _values(element: str) -> F32:
    return decoded(element).astype(np.float32)


def decode(words: Array, element: str) -> F32:
    """Return the numbers whose raw bits are ``words``; an f32 holds each of them exactly."""
    if element == "bf16":
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if element == "f16":
        return words.view(np.float16).astype(np.float32)
    if element == "tf32":
        # tf32 ignores the low 13 bits of the mantissa.
        return (words & np.uint32(0xFFFFE000)).view(np.float32)
    if element in ("u8", "s8"):
        return words.view(np.int8 if element == "s8" else np.uint8).astype(np.float32)
    return _values(element).take(words)
