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
from .division import quotient, remainder
from .tile_order import cdiv

__all__ = ["GroupTile", "GroupTiles"]

#: How sizes are given: as the row behind each group, or as the number of rows of each.
Sizes = Literal["ends", "counts"]


class GroupTile(NamedTuple):
    """One tile of the loop, in u32 registers.

    Attributes:
        group: number of the group.
        within: number of the tile among those of its group and kind.
        tiles_m: rows of tiles of the group, of those of the tile's kind.
        begin, end: the group's first row and the row behind its last one; with counts, ``begin`` is 0. In a
            narrow tile ``begin`` is the first row of the group's narrow tiles.
        narrow: whether the tile is a narrow one, a predicate; None if there are none.
    """

    group: Reg
    within: Reg
    tiles_m: Reg
    begin: Reg | int
    end: Reg
    narrow: Reg | None = None


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
        narrow: None, or how many tiles along N there are if they are narrow, above ``tiles_n``. As many of
            the last rows of tiles, whatever their group, have narrow tiles as fill the last round, so that
            clusters have equally much to do.

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
        narrow: int | None = None,
    ) -> None:
        for name, value in (("groups", groups), ("rows", rows), ("tiles_n", tiles_n)):
            if type(value) is not int or value < 1:
                raise SpecError(f"{name} is {value!r}: expected a positive number")
        if kind not in ("ends", "counts"):
            raise SpecError(f"kind is {kind!r}: expected 'ends' or 'counts'")
        if narrow is not None and (type(narrow) is not int or narrow <= tiles_n or isinstance(step, Reg)):
            raise SpecError(
                f"narrow is {narrow!r} with tiles_n = {tiles_n!r} and step = {step!r}: expected more tiles, "
                "and a step that is a number"
            )
        if sizes.spec.dims != (groups,) or sizes.spec.dtype.bits != 32:
            raise SpecError(f"the sizes are {sizes.spec!r}: expected {groups} numbers of 32 bits")
        self.sizes, self.groups, self.rows, self.tiles_n = sizes, groups, rows, tiles_n
        self.first, self.step, self.kind, self.narrow = first, step, kind, narrow

    def loop(self) -> _GroupLoop:
        """Open the loop over this cluster's tiles; ``with tiles.loop() as found`` binds a :class:`GroupTile`.

        Records before the body four ``mov``, the load of a size with up to four instructions for its tiles,
        and a ``ptx.loop``; in it a ``ptx.while_`` over groups (their loads, two ``add`` and a ``break_``), a
        ``break_``, a ``sub``; an ``add`` behind the body.  With ``narrow`` first a ``ptx.for_`` over all
        sizes and the arithmetic of how many rows have narrow tiles; then four instructions more for each
        size, and seven for each tile.
        """
        return _GroupLoop(self)


class _GroupLoop:
    """The loop of one role over :class:`GroupTiles`."""

    def __init__(self, tiles: GroupTiles) -> None:
        self._tiles = tiles
        self._loop: Loop | None = None

    def _height(self) -> Reg:
        """Read the end of the current group, and return its rows of tiles."""
        ptx.inst.ld.global_.nc.u32(self._end, self._tiles.sizes.at(self._group))
        return cdiv(self._end - self._begin if self._tiles.kind == "ends" else self._end, self._tiles.rows)

    def _read_size(self) -> None:
        """Read the size of the current group, and count its rows of tiles, and its tiles."""
        tiles = self._tiles
        height = self._height()
        ptx.inst.mov.u32(self._tiles_m, height)
        if tiles.narrow is None:
            ptx.inst.mul.lo.u32(self._count, height, tiles.tiles_n)
            return
        ptx.inst.min.u32(self._wide, height, self._left)
        ptx.inst.sub.u32(self._left, self._left, self._wide)
        ptx.inst.mul.lo.u32(self._count, self._wide, tiles.tiles_n)
        ptx.inst.mad.lo.u32(self._count, height - self._wide, tiles.narrow, self._count)

    def _go_to_next(self) -> None:
        """Go to the group behind the current one."""
        self._group += 1
        if self._tiles.kind == "ends":
            ptx.inst.mov.u32(self._begin, self._end)

    def _divide(self, narrow: int) -> None:
        """Compute how many rows of tiles have wide tiles, and begin again with the first group."""
        tiles = self._tiles
        self._wide = reg.scalar(u32, init=0)  # of the current group
        self._left = reg.scalar(u32, init=0)  # of the groups behind it
        assert isinstance(tiles.step, int)
        with ptx.for_(0, tiles.groups):
            self._left += self._height()
            self._go_to_next()
        rest = remainder(self._left * tiles.tiles_n, tiles.step)
        free = reg.scalar(u32)
        ptx.inst.sub.u32(free, tiles.step, rest)
        ptx.inst.mov.u32(free, 0, pred=rest == 0)
        narrowed = quotient(free, narrow - tiles.tiles_n)
        ptx.inst.min.u32(narrowed, narrowed, self._left)
        self._left -= narrowed
        self._group.set(0)
        self._begin.set(0)

    def __enter__(self) -> GroupTile:
        tiles = self._tiles
        self._tile = reg.scalar(u32)
        ptx.inst.mov.u32(self._tile, tiles.first)
        self._group = reg.scalar(u32, init=0)
        self._before = reg.scalar(u32, init=0)  # tiles of the groups before
        self._begin = reg.scalar(u32, init=0)
        self._end, self._tiles_m, self._count = (reg.scalar(u32) for _ in range(3))
        if tiles.narrow is not None:
            self._divide(tiles.narrow)
        self._read_size()
        self._loop = loop()
        over = self._loop.__enter__()
        with ptx.while_(lambda: self._tile - self._before >= self._count) as search:
            self._before += self._count
            self._go_to_next()
            search.break_(self._group == tiles.groups)
            self._read_size()
        over.break_(self._group == tiles.groups)
        within = self._tile - self._before
        begin = self._begin if tiles.kind == "ends" else 0
        if tiles.narrow is None:
            return GroupTile(self._group, within, self._tiles_m, begin, self._end)
        return self._of_kind(within, begin)

    def _of_kind(self, within: Reg, begin: Reg | int) -> GroupTile:
        """Return a tile of the current group by its number, either a wide or a narrow one."""
        tiles = self._tiles
        wide_tiles = self._wide * tiles.tiles_n
        is_narrow = within >= wide_tiles
        rows, first = reg.scalar(u32), reg.scalar(u32)
        ptx.inst.selp.b32(rows, self._tiles_m - self._wide, self._wide, is_narrow)
        ptx.inst.sub.u32(within, within, wide_tiles, pred=is_narrow)
        ptx.inst.mov.u32(first, begin)
        ptx.inst.mad.lo.u32(first, self._wide, tiles.rows, first, pred=is_narrow)
        return GroupTile(self._group, within, rows, first, self._end, is_narrow)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._loop is not None
        if kind is None:
            self._tile += self._tiles.step
        self._loop.__exit__(kind, error, traceback)
