"""Finds the kernel to run: in PTX text, in a program, or in a Python file.

Owns :class:`LaunchableKernel`, which hides a difference: a kernel of a Python file has its own launch, and
takes an array where its entry takes a tensor map.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ...core.errors import PyptxError, SpecError
from ...core.records import dataclass
from ...core.types import ScalarType, u64
from ...dsl import Scalar
from ...entry import Kernel
from ...entry.specialize import argument_of
from ...ir import Function, Launch, Module, parse_module
from ...sim import LoadedModule, load
from ..load import load_target
from ..user_output import user_output_to_stderr
from .arguments import ArgumentSource, FilledArray

__all__ = ["LaunchableKernel", "KernelParameter", "find_target", "is_python"]

_STDIN = "<stdin>"


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of a kernel.

    Attributes:
        name: name of the parameter.
        type: type of the number; u64 for a pointer.
        nbytes: size of the parameter.
        by_value: whether the parameter is an array of bytes, such as a struct or a tensor map.
        default: the argument that is passed if the user gives none.
    """

    name: str
    type: ScalarType
    nbytes: int
    by_value: bool = False
    default: ArgumentSource | None = None


@dataclass(frozen=True)
class LaunchableKernel:
    """A kernel that can be launched.

    Attributes:
        loaded: the module in the simulator.
        entry: name of the kernel.
        parameters: the parameters that take arguments, in order.
        launch: extents and shared memory, if the kernel defines them.
        block: the block that the kernel requires (``.reqntid``), or None.
        pack: converts the values of ``parameters`` to the values of the entry's parameters.
        places: for each parameter of the entry, the position in ``parameters`` that fills it; -1 if the
            launch fills it, with the extent of a dim.
    """

    loaded: LoadedModule
    entry: str
    parameters: tuple[KernelParameter, ...]
    launch: Launch | None
    block: tuple[int, ...] | None
    pack: Callable[[Sequence[Any]], list[Any]]
    places: tuple[int, ...]


def is_python(file: str) -> bool:
    """True if ``file`` is ``FILE.py[:NAME]``, not a file of PTX text."""
    return file.endswith(".py") or ".py:" in file


def find_target(
    file: str, words: tuple[str, ...], entry: str | None, *, check: bool = True
) -> LaunchableKernel:
    """Find the kernel that ``file`` names.

    ``file`` is a file of PTX text (``-``: standard input), or ``FILE.py[:NAME]`` with its values ``words``.
    ``check`` is passed to :func:`pyptx.sim.load`.

    Raises:
        SpecError: the file cannot be read, or has no such entry; the error lists the entries.
        ParseError: the text is not PTX.
        UsageError: click's error, for values that do not fit.
    """
    if not is_python(file):
        if words:
            raise SpecError(f"{file} is PTX text: only kernels of Python files take NAME=VALUE arguments")
        return _of_module(_parsed(file), entry, check)
    try:
        found = load_target(file, words)
    except (click.ClickException, PyptxError):
        raise
    except Exception as error:  # whatever the file's own code raises
        raise SpecError(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    if isinstance(found.what, Kernel):
        if entry is not None and entry != found.what.options.entry:
            raise SpecError(
                f"{file} has the kernel {found.what.options.entry}, not {entry}: leave --entry out"
            )
        return _of_kernel(found.what, found.keywords)
    return _of_module(found.module(), entry, check)


def _parsed(file: str) -> Module:
    if file != "-":
        try:
            return parse_module(Path(file).read_text(encoding="utf-8"), file)
        except OSError as error:
            raise SpecError(f"cannot read {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SpecError(f"cannot read {file}: it is not text") from None
    text = sys.stdin.read()
    # Findings read the text of their lines from this cache.
    linecache.cache[_STDIN] = (len(text), None, text.splitlines(keepends=True), _STDIN)
    return parse_module(text, _STDIN)


def _of_module(module: Module, entry: str | None, check: bool) -> LaunchableKernel:
    function = _entry(module, entry)
    parameters = tuple(
        KernelParameter(p.name, p.type, p.nbytes, p.count is not None or p.vector > 1)
        for p in function.params
    )
    block = function.directive("reqntid")
    everything = tuple(range(len(parameters)))
    return LaunchableKernel(
        load(module, check=check), function.name, parameters, None, block, list, everything
    )


def _entry(module: Module, name: str | None) -> Function:
    try:
        return module.entry(name)
    except KeyError as error:
        hint = "give --entry" if name is None and module.entries else ""
        raise SpecError(str(error.args[0]), hint=hint) from None


def _of_kernel(kernel: Kernel, keywords: dict[str, Any]) -> LaunchableKernel:
    """Return a kernel of a Python file as a :class:`LaunchableKernel`.

    By default its inputs are random and its outputs empty arrays.
    """
    options = kernel.options
    with user_output_to_stderr():
        special = kernel.specialize(**keywords)
    parameters: list[KernelParameter] = []
    zeroed = {name for name, space in options.workspaces if space.zeroed}
    for index, (name, spec) in enumerate(options.parameters):
        if isinstance(spec, Scalar):
            parameters.append(KernelParameter(name, spec.type, spec.type.nbytes))
            continue
        fill = "random" if index < options.inputs else "zeros" if name in zeroed else "empty"
        default = FilledArray(fill, spec.dtype, spec.shape(special.dims))
        parameters.append(KernelParameter(name, u64, u64.nbytes, default=default))

    def pack(values: Sequence[Any]) -> list[Any]:
        return [argument_of(special, options, slot, values[slot.index]) for slot in special.slots]

    places = tuple(-1 if slot.kind == "extent" else slot.index for slot in special.slots)
    return LaunchableKernel(
        load(special.module, check=False),
        special.entry,
        tuple(parameters),
        special.launch,
        None,
        pack,
        places,
    )
