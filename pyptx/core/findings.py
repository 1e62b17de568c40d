"""What checkers say: findings, their catalog, and the verdict of a run.

The simulator, the sanitizer, lint and ptxas warnings share this vocabulary.  A rule is declared once
in :data:`RULES` with its class, its anchor in the PTX ISA and its remedy; a :class:`Finding` names a
rule and what happened.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from .source import SourceLocation

__all__ = ["RULES", "Finding", "Rule", "Verdict", "verdict_of"]


class Verdict(enum.Enum):
    """Outcome of a run, worst last. ``incomplete`` is never a success."""

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
    """One rule: ``severity`` is the verdict that a finding of it gives a run."""

    name: str
    severity: Verdict
    summary: str
    remedy: str
    anchor: str = ""


def _rules(*rules: Rule) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules}


#: The catalog.
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
        "one access that leaves the shared buffer it begins in, or lies in none",
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
        "align the base and keep offsets multiples of the access size (a vector counts whole)",
        "addresses-as-operands",
    ),
    Rule(
        "uninitialized-read",
        Verdict.ERROR,
        "memory or tensor memory read before anything wrote it",
        "write it first, or wait for the operation that writes it",
        "memory-consistency-model",
    ),
    Rule(
        "unwritten-output",
        Verdict.REVIEW,
        "an output that the call allocated, of which the kernel left elements unwritten",
        "write every element, or pass the array as out= where the rest is to keep what it holds",
    ),
    Rule(
        "undefined-load",
        Verdict.REVIEW,
        "memory loaded before anything wrote it, used behind a branch or by selp alone: compilers load early",
        "write it first, or load it only where it is used",
        "memory-consistency-model",
    ),
    Rule(
        "padding-read",
        Verdict.REVIEW,
        "a vector load or a copy took along bytes that nothing wrote, beside others that were written",
        "write those bytes too, or make sure that nothing uses them: padding may be moved, not computed with",
        "memory-consistency-model",
    ),
    Rule(
        "undefined-register",
        Verdict.REVIEW,
        "a register read before anything wrote it: compilers do that where the value does not matter",
        "write it on every path that leads there",
        "state-spaces-register-state-space",
    ),
    Rule(
        "deadlock",
        Verdict.ERROR,
        "no thread can run and nothing in flight can release one",
        "look at what each waiting warp waits for: an arrival, a byte count or a warp that never came",
        "parallel-synchronization-and-communication-instructions-mbarrier",
    ),
    Rule(
        "lapped-wait",
        Verdict.REVIEW,
        "two phases of an mbarrier completed before a thread that waits for the first one looked again",
        "let no phase but one complete without the waiting threads: count an arrival of theirs in between",
        "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
    ),
    Rule(
        "mbarrier-misuse",
        Verdict.ERROR,
        "an mbarrier operation outside the limits of the object",
        "initialize once with the number of arrivals per phase, and arrive exactly that often",
        "parallel-synchronization-and-communication-instructions-mbarrier-contents",
    ),
    Rule(
        "mbarrier-reinit",
        Verdict.REVIEW,
        "mbarrier.init where a live mbarrier is",
        "end the old object's life first: mbarrier.inval",
        "parallel-synchronization-and-communication-instructions-mbarrier-init",
    ),
    Rule(
        "mbarrier-overwritten",
        Verdict.REVIEW,
        "memory of a live mbarrier at rest used for something else",
        "end the object's life first: mbarrier.inval",
        "parallel-synchronization-and-communication-instructions-mbarrier-inval",
    ),
    Rule(
        "mbarrier-read",
        Verdict.REVIEW,
        "an ordinary read of a live mbarrier, which is opaque: the simulator gives other bytes than hardware",
        "ask with mbarrier.test_wait, or keep what is read apart from the object",
        "parallel-synchronization-and-communication-instructions-mbarrier-contents",
    ),
    Rule(
        "mbarrier-state",
        Verdict.REVIEW,
        "a wait with a state of no arrival in this phase or the one before; hardware takes its phase bit",
        "wait with the state of the last arrival on the same object, before its next phase completes",
        "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
    ),
    Rule(
        "unused-wait",
        Verdict.REVIEW,
        "an mbarrier wait whose answer no instruction reads: the phase may not be complete behind it",
        "branch back to the wait until its answer is true",
        "parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait",
    ),
    Rule(
        "barrier-misuse",
        Verdict.ERROR,
        "arrivals at a barrier of the CTA that do not fit together",
        "let every warp of a round name the same count, a multiple of 32, and arrive once",
        "parallel-synchronization-and-communication-instructions-bar",
    ),
    Rule(
        "exit-in-flight",
        Verdict.ERROR,
        "a CTA ended while a copy or a tensor-core operation still needed its memory or its barriers",
        "wait for the mbarrier that tells its end before the last thread of the CTA ends",
        "data-movement-and-conversion-instructions-cp-async-bulk-tensor",
    ),
    Rule(
        "commit-at-exit",
        Verdict.REVIEW,
        "a CTA ended while a commit was on its way to one of its own mbarriers",
        "wait for the phase that the commit completes before the last thread of the CTA ends",
        "tcgen05-instructions-tcgen05-commit",
    ),
    Rule(
        "copy-never-waited",
        Verdict.REVIEW,
        "a copy that its thread never waited for: a cp.async, or a bulk copy that reads shared memory",
        "end with cp.async.wait_all or cp.async.bulk.wait_group.read, or leave out what nothing needs",
        "data-movement-and-conversion-instructions-cp-async-wait-group",
    ),
    Rule(
        "launch-control",
        Verdict.ERROR,
        "clusterlaunchcontrol used in a way whose behavior is undefined",
        "after a refusal ask no more; the answer and its mbarrier are shared memory of the executing CTA",
        "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel",
    ),
    Rule(
        "launch-control-answer",
        Verdict.REVIEW,
        "coordinates taken from a refusal: compilers do that where the value does not matter",
        "ask is_canceled first, and take coordinates only where it says yes",
        "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel",
    ),
    Rule(
        "bad-descriptor",
        Verdict.ERROR,
        "a matrix or instruction descriptor that does not describe the operands",
        "build it with ptx.tcgen05.smem_descriptor or ptx.tcgen05.instruction_descriptor",
        "tcgen05-shared-memory-descriptor",
    ),
    Rule(
        "bad-tensor-map",
        Verdict.ERROR,
        "a TMA operation through something that is not a fitting tensor map",
        "pass the parameter's map and as many coordinates as it has dimensions",
        "tensor-tensormap",
    ),
    Rule(
        "tensor-memory",
        Verdict.ERROR,
        "tensor memory used outside an allocation, outside the warp's lanes, or not freed",
        "allocate before use, keep to lanes 32*(warp%4)..+31, dealloc before exit",
        "tensor-memory-allocation",
    ),
    Rule(
        "tensor-memory-lane",
        Verdict.REVIEW,
        "a lane of tensor memory that hardware takes as another: beyond 127, or without the warp's quarter",
        "address the lanes of the CTA itself, 0..127; loads and stores those of the warp, 32*(warp%4)..+31",
        "tensor-memory-addressing",
    ),
    Rule(
        "cta-pair",
        Verdict.ERROR,
        "an instruction of a pair of CTAs whose peer is missing, has exited or executes another one",
        "launch clusters of an even size; let both CTAs execute the same, and live until all of it is done",
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
        "shuffle-source",
        Verdict.REVIEW,
        "a lane takes a register of a lane that does not execute the shuffle: the value is undefined",
        "name every source in the member mask, or drop the value where the source does not take part",
        "data-movement-and-conversion-instructions-shfl-sync",
    ),
    Rule(
        "wgmma-register",
        Verdict.REVIEW,
        "a register of a wgmma.mma_async touched before a wait for it; ptxas puts a wait there",
        "commit the operation to a group and wait for that: wgmma.commit_group, wgmma.wait_group",
        "asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group",
    ),
    Rule(
        "wgmma-fence",
        Verdict.REVIEW,
        "a wgmma.mma_async without a wgmma.fence after ordinary accesses to its registers; ptxas mends that",
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
        "a setmaxnreg without effect, or in the wrong direction",
        "say .maxnreg, or .minnctapersm with the size of the block; .inc raises the count, .dec lowers it",
        "miscellaneous-instructions-setmaxnreg",
    ),
    Rule(
        "setmaxnreg-warpgroup",
        Verdict.ERROR,
        "a setmaxnreg that not all warps of the warpgroup have executed",
        "let warps 4i to 4i + 3 execute the same setmaxnreg instructions",
        "miscellaneous-instructions-setmaxnreg",
    ),
    Rule(
        "stack-overflow",
        Verdict.ERROR,
        "a thread's activations take more local memory than a thread has, or never end",
        "look for a recursion without an end, or a local array that belongs in global memory",
        "state-spaces-local-state-space",
    ),
    Rule(
        "trap",
        Verdict.ERROR,
        "the kernel executed trap",
        "look at the condition that led there",
        "miscellaneous-instructions-trap",
    ),
    Rule(
        "stream-stopped",
        Verdict.INCOMPLETE,
        "a launch that did not complete because the run of its stream ended in another one",
        "see what the other launch's report says",
    ),
    Rule(
        "schedule-dependent",
        Verdict.REVIEW,
        "results that differ from one schedule to another",
        "look for what reads too early or writes too late; floating-point atomics differ by their order",
        "memory-consistency-model",
    ),
    Rule(
        "not-modeled",
        Verdict.INCOMPLETE,
        "an instruction or a form of one that the simulator does not model yet",
        "see the fidelity table; the run says nothing about what comes after",
    ),
    Rule(
        "step-limit",
        Verdict.INCOMPLETE,
        "the run was stopped at its limit of steps, time or memory",
        "raise max_steps, timeout or memory if the kernel is meant to take that much",
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a checker found.

    Attributes:
        rule: the entry of :data:`RULES`.
        message: what happened, with addresses, sizes and counts.
        location: the line of the instruction at fault.
        thread: which CTA, warp and lane, in words.
        other: locations of the other accesses or waiters involved, with a note each.
        schedules: of several runs, the schedules under which it was seen.
        anchor: the section of the PTX ISA about the instruction at fault, where it is not the rule's.
    """

    rule: Rule
    message: str
    location: SourceLocation | None = None
    thread: str = ""
    other: tuple[tuple[str, SourceLocation | None], ...] = field(default=())
    schedules: tuple[str, ...] = ()
    anchor: str = ""

    @property
    def severity(self) -> Verdict:
        return self.rule.severity

    @property
    def see(self) -> str:
        """The section of the PTX ISA to read."""
        return self.anchor or self.rule.anchor

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
        lines.append(f"  remedy: {self.rule.remedy}")
        if self.see:
            lines.append(f"  rule:   PTX ISA #{self.see}")
        return "\n".join(lines)


_ORDER = list(Verdict)


def verdict_of(findings: Iterable[Finding], *, strict: bool = False) -> Verdict:
    """The worst severity among ``findings``; with ``strict``, review counts as error."""
    worst = max((f.severity for f in findings), key=_ORDER.index, default=Verdict.CLEAN)
    if strict and worst is Verdict.REVIEW:
        return Verdict.ERROR
    return worst
