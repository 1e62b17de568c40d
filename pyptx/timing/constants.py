"""The constants of a GPU's timing: a number, its interval and where it comes from.

Owns the files of constants (``gpus/*.json``, one for each GPU): reading them, checking them, changing single
constants, writing them.  :mod:`.names` says which constants there are.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..core.errors import SpecError
from ..core.records import dataclass
from .names import required

__all__ = ["CONFIDENCES", "Constant", "Gpu", "gpu", "gpu_for", "gpus", "read", "write"]

#: How far a constant can be trusted.
CONFIDENCES = {
    "A": "measured by two sources that agree, or by one whose arithmetic closes",
    "B": "one direct measurement",
    "C": "indirect, or of another chip of the family",
    "D": "an estimate, or a claim without a method",
}
_FOLDER = Path(__file__).resolve().parent / "gpus"
_KEYS = ("value", "low", "high", "unit", "source", "date", "confidence")
_HEAD = ("gpu", "title", "target", "date")
#: Letters behind the number of a PTX target.
_SUFFIXES = "af"


@dataclass(frozen=True)
class Constant:
    """One constant of a GPU.

    Attributes:
        value: the number; a tuple for ``gpc.sizes``.
        low: lower end of its interval, about 80% of what is plausible; a tuple where the value is one.
        high: upper end, likewise.
        unit: ``clk``, ``ns``, ``B/clk/SM`` and so on, as :mod:`pyptx.timing.names` has it.
        source: who measured it, or the arithmetic behind ``derived:``, or ``estimate:`` and its reason.
        date: when the value was entered, as ``YYYY-MM-DD``.
        confidence: a letter of :data:`CONFIDENCES`.
    """

    value: float | tuple[float, ...]
    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    unit: str
    source: str
    date: str
    confidence: str


@dataclass(frozen=True, eq=False)
class Gpu:
    """The constants of one GPU.

    Attributes:
        name: ``b200``, ``h200``, or the name that a file has.
        title: the name that NVIDIA sells it under.
        target: the PTX target, ``sm_100a`` or ``sm_90a``.
        date: when the file was written.
        constants: every constant by name.
    """

    name: str
    title: str
    target: str
    date: str
    constants: Mapping[str, Constant]

    def constant(self, name: str) -> Constant:
        """Return a constant with its interval and source.

        Raises:
            SpecError: this GPU has no such constant; the hint names close ones.
        """
        found = self.constants.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self.constants, 3, 0.5)
            raise SpecError(
                f"{self.title} has no constant {name!r}",
                hint=f"did you mean {' or '.join(near)}?" if near else "Gpu.constants has all names",
            )
        return found

    def value(self, name: str) -> float:
        """Return the value of a constant that is one number.

        Raises:
            SpecError: this GPU has no such constant, or the constant is a list.
        """
        value = self.constant(name).value
        if isinstance(value, tuple):
            raise SpecError(f"{name} of {self.title} is a list", hint="Gpu.series returns it")
        return value

    def series(self, name: str) -> tuple[float, ...]:
        """Return the values of a constant that is a list, such as ``gpc.sizes``.

        Raises:
            SpecError: this GPU has no such constant, or the constant is one number.
        """
        value = self.constant(name).value
        if not isinstance(value, tuple):
            raise SpecError(f"{name} of {self.title} is one number", hint="Gpu.value returns it")
        return value

    def with_values(self, values: Mapping[str, float | tuple[float, ...]]) -> Gpu:
        """Return this GPU with other values for some constants, which then have no interval.

        Args:
            values: the new values by name; ``math.inf`` for a rate takes the limit away.

        Raises:
            SpecError: this GPU has no such constant, or a value has not the constant's form.
        """
        changed = dict(self.constants)
        for name, value in values.items():
            old = self.constant(name)
            if isinstance(value, tuple) != isinstance(old.value, tuple):
                form = "a tuple of numbers" if isinstance(old.value, tuple) else "one number"
                raise SpecError(f"{name} = {value!r}: expected {form}")
            changed[name] = Constant(value, value, value, old.unit, "set by with_values", old.date, "D")
        return Gpu(self.name, self.title, self.target, self.date, changed)


def gpus() -> tuple[str, ...]:
    """Return the names of the GPUs whose constants come with the package."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


def gpu(name: str | Path | Gpu) -> Gpu:
    """Return the constants of a GPU.

    Args:
        name: ``"b200"``, ``"h200"``, the path of a file that :func:`write` wrote, or a :class:`Gpu`, which is
            returned as it is.

    Raises:
        SpecError: no GPU and no file has this name, or the file is not a valid file of constants.
    """
    if isinstance(name, Gpu):
        return name
    if name in gpus():
        return _packaged(str(name))
    if Path(name).is_file():
        return read(name)
    known = gpus()
    near = difflib.get_close_matches(str(name).lower(), known, 1)
    raise SpecError(
        f"there are no constants of a GPU {str(name)!r}, and no file has this path",
        hint=f"did you mean {near[0]!r}?"
        if near
        else f"known are {', '.join(known)}, or the path of a JSON file",
    )


