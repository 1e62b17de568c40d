"""Tiles of groups whose sizes are on the device: the loop of a persistent kernel over ragged products.

Owns the search for the group of a tile.  Each role of the kernel (loads, products) runs the same loop by
itself, reads the sizes itself, and gets the same tiles in the same order; the host never knows them.
"""

from __future__ import annotations

from types import TracebackType
from typing import Literal

from ..core.errors import SpecError
from ..core.tuples import NamedTuple
from ..core.types import u32
from ..dsl import Reg, TileParam, ptx, reg
from ..dsl.loops import Loop, loop
from .tile_order import cdiv

__all__ = ["GroupTile", "GroupTiles"]

#: How sizes are given: as the row behind each group, or as the number of rows of each.
Sizes = Literal["ends", "counts"]


class GroupTile(NamedTuple):
    """One tile of the loop, in u32 registers.

    Attributes:
        group: number of the group.
        within: number of the tile among those of its group.
        tiles_m: rows of tiles of the group.
        begin, end: the group's first row and the row behind its last one; with counts, ``begin`` is 0.
    """

    group: Reg
    within: Reg
    tiles_m: Reg
    begin: Reg | int
    end: Reg


class GroupTiles:
    """Tiles of ``groups`` products, the tiles of one group after those of another. Records nothing.

    ::

        tiles = kit.GroupTiles(ends, groups=8, rows=128, tiles_n=16, first=cluster, step=clusters)
        with tiles.loop() as found:                     # in each role
            row, column = kit.tile_order.grouped(found.within, found.tiles_m, 16)
            m_base = found.begin + row * 128            # the tile's rows end at found.end, or before

    Args:
        sizes: the parameter with one s32 or u32 number for each group: with ``kind="ends"`` the row behind
            it, not below that of the group before (a group begins where the one before it ends, the first at
            0); with ``"counts"`` its number of rows.
        groups: number of groups.
        rows: rows of a tile.
        tiles_n: tiles along N, the same for all groups.
        first: number of this cluster's first tile, a u32 register.
        step: distance from one tile of the cluster to the next: the number of clusters.
        kind: how the sizes are given.

    Raises:
        SpecError: a number below 1, or sizes of another shape.

    Watch out: ends that go down, and counts below 0, are not checked.
    """

    def __init__(
        self,
        sizes: TileParam,
        *,
        groups: int,
        rows: int,
        tiles_n: int,
        first: Reg,
        step: Reg | int,
        kind: Sizes = "ends",
    ) -> None:
        for name, value in (("groups", groups), ("rows", rows), ("tiles_n", tiles_n)):
            if type(value) is not int or value < 1:
                raise SpecError(f"{name} is {value!r}: expected a positive number")
        if kind not in ("ends", "counts"):
            raise SpecError(f"kind is {kind!r}: expected 'ends' or 'counts'")
        if sizes.spec.dims != (groups,) or sizes.spec.dtype.bits != 32:
            raise SpecError(f"the sizes are {sizes.spec!r}: expected {groups} numbers of 32 bits")
        self.sizes, self.groups, self.rows, self.tiles_n = sizes, groups, rows, tiles_n
        self.first, self.step, self.kind = first, step, kind

    def loop(self) -> _GroupLoop:
        """Open the loop over this cluster's tiles; ``with tiles.loop() as found`` binds a :class:`GroupTile`.

        Records before the body four ``mov``, the load of a size with up to four instructions for its tiles,
        and a ``ptx.loop``; in it a ``ptx.while_`` over groups (their loads, two ``add`` and a ``break_``), a
        ``break_``, a ``sub``; an ``add`` behind the body.
        """
        return _GroupLoop(self)


class _GroupLoop:
    """The loop of one role over :class:`GroupTiles`."""

    def __init__(self, tiles: GroupTiles) -> None:
        self._tiles = tiles
        self._loop: Loop | None = None

    def _read_size(self) -> None:
        """Read the size of the current group, and count its rows of tiles."""
        ptx.inst.ld.global_.nc.u32(self._end, self._tiles.sizes.at(self._group))
        height = cdiv(self._end - self._begin if self._tiles.kind == "ends" else self._end, self._tiles.rows)
        ptx.inst.mov.u32(self._tiles_m, height)
        ptx.inst.mul.lo.u32(self._count, height, self._tiles.tiles_n)

    def __enter__(self) -> GroupTile:
        tiles = self._tiles
        self._tile = reg.scalar(u32)
        ptx.inst.mov.u32(self._tile, tiles.first)
        self._group = reg.scalar(u32, init=0)
        self._before = reg.scalar(u32, init=0)  # tiles of the groups before
        self._begin = reg.scalar(u32, init=0)
        self._end, self._tiles_m, self._count = (reg.scalar(u32) for _ in range(3))
        self._read_size()
        self._loop = loop()
        over = self._loop.__enter__()
        with ptx.while_(lambda: self._tile - self._before >= self._count) as search:
            self._group += 1
            search.break_(self._group == tiles.groups)
            self._before += self._count
            if tiles.kind == "ends":
                ptx.inst.mov.u32(self._begin, self._end)
            self._read_size()
        over.break_(self._group == tiles.groups)
        within = self._tile - self._before
        begin = self._begin if tiles.kind == "ends" else 0
        return GroupTile(self._group, within, self._tiles_m, begin, self._end)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._loop is not None
        if kind is None:
            self._tile += self._tiles.step
        self._loop.__exit__(kind, error, traceback)
