"""What a launch is: a kernel of a text, its arguments, and how far its outputs may be from a GPU's."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyptx.sim.code.semantic import Bound
from tests.conformance.case import In, Number, Out, Run

from .sources import TEXTS

__all__ = ["Argument", "Bound", "Case", "In", "Number", "Out", "Run", "fingerprint", "i32", "out"]

Argument = In | Out | Number


@dataclass(frozen=True)
class Case:
    """One launch of one kernel of a text.

    Attributes:
        text: its name without ``.ptx``, the same for every target.
        entry: the kernel.
        make: makes the arguments.
        dynamic_smem: bytes of dynamic shared memory; those of Triton's texts stand in ``texts.json``.
        prints: whether what the kernel prints is recorded.
        fails: what the kernel ends with on a GPU, if it does not end well.
        undefined: whether the compiler let it read registers that nothing wrote, where nothing depends on them.
    """

    text: str
    entry: str
    make: Callable[[], tuple[Argument, ...]]
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (128,)
    dynamic_smem: int = 0
    prints: bool = False
    fails: str = ""
    undefined: bool = False

    def run(self, arch: str, name: str) -> Run:
        """The launch on a target."""
        smem = self.dynamic_smem + int(_about()["dynamic_smem"].get(f"{arch}/{self.text}", 0))
        text = (TEXTS / arch / f"{self.text}.ptx").read_text()
        return Run(name, text, self.make(), self.grid, self.block, dynamic_smem=smem, entry=self.entry)


def fingerprint(run: Run) -> int:
    """Changes with anything that could change the outputs: words recorded of another one are stale."""
    words = repr((run.text, run.entry, run.grid, run.block, run.dynamic_smem)).encode()
    for argument in run.arguments:
        if isinstance(argument, Number):
            words += repr((argument.value, argument.type)).encode()
        else:
            array = argument.array if isinstance(argument, In) else argument.before()
            words += repr((array.dtype.str, array.shape)).encode() + array.tobytes()
    return zlib.crc32(words)


@cache
def _about() -> Any:
    return json.loads((TEXTS / "texts.json").read_text())


def out(dtype: Any, *shape: int, initial: Any = 0, bound: Bound | None = None) -> Out:
    """An output; bit for bit unless a bound is given."""
    return Out(dtype, shape, initial, bound)


def i32(value: int) -> Number:
    return Number(value, "s32")


# How far outputs may be from a GPU's where .approx instructions or tensor cores have a part in them.
SHARES = Bound("ex2.approx of each element, and of every element in the divisor", ulps=8)
SCALED = Bound("rsqrt.approx or div.full in a factor of every element", ulps=4)
SHIFTED = Bound("rsqrt.approx and div.full in a factor, before a sum that may cancel", ulps=4, absolute=1e-6)
APPROXIMATE = Bound(
    "up to three approximate instructions, some before a sum that may cancel", ulps=16, absolute=1e-6
)


def tensor_sums(depth: int, largest: float = 1.0) -> Bound:
    """Tensor cores add in an order and with a width of their own."""
    return Bound("sums of a tensor core", absolute=depth * 2.0**-22 * largest)
