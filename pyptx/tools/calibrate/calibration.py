"""A calibration: runs microbenchmarks on a device, keeps what they find, and makes the file of constants.

Owns :func:`calibrate` and the partial result, a JSON file beside the output, from which an interrupted
calibration goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import PyptxError, SpecError
from ...core.records import dataclass
from ...core.version import VERSION
from ...timing.constants import Constant, Gpu
from .bench import MHZ, Bench, Microbenchmark, Value
from .device import Device
from .families import FAMILIES

__all__ = ["Calibration", "calibrate", "families_of"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a calibration found.

    Attributes:
        gpu: the constants: those that were measured, and the base's for the others.
        measured: the values that were measured, by name.
        failed: for each microbenchmark that failed, and each constant that was found implausible, why.
    """

    gpu: Gpu
    measured: Mapping[str, Value]
    failed: Mapping[str, str]

    @property
    def kept(self) -> tuple[str, ...]:
        """The constants that were not measured, whose value and source are the base's."""
        return tuple(name for name in self.gpu.constants if name not in self.measured)


def families_of(target: str) -> dict[str, tuple[Microbenchmark, ...]]:
    """Return the microbenchmarks that run on a target, by family, in the order in which they run."""
    found = {
        family: tuple(each for each in benchmarks if target in each.targets)
        for family, benchmarks in FAMILIES.items()
    }
    return {family: benchmarks for family, benchmarks in found.items() if benchmarks}


def calibrate(
    device: Device,
    base: Gpu,
    *,
    name: str,
    date: str,
    only: Sequence[str] = (),
    partial: Path | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Calibration:
    """Measure the constants of a device.

    Args:
        device: the GPU.
        base: the constants that no microbenchmark measures, and where the arithmetic of one needs another.
        name: the name of the result.
        date: today, as ``YYYY-MM-DD``.
        only: families to run, or microbenchmarks of them by name; all if empty.
        partial: where to keep what was found, and from where to go on. A file of another device is not read.
        progress: called with a line of text for each microbenchmark.

    Raises:
        SpecError: the base is of another target, or there is no such family or microbenchmark.
    """
    if base.target != device.target:
        raise SpecError(
            f"the base has constants of {base.target}, and {device.title} is {device.target}",
            hint="give --base a GPU of the same target",
        )
    families = families_of(device.target)
    known = {*families, *(each.name for some in families.values() for each in some)}
    unknown = [each for each in only if each not in known]
    if unknown:
        raise SpecError(
            f"there is no family {unknown[0]!r} for {device.target}, and no microbenchmark of that name",
            hint=f"families: {', '.join(families)}",
        )
    state = _Partial(partial, device, base)
    failed: dict[str, str] = {}
    chosen = [
        (family, benchmark)
        for family, benchmarks in families.items()
        for benchmark in benchmarks
        if not only or family == _first(families) or {family, benchmark.name} & {*only}
    ]
    # What an earlier run did not end, because it hung or broke the context, comes last.
    for family, benchmark in sorted(chosen, key=lambda each: state.tried(each[1])):
        if state.has(benchmark):
            progress(f"{family}: {benchmark.name}: kept from {partial}")
            continue
        state.begin(benchmark)
        try:
            found = _measured(benchmark, Bench(device, state.values()))
        except PyptxError as error:
            failed[benchmark.name] = str(error)
            progress(f"{family}: {benchmark.name}: failed: {error}")
            if device.usable():
                continue
            failed["the calibration"] = "this process cannot use the GPU any more: run the command again"
            break
        wrong = {each: value for each, value in found.items() if not value.plausible}
        for each, value in wrong.items():
            failed[each] = f"{benchmark.name} found {_number(value.value)}, which no constant can be"
        found = {each: value for each, value in found.items() if each not in wrong}
        state.add(benchmark, found, done=not wrong)
        progress(f"{family}: {benchmark.name}: {_told(found)}")
    source = f"measured by pyptx calibrate {VERSION} on {device.title}, {device.driver}, {date}"
    gpu = Gpu(name, device.title, base.target, date, _merged(base, state.found, source, date))
    measured = {name: value for name, value in state.found.items() if name in base.constants}
    return Calibration(gpu, measured, failed)


def _first(families: Iterable[str]) -> str:
    """Return the family that runs first: all others need the clock and what the driver tells."""
    return next(iter(families))


def _measured(benchmark: Microbenchmark, bench: Bench) -> dict[str, Value]:
    found = benchmark.measure(bench)
    return {name: each if isinstance(each, Value) else Value.of(each) for name, each in found.items()}


def _told(found: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} {_number(value.value)}" for name, value in found.items()) or "nothing found"


def _number(value: float | tuple[float, ...]) -> str:
    if isinstance(value, tuple):
        return " ".join(f"{each:g}" for each in value)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _merged(base: Gpu, found: Mapping[str, Value], source: str, date: str) -> dict[str, Constant]:
    """Return the constants of the base with those that were found in their place."""
    merged: dict[str, Constant] = {}
    for name, old in base.constants.items():
        value = found.get(name)
        merged[name] = (
            old
            if value is None
            else Constant(value.value, value.low, value.high, old.unit, source, date, "B")
        )
    return merged


class _Partial:
    """What was found so far, in a file if there is one."""

    def __init__(self, path: Path | None, device: Device, base: Gpu) -> None:
        self._path, self._base = path, base
        self._head = {"device": device.title, "driver": device.driver, "version": VERSION}
        self.found: dict[str, Value] = {}
        self._done: set[str] = set()
        self._tried: set[str] = set()
        if path is not None and path.is_file():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            content: Any = json.loads(path.read_text("utf-8"))
            if {key: content[key] for key in self._head} != self._head:
                return
            values = {name: Value(*map(_unlisted, fields)) for name, fields in content["found"].items()}
            self._done, self._tried, self.found = set(content["done"]), set(content["tried"]), values
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SpecError(
                f"{path} is no partial result of a calibration: {error}", hint="delete it to begin anew"
            ) from error

    def has(self, benchmark: Microbenchmark) -> bool:
        """True if a microbenchmark has run."""
        return benchmark.name in self._done

    def tried(self, benchmark: Microbenchmark) -> bool:
        """True if a microbenchmark has begun in an earlier run and has not ended."""
        return benchmark.name in self._tried and not self.has(benchmark)

    def begin(self, benchmark: Microbenchmark) -> None:
        """Note that a microbenchmark begins: it may not end."""
        self._tried.add(benchmark.name)
        self._write()

    def add(self, benchmark: Microbenchmark, found: Mapping[str, Value], *, done: bool) -> None:
        """Keep what a microbenchmark has found; if it is not ``done``, it runs again another time."""
        if done:
            self._done.add(benchmark.name)
        self.found.update({name: value for name, value in found.items() if name in benchmark.constants})
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        fields = {name: [value.value, value.low, value.high] for name, value in self.found.items()}
        known = {"done": sorted(self._done), "tried": sorted(self._tried), "found": fields}
        text = json.dumps({**self._head, **known}, indent=1)
        self._path.write_text(text, "utf-8")

    def values(self) -> dict[str, float]:
        """Return the constants that are single numbers, and the frequency, as ``mhz``."""
        known: dict[str, float | tuple[float, ...]] = {
            name: constant.value for name, constant in self._base.constants.items()
        }
        known.update({name: value.value for name, value in self.found.items()})
        numbers = {name: value for name, value in known.items() if not isinstance(value, tuple)}
        return {MHZ: numbers["sm.clock_max_mhz"], **numbers}


def _unlisted(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
