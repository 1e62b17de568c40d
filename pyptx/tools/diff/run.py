"""``pyptx diff --run``: both sides in the simulator on the same random inputs; outputs bit for bit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.errors import PyptxError, SpecError
from ...core.types import TYPES, ScalarType
from ...dsl import Scalar, Tile
from ...entry import Kernel
from ...sim import load
from .inputs import Side

__all__ = [
    "Argument",
    "Launching",
    "Mismatch",
    "RunResult",
    "outcome",
    "parse_argument",
    "parse_arguments",
    "run_both",
]


@dataclass(frozen=True)
class Argument:
    """``f32[1024]``, ``s32[64]:0..63`` or ``u32=7``: an array of random elements, or a number.

    Attributes:
        type: element type.
        shape: extents; None for a number.
        value: the number.
        bounds: the least and the largest element; None for the type's default.
    """

    type: ScalarType
    shape: tuple[int, ...] | None = None
    value: int | float = 0
    bounds: tuple[float, float] | None = None

    def make(self, rng: np.random.Generator) -> Any:
        """A fresh array, or the number."""
        if self.shape is None:
            return self.value
        return random_array(self.type, self.shape, rng, self.bounds)


@dataclass(frozen=True)
class Launching:
    """How both sides are launched. A kernel of a Python file knows all but the values of its scalars.

    Attributes:
        grid, block, shared, entry: extents, bytes of dynamic shared memory and the kernel, of PTX texts;
            without a grid and a block, texts cannot run.
        arguments: the parameters of texts, in their order.
        scalars: values of kernels' scalars, by name.
        seed: of the random inputs.
        schedule: of the simulator.
    """

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared: int = 0
    entry: str | None = None
    arguments: tuple[Argument, ...] = ()
    scalars: dict[str, int | float] = field(default_factory=dict)
    seed: int = 0
    schedule: str = "eager"


@dataclass(frozen=True)
class Mismatch:
    """An array that differs: its name, how many elements, the first of them and its values."""

    name: str
    elements: int
    of: int
    index: tuple[int, ...]
    a: str
    b: str

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]"
        return f"{self.name}: {self.elements} of {self.of} elements, first {where}: {self.a} and {self.b}"


@dataclass(frozen=True)
class RunResult:
    """Both runs.

    Attributes:
        verdicts: of A and B: ``clean``, ``review``, ``incomplete``, ``error``.
        reports: what the simulator says of each, in words.
        arrays: how many arrays were compared; 0 where a run did not end.
        mismatches: those that differ.
    """

    verdicts: tuple[str, str]
    reports: tuple[str, str]
    arrays: int
    mismatches: tuple[Mismatch, ...]

    @property
    def finished(self) -> bool:
        """Whether both ran to their end, so that their outputs say something."""
        return not {"incomplete", "error"}.intersection(self.verdicts)

    @property
    def equal(self) -> bool:
        """Whether both ended and left the same bits."""
        return self.finished and not self.mismatches


_ARGUMENT = re.compile(
    r"(?P<type>\w+)(?:\[(?P<shape>\d+(?:,\d+)*)\](?::(?P<low>-?[\d.]+?)\.\.(?P<high>-?[\d.]+))?|=(?P<value>.+))"
)


def parse_argument(text: str) -> Argument:
    """Read ``TYPE[N,M]``, ``TYPE[N]:LOW..HIGH`` or ``TYPE=VALUE``. Raises :class:`SpecError`."""
    match = _ARGUMENT.fullmatch(text.replace(" ", ""))
    kind = TYPES.get(match["type"]) if match is not None else None
    if match is None or kind is None or (match["shape"] and (kind.dtype is None or not kind.nbytes)):
        raise SpecError(
            f"{text!r} is no argument",
            hint="expected is f32[1024], bf16[64,128], s32[16]:0..63 (elements of a range) or u32=7",
        )
    if match["shape"]:
        bounds = (float(match["low"]), float(match["high"])) if match["low"] else None
        return Argument(kind, tuple(map(int, match["shape"].split(","))), 0, bounds)
    try:
        value = float(match["value"]) if kind.is_float else int(match["value"], 0)
    except ValueError:
        raise SpecError(f"{match['value']!r} is no value of {kind}, in the argument {text!r}") from None
    return Argument(kind, None, value)


def random_array(
    kind: ScalarType,
    shape: Sequence[int],
    rng: np.random.Generator,
    bounds: tuple[float, float] | None = None,
) -> np.ndarray[Any, Any]:
    """Floats of a normal distribution, integers of the whole type; or uniform within ``bounds``."""
    dtype = np.dtype(kind.dtype)
    if kind.is_float:
        drawn = rng.uniform(*bounds, shape) if bounds is not None else rng.standard_normal(shape)
        return drawn.astype(dtype)
    if bounds is not None:
        return rng.integers(int(bounds[0]), int(bounds[1]), shape, endpoint=True).astype(dtype)
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype).reshape(shape)


def parse_arguments(texts: Sequence[str]) -> tuple[tuple[Argument, ...], dict[str, int | float]]:
    """Arguments of texts, and values of kernels' scalars (``n=1000``). Raises :class:`SpecError`."""
    arguments: list[Argument] = []
    scalars: dict[str, int | float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name.isidentifier() and name not in TYPES:
            try:
                scalars[name] = int(value, 0) if value.lstrip("-")[:2].isalnum() else float(value)
            except ValueError:
                raise SpecError(f"{value!r} is no number, in the argument {text!r}") from None
        else:
            arguments.append(parse_argument(text))
    return tuple(arguments), scalars


def run_both(a: Side, b: Side, launching: Launching) -> RunResult:
    """Run both sides on the same inputs.

    Kernels of Python files are launched as they say, on random arrays of their specs; texts as
    ``launching`` says.  Outputs start with the same random contents on both sides, so that what is not
    written is equal.

    Raises:
        SpecError: a text without a launch, a scalar without a value, or arguments that do not fit.
        UnsupportedError: a launch that the simulator has not yet.
    """
    outcomes = [_run(side, launching) for side in (a, b)]
    (report_a, arrays_a), (report_b, arrays_b) = outcomes
    if len(arrays_a) != len(arrays_b):
        raise SpecError(
            f"A has {len(arrays_a)} arrays and B {len(arrays_b)}: their outputs cannot be compared"
        )
    verdicts = str(report_a.verdict), str(report_b.verdict)
    result = RunResult(verdicts, (str(report_a), str(report_b)), 0, ())
    if not result.finished:
        return result
    found = [
        mismatch
        for (name, x), (_, y) in zip(arrays_a, arrays_b, strict=True)
        if (mismatch := _compare(name, x, y)) is not None
    ]
    return RunResult(verdicts, result.reports, len(arrays_a), tuple(found))


_Arrays = list[tuple[str, np.ndarray[Any, Any]]]


def _run(side: Side, launching: Launching) -> tuple[Any, _Arrays]:
    """The report of a run, and its arrays by name."""
    rng = np.random.default_rng(launching.seed)
    if side.kernel is not None:
        return _run_kernel(side.kernel, side.keywords, launching, rng)
    if launching.grid is None or launching.block is None:
        raise SpecError(
            f"{side.name} is PTX text: how is it launched?",
            hint="give --grid, --block and one --arg for each parameter: --arg 'f32[1024]' --arg u32=7",
        )
    values = [argument.make(rng) for argument in launching.arguments]
    report = load(side.module).launch(
        launching.entry,
        grid=launching.grid,
        block=launching.block,
        dynamic_smem=launching.shared,
        args=values,
        schedule=launching.schedule,
    )
    arrays = [(f"argument {n + 1}", v) for n, v in enumerate(values) if isinstance(v, np.ndarray)]
    return report, arrays


def _run_kernel(
    kernel: Kernel, keywords: dict[str, Any], launching: Launching, rng: np.random.Generator
) -> tuple[Any, _Arrays]:
    options = kernel.options
    dims = kernel.specialize(**keywords).dims
    values: list[Any] = []
    for name, spec in zip(options.names, options.specs, strict=True):
        if isinstance(spec, Scalar):
            if name not in launching.scalars:
                raise SpecError(
                    f"{options.entry}: the scalar {name} has no value", hint=f"give --arg {name}=VALUE"
                )
            values.append(launching.scalars[name])
            continue
        assert isinstance(spec, Tile)
        values.append(random_array(spec.dtype, spec.shape(dims), rng))
    inputs, outputs = values[: options.inputs], values[options.inputs :]
    report = kernel.simulate(*inputs, out=tuple(outputs) or None, schedule=launching.schedule, **keywords)
    arrays = [(n, v) for n, v in zip(options.names, values, strict=True) if isinstance(v, np.ndarray)]
    return report, arrays


def _compare(name: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Mismatch | None:
    """Bit for bit: NaNs by their payload, zeros by their sign."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return Mismatch(name, a.size, a.size, (), f"{a.dtype} {a.shape}", f"{b.dtype} {b.shape}")
    bits = f"V{a.dtype.itemsize}"
    differs = np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)
    places = np.argwhere(differs)
    if not len(places):
        return None
    first = tuple(int(n) for n in places[0])
    return Mismatch(name, len(places), a.size, first, str(a[first]), str(b[first]))


def outcome(result: RunResult | PyptxError) -> list[str]:
    """What ``--run`` found, in lines."""
    if isinstance(result, PyptxError):
        return [f"run: not possible: {result.message}", *([f"  hint: {result.hint}"] if result.hint else [])]
    lines = [f"run: A {result.verdicts[0]}, B {result.verdicts[1]}"]
    if not result.finished:
        for side, verdict, report in zip("AB", result.verdicts, result.reports, strict=True):
            if verdict in ("incomplete", "error"):
                lines += [f"  {side}: {line}" for line in report.splitlines()[:6]]
        return [*lines, "  outputs are not compared: a run did not end"]
    if result.mismatches:
        return [*lines, *(f"  {mismatch}" for mismatch in result.mismatches)]
    return [*lines, f"  {result.arrays} arrays, the same bits"]
