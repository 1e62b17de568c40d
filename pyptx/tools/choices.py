"""The strings that arguments of DSL functions accept, such as ``"acquire"``, from the instruction table.

Owns :data:`CHOICES`, which says for each argument type which modifiers of the table it accepts.
:func:`choices_module` writes them as ``Literal`` types: editors complete them, type checkers refuse a wrong
string, and the check at the call reads the same types.
"""

from __future__ import annotations

from ..core.tuples import NamedTuple
from ..isa import form

__all__ = ["CHOICES", "Choice", "choices_module", "members"]


class Choice(NamedTuple):
    """The strings that one DSL argument accepts: modifiers of the instruction table, in the table's order.

    Attributes:
        meaning: comment that says what the strings are.
        sources: where the strings come from: pairs of a form's identifier and the name of one of its modifier
            sets or literal modifiers.
        prefix: beginning of a modifier that the string leaves out, such as ``"L2::"``.
        short: True if a user may also leave out ``shared::``.
    """

    meaning: str
    sources: tuple[tuple[str, str], ...]
    prefix: str = ""
    short: bool = False


def _of(meaning: str, *sources: str, prefix: str = "", short: bool = False) -> Choice:
    """Return a :class:`Choice`; each source is text such as ``atom .scope``: form identifier and set name."""
    pairs = (source.rsplit(" .", 1) for source in sources)
    return Choice(meaning, tuple((identifier, name) for identifier, name in pairs), prefix, short)


