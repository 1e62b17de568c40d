"""Which tiles of two widths ``gemm.py`` has (``pyptx.kit.TwoWidths``), so that all clusters end together.

Tiles of one size rarely fill the last round: 4096 x 4096 are 256 tiles of 256 x 256, of which 66 clusters
take 3.88 rounds.  With some tiles less wide each cluster has four tiles, at least one of which is less wide,
and the busiest cluster multiplies 1000 columns instead of 1024::

            16 tiles of 256 columns
    +----+----+----+----+----  ----+----+----+     12 strips of 256 rows have only wide tiles
    |    |    |    |    |          |    |    |
    +----+----+----+----+----  ----+----+----+
    |   |   |   |   |   |        |   |   |   |     4 strips have ``leading`` wide ones, here none, and then
    +---+---+---+---+---+---   --+---+---+---+     narrow ones: the last one reaches beyond the matrix
            18 tiles of 232 columns

Wide tiles come first, so that a cluster's last tile, whose store nothing hides, is a narrow one.
"""

from __future__ import annotations

import functools

from pyptx import SpecError, kit

WIDE, NARROW = 1, 2  # kinds of a tile whose sums wait in registers
#: Columns of D in 32 bytes, a sector of L2: 4096 cubed takes 0.7% more with tiles that end within one.
SECTOR = 16
#: What a tile costs beside its columns, and what it costs that all clusters have as many as the busiest one:
#: clusters that end earlier leave their power to the others.
TILE, ALL_BUSY = 4, 8
#: The share of the power that columns draw: a column of all clusters costs so much of one of the busiest.
POWER = 0.3
#: A narrow tile has so many of a wide one's columns at least: it loads as many bytes in less time.
LEAST = 0.85


def widths_of(N, strips, wide, given, across=1):
    """Return the :class:`pyptx.kit.TwoWidths` for the option ``widths`` of ``build_gemm``.

    Args:
        N: columns of the matrix.
        strips: rows of tiles of clusters.
        wide: columns of a CTA's wide tile.
        given: the option.
        across: CTAs of a cluster along N.

    Raises:
        SpecError: widths that are no tiling.
    """
    narrow, below, leading = given
    wide_of_cluster = wide * across
    if not (
        8 <= narrow < wide and narrow % 8 == 0 and 0 < below <= strips and 0 <= leading * wide_of_cluster < N
    ):
        raise SpecError(
            f"widths = {given}: expected the columns of a narrow tile, a multiple of 8 below {wide}, the "
            f"number of strips that have such tiles, 1 to {strips}, and the number of wide tiles to the left "
            f"of them, which leave some of the {N} columns"
        )
    return kit.TwoWidths(N, wide_of_cluster, narrow * across, strips, below, leading)


def check_narrow(narrow, wide, chunk):
    """Raise :class:`SpecError` unless narrow tiles have as many boxes of ``chunk`` columns as wide ones."""
    if type(narrow) is not int or narrow % 8 or not max(chunk, wide - chunk + 1) <= narrow < wide:
        raise SpecError(
            f"narrow tiles of {narrow} columns: expected a multiple of 8 below {wide}, more than "
            f"{wide - chunk}, and at least {chunk}, so that they have as many boxes of {chunk} columns as "
            "wide tiles"
        )


def cost(tiles, clusters):
    """Return what tiles cost, in columns of one cluster."""
    loads = tiles.loads(clusters)
    columns, own, _ = max(loads)
    share = sum(count for each, _, count in loads if each == columns) / clusters
    return columns + TILE * own + ALL_BUSY * share + POWER * tiles.computed / clusters


@functools.cache
def balanced(N, strips, wide, clusters, box=64, across=1):
    """Return the option ``widths`` whose busiest cluster has least to do; None if one width is as good.

    Args:
        N: columns of the matrix.
        strips: rows of tiles of clusters.
        wide: columns of a CTA's wide tile.
        clusters: clusters that run at the same time.
        box: columns of a box of D.
        across: CTAs of a cluster along N.
    """
    wide_of_cluster = wide * across
    uniform = kit.TwoWidths(N, wide_of_cluster, wide_of_cluster, strips, 0, 0)
    best, least = None, cost(uniform, clusters)
    first = (wide - 1) // SECTOR * SECTOR
    for narrow in range(first, max(int(LEAST * wide), wide - box, box - 1), -SECTOR):
        for below in range(1, strips + 1):
            for leading in range(-(-N // wide_of_cluster)):
                tiles = kit.TwoWidths(N, wide_of_cluster, narrow * across, strips, below, leading)
                found = cost(tiles, clusters)
                if found < least:
                    best, least = (narrow, below, leading), found
    return best
