"""One call for each variant of the table, for wrappers of opcodes that have tens of thousands of them.

A unit's test gives a function that calls the wrapper for a variant; :func:`assemble_variants` records it for
every variant and target and compares what was recorded with the variant, which ``tests/isa`` assembles.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

from pyptx.core.errors import TargetError
from pyptx.core.types import TYPES, ScalarType
from pyptx.dsl import current, ptx, record, reg
from pyptx.dsl.register_arrays import RegArray
from pyptx.dsl.registers import Reg
from pyptx.ir import Instruction, print_module
from pyptx.isa import Match, check_module, forms_of
from pyptx.isa.table import variants
from pyptx.toolchain import Tool, check_text
from tests.dsl.units.reach import Call

__all__ = ["Bench", "all_pairs", "assemble_variants", "making", "variants_of"]

#: Instructions in one kernel.
_CHUNK = 500


class Bench:
    """Registers of the kernel that the calls share."""

    def __init__(self) -> None:
        # ptxas fails (C7907) on 16-bit atomics at a generic address that it knows.
        self.address = reg.scalar(TYPES["u64"], init=ptx.special.clock64(), name="address")
        self.cache_hint = reg.scalar(TYPES["u64"], init=0, name="policy")
        #: A register of 8 bits.
        self.byte = ptx.unpack(reg.scalar(TYPES["b32"], init=0), TYPES["u8"])[0]
        #: An argument of a call.
        self.argument = ptx.variable("param", TYPES["b8"], "argument", shape=(32,), align=16)
        self._arrays: dict[str, RegArray] = {}

    def several(self, kind: ScalarType, count: int) -> RegArray:
        """The first ``count`` registers of a type."""
        if kind.name not in self._arrays:
            self._arrays[kind.name] = reg.array(kind, 8, name=kind.name)
        return self._arrays[kind.name][:count]

    def one(self, kind: ScalarType) -> Reg:
        return self.several(kind, 1)[0]


def making(wrapper: str, function: Callable[[], object]) -> Call:
    """A :class:`Call` whose result is not wanted: a kernel returns nothing."""

    def body() -> None:
        function()

    return Call(wrapper, body)


def variants_of(opcode: str, having: Callable[[Match], bool] = lambda match: True) -> list[Match]:
    """Every variant of ``opcode`` in the table that satisfies ``having``."""
    return [match for form in forms_of(opcode) for match in variants(form) if having(match)]


def all_pairs(wanted: Sequence[Match]) -> list[Match]:
    """Variants in which each pair of modifiers occurs that two slots of a form can have; few of them, in order.

    A slot without a modifier counts as one of its choices.
    """
    slots: dict[str, list[str]] = {}
    for match in wanted:
        known = slots.setdefault(match.form.id, [])
        known += [slot for slot in match.chosen if slot not in known]
    chosen, seen = set(), set()
    for number in random.Random(1).sample(range(len(wanted)), len(wanted)):
        match = wanted[number]
        choices = [(match.form.id, slot, match.chosen.get(slot)) for slot in slots[match.form.id]]
        pairs = {*itertools.combinations(choices, 2), *choices}
        if not pairs <= seen:
            seen |= pairs
            chosen.add(number)
    return [match for number, match in enumerate(wanted) if number in chosen]


def assemble_variants(
    wanted: Sequence[Match],
    call: Callable[[Bench, Match], object],
    ptxas: Tool,
    targets: Sequence[str],
    *,
    code: bool = True,
) -> list[str]:
    """Record ``call`` for every variant; returns the variants that no target took.

    Fails where a call records anything but one instruction spelled as the variant, and where ptxas refuses the
    first variant of a form; without ``code`` ptxas checks the text and generates none.
    """
    missing = set(range(len(wanted)))

    def kernel(numbers: Sequence[int], taken: list[int]) -> Callable[[], None]:
        def body() -> None:
            bench, trace = Bench(), current()
            for number in numbers:
                match = wanted[number]
                before = len(trace.statements)
                try:
                    call(bench, match)
                except TargetError:
                    continue
                (made,) = trace.statements[before:]
                assert isinstance(made, Instruction)
                assert (made.opcode, made.modifiers) == (match.form.opcode, match.spelling), match.name
                taken.append(number)

        return body

    for arch in targets:
        taken: list[int] = []
        for start in range(0, len(wanted), _CHUNK):
            numbers = range(start, min(start + _CHUNK, len(wanted)))
            module = record(kernel(numbers, taken), (), (), entry="k", arch=arch).module
            assert (faults := [str(fault) for fault in check_module(module)]) == [], f"{arch}: {faults[:5]}"
        first = list({wanted[number].form.id: number for number in reversed(taken)}.values())
        module = record(kernel(first, []), (), (), entry="k", arch=arch).module
        machine = arch if code else arch.replace("sm_", "compute_")
        report = check_text(print_module(module).text, machine, ptxas=ptxas)
        assert report.ok, f"{arch}: {report}"
        missing -= set(taken)
    return [wanted[number].name for number in sorted(missing)]
