"""Findings of the checkers, the catalog of their rules, and the verdict of a run.

The simulator, the sanitizer, lint and ptxas warnings use the same findings.  :data:`RULES` declares each
rule once, with its severity, its anchor in the PTX ISA and its remedy; a :class:`Finding` names the rule
that was broken and says what happened.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import field

from .records import dataclass
from .remedies import Remedy
from .source import SourceLocation

__all__ = ["RULES", "Finding", "Rule", "Verdict", "verdict_of"]


class Verdict(enum.Enum):
    """Outcome of a run, from best to worst. ``incomplete`` is never a success."""

    CLEAN = "clean"
    REVIEW = "review"
    INCOMPLETE = "incomplete"
    ERROR = "error"

    def __str__(self) -> str:
        return self.value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.value == other
        return self is other

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the catalog.

    Attributes:
        name: short name, which messages show in brackets.
        severity: the verdict of a run with a finding of this rule, if no other finding is worse.
        summary: what breaks the rule.
        remedy: what to do about it.
        anchor: the section of the PTX ISA that states the rule, or empty.
        lint: whether only ``pyptx lint`` reports the rule, and no run.
    """

    name: str
    severity: Verdict
    summary: str
    remedy: str
    anchor: str = ""
    lint: bool = False


def _rules(*rules: Rule) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules}


