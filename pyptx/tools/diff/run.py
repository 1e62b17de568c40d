"""``pyptx diff --run``: runs both sides in the simulator on the same random inputs and compares outputs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ...core.errors import PyptxError, SpecError
from ...core.records import dataclass
from ...core.types import TYPES, ScalarType
from ...dsl import Scalar, Tile
from ...entry import Kernel
from ...sim import load
from .inputs import Side
from .outputs import EXACT, ArrayMismatch, NamedArray, Tolerance, check_comparable, compare_array

__all__ = [
    "Argument",
    "RunSettings",
    "RunResult",
    "outcome",
    "parse_argument",
    "parse_arguments",
    "run_both",
]


@dataclass(frozen=True)
class Argument:
    """An argument of a launch: ``f32[1024]`` or ``s32[64]:0..63`` (an array of random elements), ``u32=7``.

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
        """Return a new array, or the number."""
        if self.shape is None:
            return self.value
        return random_array(self.type, self.shape, rng, self.bounds)


@dataclass(frozen=True)
class RunSettings:
    """The settings with which both sides are launched. A kernel of a Python file needs only ``scalars``.

    Attributes:
        grid, block, shared, entry: for PTX texts, the extents, the bytes of dynamic shared memory, and the
            kernel. A text cannot run without a grid and a block.
        arguments: for PTX texts, the arguments in the order of the parameters.
        scalars: for kernels of Python files, the values of the scalars by name.
        seed: seed of the random inputs.
        schedule: schedule of the simulator.
        tolerance: tolerance of the comparison.
    """

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared: int = 0
    entry: str | None = None
    arguments: tuple[Argument, ...] = ()
    scalars: dict[str, int | float] = field(default_factory=dict)
    seed: int = 0
    schedule: str = "eager"
    tolerance: Tolerance = EXACT


@dataclass(frozen=True)
class RunResult:
    """The result of both runs.

    Attributes:
        verdicts: verdicts of A and B: ``clean``, ``review``, ``incomplete``, ``error``.
        reports: the simulator's reports of A and B as text.
        arrays: number of arrays that were compared; 0 if a run did not end.
        mismatches: the arrays that differ by more than the tolerance.
        notes: a note for each pair of arrays with different shapes.
        tolerance: tolerance of the comparison.
    """

    verdicts: tuple[str, str]
    reports: tuple[str, str]
    arrays: int
    mismatches: tuple[ArrayMismatch, ...]
    notes: tuple[str, ...] = ()
    tolerance: Tolerance = EXACT

    @property
    def finished(self) -> bool:
        """True if both runs ended, so that their outputs can be compared."""
        return not {"incomplete", "error"}.intersection(self.verdicts)

    @property
    def equal(self) -> bool:
        """True if both runs ended and their arrays are equal within the tolerance."""
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
            f"{text!r} is not an argument of a kernel",
            hint="give an array as f32[1024], bf16[64,128] or s32[16]:0..63 (0 to 63), a number as u32=7",
        )
    if match["shape"]:
        bounds = (float(match["low"]), float(match["high"])) if match["low"] else None
        return Argument(kind, tuple(map(int, match["shape"].split(","))), 0, bounds)
    try:
        value = float(match["value"]) if kind.is_float else int(match["value"], 0)
    except ValueError:
        raise SpecError(f"{match['value']!r} is not a value of {kind}, in the argument {text!r}") from None
    return Argument(kind, None, value)


def random_array(
    kind: ScalarType,
    shape: Sequence[int],
    rng: np.random.Generator,
    bounds: tuple[float, float] | None = None,
) -> np.ndarray[Any, Any]:
    """Draw floats from a normal distribution and integers of the whole type, or both within ``bounds``."""
    dtype = np.dtype(kind.dtype)
    if kind.is_float:
        drawn = rng.uniform(*bounds, shape) if bounds is not None else rng.standard_normal(shape)
        return drawn.astype(dtype)
    if bounds is not None:
        return rng.integers(int(bounds[0]), int(bounds[1]), shape, endpoint=True).astype(dtype)
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype).reshape(shape)


