"""Choices of string arguments, from the instruction table (``python -m pyptx.tools.generate``)."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "Scope",
    "GpuScope",
    "ClusterScope",
    "LoadOrder",
    "StoreOrder",
    "AtomicOrder",
    "ReductionOrder",
    "ArriveOrder",
    "WaitOrder",
    "TransactionOrder",
    "CopyOrder",
    "ReducingCopyOrder",
    "MultimemLoadOrder",
    "MultimemStoreOrder",
    "ClusterArriveOrder",
    "ClusterWaitOrder",
    "FenceOrder",
    "FenceProxies",
    "AtomicOperation",
    "ReductionOperation",
    "CopyOperation",
    "MultimemOperation",
    "LoadCache",
    "StoreCache",
    "L1Priority",
    "L2Priority",
    "PrimaryPriority",
    "SecondaryPriority",
    "Space",
    "Comparison",
    "Half",
    "FloatTest",
    "ShiftMode",
    "ShiftDirection",
    "Permutation",
    "ShuffleMode",
    "PackedInteger",
    "LogicCombination",
    "BitProduct",
    "CopyShape",
    "Decompression",
    "Validity",
    "LastPriority",
    "CtaSpace",
    "SharedSpace",
    "AnySharedSpace",
    "LoadSpace",
    "StoreSpace",
    "AtomicSpace",
    "MatrixLayout",
    "BarrierLayout",
    "Extremum",
]

#: Scope of an access or a fence: the set of threads with which it is ordered.
Scope = Literal["cta", "cluster", "gpu", "sys"]

#: Scope of an access that includes at least all threads of the GPU.
GpuScope = Literal["gpu", "sys"]

#: Scope of an arrival, which is at most the cluster.
ClusterScope = Literal["cta", "cluster"]

#: Memory order of a load.
LoadOrder = Literal["relaxed", "acquire"]

#: Memory order of a store.
StoreOrder = Literal["relaxed", "release"]

#: Memory order of an atomic operation.
AtomicOrder = Literal["relaxed", "acquire", "release", "acq_rel"]

#: Memory order of an atomic operation without a result (red).
ReductionOrder = Literal["relaxed", "release"]

#: Memory order of an arrival on an mbarrier.
ArriveOrder = Literal["release", "relaxed"]

#: Memory order of a wait for an mbarrier.
WaitOrder = Literal["acquire", "relaxed"]

#: Memory order of an operation that changes the byte count of an mbarrier.
TransactionOrder = Literal["relaxed"]

#: Memory order of a bulk copy.
CopyOrder = Literal["weak", "relaxed"]

#: Memory order of a reducing bulk copy.
ReducingCopyOrder = Literal["relaxed"]

#: Memory order of a load.
MultimemLoadOrder = Literal["weak", "relaxed", "acquire"]

#: Memory order of a store.
MultimemStoreOrder = Literal["weak", "relaxed", "release"]

#: Memory order of an arrival at the cluster barrier.
ClusterArriveOrder = Literal["release", "relaxed"]

#: Memory order of a wait at the cluster barrier.
ClusterWaitOrder = Literal["acquire"]

#: Memory order of a fence that orders in one direction.
FenceOrder = Literal["acquire", "release"]

#: Pairs of proxies between which a fence orders accesses.
FenceProxies = Literal["fabric::generic", "generic::fabric", "fabric::fabric"]

#: Operations of an atomic instruction.
AtomicOperation = Literal["and", "or", "xor", "exch", "add", "inc", "dec", "min", "max"]

#: Operations of an atomic instruction without a result (red).
ReductionOperation = Literal["and", "or", "xor", "add", "inc", "dec", "min", "max"]

#: Operations of a reducing bulk copy.
CopyOperation = Literal["and", "or", "xor", "add", "inc", "dec", "min", "max"]

#: Operations of a reduction over the replicas of a multimem address.
MultimemOperation = Literal["min", "max", "add", "and", "or", "xor"]

#: Cache operators of a load: the caches that keep the loaded data.
LoadCache = Literal["ca", "cg", "cs", "lu", "cv"]

#: Cache operators of a store: the caches that keep the stored data.
StoreCache = Literal["wb", "cg", "cs", "wt"]

#: Eviction priorities of L1.
L1Priority = Literal["evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate"]

#: Eviction priorities of L2.
L2Priority = Literal["evict_normal", "evict_first", "evict_last"]

#: L2 eviction priorities of a cache policy for its primary accesses.
PrimaryPriority = Literal["evict_last", "evict_normal", "evict_first", "evict_unchanged"]

#: L2 eviction priorities of a cache policy for all other accesses.
SecondaryPriority = Literal["evict_first", "evict_unchanged"]

#: State spaces that a generic address may point into.
Space = Literal[
    "const",
    "global",
    "local",
    "shared",
    "shared::cta",
    "shared::cluster",
    "param",
    "param::entry",
]

#: Comparisons of two values.
Comparison = Literal[
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "lo",
    "ls",
    "hi",
    "hs",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
]

#: Halves of a product, one of which is the result.
Half = Literal["lo", "hi"]

#: Classes of floating-point numbers.
FloatTest = Literal["finite", "infinite", "number", "notanumber", "normal", "subnormal"]

#: Treatments of a shift count above the width: clamp or wrap.
ShiftMode = Literal["clamp", "wrap"]

#: Directions of a funnel shift.
ShiftDirection = Literal["l", "r"]

#: Patterns of byte permutations.
Permutation = Literal["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]

#: Modes in which a shuffle computes its source lane.
ShuffleMode = Literal["up", "down", "bfly", "idx"]

#: Types of packed integers.
PackedInteger = Literal["u16", "s16", "u2", "s2", "u4", "s4", "u8", "s8"]

#: Operations that combine the result of a logic function with a predicate.
LogicCombination = Literal["or", "and"]

#: Operations that multiply single bits.
BitProduct = Literal["xor", "and"]

#: Shapes of copies to tensor memory.
CopyShape = Literal["128x256b", "4x256b", "128x128b", "64x128b", "32x128b"]

#: Packed formats that a copy to tensor memory unpacks.
Decompression = Literal["b6x16_p32", "b4x16_p64"]

#: Reports of a copy on its mbarrier.
Validity = Literal[
    "disabled",
    "validity::per_16bytes::80000000",
    "validity::per_16bytes::8000",
    "validity::per_16bytes::80",
    "validity::per_16bytes::8",
    "validity::per_element::ff",
]

#: Priorities of a prefetch.
LastPriority = Literal["evict_last", "evict_normal"]

#: Names of the CTA's shared memory.
CtaSpace = Literal["cta", "shared::cta"]

#: Names of the CTA's shared memory, in both spellings.
SharedSpace = Literal["shared", "cta", "shared::cta"]

#: Names of the shared memory of the CTA or of the cluster.
AnySharedSpace = Literal["shared", "cta", "shared::cta", "cluster", "shared::cluster"]

#: State spaces of a load.
LoadSpace = Literal[
    "const",
    "global",
    "local",
    "param",
    "shared",
    "shared::cta",
    "shared::cluster",
    "param::entry",
    "param::func",
]

#: State spaces of a store.
StoreSpace = Literal["global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::func"]

#: State spaces of an atomic operation.
AtomicSpace = Literal["global", "shared", "shared::cta", "shared::cluster"]

#: Layouts of a matrix in memory: by rows or by columns.
MatrixLayout = Literal["row", "col"]

#: Layouts of an mbarrier.
BarrierLayout = Literal["v0", "v1"]

#: Reductions of loads of tensor memory.
Extremum = Literal["min", "max"]
