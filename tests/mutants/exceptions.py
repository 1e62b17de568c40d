"""Sites of which the expectation differs from that of their operator, and what each mutant must give."""

from __future__ import annotations

from collections.abc import Iterable

from .expected import ARRIVE, BAR, CONTENTS, EARLY, EXPECTED, MODEL, Expectation, error, harmless, review
from .ladders import LADDERS
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
    UNREAD,
    WHOLE_WARP,
)

__all__ = ["EXCEPTIONS", "expectation"]

_GEMMS = ("blackwell-gemm", "blackwell-gemm-2sm")
_HOPPERS = ("hopper-gemm", "hopper-gemm-tma")
_TILUS = ("tilus-v0", "tilus-v1")


def _sites(
    operator: str, persistent: Iterable[int], control: Iterable[int], ladder: Iterable[int]
) -> list[tuple[str, str, int]]:
    """Sites of an operator in the persistent GEMM, in the one with launch control, and in the ladder's."""
    chosen = zip((_PERSISTENT, _CONTROL, _V6), (persistent, control, ladder), strict=True)
    return [(kernel, operator, number) for kernel, numbers in chosen for number in numbers]


_PERSISTENT, _CONTROL, _V6 = "blackwell-persistent", "blackwell-launch-control", "ladder-v6"

