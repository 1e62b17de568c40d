"""What an unusual kernel is: a correct kernel with its launches, its check and the reason why it is correct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tests.conformance.case import ARCH, Argument, Out, Run, kernel

__all__ = ["BLACKWELL", "Check", "Unusual", "unusual"]

BLACKWELL = "sm_100a"

#: Says whether the arrays of all :class:`Out` arguments, in their order, are right.
Check = Callable[[Sequence[NDArray[Any]]], bool]


@dataclass(frozen=True, eq=False)
class Unusual(Run):
    """A kernel without data races whose synchronization is unusual.

    Attributes:
        check: compares the outputs after the last launch.
        why: the reason why the kernel is correct, with anchors of the PTX ISA.
        target: its architecture.
        reviews: rules of which the sanitizer may report findings for review, each with the reason.
        memory: bytes of host memory for the threads that run at once, where some CTAs must wait to start.
    """

    check: Check = field(kw_only=True)
    why: str = field(kw_only=True)
    target: str = field(kw_only=True)
    reviews: dict[str, str] = field(default_factory=dict, kw_only=True)
    memory: int | None = field(default=None, kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        # A GPU's worker process has no use for the check, which is code.
        return {**self.__dict__, "check": None}

    @property
    def instructions(self) -> int:
        """Number of instructions in the text."""
        return sum(1 for function in self.module.functions for _ in function.instructions())

    @property
    def written(self) -> list[int]:
        """Positions of the arguments that ``check`` gets."""
        return [n for n, argument in enumerate(self.arguments) if isinstance(argument, Out)]


def unusual(
    name: str,
    parameters: str,
    body: str,
    arguments: Sequence[Argument],
    check: Check,
    why: str,
    *,
    target: str = ARCH,
    registers: str = "",
    directives: str = "",
    **more: Any,
) -> Unusual:
    """Make an :class:`Unusual` of one entry from its body, in the notation of :func:`tests.conformance.case.kernel`."""
    source = kernel(body, parameters, registers=registers, directives=directives, arch=target)
    plain = " ".join(why.split())
    return Unusual(name, source, tuple(arguments), check=check, why=plain, target=target, **more)
