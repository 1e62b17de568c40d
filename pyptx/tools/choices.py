"""The strings that the DSL's wrappers accept as arguments, taken from the instruction table.

Owns which sets of modifiers make up each choice. :func:`choices_module` writes them as ``Literal`` types:
editors complete them, type checkers refuse a wrong string, and the check at the call reads the same types.
"""

from __future__ import annotations

from typing import NamedTuple

from ..isa import form

__all__ = ["CHOICES", "Choice", "choices_module", "members"]


class Choice(NamedTuple):
    """The strings of one argument: the members of modifier sets of the table, in the table's order.

    Attributes:
        meaning: what the argument chooses.
        sources: pairs of a form's identifier and the name of one of its modifier sets or literal modifiers.
        prefix: beginning of the members that the strings leave out, such as ``"L2::"``.
        short: whether the strings may also leave out ``shared::``.
    """

    meaning: str
    sources: tuple[tuple[str, str], ...]
    prefix: str = ""
    short: bool = False


def _of(meaning: str, *sources: str, prefix: str = "", short: bool = False) -> Choice:
    """Make a choice; each source is written ``form.id .set``."""
    pairs = (source.rsplit(" .", 1) for source in sources)
    return Choice(meaning, tuple((identifier, name) for identifier, name in pairs), prefix, short)


#: Name of each ``Literal`` type -> its choice.
CHOICES: dict[str, Choice] = {
    "Scope": _of("Threads that an access or a fence orders against.", "atom .scope"),
    "GpuScope": _of("Threads that an access orders against: at least the GPU.", "st.async.release .scope"),
    "ClusterScope": _of(
        "Threads that an arrival orders against: at most the cluster.", "mbarrier.arrive .scope"
    ),
    "LoadOrder": _of("Order of a load.", "ld.strong .sem"),
    "StoreOrder": _of("Order of a store.", "st.strong .sem"),
    "AtomicOrder": _of("Order of an atomic operation.", "atom .sem"),
    "ReductionOrder": _of("Order of an atomic operation without a result.", "red .sem"),
    "ArriveOrder": _of("Order of an arrival on an mbarrier.", "mbarrier.arrive .sem"),
    "WaitOrder": _of("Order of a wait for an mbarrier.", "mbarrier.try_wait.parity .sem"),
    "TransactionOrder": _of("Order of a count of bytes on an mbarrier.", "mbarrier.expect_tx .sem"),
    "CopyOrder": _of("Order of a bulk copy.", "cp.async.bulk.store.sem .sem"),
    "ReducingCopyOrder": _of("Order of a reducing copy.", "cp.reduce.async.bulk.global.relaxed .relaxed"),
    "MultimemLoadOrder": _of("Order of a load.", "multimem.ld_reduce .weak", "multimem.ld_reduce .sem"),
    "MultimemStoreOrder": _of("Order of a store.", "multimem.st .weak", "multimem.st .sem"),
    "ClusterArriveOrder": _of("Order of a cluster barrier's arrival.", "barrier.cluster.arrive .sem"),
    "ClusterWaitOrder": _of("Order of a cluster barrier's wait.", "barrier.cluster.wait .acquire"),
    "FenceOrder": _of("Order of a fence of one direction.", "fence.proxy.fabric .sem"),
    "FenceProxies": _of("Proxies that a fence is between.", "fence.proxy.fabric .proxies"),
    "AtomicOperation": _of("What an atomic operation computes.", "atom .op"),
    "ReductionOperation": _of("What an atomic operation without a result computes.", "red .op"),
    "CopyOperation": _of("What a reducing copy computes.", "cp.reduce.async.bulk.global .op"),
    "MultimemOperation": _of("What a reduction over replicas computes.", "multimem.red .op"),
    "LoadCache": _of("Where a load keeps what it loads.", "ld .cop"),
    "StoreCache": _of("Where a store keeps what it stores.", "st .cop"),
    "L1Priority": _of("What L1 evicts first.", "ld.evict .level1", prefix="L1::"),
    "L2Priority": _of("What L2 evicts first.", "ld.v256 .level2", prefix="L2::"),
    "PrimaryPriority": _of("The priority of a cache policy.", "createpolicy.range .primary", prefix="L2::"),
    "SecondaryPriority": _of(
        "The priority of a cache policy for all other accesses.",
        "createpolicy.range .secondary",
        prefix="L2::",
    ),
    "Space": _of("State spaces that a generic address may point into.", "cvta .space"),
    "Comparison": _of("Comparisons of two values.", "setp .cmp"),
    "Half": _of("Which half of a product is wanted.", "mad.int .half"),
    "FloatTest": _of("Classes of floating-point numbers.", "testp .op"),
    "ShiftMode": _of("What becomes of a count past the width.", "shf .mode"),
    "ShiftDirection": _of("Which way a funnel shift goes.", "shf .dir"),
    "Permutation": _of("Patterns of byte permutations.", "prmt .mode"),
    "ShuffleMode": _of("How a shuffle finds its source lane.", "shfl.sync .mode"),
    "PackedInteger": _of("Types of packed integers.", "cvt.pack .dtype", "cvt.pack.insert .dtype"),
    "LogicCombination": _of("How a logic function and a predicate combine.", "lop3.bool .bool"),
    "BitProduct": _of("How single bits are multiplied.", "mma.b1 .bitOp"),
    "CopyShape": _of("Shapes of copies to tensor memory.", "tcgen05.cp .shape"),
    "Decompression": _of("Packed formats that a copy to tensor memory unpacks.", "tcgen05.cp .src_fmt"),
    "Validity": _of(
        "What a copy reports on its mbarrier.",
        "cp.async.bulk.load.report .report",
        prefix="mbarrier::report::",
    ),
    "LastPriority": _of("Priorities of a prefetch.", "prefetch.evict .priority", prefix="L2::"),
    "CtaSpace": _of("Shared memory of the CTA.", "st.bulk .space", short=True),
    "SharedSpace": _of("Shared memory of the CTA, either spelling.", "mbarrier.init .space", short=True),
    "AnySharedSpace": _of(
        "Shared memory of the CTA or of the cluster.", "mbarrier.expect_tx .space", short=True
    ),
    "LoadSpace": _of("State spaces of a load.", "ld .ss", "ld.param.where .ss", "ld.param.func .param::func"),
    "StoreSpace": _of("State spaces of a store.", "st .ss", "st.param .ss"),
    "AtomicSpace": _of("State spaces of an atomic operation.", "atom .space"),
    "MatrixLayout": _of("Order of a matrix in memory.", "wmma.load.a .layout"),
    "BarrierLayout": _of("Layouts of an mbarrier.", "mbarrier.init.layout .layout", prefix="layout::"),
    "Extremum": _of("Reductions of loads of tensor memory.", "tcgen05.ld.red.32x32b .redOp"),
}


def members(choice: Choice) -> tuple[str, ...]:
    """Return the strings of a choice."""
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
    """Return the text of ``pyptx/dsl/choices.py``."""
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
