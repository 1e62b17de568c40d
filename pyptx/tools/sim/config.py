"""Reads launches from TOML: ``[launch]``, ``[args.NAME]``, ``[arrays.NAME]``, ``[[waivers]]``, ``[[then]]``.

Owns :class:`LaunchConfig`, all settings of a run.  Options of the command line override the file's settings.
Paths in the file are relative to the file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ...core.errors import SpecError
from ...core.records import dataclass
from ...core.waivers import Waiver
from .arguments import (
    FILLS,
    ArgumentSource,
    FileArray,
    FilledArray,
    NamedArgument,
    Number,
    SameArray,
    TensorMapOf,
    element_type,
    map_options,
    parse_given,
    parse_number,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["LaunchConfig", "read_config"]


@dataclass
class LaunchConfig:
    """The settings of a run.

    Attributes:
        file: PTX text, ``-`` for standard input, or ``FILE.py[:NAME]``.
        words: dims and constants of a kernel of a Python file.
        args: the arguments, in the order of the parameters or by their names.
        arrays: arrays that are not parameters and that only tensor maps use.
        outs: name of an array -> the file that the array is written to after the run.
        settings: the keys of ``[launch]`` and their values.
        then: later launches of the same stream. The schedule and the limits of this launch apply to them; a
            launch without a file uses the file of this one.
    """

    file: str | None = None
    words: tuple[str, ...] = ()
    args: list[NamedArgument] = field(default_factory=list)
    arrays: list[NamedArgument] = field(default_factory=list)
    outs: dict[str, Path] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    then: list[LaunchConfig] = field(default_factory=list)

    def replace_args(self, given: list[NamedArgument]) -> None:
        """Add the arguments of the command line: each replaces the file's argument of the same name."""
        if not self.args:
            self.args = given
            return
        for new in given:
            place = next((n for n, old in enumerate(self.args) if old.name == new.name), None)
            if new.name is None or place is None:
                names = ", ".join(str(old.name) for old in self.args)
                raise SpecError(
                    f"--arg {new.name or 'without a name'}: the file names the arguments ({names}); "
                    "give --arg NAME=... with one of these names"
                )
            self.args[place] = new


_Kinds = dict[str, type | tuple[type, ...]]

#: The keys of [[then]] and of [launch], with their types. Only [launch] has the settings of the whole run.
_EXTENTS = ("grid", "block", "cluster")
_SHAPE: _Kinds = {**dict.fromkeys(_EXTENTS, (int, list)), "entry": str, "smem": int}
_THEN: _Kinds = {**_SHAPE, "dependent": bool}
_SETTINGS: _Kinds = {
    **_SHAPE,
    "schedule": str,
    "seed": int,
    "seeds": int,
    "max_runs": int,
    "launch_control": str,
    "resume": str,
    "jobs": int,
    "strict": bool,
    "sanitize": bool,
    "max_steps": int,
    "timeout": (int, float),
    "memory": int,
}
_ARRAY_KEYS = ("fill", "type", "shape", "value", "seed", "bounds", "out")


