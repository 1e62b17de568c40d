"""Loads the kernel or program that ``FILE.py:NAME`` names, for all commands that take one."""

from __future__ import annotations

import ast
import importlib.util
import sys
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from ..core.records import dataclass
from ..dsl import Program
from ..entry import Kernel
from ..ir import Module
from ..toolchain import Assembly, assemble, disassemble
from .autotune.tuned import Tuned, TunedKernel
from .user_output import exit_output_to_stderr, user_output_to_stderr

__all__ = ["Loaded", "load_module", "load_target", "parse_words"]


def parse_words(words: tuple[str, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Convert command-line words such as ``8192 stages=3 arch=sm_100a`` to positional and keyword values.

    A word that is not a Python literal is a string.
    """

    def value(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return text

    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if equals and name.isidentifier():
            keywords[name] = value(text)
        elif keywords:
            raise click.UsageError(f"{word!r} follows name=value arguments; positional values come first")
        else:
            positional.append(value(word))
    return positional, keywords


def load_module(path: Path) -> ModuleType:
    """Execute the Python file ``path`` as a module, and return it. Its output goes to standard error.

    Raises click's UsageError if the file is not a Python file, or if it ends the program.
    """
    if not path.is_file():
        raise click.UsageError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles of the file look themselves up by name.
    sys.modules.setdefault(path.stem, module)
    try:
        with user_output_to_stderr():
            spec.loader.exec_module(module)
            exit_output_to_stderr()
    except SystemExit as exit_:
        raise click.UsageError(
            f"{path} ends the program (sys.exit({exit_.code!r})) when it is loaded: put the code that "
            'runs the file as a script under `if __name__ == "__main__":`'
        ) from None
    return module


@dataclass(frozen=True)
class Loaded:
    """A kernel with values for its dims and constants, or a program.

    A kernel is recorded when a method first needs its instructions. Output of its Python code goes to
    standard error.
    """

    what: Kernel | Program
    keywords: dict[str, Any] = field(default_factory=dict)

    def module(self) -> Module:
        """Return the kernel or program as IR, recording it first if necessary."""
        with user_output_to_stderr():
            return self.what.module(**self.keywords)

    def ptx(self, *, lines: bool = False, annotate: bool = False) -> str:
        """Return the PTX text of the kernel or program.

        ``lines`` adds ``.loc`` directives, and ``annotate`` adds comments with the Python lines.
        """
        with user_output_to_stderr():
            return self.what.ptx(lines=lines, annotate=annotate, **self.keywords)

    def assemble(self) -> Assembly:
        """Assemble the PTX text with ptxas, and return the machine code with the messages of ptxas."""
        if isinstance(self.what, Program):
            return assemble(self.what.printed(lines=True))
        with user_output_to_stderr():
            return self.what.assemble(**self.keywords)

    def sass(self, *, lines: bool = False, control: bool = False) -> str:
        """Assemble the PTX text with ptxas, and return the machine code as disassembled text (SASS).

        ``lines`` adds the Python lines, and ``control`` the control code of each instruction.
        """
        return str(disassemble(self.assemble().cubin, lines=lines, control=control))


def _untuned(value: Any) -> Any:
    """Return what ``pyptx.autotune`` decorates; anything else unchanged. Commands name the constants."""
    return value.what if isinstance(value, (Tuned, TunedKernel)) else value


def _choices(module: ModuleType) -> dict[str, Any]:
    """Return, by name, the kernels, programs and functions called ``build...`` that a loaded file defines."""
    values = {name: _untuned(value) for name, value in vars(module).items()}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (Kernel, Program)) or (name.startswith("build") and callable(value))
    }


def load_target(target: str, words: tuple[str, ...]) -> Loaded:
    """Load the file that ``target`` names, and return the kernel or program in it.

    ``FILE.py:NAME`` names a kernel, a program, or a function that builds one of them. For a kernel the
    ``words`` are its dims and constants, for a function its arguments; a program takes none. ``FILE.py``
    alone is enough if the file has exactly one kernel or program.
    """
    file, _, name = target.partition(":")
    module = load_module(Path(file))
    choices = _choices(module)
    if not name:
        ready = [n for n, v in choices.items() if isinstance(v, (Kernel, Program))] or list(choices)
        if len(ready) != 1:
            found = ", ".join(f"{file}:{n}" for n in choices) or "none"
            raise click.UsageError(
                f"{file} does not have exactly one kernel or program: give FILE.py:NAME; it has: {found}"
            )
        name = ready[0]
    chosen = _untuned(getattr(module, name, None))
    if chosen is None:
        raise click.UsageError(f"{file} has no {name!r}; it has: {', '.join(choices) or 'no kernels'}")
    positional, keywords = parse_words(words)
    if isinstance(chosen, Kernel):
        if positional:
            raise click.UsageError(f"{name} is a kernel: give its dims and constants as name=value")
        return Loaded(chosen, keywords)
    if isinstance(chosen, Program):
        if words:
            raise click.UsageError(f"{name} is a program, which takes no values, got {' '.join(words)}")
        return Loaded(chosen)
    if not callable(chosen):
        raise click.UsageError(
            f"{name} is a {type(chosen).__name__}: expected a kernel, a program or a function"
        )
    try:
        with user_output_to_stderr():
            built = chosen(*positional, **keywords)
    except TypeError as error:
        raise click.UsageError(f"{name}{tuple(positional)}: {error}") from None
    if not isinstance(built, (Kernel, Program)):
        raise click.UsageError(f"{name} returned a {type(built).__name__}, neither a kernel nor a program")
    return Loaded(built)
