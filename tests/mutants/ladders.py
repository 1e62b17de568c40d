"""Sites that differ in the kernels of the ladders: rungs, versions of Tilus, cuTile's, and the GEMMs like them."""

from __future__ import annotations

from collections.abc import Iterable

from .expected import CONTENTS, EARLY, Expectation, error, harmless
from .reasons import (
    ALIVE,
    ANSWER,
    BARRIER_FOLLOWS,
    COMPOSED,
    COVERED,
    DONE,
    DRAINED,
    EMPTY,
    FRESH,
    HANDED_BACK,
    IN_ORDER,
    KEPT,
    LAST_GROUP,
    NEVER_WRAPS,
    NO_TENSOR,
    OTHER_FENCE,
    REJOINED,
    WAITED,
    WHOLE_WARP,
)

__all__ = ["LADDERS"]

#: An operator, what its sites must give, and their numbers.
_Row = tuple[str, Expectation, Iterable[int]]

#: One thread copies, waits, multiplies and waits again; then all store.
_ONE_THREAD: tuple[_Row, ...] = (
    ("wait-relaxed", EMPTY, (1,)),
    ("tcgen05-fence-before-deleted", NO_TENSOR, (0, 2)),
    ("tcgen05-fence-before-deleted", WAITED, (1,)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (0, 2)),
)

#: A producer with a drain, a consumer, and a commit for which all threads wait.
_TWO_ROLES: tuple[_Row, ...] = (
    ("wait-relaxed", EMPTY, (0,)),
    ("wait-relaxed", ALIVE, (1,)),
    ("wait-relaxed", DONE, (3,)),
    ("wait-asked-once", IN_ORDER, (1,)),
    ("warp-barrier-deleted", REJOINED, (0,)),
    ("tcgen05-fence-before-deleted", NO_TENSOR, (0, 1)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (0, 2)),
)

#: The waits of one thread in a text without a loop over K: for stages, for slices, and of all threads for the tile.
_SPELLED_OUT: tuple[_Row, ...] = (
    ("wait-relaxed", EMPTY, (0, 1, 2)),
    ("wait-relaxed", DONE, (8,)),
    ("warp-barrier-deleted", REJOINED, (0,)),
    ("wait-ld-deleted", COVERED, (0,)),
    ("tcgen05-fence-before-deleted", NO_TENSOR, (0, 1)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (0, 2)),
)

#: Six tiles in one CTA, which is a cluster of its own, stored in four strips each.
_SINGLE: tuple[_Row, ...] = (
    ("wait-relaxed", EMPTY, (0,)),
    ("wait-relaxed", ALIVE, (1, 4)),
    ("wait-relaxed", DONE, (2, 5)),
    ("wait-asked-once", IN_ORDER, (1,)),
    ("wait-asked-once", KEPT, (4,)),
    ("phase-not-flipped", DRAINED, (1, 4)),
    ("arrive-relaxed", COMPOSED, (0,)),
    ("cluster-barrier-of-the-cta", harmless("the cluster has one CTA"), (0, 1)),
    ("cluster-barrier-relaxed", COMPOSED, (1,)),
    ("warp-barrier-deleted", WHOLE_WARP, (6,)),
    ("warp-barrier-deleted", REJOINED, (9,)),
    ("wait-ld-deleted", COVERED, range(3)),
    ("wait-ld-deleted", HANDED_BACK, (3,)),
    ("tcgen05-fence-before-deleted", NO_TENSOR, (0, 2)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (0, 4)),
    ("tcgen05-fence-after-deleted", OTHER_FENCE, (1, 2)),
)