def parse_arguments(texts: Sequence[str]) -> tuple[tuple[Argument, ...], dict[str, int | float]]:
    """Parse arguments of PTX texts and values of kernels' scalars (``n=1000``). Raises :class:`SpecError`."""
    arguments: list[Argument] = []
    scalars: dict[str, int | float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name.isidentifier() and name not in TYPES:
            try:
                scalars[name] = int(value, 0) if value.lstrip("-")[:2].isalnum() else float(value)
            except ValueError:
                raise SpecError(f"{value!r} is not a number, in the argument {text!r}") from None
        else:
            arguments.append(parse_argument(text))
    return tuple(arguments), scalars


def run_both(a: Side, b: Side, settings: RunSettings) -> RunResult:
    """Run both sides on the same inputs.

    A kernel of a Python file has its own launch and gets random arrays of its specs; a PTX text is launched
    as ``settings`` says.  The outputs of both sides start with the same random contents, so elements that no
    thread writes are equal.

    Raises:
        SpecError: a text has no launch, a scalar has no value, or the arguments do not fit.
        UnsupportedError: the simulator does not support the launch yet.
    """
    first, second = _prepare(a, settings), _prepare(b, settings)
    notes = check_comparable(first.arrays, second.arrays)
    reports = first.launch(), second.launch()
    result = RunResult(
        (str(reports[0].verdict), str(reports[1].verdict)),
        (str(reports[0]), str(reports[1])),
        0,
        (),
        notes,
        settings.tolerance,
    )
    if not result.finished:
        return result
    found = [
        mismatch
        for (name, x), (_, y) in zip(first.arrays, second.arrays, strict=True)
        if (mismatch := compare_array(name, x, y, settings.tolerance)) is not None
    ]
    return replace(result, arrays=len(first.arrays), mismatches=tuple(found))


@dataclass(frozen=True)
class _Prepared:
    """A side that is ready to run: its arrays by name, and the function that launches its kernel."""

    arrays: list[NamedArray]
    launch: Callable[[], Any]


def _prepare(side: Side, settings: RunSettings) -> _Prepared:
    rng = np.random.default_rng(settings.seed)
    if side.kernel is not None:
        return _prepare_kernel(side.kernel, side.keywords, settings, rng)
    if settings.grid is None or settings.block is None:
        raise SpecError(
            f"{side.name} is PTX text, so --run needs its grid, its block and its arguments",
            hint="give --grid, --block and one --arg for each parameter: --arg 'f32[1024]' --arg u32=7",
        )
    values = [argument.make(rng) for argument in settings.arguments]
    launch = functools.partial(
        load(side.module).launch,
        settings.entry,
        grid=settings.grid,
        block=settings.block,
        dynamic_smem=settings.shared,
        args=values,
        schedule=settings.schedule,
    )
    arrays = [(f"argument {n + 1}", v) for n, v in enumerate(values) if isinstance(v, np.ndarray)]
    return _Prepared(arrays, launch)


def _prepare_kernel(
    kernel: Kernel, keywords: dict[str, Any], settings: RunSettings, rng: np.random.Generator
) -> _Prepared:
    options = kernel.options
    dims = kernel.specialize(**keywords).dims
    values: list[Any] = []
    for name, spec in zip(options.names, options.specs, strict=True):
        if isinstance(spec, Scalar):
            if name not in settings.scalars:
                raise SpecError(
                    f"{options.entry}: the scalar {name} has no value", hint=f"give --arg {name}=VALUE"
                )
            values.append(settings.scalars[name])
            continue
        assert isinstance(spec, Tile)
        values.append(random_array(spec.dtype, spec.shape(dims), rng))
    inputs, outputs = values[: options.inputs], values[options.inputs :]
    launch = functools.partial(
        kernel.simulate, *inputs, out=tuple(outputs) or None, schedule=settings.schedule, **keywords
    )
    arrays = [(n, v) for n, v in zip(options.names, values, strict=True) if isinstance(v, np.ndarray)]
    return _Prepared(arrays, launch)


def outcome(result: RunResult | PyptxError) -> list[str]:
    """Return the lines of the report that describe the result of ``--run``."""
    if isinstance(result, PyptxError):
        return [f"run: not possible: {result.message}", *([f"  hint: {result.hint}"] if result.hint else [])]
    lines = [f"run: A {result.verdicts[0]}, B {result.verdicts[1]}"]
    if not result.finished:
        for side, verdict, report in zip("AB", result.verdicts, result.reports, strict=True):
            if verdict in ("incomplete", "error"):
                lines += [f"  {side}: {line}" for line in report.splitlines()[:6]]
        return [*lines, "  outputs are not compared: a run did not end"]
    lines += [f"  {note}" for note in result.notes]
    if result.mismatches:
        return [*lines, *(f"  {mismatch}" for mismatch in result.mismatches)]
    same = "the same bits" if result.tolerance.exact else f"the same within {result.tolerance}"
    return [*lines, f"  {result.arrays} array{'' if result.arrays == 1 else 's'}, {same}"]