def read_config(path: Path) -> LaunchConfig:
    """Read a launch. Raises :class:`SpecError` that names the wrong table and key."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError(f"cannot read {path}: it is not text") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is not TOML: {error}") from None
    _known(table, ("file", "words", "launch", "args", "arrays", "waivers", "then"), str(path))
    found = LaunchConfig()
    _source(found, table, str(path), path.parent)
    found.settings = _settings(_typed(table, "launch", dict, str(path), {}), _SETTINGS, f"{path} [launch]")
    waivers = [_waiver(each, f"{path} [[waivers]]") for each in _typed(table, "waivers", list, str(path), [])]
    if waivers:
        found.settings["waivers"] = waivers
    for kind, into in (("args", found.args), ("arrays", found.arrays)):
        into += _named(table, kind, str(path), "", path.parent)
    for further in _typed(table, "then", list, str(path), []):
        where = f"{path} [[then]]"
        _known(further, ("file", "words", "args", *_THEN), where)
        settings = {key: value for key, value in further.items() if key in _THEN}
        launch = LaunchConfig(settings=_settings(settings, _THEN, where))
        _source(launch, further, where, path.parent)
        launch.args = _named(further, "args", where, "then.", path.parent)
        found.then.append(launch)
    return found


def _waiver(table: Mapping[str, Any], where: str) -> Waiver:
    """Return the waiver that a table describes; :func:`.check_waiver` checks its rule and its reason."""
    _known(table, ("rule", "file", "line", "reason"), where)
    texts = {name: _typed(table, name, str, where) for name in ("rule", "file", "reason") if name in table}
    if len(texts) < 3 or "line" not in table:
        raise SpecError(f"{where} has {', '.join(table)}: a waiver needs rule, file, line and reason")
    return Waiver(texts["rule"], texts["file"], _typed(table, "line", int, where), texts["reason"])


def _source(found: LaunchConfig, table: Mapping[str, Any], where: str, folder: Path) -> None:
    """Set the file of a launch, and the values for its kernel, if the TOML table has them."""
    if "file" in table:
        name = _typed(table, "file", str, where)
        found.file = name if name == "-" else str(folder / name)
        found.words = ()
    if "words" in table:
        found.words = tuple(str(word) for word in _typed(table, "words", list, where))


def _settings(table: Mapping[str, Any], kinds: _Kinds, where: str) -> dict[str, Any]:
    _known(table, tuple(kinds), where)
    found: dict[str, Any] = {}
    for key, value in table.items():
        found[key] = _typed(table, key, kinds[key], where)
        if key in _EXTENTS:
            found[key] = (value,) if isinstance(value, int) else tuple(value)
    return found


def _named(table: Mapping[str, Any], kind: str, where: str, prefix: str, folder: Path) -> list[NamedArgument]:
    return [
        NamedArgument(name, _given(value, f"{where} [{prefix}{kind}.{name}]", folder))
        for name, value in _typed(table, kind, dict, where, {}).items()
    ]


def _known(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            raise SpecError(f"{where}: unknown key {key!r}; the keys are: {', '.join(keys)}")


def _typed(
    table: Mapping[str, Any], key: str, kind: type | tuple[type, ...], where: str, default: Any = None
) -> Any:
    if key not in table:
        if default is None:
            raise SpecError(f"{where}: {key} is missing")
        return default
    value = table[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = {str: "a string", int: "an integer", float: "a number", bool: "true or false", list: "a list"}
        expected = " or ".join(names.get(k, "a table") for k in kinds)
        raise SpecError(f"{where}: {key} is {value!r}: expected {expected}")
    return value


def _given(value: Any, where: str, folder: Path) -> ArgumentSource:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Number(value)
    if isinstance(value, str):
        try:
            return _in_folder(parse_given(value), folder)
        except SpecError as error:
            raise SpecError(f"{where}: {error.message}") from None
    if not isinstance(value, dict):
        raise SpecError(f"{where} is {value!r}: expected a number, a string or a table")
    return _table(value, where, folder)


def _in_folder(given: ArgumentSource, folder: Path) -> ArgumentSource:
    if isinstance(given, FileArray):
        return FileArray(folder / given.path, given.type, None if given.out is None else folder / given.out)
    return given


def _table(table: dict[str, Any], where: str, folder: Path) -> ArgumentSource:
    """Convert a TOML table with a key ``file``, ``fill``, ``array``, ``map`` or ``value`` to an argument."""
    if "fill" in table:
        return _filled(table, where, folder)
    kind = None
    if "type" in table:
        kind = element_type(_typed(table, "type", str, where))
    if "file" in table:
        _known(table, ("file", "type", "out"), where)
        out = folder / _typed(table, "out", str, where) if "out" in table else None
        return FileArray(folder / _typed(table, "file", str, where), kind, out)
    if "array" in table:
        _known(table, ("array",), where)
        return SameArray(_typed(table, "array", str, where))
    if "map" in table:
        options = {key: value for key, value in table.items() if key != "map"}
        return TensorMapOf(_typed(table, "map", str, where), map_options(options, where))
    if "value" in table:
        _known(table, ("value", "type"), where)
        value = _typed(table, "value", (int, float, str), where)
        if isinstance(value, str):
            return parse_number(value, kind, where)
        return Number(value, kind)
    raise SpecError(f"{where}: expected one of the keys file, fill, array, map and value")


def _filled(table: dict[str, Any], where: str, folder: Path) -> FilledArray:
    _known(table, _ARRAY_KEYS, where)
    fill = _typed(table, "fill", str, where)
    if fill not in FILLS:
        raise SpecError(f"{where}: fill is {fill!r}; expected one of {', '.join(FILLS)}")
    shape = _typed(table, "shape", (int, list), where)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(n, int) and n >= 0 for n in extents):
        raise SpecError(f"{where}: shape is {shape!r}: expected integers of at least 0")
    bounds = _typed(table, "bounds", list, where, [])
    if bounds and (len(bounds) != 2 or not all(isinstance(b, (int, float)) for b in bounds)):
        raise SpecError(f"{where}: bounds is {bounds!r}: expected the least and the largest element")
    return FilledArray(
        fill,
        element_type(_typed(table, "type", str, where)),
        extents,
        Number(_typed(table, "value", (int, float), where, 0)),
        _typed(table, "seed", int, where) if "seed" in table else None,
        (float(bounds[0]), float(bounds[1])) if bounds else None,
        folder / _typed(table, "out", str, where) if "out" in table else None,
    )
