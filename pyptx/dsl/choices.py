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

#: Threads that an access or a fence orders against.
Scope = Literal["cta", "cluster", "gpu", "sys"]

#: Threads that an access orders against: at least the GPU.
GpuScope = Literal["gpu", "sys"]

#: Threads that an arrival orders against: at most the cluster.
ClusterScope = Literal["cta", "cluster"]

#: Order of a load.
LoadOrder = Literal["relaxed", "acquire"]

#: Order of a store.
StoreOrder = Literal["relaxed", "release"]

#: Order of an atomic operation.
AtomicOrder = Literal["relaxed", "acquire", "release", "acq_rel"]

#: Order of an atomic operation without a result.
ReductionOrder = Literal["relaxed", "release"]

#: Order of an arrival on an mbarrier.
ArriveOrder = Literal["release", "relaxed"]

#: Order of a wait for an mbarrier.
WaitOrder = Literal["acquire", "relaxed"]

#: Order of a count of bytes on an mbarrier.
TransactionOrder = Literal["relaxed"]

#: Order of a bulk copy.
CopyOrder = Literal["weak", "relaxed"]

#: Order of a reducing copy.
ReducingCopyOrder = Literal["relaxed"]

#: Order of a load.
MultimemLoadOrder = Literal["weak", "relaxed", "acquire"]

#: Order of a store.
MultimemStoreOrder = Literal["weak", "relaxed", "release"]

#: Order of a cluster barrier's arrival.
ClusterArriveOrder = Literal["release", "relaxed"]

#: Order of a cluster barrier's wait.
ClusterWaitOrder = Literal["acquire"]

#: Order of a fence of one direction.
FenceOrder = Literal["acquire", "release"]

#: Proxies that a fence is between.
FenceProxies = Literal["fabric::generic", "generic::fabric", "fabric::fabric"]

#: What an atomic operation computes.
AtomicOperation = Literal["and", "or", "xor", "exch", "add", "inc", "dec", "min", "max"]

#: What an atomic operation without a result computes.
ReductionOperation = Literal["and", "or", "xor", "add", "inc", "dec", "min", "max"]

#: What a reducing copy computes.
CopyOperation = Literal["and", "or", "xor", "add", "inc", "dec", "min", "max"]

#: What a reduction over replicas computes.
MultimemOperation = Literal["min", "max", "add", "and", "or", "xor"]

#: Where a load keeps what it loads.
LoadCache = Literal["ca", "cg", "cs", "lu", "cv"]

#: Where a store keeps what it stores.
StoreCache = Literal["wb", "cg", "cs", "wt"]

#: What L1 evicts first.
L1Priority = Literal["evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate"]

#: What L2 evicts first.
L2Priority = Literal["evict_normal", "evict_first", "evict_last"]

#: The priority of a cache policy.
PrimaryPriority = Literal["evict_last", "evict_normal", "evict_first", "evict_unchanged"]

#: The priority of a cache policy for all other accesses.
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

#: Which half of a product is wanted.
Half = Literal["lo", "hi"]

#: Classes of floating-point numbers.
FloatTest = Literal["finite", "infinite", "number", "notanumber", "normal", "subnormal"]

#: What becomes of a count past the width.
ShiftMode = Literal["clamp", "wrap"]

#: Which way a funnel shift goes.
ShiftDirection = Literal["l", "r"]

#: Patterns of byte permutations.
Permutation = Literal["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]

#: How a shuffle finds its source lane.
ShuffleMode = Literal["up", "down", "bfly", "idx"]

#: Types of packed integers.
PackedInteger = Literal["u16", "s16", "u2", "s2", "u4", "s4", "u8", "s8"]

#: How a logic function and a predicate combine.
LogicCombination = Literal["or", "and"]

#: How single bits are multiplied.
BitProduct = Literal["xor", "and"]

#: Shapes of copies to tensor memory.
CopyShape = Literal["128x256b", "4x256b", "128x128b", "64x128b", "32x128b"]

#: Packed formats that a copy to tensor memory unpacks.
Decompression = Literal["b6x16_p32", "b4x16_p64"]

#: What a copy reports on its mbarrier.
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

#: Shared memory of the CTA.
CtaSpace = Literal["cta", "shared::cta"]

#: Shared memory of the CTA, either spelling.
SharedSpace = Literal["shared", "cta", "shared::cta"]

#: Shared memory of the CTA or of the cluster.
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

#: Order of a matrix in memory.
MatrixLayout = Literal["row", "col"]

#: Layouts of an mbarrier.
BarrierLayout = Literal["v0", "v1"]

#: Reductions of loads of tensor memory.
Extremum = Literal["min", "max"]
