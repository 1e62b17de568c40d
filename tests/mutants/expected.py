"""What must be found in each mutant: frozen before there is a checker that could find it.

The expectations come from the PTX ISA, never from what the simulator says. :data:`EXPECTED` has one for each operator,
:data:`EXCEPTIONS` one for sites that differ from the operator's others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = ["EXCEPTIONS", "EXPECTED", "Expectation", "expectation"]

#: ``error``: a bug by the ISA. ``review``: only the ISA's letter forbids it, hardware and compilers do otherwise.
#: ``harmless``: no bug at this site; a finding of severity error would be a false alarm.
Kind = Literal["error", "review", "harmless"]


@dataclass(frozen=True)
class Expectation:
    """What one mutant must give.

    Attributes:
        kind: how sure the bug is.
        rules: names of rules of which one must be found; the first is the one that says it best.
        anchor: section of the PTX ISA that decides.
        reason: why a mutant is harmless, or why only for review.
    """

    kind: Kind
    rules: tuple[str, ...] = ()
    anchor: str = ""
    reason: str = ""


_MODEL = "memory-consistency-model"
_SYNC = "parallel-synchronization-and-communication-instructions-"
_WAIT = _SYNC + "mbarrier-test-wait-try-wait"
_ARRIVE = _SYNC + "mbarrier-arrive"
_CONTENTS = _SYNC + "mbarrier-contents"
_BAR = _SYNC + "bar"
_CLUSTER = _SYNC + "barrier-cluster"
_WARP = _SYNC + "bar-warp-sync"
_BULK = "data-movement-and-conversion-instructions-cp-async-bulk-wait-group"
_GROUP = "data-movement-and-conversion-instructions-cp-async-bulk-commit-group"
_MEMORY = "tcgen05-memory-consistency-model"
_COMMIT = "tcgen05-instructions-tcgen05-commit"
_ALLOC = "tensor-memory-allocation"
_NREG = "miscellaneous-instructions-setmaxnreg"


def _error(anchor: str, *rules: str) -> Expectation:
    return Expectation("error", rules, anchor)


#: A read or a write too early. Where nothing wrote the bytes before, the read of unwritten bytes says it as well.
_EARLY = ("data-race", "uninitialized-read", "proxy-fence-missing")
_STUCK = ("deadlock", "mbarrier-misuse")
_MASKS = ("member-mask", "divergent-collective", "data-race")
_IN_FLIGHT = ("exit-in-flight", "data-race")
_POOL = ("register-pool", "deadlock")
_CLUSTER_RULES = (
    "data-race",
    "cluster-lifetime",
    "exit-in-flight",
    "uninitialized-read",
    "mbarrier-misuse",
    "cta-pair",
)

#: What every mutant of an operator must give, unless :data:`EXCEPTIONS` says otherwise.
EXPECTED: dict[str, Expectation] = {
    "proxy-fence-deleted": _error("async-proxy", "proxy-fence-missing"),
    "proxy-fence-before-the-stores": _error("async-proxy", "proxy-fence-missing"),
    "proxy-fence-of-another-space": _error("async-proxy", "proxy-fence-missing"),
    "proxy-fence-behind-the-barrier": Expectation(
        "harmless",
        (),
        "async-proxy",
        "the thread that starts the copy executes the fence behind the barrier: it is on the path",
    ),
    "wait-asked-once": _error(_WAIT, *_EARLY, "unused-wait", "exit-in-flight"),
    "wait-relaxed": _error(_WAIT, "data-race", "proxy-fence-missing"),
    "parity-flipped": _error(_WAIT, *_EARLY, "deadlock", "exit-in-flight"),
    "phase-not-flipped": _error(_WAIT, *_EARLY, "deadlock", "mbarrier-misuse", "exit-in-flight"),
    "arrive-relaxed": _error(_ARRIVE, "data-race"),
    "expecting-arrive-relaxed": Expectation(
        "harmless",
        (),
        _ARRIVE,
        "the arrival hands over no data of its thread: the bytes come with the release of complete_tx",
    ),
    "barrier-counts-one-fewer": _error(_CONTENTS, *_EARLY, "mbarrier-misuse"),
    "barrier-counts-one-more": _error(_CONTENTS, *_STUCK),
    "bytes-expected-16-fewer": _error(_CONTENTS, *_STUCK, *_EARLY),
    "bytes-expected-16-more": _error(_CONTENTS, *_STUCK),
    "commit-replaced-by-arrive": _error(_COMMIT, *_EARLY, "exit-in-flight"),
    "commit-before-the-mma": _error(_COMMIT, *_EARLY, "exit-in-flight"),
    "commit-deleted": _error(_COMMIT, *_STUCK),
    "wait-group-of-one-more": _error(_BULK, *_IN_FLIGHT),
    "wait-group-deleted": _error(_BULK, *_IN_FLIGHT),
    "commit-group-deleted": _error(_GROUP, *_IN_FLIGHT),
    "group-committed-before-the-operation": _error(_GROUP, *_IN_FLIGHT),
    "barrier-deleted": _error(_BAR, *_EARLY, "mbarrier-misuse", "barrier-misuse", "tensor-memory"),
    "barrier-before-dealloc-deleted": _error(_ALLOC, "data-race", "tensor-memory"),
    "warp-barrier-deleted": _error(_WARP, "data-race", "proxy-fence-missing"),
    "cluster-barrier-of-the-cta": _error(_CLUSTER, *_CLUSTER_RULES),
    "cluster-barrier-deleted": _error(_CLUSTER, *_CLUSTER_RULES, "tensor-memory"),
    "cluster-barrier-relaxed": _error(_CLUSTER, "data-race"),
    "tcgen05-fence-before-deleted": Expectation(
        "review", ("tcgen05-fence-missing",), _MEMORY, "the assembler emits nothing for it; compilers omit it"
    ),
    "tcgen05-fence-after-deleted": Expectation(
        "review", ("tcgen05-fence-missing",), _MEMORY, "the assembler emits nothing for it; compilers omit it"
    ),
    "wait-ld-deleted": Expectation(
        "review", ("tcgen05-wait-missing",), _MEMORY, "the use of the registers waits for the load"
    ),
    "wait-st-deleted": _error(_MEMORY, "data-race"),
    "setmaxnreg-inc-by-more": _error(_NREG, *_POOL),
    "setmaxnreg-dec-by-less": _error(_NREG, *_POOL),
    "setmaxnreg-dec-deleted": _error(_NREG, *_POOL),
    "scope-narrowed": _error(_MODEL, "data-race"),
    "order-relaxed": _error(_MODEL, "data-race"),
    "access-weakened": _error(_MODEL, "data-race"),
    "memory-fence-deleted": _error(_MODEL, "data-race"),
    "init-fence-deleted": Expectation(
        "harmless",
        (),
        _SYNC + "membar",
        "the barrier behind it releases and acquires, or one thread does everything; no proxy fence is owed for the mbarrier",
    ),
    "arrive-doubled": _error(_CONTENTS, "mbarrier-misuse", *_EARLY, "deadlock"),
    "arrive-deleted": _error(_ARRIVE, *_STUCK),
    "arrive-before-the-access": _error(_ARRIVE, *_EARLY),
    "barrier-behind-the-load": _error(_BAR, *_EARLY),
    "barrier-before-the-store": _error(_BAR, *_EARLY),
    "barrier-of-one-more-warp": _error(_BAR, "barrier-misuse", "deadlock"),
    "warp-mask-halved": _error(_WARP, *_MASKS),
    "wgmma-fence-deleted": Expectation(
        "review",
        ("wgmma-fence",),
        "asynchronous-warpgroup-level-matrix-instructions-wgmma-fence",
        "ptxas adds the fence",
    ),
    "noinc-dropped": _error(
        "data-movement-and-conversion-instructions-cp-async-mbarrier-arrive", "deadlock", "mbarrier-misuse"
    ),
    "read-through-the-read-only-cache": _error(
        "data-movement-and-conversion-instructions-ld-global-nc", "data-race"
    ),
    "copy-doubled": _error(_CONTENTS, "data-race", *_STUCK),
    "dealloc-deleted": _error(_ALLOC, "tensor-memory"),
    "alloc-halved": _error(_ALLOC, "tensor-memory"),
    "permit-given-up-before-alloc": _error(_ALLOC, "tensor-memory"),
}

_GEMMS = ("blackwell-gemm", "blackwell-gemm-2sm")
_HOPPERS = ("hopper-gemm", "hopper-gemm-tma")
_TILUS = ("tilus-v0", "tilus-v1")


def _harmless(reason: str) -> Expectation:
    return Expectation("harmless", (), "", reason)


def _review(rule: str, anchor: str, reason: str) -> Expectation:
    return Expectation("review", (rule,), anchor, reason)


_EMPTY = _review(
    "relaxed-handover",
    _WAIT,
    "tensor cores have read the stage, and TMA fills it again: no ordinary access is handed over",
)
_DONE = _harmless("tcgen05's order needs no acquire: the manual's own patterns wait with .relaxed")
_UNREAD = _harmless("no thread waits for this phase of the barrier")
_FRESH = _harmless("the wait is for the phase before a fresh barrier's first, which hands nothing over")
_DRAINED = _harmless("the phase is not used after this flip")
_NO_TENSOR = _harmless("no tcgen05 operation comes before the fence, or none after it but a dealloc")
_COVERED = _harmless(
    "a later tcgen05.wait::ld of the warp covers this load, too, before the tensor memory is handed over, "
    "and the instructions that use the registers wait for it"
)
_REJOINED = _harmless("the lanes only rejoin: nothing passes between them here")

_IN_ORDER = _harmless(
    "all threads wait for the MMA thread's last commit, and the commits of a thread arrive in order"
)
_ALIVE = _harmless("the wait only keeps the CTA alive: execution order is enough")
_KEPT = _harmless("the barrier of the cluster behind the last arrivals keeps the CTA alive")
_COMPOSED = _harmless("tcgen05's fences compose with any synchronization of threads")
_WHOLE_WARP = _harmless("tcgen05.wait::ld before it waits for the loads of the whole warp")
_OTHER_FENCE = _harmless(
    "the fence behind the wait for the accumulator covers the first products, or the one behind the wait for the stage; "
    "with later stages no tcgen05 operation is handed over"
)
_ANSWER = _review(
    "proxy-fence-open",
    "async-proxy",
    "the answer was read: hardware does not let a later write overtake a read",
)


def _sites(
    operator: str, persistent: Iterable[int], control: Iterable[int], ladder: Iterable[int]
) -> list[tuple[str, str, int]]:
    """Sites of an operator in the persistent GEMM, in the one with launch control, and in the ladder's."""
    chosen = zip((_PERSISTENT, _CONTROL, _V6), (persistent, control, ladder), strict=True)
    return [(kernel, operator, number) for kernel, numbers in chosen for number in numbers]


