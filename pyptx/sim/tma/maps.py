"""The tensor map that an instruction names, held against its coordinates.

Source: PTX ISA, `#tensor-tensormap`_.

.. _#tensor-tensormap: https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-tensormap
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...core.errors import PyptxError, UnsupportedError
from ...layout.tensor_map import TensorMap
from ...layout.tensor_map_image import DecodedMap
from ..memory import Actor

if TYPE_CHECKING:
    from ..cta import CTA

__all__ = ["read_map"]


@lru_cache(maxsize=4096)
def _decode(raw: bytes) -> DecodedMap:
    return TensorMap.decode(raw)


def read_map(cta: CTA, address: int, coordinates: tuple[int, ...], mode: str, actor: Actor) -> DecodedMap:
    """The tensor map at a generic address, which must fit the instruction's coordinates and load mode.

    An H200 stops with "illegal instruction" where the innermost coordinate is not a multiple of 16 bytes.
    """
    machine = cta.machine
    segment, offset = machine.memory.access(
        "read", "generic", address, 128, actor, cta.reach, "tensormap", align=64
    )
    try:
        decoded = _decode(segment.data[offset : offset + 128].tobytes())
    except UnsupportedError as error:
        raise machine.fault("not-modelled", error.message, actor) from None
    except PyptxError as error:
        raise machine.fault("bad-tensor-map", error.message, actor) from None
    wrong = _misfit(decoded, coordinates, mode)
    if wrong:
        raise machine.fault("bad-tensor-map", wrong, actor)
    if decoded.interleave != "none":
        raise machine.fault("not-modelled", "tensor maps with interleave are not modelled", actor)
    return decoded


def _misfit(decoded: DecodedMap, coordinates: tuple[int, ...], mode: str) -> str:
    """What is wrong between the map and the instruction; nothing if all is well."""
    four_rows = mode in ("tile::gather4", "tile::scatter4")
    rank = 2 if four_rows else len(coordinates)
    if decoded.rank != rank:
        return f"{rank} coordinates for a map of {decoded.rank} dimensions"
    if decoded.im2col != mode.startswith("im2col"):
        return f"an {'im2col' if decoded.im2col else 'tiled'} tensor map for a copy in the mode .{mode}"
    if four_rows and decoded.box[1] != 1:
        return f".{mode} needs a box of one row, not of {decoded.box[1]}"
    kind = decoded.kind
    # Groups of 16 packed elements that are padded in shared memory go in runs of 128.
    unit = 128 if kind.held > kind.bits else 128 // kind.bits
    if coordinates[0] % unit:
        return (
            f"innermost coordinate {coordinates[0]} of .{kind.name} elements is "
            f"{coordinates[0] * kind.bits / 8:g} bytes, not a multiple of {unit * kind.bits // 8}"
        )
    return ""