#: Name of each ``Literal`` type -> its choice.
CHOICES: dict[str, Choice] = {
    "Scope": _of(
        "Scope of an access or a fence: the set of threads with which it is ordered.", "atom .scope"
    ),
    "GpuScope": _of(
        "Scope of an access that includes at least all threads of the GPU.", "st.async.release .scope"
    ),
    "ClusterScope": _of("Scope of an arrival, which is at most the cluster.", "mbarrier.arrive .scope"),
    "LoadOrder": _of("Memory order of a load.", "ld.strong .sem"),
    "StoreOrder": _of("Memory order of a store.", "st.strong .sem"),
    "AtomicOrder": _of("Memory order of an atomic operation.", "atom .sem"),
    "ReductionOrder": _of("Memory order of an atomic operation without a result (red).", "red .sem"),
    "ArriveOrder": _of("Memory order of an arrival on an mbarrier.", "mbarrier.arrive .sem"),
    "WaitOrder": _of("Memory order of a wait for an mbarrier.", "mbarrier.try_wait.parity .sem"),
    "TransactionOrder": _of(
        "Memory order of an operation that changes the byte count of an mbarrier.", "mbarrier.expect_tx .sem"
    ),
    "CopyOrder": _of("Memory order of a bulk copy.", "cp.async.bulk.store.sem .sem"),
    "ReducingCopyOrder": _of(
        "Memory order of a reducing bulk copy.", "cp.reduce.async.bulk.global.relaxed .relaxed"
    ),
    "MultimemLoadOrder": _of(
        "Memory order of a load.", "multimem.ld_reduce .weak", "multimem.ld_reduce .sem"
    ),
    "MultimemStoreOrder": _of("Memory order of a store.", "multimem.st .weak", "multimem.st .sem"),
    "ClusterArriveOrder": _of(
        "Memory order of an arrival at the cluster barrier.", "barrier.cluster.arrive .sem"
    ),
    "ClusterWaitOrder": _of(
        "Memory order of a wait at the cluster barrier.", "barrier.cluster.wait .acquire"
    ),
    "FenceOrder": _of("Memory order of a fence that orders in one direction.", "fence.proxy.fabric .sem"),
    "FenceProxies": _of(
        "Pairs of proxies between which a fence orders accesses.", "fence.proxy.fabric .proxies"
    ),
    "AtomicOperation": _of("Operations of an atomic instruction.", "atom .op"),
    "ReductionOperation": _of("Operations of an atomic instruction without a result (red).", "red .op"),
    "CopyOperation": _of("Operations of a reducing bulk copy.", "cp.reduce.async.bulk.global .op"),
    "MultimemOperation": _of(
        "Operations of a reduction over the replicas of a multimem address.", "multimem.red .op"
    ),
    "LoadCache": _of("Cache operators of a load: the caches that keep the loaded data.", "ld .cop"),
    "StoreCache": _of("Cache operators of a store: the caches that keep the stored data.", "st .cop"),
    "L1Priority": _of("Eviction priorities of L1.", "ld.evict .level1", prefix="L1::"),
    "L2Priority": _of("Eviction priorities of L2.", "ld.v256 .level2", prefix="L2::"),
    "PrimaryPriority": _of(
        "L2 eviction priorities of a cache policy for its primary accesses.",
        "createpolicy.range .primary",
        prefix="L2::",
    ),
    "SecondaryPriority": _of(
        "L2 eviction priorities of a cache policy for all other accesses.",
        "createpolicy.range .secondary",
        prefix="L2::",
    ),
    "Space": _of("State spaces that a generic address may point into.", "cvta .space"),
    "Comparison": _of("Comparisons of two values.", "setp .cmp"),
    "Half": _of("Halves of a product, one of which is the result.", "mad.int .half"),
    "FloatTest": _of("Classes of floating-point numbers.", "testp .op"),
    "ShiftMode": _of("Treatments of a shift count above the width: clamp or wrap.", "shf .mode"),
    "ShiftDirection": _of("Directions of a funnel shift.", "shf .dir"),
    "Permutation": _of("Patterns of byte permutations.", "prmt .mode"),
    "ShuffleMode": _of("Modes in which a shuffle computes its source lane.", "shfl.sync .mode"),
    "PackedInteger": _of("Types of packed integers.", "cvt.pack .dtype", "cvt.pack.insert .dtype"),
    "LogicCombination": _of(
        "Operations that combine the result of a logic function with a predicate.", "lop3.bool .bool"
    ),
    "BitProduct": _of("Operations that multiply single bits.", "mma.b1 .bitOp"),
    "CopyShape": _of("Shapes of copies to tensor memory.", "tcgen05.cp .shape"),
    "Decompression": _of("Packed formats that a copy to tensor memory unpacks.", "tcgen05.cp .src_fmt"),
    "Validity": _of(
        "Reports of a copy on its mbarrier.",
        "cp.async.bulk.load.report .report",
        prefix="mbarrier::report::",
    ),
    "LastPriority": _of("Priorities of a prefetch.", "prefetch.evict .priority", prefix="L2::"),
    "CtaSpace": _of("Names of the CTA's shared memory.", "st.bulk .space", short=True),
    "SharedSpace": _of(
        "Names of the CTA's shared memory, in both spellings.", "mbarrier.init .space", short=True
    ),
    "AnySharedSpace": _of(
        "Names of the shared memory of the CTA or of the cluster.", "mbarrier.expect_tx .space", short=True
    ),
    "LoadSpace": _of("State spaces of a load.", "ld .ss", "ld.param.where .ss", "ld.param.func .param::func"),
    "StoreSpace": _of("State spaces of a store.", "st .ss", "st.param .ss"),
    "AtomicSpace": _of("State spaces of an atomic operation.", "atom .space"),
    "MatrixLayout": _of("Layouts of a matrix in memory: by rows or by columns.", "wmma.load.a .layout"),
    "BarrierLayout": _of("Layouts of an mbarrier.", "mbarrier.init.layout .layout", prefix="layout::"),
    "Extremum": _of("Reductions of loads of tensor memory.", "tcgen05.ld.red.32x32b .redOp"),
}


def members(choice: Choice) -> tuple[str, ...]:
    """Return the strings that an argument with this choice accepts."""
    found: dict[str, None] = {}
    for identifier, name in choice.sources:
        (slot,) = (slot for slot in form(identifier).slots() if slot.name == name)
        for alternative in slot.alternatives:
            text = alternative.text.removeprefix(choice.prefix)
            if choice.short:
                found[text.removeprefix("shared::")] = None
            found[text] = None
    return tuple(found)


def choices_module() -> str:
    """Return the text of the generated file ``pyptx/dsl/choices.py``."""
    lines = [
        '"""Choices of string arguments, from the instruction table (``python -m pyptx.tools.generate``)."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Literal",
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in CHOICES),
        "]",
    ]
    for name, choice in CHOICES.items():
        written = [f'"{member}"' for member in members(choice)]
        line = f"{name} = Literal[{', '.join(written)}]"
        lines += ["", f"#: {choice.meaning}"]
        if len(line) <= 110:
            lines.append(line)
        else:
            lines += [f"{name} = Literal[", *(f"    {member}," for member in written), "]"]
    return "\n".join(lines) + "\n"
