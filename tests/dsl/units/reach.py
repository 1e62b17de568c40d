"""Every wrapper in every variant: record calls for each target that has them, and say what they reach.

A unit's test lists calls (`Call`: a name and a body), usually by crossing the values of a wrapper's
arguments.  :func:`assemble_calls` records each for every target of :data:`TARGETS` that takes it, holds what was
recorded against the table, whose variants ``tests/isa`` assembles, and gives ptxas one call of each wrapper.
:func:`unreached` compares what was recorded with the variants of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyptx.core.errors import TargetError
from pyptx.dsl import ptx as ptx_namespace
from pyptx.dsl import record
from pyptx.ir import Instruction, Module, print_module
from pyptx.isa import bind_instruction, check_module, forms_of
from pyptx.isa.table import variants
from pyptx.toolchain import Tool, check_text

__all__ = ["TARGETS", "Call", "Reached", "assemble_calls", "public_functions", "unreached"]

#: Targets that every call is tried on: one of each generation, and those with instructions of their own.
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_110a", "sm_120a")

#: A variant of the table: identifier of the form, opcode and modifiers.
Variant = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Call:
    """One way to call a wrapper.

    Attributes:
        wrapper: its name, such as ``"mbarrier.arrive"``.
        body: makes the call, with the registers it needs.
        group: calls with different groups never share a kernel (one ``cta_group`` per kernel).
    """

    wrapper: str
    body: Callable[[], object]
    group: int = 0


@dataclass(frozen=True)
class Reached:
    """What the calls recorded: variants, targets on which each call assembled, names of the wrappers."""

    variants: frozenset[Variant]
    targets: tuple[tuple[str, ...], ...]
    wrappers: frozenset[str]


def _recorded(calls: Sequence[Call], numbers: Sequence[int], arch: str) -> tuple[Module, list[int]]:
    """Record these calls in one kernel; return it, and the numbers of the calls that the target has."""
    taken: list[int] = []

    def body() -> None:
        for number in numbers:
            with suppress(TargetError), ptx_namespace.scope():
                calls[number].body()
                taken.append(number)

    return record(body, (), (), entry="k", arch=arch).module, taken


def assemble_calls(calls: Iterable[Call], ptxas: Tool, targets: Sequence[str] = TARGETS) -> Reached:
    """Record every call for each target that takes it; assemble one call of each wrapper.

    Fails where the table has a fault to find, where ptxas refuses a call, and for a call that no target takes.
    """
    calls = list(calls)
    groups: dict[int, list[int]] = {}
    for number, call in enumerate(calls):
        groups.setdefault(call.group, []).append(number)
    found: set[Variant] = set()
    where: list[list[str]] = [[] for _ in calls]
    assembled: set[str] = set()
    for arch in targets:
        for numbers in groups.values():
            module, taken = _recorded(calls, numbers, arch)
            assert (faults := [str(fault) for fault in check_module(module)]) == [], f"{arch}: {faults[:5]}"
            found |= set(_variants(module.functions[0].instructions()))
            for n in taken:
                where[n].append(arch)
            fresh = {calls[n].wrapper: n for n in reversed(taken) if calls[n].wrapper not in assembled}
            if fresh:
                module, _ = _recorded(calls, [*fresh.values()], arch)
                report = check_text(print_module(module).text, ptxas=ptxas)
                assert report.ok, f"{arch}: {report}"
                assembled |= fresh.keys()
    nowhere = [call.wrapper for call, archs in zip(calls, where, strict=True) if not archs]
    assert not nowhere, f"no target takes: {nowhere}"
    return Reached(frozenset(found), tuple(map(tuple, where)), frozenset(c.wrapper for c in calls))


def _variants(instructions: Iterable[Instruction]) -> Iterator[Variant]:
    for instruction in instructions:
        match = bind_instruction(instruction).match
        yield match.form.id, (match.form.opcode, *match.spelling)


def unreached(
    reached: Reached, opcode: str, having: Callable[[tuple[str, ...]], bool] = lambda words: True
) -> list[str]:
    """Variants of ``opcode`` in the table (of those whose words satisfy ``having``) that no call recorded."""
    return sorted(
        ".".join((form.opcode, *match.spelling))
        for form in forms_of(opcode)
        for match in variants(form)
        if having(match.spelling) and (form.id, (form.opcode, *match.spelling)) not in reached.variants
    )


def public_functions(module: object, prefix: str) -> set[str]:
    """Names of the public functions of a unit: ``mbarrier.arrive`` ..."""
    return {
        f"{prefix}.{name}"
        for name in module.__all__
        if callable(getattr(module, name))  # type: ignore[attr-defined]
    }