#: The catalog of rules, by name.
RULES: dict[str, Rule] = _rules(
    Rule(
        "out-of-bounds",
        Verdict.ERROR,
        "an access outside every allocation of its state space",
        "compare the address with the allocation named in the finding; check strides and tile edges",
        "state-spaces",
    ),
    Rule(
        "buffer-overrun",
        Verdict.ERROR,
        "one access that leaves the shared buffer in which it begins, or that begins in no buffer",
        "compare the offset with the size of the buffer named in the finding",
        "state-spaces-shared-state-space",
    ),
    Rule(
        "buffer-crossing",
        Verdict.REVIEW,
        "lanes that fill two neighboring shared buffers without a gap: perhaps one is too small",
        "let the lanes beyond the buffer do nothing, or make it larger",
        "state-spaces-shared-state-space",
    ),
    Rule(
        "misaligned",
        Verdict.ERROR,
        "an address that is not a multiple of the access size",
        "align the base address, and keep offsets multiples of the access size (of the whole vector)",
        "addresses-as-operands",
    ),
    Rule(
        "uninitialized-read",
        Verdict.ERROR,
        "a use of memory or tensor memory that no thread or engine has written",
        "write the bytes first, or wait for the operation that writes them",
        "memory-consistency-model",
    ),
    Rule(
        "store-collision",
        Verdict.REVIEW,
        "lanes of one store, or copies of equal bytes, write to one address in open order",
        "let one lane store, or let each lane store to its own address",
        "memory-consistency-model",
    ),
    Rule(
        "data-race",
        Verdict.ERROR,
        "nothing orders the two accesses to the same bytes, and they are not morally strong",
        "order them: a barrier, or a release by the first thread that the second one acquires",
        "memory-consistency-model",
    ),
    Rule(
        "proxy-fence-missing",
        Verdict.ERROR,
        "no proxy fence stands between accesses through different proxies to the same bytes",
        "execute fence.proxy.async (or fence.proxy.tensormap) after the first access, before the signal",
        "async-proxy",
    ),
    Rule(
        "cluster-lifetime",
        Verdict.ERROR,
        "an access to another CTA's shared memory, not ordered after its start or before its exit",
        "execute barrier.cluster.arrive and .wait in all CTAs before the first and after the last access",
        "state-spaces-shared-state-space",
    ),
    Rule(
        "proxy-fence-open",
        Verdict.REVIEW,
        "no proxy fence of this CTA between ordinary accesses and a later access by the async proxy",
        "execute fence.proxy.async between the ordinary reads and the signal that lets the copy begin",
        "async-proxy",
    ),
    Rule(
        "tcgen05-fence-missing",
        Verdict.REVIEW,
        "a thread synchronization orders tcgen05 operations, and no tcgen05.fence stands on both sides",
        "execute tcgen05.fence::before_thread_sync before it, tcgen05.fence::after_thread_sync behind it",
        "tcgen05-memory-consistency-model",
    ),
    Rule(
        "tcgen05-wait-missing",
        Verdict.REVIEW,
        "tensor memory is handed over while only the use of the loaded registers waits for the load",
        "execute tcgen05.wait::ld before the signal that hands the tensor memory over",
        "tcgen05-memory-consistency-model",
    ),
    Rule(
        "relaxed-handover",
        Verdict.REVIEW,
        "data of engines, or a waited mbarrier, handed over with relaxed order or too narrow a scope",
        "use a release and an acquire whose scopes include both threads",
        "memory-consistency-model",
    ),
    Rule(
        "assumed-order",
        Verdict.REVIEW,
        "only an order that the simulator assumes, and the PTX ISA does not list, separates two accesses",
        "commit the first operation and wait for it before the second one",
        "tcgen05-memory-consistency-model-pipelined-instructions",
    ),
    Rule(
        "speculative-load",
        Verdict.REVIEW,
        "a load races with a write, and its value is not used, or only as the guess of a compare-and-swap",
        "load only in the threads that use the value, and before a compare-and-swap with relaxed order",
        "limitations-on-mixed-size-data-races",
    ),
    Rule(
        "ordered-by-chance",
        Verdict.REVIEW,
        "another schedule may count the operation in another phase, or load another value",
        "wait for the end of the phase before, or until the value says that the store has happened",
        "memory-consistency-model",
    ),
    Rule(
        "unwritten-output",
        Verdict.REVIEW,
        "the call allocated an output, and the kernel did not write all of its elements",
        "write every element, or pass your own array as out= if the other elements should keep their values",
    ),
    Rule(
        "undefined-load",
        Verdict.REVIEW,
        "a load or copy of unwritten memory whose value no instruction used: compilers load early",
        "write the memory first, or load it only where the value is used",
        "memory-consistency-model",
    ),
    Rule(
        "padding-read",
        Verdict.REVIEW,
        "a vector load or a copy of written and unwritten bytes, and no instruction used the unwritten ones",
        "write all bytes, or load and copy only those that have values",
        "memory-consistency-model",
    ),
    Rule(
        "undefined-register",
        Verdict.REVIEW,
        "a register read before any instruction wrote it: compilers do so where the value does not matter",
        "write the register on every path that leads to the read",
        "state-spaces-register-state-space",
    ),
    Rule(
        "deadlock",
        Verdict.ERROR,
        "all live threads wait and nothing in flight can wake one of them, here or under another schedule",
        "look at what each warp waits for: an arrival, bytes or another warp that never came",
        "parallel-synchronization-and-communication-instructions-mbarrier",
    ),
    Rule(
        "lapped-wait",
        Verdict.REVIEW,
        "while a thread waited for a phase of an mbarrier, this phase and the next one completed",
        "count an arrival of the waiting thread in each phase, so that it cannot fall two phases behind",
        "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
    ),
    Rule(
        "elected-twice",
        Verdict.REVIEW,
        "the warp may be in two parts at a copy or product whose predicate elect.sync made; ptxas drops the "
        "predicate, so it may be carried out twice",
        "put bar.warp.sync behind the loop in which the elected lane waits",
        "parallel-synchronization-and-communication-instructions-elect-sync",
    ),
    Rule(
        "mbarrier-misuse",
        Verdict.ERROR,
        "an mbarrier operation that the state of the mbarrier does not allow, such as one arrival too many",
        "initialize the mbarrier once with the number of arrivals per phase, and arrive exactly that often",
        "parallel-synchronization-and-communication-instructions-mbarrier-contents",
    ),
    Rule(
        "mbarrier-reinit",
        Verdict.REVIEW,
        "mbarrier.init at the address of a live mbarrier",
        "invalidate the old mbarrier first, with mbarrier.inval",
        "parallel-synchronization-and-communication-instructions-mbarrier-init",
    ),
    Rule(
        "mbarrier-overwritten",
        Verdict.REVIEW,
        "an ordinary write to the memory of a live mbarrier that is idle: no arrival, wait or signal pending",
        "invalidate the mbarrier first, with mbarrier.inval",
        "parallel-synchronization-and-communication-instructions-mbarrier-inval",
    ),
    Rule(
        "mbarrier-read",
        Verdict.REVIEW,
        "an ordinary read of a live mbarrier, whose bytes are opaque and differ from hardware to simulator",
        "use mbarrier.test_wait to learn its phase, or keep other data out of the mbarrier's 8 bytes",
        "parallel-synchronization-and-communication-instructions-mbarrier-contents",
    ),
    Rule(
        "mbarrier-state",
        Verdict.REVIEW,
        "a wait with a state that no arrival of this or the last phase returned; hardware uses its phase bit",
        "wait with the state of the last arrival on the same mbarrier, before its next phase completes",
        "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
    ),
    Rule(
        "unused-wait",
        Verdict.REVIEW,
        "an mbarrier wait whose result no instruction reads: after it the phase may still be incomplete",
        "branch back to the wait until its result is true",
        "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
    ),
    Rule(
        "barrier-misuse",
        Verdict.ERROR,
        "a CTA barrier whose number or thread count is invalid, or differs between the warps that arrive",
        "let each warp that takes part name the same thread count, a multiple of 32, and arrive once",
        "parallel-synchronization-and-communication-instructions-bar",
    ),
    Rule(
        "exit-in-flight",
        Verdict.ERROR,
        "a CTA ended, and no wait ensured that a copy or a tensor-core operation needed its memory no more",
        "wait for the mbarrier or the bulk group of the operation before the last thread of the CTA ends",
        "data-movement-and-conversion-instructions-cp-async-bulk-tensor",
    ),
    Rule(
        "commit-at-exit",
        Verdict.REVIEW,
        "a CTA ended, and no wait ensured that a commit had arrived at one of the CTA's own mbarriers",
        "wait for the phase that the commit completes before the last thread of the CTA ends",
        "tcgen05-instructions-tcgen05-commit",
    ),
    Rule(
        "copy-never-waited",
        Verdict.REVIEW,
        "a cp.async that its thread never waited for",
        "end with cp.async.wait_all, or remove the copy if no code needs it",
        "data-movement-and-conversion-instructions-cp-async-wait-group",
    ),
    Rule(
        "launch-control",
        Verdict.ERROR,
        "clusterlaunchcontrol used in a way whose behavior is undefined",
        "request no more after a refusal; keep response and mbarrier in the executing CTA's shared memory",
        "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel",
    ),
    Rule(
        "launch-control-answer",
        Verdict.REVIEW,
        "CTA coordinates read from a refusal: compilers do so where the value does not matter",
        "query is_canceled first, and read the coordinates only if it is true",
        "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel",
    ),
    Rule(
        "bad-descriptor",
        Verdict.ERROR,
        "a matrix or instruction descriptor that does not fit the instruction's operands",
        "build the descriptor with ptx.tcgen05.smem_descriptor or ptx.tcgen05.instruction_descriptor",
        "tcgen05-shared-memory-descriptor",
    ),
    Rule(
        "bad-tensor-map",
        Verdict.ERROR,
        "a TMA operation whose operand is not a tensor map, or whose tensor map does not fit it",
        "pass the tensor map of the kernel's parameter, and one coordinate for each of its dimensions",
        "tensor-tensormap",
    ),
    Rule(
        "tensor-memory",
        Verdict.ERROR,
        "an access to tensor memory outside an allocation or the warp's lanes, or an allocation not freed",
        "allocate before use, access only lanes 32*(warp%4)..+31, and dealloc before the CTA exits",
        "tensor-memory-allocation",
    ),
    Rule(
        "tensor-memory-lane",
        Verdict.REVIEW,
        "an address whose lane of tensor memory hardware replaces: beyond 127, or not in the warp's quarter",
        "address only the CTA's lanes, 0..127; in loads and stores only the warp's, 32*(warp%4)..+31",
        "tensor-memory-addressing",
    ),
    Rule(
        "cta-pair",
        Verdict.ERROR,
        "an instruction of a CTA pair whose peer CTA is missing, has exited or executes another instruction",
        "launch clusters of an even size; let both CTAs execute the same instructions, and exit only then",
        "tcgen05-issue-granularity",
    ),
    Rule(
        "divergent-collective",
        Verdict.ERROR,
        "a warp-collective instruction that some live lanes of the warp never reach",
        "keep .aligned and .sync instructions outside lane-dependent branches",
        "parallel-synchronization-and-communication-instructions-bar",
    ),
    Rule(
        "member-mask",
        Verdict.ERROR,
        "a lane executes a warp-collective instruction whose member mask does not name it",
        "name in the mask exactly the lanes that execute the instruction together",
        "parallel-synchronization-and-communication-instructions-bar-warp-sync",
    ),
    Rule(
        "shuffle-source",
        Verdict.REVIEW,
        "a lane reads a register of a lane that does not execute the shuffle: the value is undefined",
        "name every source lane in the member mask, or do not use the value where the source takes no part",
        "data-movement-and-conversion-instructions-shfl-sync",
    ),
    Rule(
        "wgmma-register",
        Verdict.REVIEW,
        "an access to a register of a wgmma.mma_async before a wait for the operation; ptxas inserts a wait",
        "commit the operation to a group and wait for the group: wgmma.commit_group, wgmma.wait_group",
        "asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group",
    ),
    Rule(
        "wgmma-fence",
        Verdict.REVIEW,
        "no wgmma.fence between ordinary accesses to registers and a wgmma.mma_async on them; ptxas adds one",
        "execute wgmma.fence in all four warps before the first wgmma.mma_async, and after such accesses",
        "asynchronous-warpgroup-level-matrix-instructions-wgmma-fence",
    ),
    Rule(
        "warpgroup",
        Verdict.ERROR,
        "the four warps of a warpgroup do not execute the same wgmma",
        "let warps 4i to 4i + 3 execute each wgmma together, with the same descriptors",
        "asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async",
    ),
    Rule(
        "setmaxnreg",
        Verdict.REVIEW,
        "a setmaxnreg that has no effect, or that changes the register count in the wrong direction",
        "declare .maxnreg, or .minnctapersm and the block's size; .inc raises the count and .dec lowers it",
        "miscellaneous-instructions-setmaxnreg",
    ),
    Rule(
        "setmaxnreg-warpgroup",
        Verdict.ERROR,
        "a setmaxnreg that only some warps of the warpgroup have executed",
        "let warps 4i to 4i + 3 execute the same setmaxnreg instructions",
        "miscellaneous-instructions-setmaxnreg",
    ),
    Rule(
        "register-pool",
        Verdict.ERROR,
        "a setmaxnreg.inc waits for more registers than the warps of its CTA have released",
        "let the registers of all warps add up to at most those of the launch, and execute each .dec first",
        "miscellaneous-instructions-setmaxnreg",
    ),
    Rule(
        "stack-overflow",
        Verdict.ERROR,
        "a thread's nested calls need more local memory than a thread has, or are too deep",
        "look for an endless recursion, or move large local arrays to global memory",
        "state-spaces-local-state-space",
    ),
    Rule(
        "trap",
        Verdict.ERROR,
        "the kernel executed trap",
        "look at the condition under which the kernel reaches trap",
        "miscellaneous-instructions-trap",
    ),
    Rule(
        "stream-stopped",
        Verdict.INCOMPLETE,
        "a launch that did not complete because another launch of its stream stopped the run",
        "read the report of that other launch",
    ),
    Rule(
        "wrong-result",
        Verdict.ERROR,
        "an output of the kernel differs from the one of the reference by more than the tolerance",
        "look at the first wrong index: which threads compute it; if it is rounding, raise rtol and atol",
    ),
    Rule(
        "unreachable-code",
        Verdict.REVIEW,
        "instructions that no path of the control flow reaches",
        "remove them, or correct the branch in front of them",
        "control-flow-instructions-bra",
        lint=True,
    ),
    Rule(
        "not-executed",
        Verdict.REVIEW,
        "instructions that no thread executed in any of the runs",
        "run the kernel with arguments that take the path, or remove the path",
        lint=True,
    ),
    Rule(
        "offset-wraps",
        Verdict.REVIEW,
        "an offset into global memory that is computed in 32 bits, and can exceed them",
        "multiply into 64 bits (mul.wide, mad.wide), or convert to 64 bits before the sum",
        "integer-arithmetic-instructions-mul",
        lint=True,
    ),
    Rule(
        "register-file",
        Verdict.ERROR,
        "the threads of one CTA need more registers than a multiprocessor has: the launch fails",
        "launch fewer threads, or let ptxas use fewer registers: .maxnreg, or .maxntid with the block's size",
        "performance-tuning-directives-maxnreg",
        lint=True,
    ),
    Rule(
        "register-spill",
        Verdict.REVIEW,
        "values that ptxas keeps in local memory, since a thread has too few registers",
        "keep fewer values at a time, raise .maxnreg, or launch fewer threads in a CTA",
        "performance-tuning-directives-maxnreg",
        lint=True,
    ),
    Rule(
        "local-memory",
        Verdict.REVIEW,
        "local variables that ptxas could not keep in registers, since their index is known at run time only",
        "unroll the loop, so that the index is a constant, or use shared memory",
        "state-spaces-local-state-space",
        lint=True,
    ),
    Rule(
        "lost-speed",
        Verdict.REVIEW,
        "a note of ptxas with a code such as C7510: the machine code is right, but slower than the text asks",
        "change what the note names; the results do not change",
        lint=True,
    ),
    Rule(
        "ptxas-warning",
        Verdict.REVIEW,
        "a warning of ptxas",
        "change what the warning names",
        lint=True,
    ),
    Rule(
        "unused-waiver",
        Verdict.REVIEW,
        "a waiver that covers no finding",
        "remove the waiver, or correct its line",
    ),
    Rule(
        "schedule-dependent",
        Verdict.REVIEW,
        "results that differ between schedules",
        "look for a read too early or a write too late; sums of floating-point atomics depend on their order",
        "memory-consistency-model",
    ),
    Rule(
        "not-modeled",
        Verdict.INCOMPLETE,
        "an instruction, or one of its forms, that the simulator does not model yet",
        "see the fidelity table; the run checked no instruction after this one",
    ),
    Rule(
        "step-limit",
        Verdict.INCOMPLETE,
        "the run was stopped at its limit of steps, time or memory",
        "raise max_steps, timeout or memory if the kernel really needs more",
    ),
    Rule(
        "needs-data",
        Verdict.INCOMPLETE,
        "where a thread goes depends on the contents of an array of which only the shape is known",
        "give predict the array itself",
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule that a checker found.

    Attributes:
        rule: the entry of :data:`RULES`.
        message: what happened, with addresses, sizes and counts.
        location: the author's line of the instruction at fault.
        thread: CTA, warp and lane as text.
        other: other accesses or waiting threads involved: a note and a location each.
        schedules: after runs under several schedules, those under which the rule was broken.
        anchor: the PTX ISA section about the instruction at fault; empty if the rule's section applies.
        why: why what the kernel does is not enough; empty if the message says it.
        remedy: what mends this kernel. Findings whose checker knows no more than the rule have the rule's.
    """

    rule: Rule
    message: str
    location: SourceLocation | None = None
    thread: str = ""
    other: tuple[tuple[str, SourceLocation | None], ...] = field(default=())
    schedules: tuple[str, ...] = ()
    anchor: str = ""
    why: str = ""
    remedy: Remedy | None = None

    @property
    def severity(self) -> Verdict:
        """The severity of the rule."""
        return self.rule.severity

    @property
    def see(self) -> str:
        """The section of the PTX ISA to read."""
        return self.anchor or self.rule.anchor

    @property
    def advice(self) -> Remedy:
        """The finding's own remedy, or the rule's."""
        return self.remedy or Remedy(self.rule.remedy)

    def __str__(self) -> str:
        lines = [f"{self.severity}: [{self.rule.name}] {self.message}"]
        if self.thread:
            lines.append(f"  thread: {self.thread}")
        if self.location is not None:
            lines.append(f"  at:     {self.location.describe(indent=10)}")
        for note, location in self.other:
            where = f" at {location.describe()}" if location is not None else ""
            lines.append(f"  {note}{where}")
        if self.schedules:
            lines.append(f"  under:  {', '.join(self.schedules)}")
        if self.why:
            lines.append(f"  why:    {self.why}")
        lines.append("  remedy: " + str(self.advice).replace("\n", "\n          "))
        if self.see:
            lines.append(f"  rule:   PTX ISA #{self.see}")
        return "\n".join(lines)


_ORDER = list(Verdict)


def verdict_of(findings: Iterable[Finding], *, strict: bool = False) -> Verdict:
    """Return the worst severity among ``findings``; with ``strict``, review counts as error."""
    worst = max((f.severity for f in findings), key=_ORDER.index, default=Verdict.CLEAN)
    if strict and worst is Verdict.REVIEW:
        return Verdict.ERROR
    return worst
