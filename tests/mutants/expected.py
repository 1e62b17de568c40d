"""What must be found in each mutant of an operator: frozen before there is a checker that could find it.

The expectations come from the PTX ISA, never from what the simulator says. :data:`EXPECTED` has one for each operator;
:mod:`.exceptions` has those of sites that differ from the operator's others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "ARRIVE",
    "BAR",
    "CONTENTS",
    "EARLY",
    "EXPECTED",
    "MEMORY",
    "MODEL",
    "WAIT",
    "Expectation",
    "error",
    "harmless",
    "review",
]

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


MODEL = "memory-consistency-model"
_SYNC = "parallel-synchronization-and-communication-instructions-"
WAIT = _SYNC + "mbarrier-test-wait-try-wait"
ARRIVE = _SYNC + "mbarrier-arrive"
CONTENTS = _SYNC + "mbarrier-contents"
BAR = _SYNC + "bar"
_CLUSTER = _SYNC + "barrier-cluster"
_WARP = _SYNC + "bar-warp-sync"
_BULK = "data-movement-and-conversion-instructions-cp-async-bulk-wait-group"
_GROUP = "data-movement-and-conversion-instructions-cp-async-bulk-commit-group"
MEMORY = "tcgen05-memory-consistency-model"
_COMMIT = "tcgen05-instructions-tcgen05-commit"
_ALLOC = "tensor-memory-allocation"
_NREG = "miscellaneous-instructions-setmaxnreg"


def error(anchor: str, *rules: str) -> Expectation:
    """A bug by the ISA, with its section and the rules of which one must name it."""
    return Expectation("error", rules, anchor)


def harmless(reason: str) -> Expectation:
    """No bug, and why."""
    return Expectation("harmless", (), "", reason)


def review(rule: str, anchor: str, reason: str) -> Expectation:
    """A doubtful site: the rule that must name it, the section of the ISA, and why it is no error."""
    return Expectation("review", (rule,), anchor, reason)


#: A read or a write too early. Where nothing wrote the bytes before, the read of unwritten bytes says it as well.
EARLY = ("data-race", "uninitialized-read", "proxy-fence-missing")
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
    "proxy-fence-deleted": error("async-proxy", "proxy-fence-missing"),
    "proxy-fence-before-the-stores": error("async-proxy", "proxy-fence-missing"),
    "proxy-fence-of-another-space": error("async-proxy", "proxy-fence-missing"),
    "proxy-fence-behind-the-barrier": Expectation(
        "harmless",
        (),
        "async-proxy",
        "the thread that starts the copy executes the fence behind the barrier: it is on the path",
    ),
    "wait-asked-once": error(WAIT, *EARLY, "unused-wait", "exit-in-flight"),
    "wait-relaxed": error(WAIT, "data-race", "proxy-fence-missing"),
    "parity-flipped": error(WAIT, *EARLY, "deadlock", "exit-in-flight"),
    "phase-not-flipped": error(WAIT, *EARLY, "deadlock", "mbarrier-misuse", "exit-in-flight"),
    "arrive-relaxed": error(ARRIVE, "data-race"),
    "expecting-arrive-relaxed": Expectation(
        "harmless",
        (),
        ARRIVE,
        "the arrival hands over no data of its thread: the bytes come with the release of complete_tx",
    ),
    "barrier-counts-one-fewer": error(CONTENTS, *EARLY, "mbarrier-misuse"),
    "barrier-counts-one-more": error(CONTENTS, *_STUCK),
    "bytes-expected-16-fewer": error(CONTENTS, *_STUCK, *EARLY),
    "bytes-expected-16-more": error(CONTENTS, *_STUCK),
    "commit-replaced-by-arrive": error(_COMMIT, *EARLY, "exit-in-flight"),
    "commit-before-the-mma": error(_COMMIT, *EARLY, "exit-in-flight"),
    "commit-deleted": error(_COMMIT, *_STUCK),
    "wait-group-of-one-more": error(_BULK, *_IN_FLIGHT),
    "wait-group-deleted": error(_BULK, *_IN_FLIGHT),
    "commit-group-deleted": error(_GROUP, *_IN_FLIGHT),
    "group-committed-before-the-operation": error(_GROUP, *_IN_FLIGHT),
    "barrier-deleted": error(BAR, *EARLY, "mbarrier-misuse", "barrier-misuse", "tensor-memory"),
    "barrier-before-dealloc-deleted": error(_ALLOC, "data-race", "tensor-memory"),
    "warp-barrier-deleted": error(_WARP, "data-race", "proxy-fence-missing"),
    "cluster-barrier-of-the-cta": error(_CLUSTER, *_CLUSTER_RULES),
    "cluster-barrier-deleted": error(_CLUSTER, *_CLUSTER_RULES, "tensor-memory"),
    "cluster-barrier-relaxed": error(_CLUSTER, "data-race"),
    "tcgen05-fence-before-deleted": Expectation(
        "review", ("tcgen05-fence-missing",), MEMORY, "the assembler emits nothing for it; compilers omit it"
    ),
    "tcgen05-fence-after-deleted": Expectation(
        "review", ("tcgen05-fence-missing",), MEMORY, "the assembler emits nothing for it; compilers omit it"
    ),
    "wait-ld-deleted": Expectation(
        "review", ("tcgen05-wait-missing",), MEMORY, "the use of the registers waits for the load"
    ),
    "wait-st-deleted": error(MEMORY, "data-race"),
    "setmaxnreg-inc-by-more": error(_NREG, *_POOL),
    "setmaxnreg-dec-by-less": error(_NREG, *_POOL),
    "setmaxnreg-dec-deleted": error(_NREG, *_POOL),
    "scope-narrowed": error(MODEL, "data-race"),
    "order-relaxed": error(MODEL, "data-race"),
    "access-weakened": error(MODEL, "data-race"),
    "memory-fence-deleted": error(MODEL, "data-race"),
    "init-fence-deleted": Expectation(
        "harmless",
        (),
        _SYNC + "membar",
        "the barrier behind it releases and acquires, or one thread does everything; no proxy fence is owed for the mbarrier",
    ),
    "arrive-doubled": error(CONTENTS, "mbarrier-misuse", *EARLY, "deadlock"),
    "arrive-deleted": error(ARRIVE, *_STUCK),
    "arrive-before-the-access": error(ARRIVE, *EARLY),
    "barrier-behind-the-load": error(BAR, *EARLY),
    "barrier-before-the-store": error(BAR, *EARLY),
    "barrier-of-one-more-warp": error(BAR, "barrier-misuse", "deadlock"),
    "warp-mask-halved": error(_WARP, *_MASKS),
    "wgmma-fence-deleted": Expectation(
        "review",
        ("wgmma-fence",),
        "asynchronous-warpgroup-level-matrix-instructions-wgmma-fence",
        "ptxas adds the fence",
    ),
    "noinc-dropped": error(
        "data-movement-and-conversion-instructions-cp-async-mbarrier-arrive", "deadlock", "mbarrier-misuse"
    ),
    "read-through-the-read-only-cache": error(
        "data-movement-and-conversion-instructions-ld-global-nc", "data-race"
    ),
    "copy-doubled": error(CONTENTS, "data-race", *_STUCK),
    "dealloc-deleted": error(_ALLOC, "tensor-memory"),
    "alloc-halved": error(_ALLOC, "tensor-memory"),
    "permit-given-up-before-alloc": error(_ALLOC, "tensor-memory"),
}