def gpu_for(target: str) -> Gpu | None:
    """Return the package's GPU that runs kernels of a PTX target, as ``sm_90a``, or None."""
    number = target.rstrip(_SUFFIXES)
    found = (gpu(name) for name in gpus())
    return next((each for each in found if each.target.rstrip(_SUFFIXES) == number), None)


@cache
def _packaged(name: str) -> Gpu:
    return read(_FOLDER / f"{name}.json")


def read(path: str | Path) -> Gpu:
    """Read and check a file of constants.

    Every constant that :func:`pyptx.timing.names.required` lists for the file's target must be there, in its
    unit, within its interval, with a source, a date and a confidence; and no other.

    Raises:
        SpecError: the file is no such file; the message lists what is wrong with it.
    """
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} is no file of constants: {error}") from error
    faults = _faults(content)
    if faults:
        raise SpecError(f"{path} is no valid file of constants", details=faults)
    constants = {name: _constant(fields) for name, fields in content["constants"].items()}
    return Gpu(content["gpu"], content["title"], content["target"], content["date"], constants)


def write(given: Gpu, path: str | Path) -> None:
    """Write a file of constants that :func:`gpu` reads, one constant on a line.

    Raises:
        SpecError: the constants would not be a valid file.
    """
    head = dict(zip(_HEAD, (given.name, given.title, given.target, given.date), strict=True))
    entries = {
        name: {key: _plain(getattr(constant, key)) for key in _KEYS}
        for name, constant in given.constants.items()
    }
    faults = _faults({**head, "constants": entries})
    if faults:
        raise SpecError("these constants are not valid", details=faults)
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join(f"    {json.dumps(name)}: {json.dumps(fields)}" for name, fields in entries.items())
    Path(path).write_text("\n".join(["{", *lines, '  "constants": {', body, "  }", "}", ""]), "utf-8")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _constant(fields: Mapping[str, Any]) -> Constant:
    given: dict[str, Any] = {
        key: tuple(field) if isinstance(field, list) else field for key, field in fields.items()
    }
    return Constant(**given)


def _faults(content: Any) -> list[str]:
    """Return what is wrong with the content of a file."""
    if not isinstance(content, dict) or not isinstance(content.get("constants"), dict):
        return ["expected an object with gpu, title, target, date and constants"]
    faults = [f"{key} is missing" for key in _HEAD if not isinstance(content.get(key), str)]
    names = required(content.get("target", ""))
    if faults or names is None:
        return faults or [f"target {content['target']!r}: expected sm_90a or sm_100a"]
    given = content["constants"]
    faults += [f"{name} is missing" for name in names if name not in given]
    for name, fields in given.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            faults.append(
                f"{name} is no constant of {content['target']}" + (f"; {near[0]} is one" if near else "")
            )
        else:
            faults += [f"{name}: {fault}" for fault in _faults_of_constant(fields, names[name][0])]
    return faults


def _faults_of_constant(fields: Any, unit: str) -> list[str]:
    if not isinstance(fields, dict) or set(fields) != set(_KEYS):
        return [f"expected exactly {', '.join(_KEYS)}"]
    faults = []
    value, low, high = (_numbers(fields[key]) for key in _KEYS[:3])
    if value is None or low is None or high is None or not len(value) == len(low) == len(high):
        faults.append("value, low and high must be finite numbers, or lists of one length")
    elif not all(a <= b <= c for a, b, c in zip(low, value, high, strict=True)):
        faults.append(
            f"low <= value <= high does not hold: {fields['low']}, {fields['value']}, {fields['high']}"
        )
    if fields["unit"] != unit:
        faults.append(f"unit {fields['unit']!r}, expected {unit!r}")
    if not isinstance(fields["source"], str) or not fields["source"].strip():
        faults.append("no source")
    if not isinstance(fields["date"], str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", fields["date"]):
        faults.append(f"date {fields['date']!r}, expected YYYY-MM-DD")
    if fields["confidence"] not in CONFIDENCES:
        faults.append(f"confidence {fields['confidence']!r}, expected {', '.join(CONFIDENCES)}")
    return faults


def _numbers(value: Any) -> list[float] | None:
    """Return the finite numbers of a field, or None if it has anything else."""
    numbers = value if isinstance(value, list) else [value]
    fits = all(isinstance(n, (int, float)) and not isinstance(n, bool) and math.isfinite(n) for n in numbers)
    return numbers if fits and numbers else None