#: Sites that differ: by kernel, operator and number of the site among the operator's in the kernel.
EXCEPTIONS: dict[tuple[str, str, int], Expectation] = {
    **LADDERS,
    # The drains of persistent kernels: of the stages, of the accumulators, and of the answers.
    **{site: IN_ORDER for site in _sites("wait-asked-once", (1,), (2,), (1,))},
    **{site: KEPT for site in _sites("wait-asked-once", (4,), (6, 9), (4,))},
    **{site: ALIVE for site in _sites("wait-relaxed", (1, 4), (2, 6, 9), (1, 4))},
    **{site: DRAINED for site in _sites("phase-not-flipped", (1, 4), (2, 6, 9), (4,))},
    **{site: EMPTY for site in _sites("wait-relaxed", (0,), (0,), (0,))},
    **{site: DONE for site in _sites("wait-relaxed", (2, 5), (3, 10), (2, 5))},
    **{site: COMPOSED for site in _sites("arrive-relaxed", (0,), (2,), (0,))},
    **{site: COMPOSED for site in _sites("cluster-barrier-relaxed", (1,), (1,), (1,))},
    **{site: WHOLE_WARP for site in _sites("warp-barrier-deleted", (14,), (14,), (0,))},
    **{site: REJOINED for site in _sites("warp-barrier-deleted", (17,), (18,), (1,))},
    **{site: NO_TENSOR for site in _sites("tcgen05-fence-before-deleted", (0, 2), (0, 2), (0, 2))},
    **{site: NO_TENSOR for site in _sites("tcgen05-fence-after-deleted", (0, 4), (0, 4), (0, 3))},
    **{site: OTHER_FENCE for site in _sites("tcgen05-fence-after-deleted", (1, 2), (1, 2), ())},
    **{site: COVERED for site in _sites("wait-ld-deleted", range(7), range(7), ())},
    **{site: HANDED_BACK for site in _sites("wait-ld-deleted", (7,), (7,), ())},
    **{
        (_CONTROL, o, n): ANSWER
        for o in ("proxy-fence-deleted", "proxy-fence-of-another-space")
        for n in (0, 1, 2, 11)
    },
    **{(_CONTROL, "scope-narrowed", n): ANSWER for n in (0, 2, 3)},
    (_CONTROL, "scope-narrowed", 1): harmless("the thread arrives at its own CTA's barrier"),
    **{
        (_CONTROL, "barrier-counts-one-fewer", n): error(CONTENTS, *EARLY, "mbarrier-misuse", "deadlock")
        for n in (2, 3, 4)
    },
    **{(k, "wait-relaxed", 0): EMPTY for k in (*_GEMMS, *_HOPPERS)},
    ("tilus-v1", "wait-relaxed", 1): EMPTY,
    **{(k, "wait-relaxed", 1): ALIVE for k in _GEMMS},
    **{(k, "wait-relaxed", 3): DONE for k in _GEMMS},
    ("tcgen05-stage", "wait-relaxed", 1): EMPTY,
    ("tcgen05-stage", "wait-relaxed", 2): DONE,
    ("tcgen05-chain", "wait-relaxed", 1): DONE,
    ("tcgen05-chain", "wait-relaxed", 2): DONE,
    **{("cp-async", o, n): FRESH for o in ("wait-relaxed", "wait-asked-once") for n in (0, 2)},
    **{(k, "wait-asked-once", 1): IN_ORDER for k in _GEMMS},
    **{("blackwell-gemm", "wait-ld-deleted", n): COVERED for n in range(7)},
    ("blackwell-gemm-2sm", "wait-ld-deleted", 0): COVERED,
    **{("tilus-v1", "wait-ld-deleted", n): COVERED for n in range(3)},
    **{
        (k, "wgmma-fence-deleted", 1): harmless(
            "the accumulators of products of one shape need no fence between them, and nothing else uses them"
        )
        for k in _HOPPERS
    },
    ("blackwell-gemm", "group-committed-before-the-operation", 6): LAST_GROUP,
    ("named-barriers", "barrier-deleted", 0): error(BAR, "deadlock", "data-race", "barrier-misuse"),
    **{(k, "phase-not-flipped", 1): DRAINED for k in _GEMMS},
    **{
        (k, "phase-not-flipped", n): NEVER_WRAPS
        if n == 1
        else harmless("nothing reads this phase: the pointer only hands stages back")
        for k in _HOPPERS
        for n in (1, 3, 4)
    },
    **{
        (k, "arrive-relaxed", n): review(
            "relaxed-handover", ARRIVE, "wgmma has read the stage, and TMA fills it again"
        )
        for k in _HOPPERS
        for n in (0, 1)
    },
    **{
        ("cp-async", o, n): UNREAD
        for o in ("arrive-relaxed", "arrive-doubled", "arrive-deleted", "arrive-before-the-access")
        for n in (3, 4)
    },
    **{
        ("dsmem-ring", o, n): UNREAD
        for o in ("arrive-relaxed", "arrive-doubled", "arrive-before-the-access")
        for n in (1, 2)
    },
    **{("dsmem-ring", "arrive-deleted", n): UNREAD for n in (4, 6)},
    ("dsmem-ring", "barrier-counts-one-more", 3): UNREAD,
    **{
        ("dsmem-ring", "scope-narrowed", n): review(
            "relaxed-handover",
            MODEL,
            "the data come by st.async, whose completion releases at cluster scope",
        )
        for n in (0, 2, 5, 7)
    },
    **{("dsmem-ring", "scope-narrowed", n): UNREAD for n in (3, 6)},
    ("tcgen05-stage", "commit-replaced-by-arrive", 1): harmless(
        "the thread has waited for its MMAs, and the commits it waited for have sent them"
    ),
    **{(k, "tcgen05-fence-before-deleted", n): NO_TENSOR for k in (*_GEMMS, *_TILUS) for n in (0, 1)},
    **{(k, "tcgen05-fence-after-deleted", n): NO_TENSOR for k in _TILUS for n in (0, 2)},
    **{(k, "tcgen05-fence-after-deleted", n): NO_TENSOR for k in _GEMMS for n in (0, 1, 3)},
    **{("tcgen05-chain", "tcgen05-fence-before-deleted", n): NO_TENSOR for n in (0, 2)},
    **{("tcgen05-chain", "tcgen05-fence-after-deleted", n): NO_TENSOR for n in (0, 4)},
    **{("tcgen05-stage", "tcgen05-fence-before-deleted", n): NO_TENSOR for n in (0, 1)},
    **{("tcgen05-stage", "tcgen05-fence-after-deleted", n): NO_TENSOR for n in (0, 2)},
    ("cp-async", "wait-group-deleted", 0): harmless(
        "each copy was observed through the mbarrier that it arrives on"
    ),
    **{(k, "warp-barrier-deleted", 0): BARRIER_FOLLOWS for k in _TILUS},
    **{
        ("tilus-v1", o, n): harmless(
            "the barrier of the last strip and that of the teardown follow each other"
        )
        for o, n in (("barrier-deleted", 9), ("barrier-before-dealloc-deleted", 0))
    },
    ("blackwell-gemm", "warp-barrier-deleted", 0): REJOINED,
    ("blackwell-gemm", "warp-barrier-deleted", 15): BARRIER_FOLLOWS,
    ("blackwell-gemm-2sm", "warp-barrier-deleted", 0): REJOINED,
    ("hopper-gemm-tma", "warp-barrier-deleted", 16): harmless("a barrier of the cluster follows"),
    **{
        (k, "cluster-barrier-relaxed", 0): harmless(
            "fence.mbarrier_init.release.cluster stands before it, and it orders nothing but the barriers' initialization"
        )
        for k in _HOPPERS
    },
    **{
        (k, "cluster-barrier-relaxed", 1): harmless("execution order is enough to keep the CTAs alive")
        for k in (*_HOPPERS, "dsmem-ring")
    },
    ("blackwell-gemm-2sm", "cluster-barrier-relaxed", 1): harmless(
        "tcgen05's fences compose with any synchronization of threads"
    ),
    **{
        ("look-back-scan", o, n): review(
            "ordered-by-chance",
            MODEL,
            "the sums are volatile: they do not race, but a load may get an old one",
        )
        for o, n in (
            ("memory-fence-deleted", 0),
            ("memory-fence-deleted", 1),
            ("scope-narrowed", 1),
            ("scope-narrowed", 2),
        )
    },
    **{
        ("look-back-scan", "access-weakened", n): harmless(
            "the fences around the flag order the sums, weak or not"
        )
        for n in (1, 2)
    },
}


def expectation(kernel: str, operator: str, number: int) -> Expectation:
    """What the mutant of a kernel by an operator at its ``number``-th site must give."""
    return EXCEPTIONS.get((kernel, operator, number), EXPECTED[operator])