#: Six tiles of a cluster of one pair or two, whose epilogues pass barriers of four warps; one strip a tile, or two.
_TILES: tuple[_Row, ...] = (
    ("wait-relaxed", EMPTY, (0,)),
    ("wait-relaxed", ALIVE, (1, 4)),
    ("wait-relaxed", DONE, (2, 5)),
    ("wait-asked-once", IN_ORDER, (1,)),
    ("wait-asked-once", KEPT, (4,)),
    ("phase-not-flipped", DRAINED, (1, 4)),
    ("arrive-relaxed", COMPOSED, (0,)),
    ("cluster-barrier-relaxed", COMPOSED, (1,)),
    ("warp-barrier-deleted", WHOLE_WARP, (0,)),
    ("tcgen05-fence-before-deleted", NO_TENSOR, (0, 2)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (0, 4)),
    ("tcgen05-fence-after-deleted", OTHER_FENCE, (1, 2)),
)

#: The epilogue of one tile in four strips, and what surrounds it, in the versions of Tilus without a loop over tiles.
_STRIPS: tuple[_Row, ...] = (
    ("arrive-relaxed", COMPOSED, (0,)),
    (
        "barrier-counts-one-fewer",
        harmless("only the drain waits for the fourth warp, and the barrier of the CTA follows"),
        (0,),
    ),
    ("group-committed-before-the-operation", LAST_GROUP, (2,)),
    ("warp-barrier-deleted", WHOLE_WARP, (4,)),
    ("warp-barrier-deleted", BARRIER_FOLLOWS, (7,)),
    ("wait-ld-deleted", COVERED, range(3)),
    ("tcgen05-fence-before-deleted", NO_TENSOR, (0, 1, 2)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (0, 4)),
    ("tcgen05-fence-after-deleted", OTHER_FENCE, (1, 2)),
)

#: One thread loads and multiplies: its first slice stands in front of the loop.
_V2: tuple[_Row, ...] = (
    *_STRIPS,
    ("wait-relaxed", FRESH, (0, 1)),
    ("wait-relaxed", EMPTY, (3,)),
    ("wait-relaxed", ALIVE, (4, 5)),
    ("wait-relaxed", DONE, (6,)),
    ("wait-asked-once", FRESH, (0, 1)),
    ("wait-asked-once", IN_ORDER, (4,)),
    ("wait-asked-once", BARRIER_FOLLOWS, (5,)),
    ("phase-not-flipped", NEVER_WRAPS, (0,)),
    ("phase-not-flipped", DRAINED, (5, 6)),
)

_V3: tuple[_Row, ...] = (
    *_STRIPS,
    ("wait-relaxed", EMPTY, (0,)),
    ("wait-relaxed", ALIVE, (1, 4)),
    ("wait-relaxed", FRESH, (2,)),
    ("wait-relaxed", DONE, (5,)),
    ("wait-asked-once", IN_ORDER, (1,)),
    ("wait-asked-once", FRESH, (2,)),
    ("wait-asked-once", BARRIER_FOLLOWS, (4,)),
    ("phase-not-flipped", DRAINED, (4, 5)),
)

#: A loop over tiles by launch control: for tiles, answers, stages and accumulators.
_CONTROLLED: tuple[_Row, ...] = (
    ("wait-relaxed", EMPTY, (0,)),
    ("wait-relaxed", ALIVE, (2, 6, 9)),
    ("wait-relaxed", DONE, (3, 10)),
    ("wait-asked-once", IN_ORDER, (2,)),
    ("arrive-relaxed", COMPOSED, (2,)),
    ("proxy-fence-deleted", ANSWER, (0, 1, 2)),
    ("proxy-fence-of-another-space", ANSWER, (0, 1, 2)),
    ("barrier-counts-one-fewer", error(CONTENTS, *EARLY, "mbarrier-misuse", "deadlock"), (2, 3, 4)),
    ("tcgen05-fence-before-deleted", NO_TENSOR, (0, 2)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (0,)),
)

#: The same for a pair of CTAs.
_CONTROLLED_PAIR: tuple[_Row, ...] = (
    *_CONTROLLED,
    ("wait-asked-once", KEPT, (6, 9)),
    ("cluster-barrier-relaxed", COMPOSED, (1,)),
    ("scope-narrowed", ANSWER, (0, 2, 3)),
    ("scope-narrowed", harmless("the thread arrives at its own CTA's barrier"), (1,)),
)