_PERSISTENT, _CONTROL, _V6 = "blackwell-persistent", "blackwell-launch-control", "ladder-v6"

#: Sites that differ: by kernel, operator and number of the site among the operator's in the kernel.
EXCEPTIONS: dict[tuple[str, str, int], Expectation] = {
    # The drains of persistent kernels: of the stages, of the accumulators, and of the answers.
    **{site: _IN_ORDER for site in _sites("wait-asked-once", (1,), (2,), (1,))},
    **{site: _KEPT for site in _sites("wait-asked-once", (4,), (6, 9), (4,))},
    **{site: _ALIVE for site in _sites("wait-relaxed", (1, 4), (2, 6, 9), (1, 4))},
    **{site: _DRAINED for site in _sites("phase-not-flipped", (1, 4), (2, 6, 9), (4,))},
    **{site: _EMPTY for site in _sites("wait-relaxed", (0,), (0,), (0,))},
    **{site: _DONE for site in _sites("wait-relaxed", (2, 5), (3, 10), (2, 5))},
    **{site: _COMPOSED for site in _sites("arrive-relaxed", (0,), (2,), (0,))},
    **{site: _COMPOSED for site in _sites("cluster-barrier-relaxed", (1,), (1,), (1,))},
    **{site: _WHOLE_WARP for site in _sites("warp-barrier-deleted", (14,), (14,), (0,))},
    **{site: _REJOINED for site in _sites("warp-barrier-deleted", (17,), (18,), (1,))},
    **{site: _NO_TENSOR for site in _sites("tcgen05-fence-before-deleted", (0, 2), (0, 2), (0, 2))},
    **{site: _NO_TENSOR for site in _sites("tcgen05-fence-after-deleted", (0, 4), (0, 4), (0, 3))},
    **{site: _OTHER_FENCE for site in _sites("tcgen05-fence-after-deleted", (1, 2), (1, 2), ())},
    **{site: _COVERED for site in _sites("wait-ld-deleted", range(7), range(7), ())},
    **{
        (_CONTROL, o, n): _ANSWER
        for o in ("proxy-fence-deleted", "proxy-fence-of-another-space")
        for n in (0, 1, 2, 11)
    },
    **{(_CONTROL, "scope-narrowed", n): _ANSWER for n in (0, 2, 3)},
    (_CONTROL, "scope-narrowed", 1): _harmless("the thread arrives at its own CTA's barrier"),
    **{
        (_CONTROL, "barrier-counts-one-fewer", n): _error(_CONTENTS, *_EARLY, "mbarrier-misuse", "deadlock")
        for n in (2, 3, 4)
    },
    ("ladder-v1a", "wait-relaxed", 1): _EMPTY,
    **{("ladder-v1a", "tcgen05-fence-before-deleted", n): _NO_TENSOR for n in (0, 2)},
    **{("ladder-v1a", "tcgen05-fence-after-deleted", n): _NO_TENSOR for n in (0, 2)},
    ("ladder-v1a", "tcgen05-fence-before-deleted", 1): _harmless(
        "the thread has waited for its products, and the fence behind the barrier comes before the loads"
    ),
    **{(k, "wait-relaxed", 0): _EMPTY for k in (*_GEMMS, *_HOPPERS)},
    ("tilus-v1", "wait-relaxed", 1): _EMPTY,
    **{(k, "wait-relaxed", 1): _ALIVE for k in _GEMMS},
    **{(k, "wait-relaxed", 3): _DONE for k in _GEMMS},
    ("tcgen05-stage", "wait-relaxed", 1): _EMPTY,
    ("tcgen05-stage", "wait-relaxed", 2): _DONE,
    ("tcgen05-chain", "wait-relaxed", 1): _DONE,
    ("tcgen05-chain", "wait-relaxed", 2): _DONE,
    **{("cp-async", o, n): _FRESH for o in ("wait-relaxed", "wait-asked-once") for n in (0, 2)},
    **{(k, "wait-asked-once", 1): _IN_ORDER for k in _GEMMS},
    **{("blackwell-gemm", "wait-ld-deleted", n): _COVERED for n in range(7)},
    ("blackwell-gemm-2sm", "wait-ld-deleted", 0): _COVERED,
    **{("tilus-v1", "wait-ld-deleted", n): _COVERED for n in range(3)},
    **{
        (k, "wgmma-fence-deleted", 1): _harmless(
            "the accumulators of products of one shape need no fence between them, and nothing else uses them"
        )
        for k in _HOPPERS
    },
    ("blackwell-gemm", "group-committed-before-the-operation", 6): _harmless(
        "the copy goes into the last group, and nothing fills its source again before the wait for all groups"
    ),
    ("named-barriers", "barrier-deleted", 0): _error(_BAR, "deadlock", "data-race", "barrier-misuse"),
    **{(k, "phase-not-flipped", 1): _DRAINED for k in _GEMMS},
    **{
        (k, "phase-not-flipped", n): _harmless("the ring never wraps at this place")
        if n == 1
        else _harmless("nothing reads this phase: the pointer only hands stages back")
        for k in _HOPPERS
        for n in (1, 3, 4)
    },
    **{
        (k, "arrive-relaxed", n): _review(
            "relaxed-handover", _ARRIVE, "wgmma has read the stage, and TMA fills it again"
        )
        for k in _HOPPERS
        for n in (0, 1)
    },
    **{
        ("cp-async", o, n): _UNREAD
        for o in ("arrive-relaxed", "arrive-doubled", "arrive-deleted", "arrive-before-the-access")
        for n in (3, 4)
    },
    **{
        ("dsmem-ring", o, n): _UNREAD
        for o in ("arrive-relaxed", "arrive-doubled", "arrive-before-the-access")
        for n in (1, 2)
    },
    **{("dsmem-ring", "arrive-deleted", n): _UNREAD for n in (4, 6)},
    ("dsmem-ring", "barrier-counts-one-more", 3): _UNREAD,
    **{
        ("dsmem-ring", "scope-narrowed", n): _review(
            "relaxed-handover",
            _MODEL,
            "the data come by st.async, whose completion releases at cluster scope",
        )
        for n in (0, 2, 5, 7)
    },
    **{("dsmem-ring", "scope-narrowed", n): _UNREAD for n in (3, 6)},
    ("tcgen05-stage", "commit-replaced-by-arrive", 1): _harmless(
        "the thread has waited for its MMAs, and the commits it waited for have sent them"
    ),
    **{(k, "tcgen05-fence-before-deleted", n): _NO_TENSOR for k in (*_GEMMS, *_TILUS) for n in (0, 1)},
    **{(k, "tcgen05-fence-after-deleted", n): _NO_TENSOR for k in _TILUS for n in (0, 2)},
    **{(k, "tcgen05-fence-after-deleted", n): _NO_TENSOR for k in _GEMMS for n in (0, 1, 3)},
    **{("tcgen05-chain", "tcgen05-fence-before-deleted", n): _NO_TENSOR for n in (0, 2)},
    **{("tcgen05-chain", "tcgen05-fence-after-deleted", n): _NO_TENSOR for n in (0, 4)},
    **{("tcgen05-stage", "tcgen05-fence-before-deleted", n): _NO_TENSOR for n in (0, 1)},
    **{("tcgen05-stage", "tcgen05-fence-after-deleted", n): _NO_TENSOR for n in (0, 2)},
    ("cp-async", "wait-group-deleted", 0): _harmless(
        "each copy was observed through the mbarrier that it arrives on"
    ),
    **{(k, "warp-barrier-deleted", 0): _harmless("a barrier of the CTA follows") for k in _TILUS},
    **{
        ("tilus-v1", o, n): _harmless(
            "the barrier of the last strip and that of the teardown follow each other"
        )
        for o, n in (("barrier-deleted", 9), ("barrier-before-dealloc-deleted", 0))
    },
    ("blackwell-gemm", "warp-barrier-deleted", 0): _REJOINED,
    ("blackwell-gemm", "warp-barrier-deleted", 15): _harmless("a barrier of the CTA follows"),
    ("blackwell-gemm-2sm", "warp-barrier-deleted", 0): _REJOINED,
    ("hopper-gemm-tma", "warp-barrier-deleted", 16): _harmless("a barrier of the cluster follows"),
    **{
        (k, "cluster-barrier-relaxed", 0): _harmless(
            "fence.mbarrier_init.release.cluster stands before it, and it orders nothing but the barriers' initialization"
        )
        for k in _HOPPERS
    },
    **{
        (k, "cluster-barrier-relaxed", 1): _harmless("execution order is enough to keep the CTAs alive")
        for k in (*_HOPPERS, "dsmem-ring")
    },
    ("blackwell-gemm-2sm", "cluster-barrier-relaxed", 1): _harmless(
        "tcgen05's fences compose with any synchronization of threads"
    ),
    **{
        ("look-back-scan", o, n): _review(
            "ordered-by-chance",
            _MODEL,
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
        ("look-back-scan", "access-weakened", n): _harmless(
            "the fences around the flag order the sums, weak or not"
        )
        for n in (1, 2)
    },
}


def expectation(kernel: str, operator: str, number: int) -> Expectation:
    """What the mutant of a kernel by an operator at its ``number``-th site must give."""
    return EXCEPTIONS.get((kernel, operator, number), EXPECTED[operator])
