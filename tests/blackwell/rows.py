"""What the table says of one kernel: resources from ptxas, a simulated run, the bugs that are planted into it, evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyptx.ir import Instruction, Module, print_module
from pyptx.isa import KNOWN_TARGETS
from pyptx.sim import Report
from pyptx.toolchain import Assembly, assemble
from tests.mutants.mutants import mutants

from .evidence.facts import Fact
from .evidence.forms import facts_of_text
from .evidence.proof import unproven
from .registry import Product, run_time_sizes
from .runs import simulated

__all__ = ["HEADS", "Row", "row"]

#: Size for which a kernel is assembled: M = N = K.
SIZE = 4096
#: What a kernel is assembled for: B200, B300, and one text for both.
TARGETS = ("sm_100a", "sm_103a", "sm_100f")
HEADS = (
    "kernel",
    "simulated",
    "targets",
    "registers",
    "spills",
    "shared KiB",
    "tensor memory",
    "PTX lines",
    "warp instructions",
    "error / bound",
    "holds for",
    "planted errors",
    "unproven forms",
)


@dataclass(frozen=True)
class Row:
    """One kernel.

    Attributes:
        product: the kernel.
        assemblies: what ptxas made of it for each of :data:`TARGETS`.
        shared_bytes: shared memory of a CTA.
        columns: columns of tensor memory that a CTA allocates.
        lines: lines of its PTX.
        report: of the simulated run; with cluster launch control, of one run for each assignment.
        error: of its result, as a fraction of the bound.
        planted: number of mutants that must be found to be wrong; None if there are none of this kernel.
        facts: its instruction forms, for 4096 and for the simulated size, and the fields of its descriptors and tensor
            maps in the simulated run.
    """

    product: Product
    assemblies: dict[str, Assembly]
    shared_bytes: int
    columns: int
    lines: int
    report: Report
    error: float
    planted: int | None
    facts: frozenset[Fact]

    @property
    def unproven(self) -> list[Fact]:
        """The facts that no kernel of others, and none that ran on a GPU, has."""
        return unproven(self.facts)

    @property
    def clean(self) -> list[str]:
        """The targets for which ptxas spills nothing, and has neither warnings nor notes."""
        return [
            target
            for target, each in self.assemblies.items()
            if not (each.spills or each.warnings or each.notes)
        ]

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        assemblies = self.assemblies.values()
        holds = self.report.holds if self.report.verdict == "clean" else f"{self.report.verdict}!"
        if self.report.assignments is not None:
            holds += f", {self.report.assignments.ran} assignments"
        return (
            self.product.name,
            "x".join(map(str, self.product.shape)),
            " ".join(target.removeprefix("sm_") for target in self.clean),
            str(max(each.registers for each in assemblies)),
            str(max(each.spills for each in assemblies)),
            f"{self.shared_bytes / 1024:.1f}",
            str(self.columns),
            str(self.lines),
            str(self.report.steps),
            f"{self.error:.3f}",
            holds,
            "-" if self.planted is None else str(self.planted),
            str(len(self.unproven)),
        )


def _assembled(module: Module, target: str) -> Assembly:
    version = max(module.version, KNOWN_TARGETS[target])
    return assemble(print_module(replace(module, target=target, version=version)))


def row(product: Product) -> Row:
    """Assemble and simulate one kernel, strictly."""
    big = product.build(SIZE, SIZE, SIZE)
    dims = run_time_sizes(big, SIZE)
    special = big.specialize(**dims)
    (function,) = (each for each in special.module.functions if each.kind == "entry")
    allocations = [
        each
        for each in function.body
        if isinstance(each, Instruction) and each.opcode == "tcgen05" and each.modifiers[:1] == ("alloc",)
    ]
    columns = max(int(str(each.operands[1])) for each in allocations)
    run = simulated(product, sanitize="strict", launch_control="every")
    facts = run.facts | facts_of_text(special.module)
    assemblies = {target: _assembled(special.module, target) for target in TARGETS}
    name = product.mutants
    return Row(
        product,
        assemblies,
        special.launch.dynamic_smem + sum(each.shared for each in assemblies["sm_100a"].resources),
        columns,
        big.ptx(**dims).count("\n"),
        run.report,
        run.error,
        sum(mutant.expected.kind == "error" for mutant in mutants([name])) if name else None,
        facts,
    )