#: Five tiles in four strips each: the third answer is not overwritten.
_FIVE_TILES: tuple[_Row, ...] = (
    ("proxy-fence-deleted", ANSWER, (7,)),
    ("proxy-fence-of-another-space", ANSWER, (7,)),
    (
        "barrier-counts-one-fewer",
        harmless("no request comes for this answer's place, so only the drain waits, and a barrier follows"),
        (4,),
    ),
    ("warp-barrier-deleted", WHOLE_WARP, (6,)),
    ("warp-barrier-deleted", REJOINED, (10,)),
    ("wait-ld-deleted", COVERED, range(3)),
    ("wait-ld-deleted", HANDED_BACK, (3,)),
    ("tcgen05-fence-after-deleted", OTHER_FENCE, (1, 2)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (4,)),
)

#: Four whole tiles and two halves, in a loop of two strips.
_HALVES: tuple[_Row, ...] = (
    ("phase-not-flipped", DRAINED, (2, 6, 9)),
    ("proxy-fence-deleted", ANSWER, (5,)),
    ("proxy-fence-of-another-space", ANSWER, (5,)),
    ("warp-barrier-deleted", WHOLE_WARP, (4,)),
    ("warp-barrier-deleted", REJOINED, (6, 7)),
    ("wait-ld-deleted", COVERED, (0,)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (3,)),
)

#: All threads copy, by ``cp.async``, and one multiplies; the first slice stands in front of the loop.
_CUTILE: tuple[_Row, ...] = (
    ("wait-relaxed", FRESH, (0,)),
    ("wait-relaxed", DONE, (2,)),
    ("wait-relaxed", ALIVE, (3,)),
    ("wait-asked-once", FRESH, (0,)),
    ("wait-asked-once", IN_ORDER, (3,)),
    ("phase-not-flipped", NEVER_WRAPS, (0,)),
    ("warp-barrier-deleted", REJOINED, (0, 1)),
    ("wait-ld-deleted", COVERED, range(3)),
    ("tcgen05-fence-before-deleted", NO_TENSOR, (0, 1)),
    ("tcgen05-fence-after-deleted", NO_TENSOR, (0, 2)),
)

_ROWS: dict[str, tuple[_Row, ...]] = {
    "blackwell-persistent-1sm": _SINGLE,
    "blackwell-spelled-out": _SPELLED_OUT,
    "blackwell-tiles": (*_TILES, ("wait-ld-deleted", COVERED, (0,)), ("wait-ld-deleted", HANDED_BACK, (1,))),
    "blackwell-tiles-two-pairs": (*_TILES, ("wait-ld-deleted", HANDED_BACK, (0,))),
    **dict.fromkeys(("ladder-v1a", "ladder-v1b", "ladder-v2a", "ladder-v2b", "ladder-v3"), _ONE_THREAD),
    "ladder-v4": _TWO_ROLES,
    "ladder-v5": (*_TWO_ROLES, ("cluster-barrier-relaxed", COMPOSED, (1,))),
    "generation-hopper": (
        (
            "barrier-deleted",
            harmless(
                "a wgmma-group is complete when the products of the whole warpgroup are, which have read the tiles, "
                "and no warp laps another, since each product takes all four"
            ),
            (1,),
        ),
    ),
    "generation-blackwell": _ONE_THREAD,
    "tilus-v2": _V2,
    "tilus-v3": _V3,
    "tilus-v4": _V3,
    "tilus-v5": (*_CONTROLLED, *_FIVE_TILES, ("wait-asked-once", BARRIER_FOLLOWS, (6, 9))),
    "tilus-v6": (*_CONTROLLED_PAIR, *_FIVE_TILES),
    "ladder-v7": (*_CONTROLLED_PAIR, *_HALVES),
    "cutile-tcgen05": _CUTILE,
}

#: Sites that differ: by kernel, operator and number of the site among the operator's in the kernel.
LADDERS = {
    (kernel, operator, number): expected
    for kernel, rows in _ROWS.items()
    for operator, expected, numbers in rows
    for number in numbers
}
