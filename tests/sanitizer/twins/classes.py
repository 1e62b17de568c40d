"""Classes of bugs, of which each must have a twin."""

from __future__ import annotations

__all__ = ["SHIPPED", "SUBJECTS", "UNSEEN"]

#: Bugs that kernels of experts shipped with.
SHIPPED = {
    "stage-handed-back-at-issue": "a stage is handed back when an MMA was issued, not when it has read",
    "exit-under-remote-access": "a CTA ends while a remote write, commit or multicast can still reach it",
    "narrow-handover": "ordinary stores are handed across CTAs at CTA scope or by relaxed operations",
    "tcgen05-fence": "tcgen05.fence is absent around a synchronization of threads",
    "completion-not-observed": "data is used before its completion was waited for",
    "arrival-count": "an arrival is missing or too much",
    "init-not-ordered": "an mbarrier is used before its initialization, or initialized again while in use",
    "transaction-bytes": "the bytes expected differ from the bytes that arrive",
    "phase-parity": "the parity of a wait is wrong",
    "store-without-proxy-fence": "the async proxy reads what ordinary stores wrote, without a proxy fence",
    "tensor-memory-lifetime": "tensor memory is not freed, freed under loads, or allocated after relinquish",
    "tensor-memory-place": "lanes outside the warp's quarter, or columns out of range",
    "wrong-lanes": "a collective with the wrong lanes; MMA and commit from different lanes",
    "registers-repaired": "setmaxnreg is dropped, or ptxas repairs the registers of wgmma",
    "store-tile-overwritten": "a tile is overwritten before the bulk store of another lane has read it",
    "accumulator-overwritten": "the accumulator is handed back before tcgen05.wait::ld",
    "control-answer": "an answer of launch control is overwritten early",
    "out-of-range-tile": "bounds assume whole tiles",
    "one-lane-arrives": "all lanes store and one arrives, without bar.warp.sync",
    "read-then-refill": "ordinary reads, then an overwrite by the async proxy without a fence",
    "address-behind-a-loop": "the address of tensor memory is read before its store is ordered",
    "false-alarm": "bulk copies in a loop, which are right",
}

#: Bugs that runs of the simulator did not name, or showed in wrong values alone, when this list was made.
UNSEEN = {
    "proxy-fence": "fence.proxy.async is deleted, moved or of the wrong space",
    "wait-asked-once": "try_wait is asked once",
    "relaxed-wait": "a barrier is waited for by a relaxed wait",
    "commit": "commit is replaced by an arrival, or stands before the MMA",
    "groups": "a wait_group waits for too few groups, or a commit_group is gone",
    "register-pool": "setmaxnreg takes registers that the pool never has",
    "free-without-barrier": "tensor memory is freed without a barrier",
    "weakened-cluster-barrier": "a barrier of the cluster is replaced by one of the CTA",
    "relaxed-arrival": "a relaxed arrival hands over shared memory",
    "exit-in-flight": "a CTA ends with work in flight",
    "count-too-small": "a barrier counts one arrival too few",
    "tensor-fences": "a tcgen05.fence is deleted",
    "tensor-waits": "tcgen05.wait::ld or ::st is deleted",
    "message-passing": "messages through relaxed, CTA-scope, weak or volatile flags",
    "read-only-load": "ld.nc of data that the launch writes",
    "cta-scope-atomic": "atomics at CTA scope across CTAs",
    "mixed-sizes": "atomics of two sizes on one word",
    "two-loads": "two copies into one buffer",
    "early-dsmem": "distributed shared memory before any barrier of the cluster",
    "relaxed-barrier": "a relaxed barrier of the cluster or a relaxed mbarrier hands over data",
    "remote-arrival": "remote arrivals at CTA scope",
}

#: Parts of the memory model and of the machine.
SUBJECTS = (
    "barriers", "lanes are threads", "member masks", "store collision", "moral strength", "vector atomics",
    "chains of releases", "fences", "proxies", "tensor-map proxy", "across CTAs", "completions", "footprints",
    "clusters", "multicast", "pairs", "launches", "reuse", "unions", "uninitialized values", "every schedule", "assumed order",
)  # fmt: skip
