"""What a launch is here: a kernel of a text, its arguments, and what it must compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import In, Map, Number, Out, Run
from tests.conformance.reference import Expected

__all__ = ["HERE", "TEXTS", "Case", "Expected", "flat", "near", "product", "products", "tiled"]

HERE = Path(__file__).parent
TEXTS = HERE / "texts"


@dataclass(frozen=True)
class Case:
    """One launch of one kernel of a text.

    Attributes:
        text: its name without ``.ptx``.
        entry: the kernel.
        make: makes the arguments; arrays that no parameter names stand behind those of the kernel.
        expected: makes what every output must hold, in numpy, from the arguments: arrays as they are before the
            launch, numbers, None for a tensor map.
        parameters: how many arguments are the kernel's.
        review: rules of the findings that the compiler's code leaves for review.
    """

    text: str
    entry: str
    make: Callable[[], tuple[In | Out | Number | Map, ...]]
    expected: Callable[..., Sequence[Expected]]
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (128,)
    cluster: tuple[int, ...] = (1,)
    dynamic_smem: int = 0
    parameters: int | None = None
    review: frozenset[str] = frozenset()
    #: The folder of the texts.
    texts: ClassVar[Path] = TEXTS

    @property
    def name(self) -> str:
        return f"{self.text}.{self.entry}"

    def run(self) -> Run:
        return Run(
            self.name,
            (self.texts / f"{self.text}.ptx").read_text(),
            self.make(),
            self.grid,
            self.block,
            self.cluster,
            self.dynamic_smem,
            entry=self.entry,
            parameters=self.parameters,
        )

    def must_give(self) -> Sequence[Expected]:
        """What every output must hold."""
        given: list[Any] = []
        for argument in self.make():
            if isinstance(argument, In):
                given.append(argument.array)
            elif isinstance(argument, Out):
                given.append(argument.before())
            else:
                given.append(argument.value if isinstance(argument, Number) else None)
        return self.expected(*given)


def tiled(of: int, *box: int, swizzle: str = "128B") -> Map:
    """A tensor map of the array at a position among the arguments."""
    return Map(of, {"box": box, "swizzle": swizzle})


def flat(array: NDArray[Any]) -> Expected:
    """These words."""
    return Expected(np.ascontiguousarray(array).reshape(-1))


#: Half the distance of neighbours, as a part of a number, and of the least ones.
_ROUNDING = {"f32": (2.0**-24, 2.0**-150), "f16": (2.0**-11, 2.0**-25), "bf16": (2.0**-8, 2.0**-134)}


def near(values: NDArray[Any], kind: str, radius: Any = 0.0) -> Expected:
    """These numbers, each within a radius and one rounding to the type."""
    wide = np.asarray(values, np.float64).reshape(-1)
    relative, least = _ROUNDING[kind]
    distance = np.broadcast_to(np.asarray(radius, np.float64), np.shape(values)).reshape(-1)
    return Expected(wide, kind, distance + relative * (np.abs(wide) + distance) + least)


def products(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A B^T, and how far a tensor core may be from it: it cuts each addend of a sum of K."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    depth = a.shape[-1]
    return wide_a @ wide_b.T, depth * 2.0**-23 * (np.abs(wide_a) @ np.abs(wide_b).T)


def product(a: NDArray[Any], b: NDArray[Any], kind: str) -> Expected:
    """A B^T as an output of a type."""
    values, radius = products(a, b)
    return near(values, kind, radius)
