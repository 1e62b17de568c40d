"""The commands of the stepper."""

from __future__ import annotations

import cmd
import io
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import SpecError
from ...core.types import TYPES, ScalarType
from .text import step_text
from .values import type_called

if TYPE_CHECKING:
    from .stepper import Debugger
    from .stop import Stop

__all__ = ["Prompt"]

_ALIASES = {
    "b": "break",
    "c": "continue",
    "l": "list",
    "n": "next",
    "p": "print",
    "q": "quit",
    "r": "registers",
    "s": "step",
    "u": "until",
    "w": "where",
    "EOF": "quit",
}


def _count(text: str, default: int = 1) -> int:
    if not text:
        return default
    if not text.isdigit() or int(text) < 1:
        raise SpecError(f"expected a positive number, got {text!r}")
    return int(text)


class Prompt(cmd.Cmd):
    """Commands at one stop. ``help`` lists them, ``help COMMAND`` explains one."""

    prompt = "(sim) "

    def __init__(self, debugger: Debugger, stop: Stop) -> None:
        super().__init__()
        self.debugger, self.stop = debugger, stop

    # --- reading commands -----------------------------------------------------------------------

    def interact(self) -> None:
        """Read commands from the terminal until one resumes the run."""
        self.cmdloop(repr(self.stop))

    def run(self, script: list[str]) -> str:
        """Execute commands, which are taken from the front of ``script``, until one resumes the run.

        Returns the commands and what they showed. When the script is used up, the run continues to its end.
        """
        self.stdout = shown = io.StringIO()
        while script:
            line = script.pop(0)
            print(f"{self.prompt}{line}", file=shown)
            if self.onecmd(line):
                return shown.getvalue()
        self.debugger.breakpoints.clear()
        self.debugger.resume("continue")
        return shown.getvalue()

    def onecmd(self, line: str) -> bool:
        word, blank, rest = line.strip().partition(" ")
        line = f"{_ALIASES.get(word, word)}{blank}{rest}"
        try:
            return bool(super().onecmd(line))
        except SpecError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self.say(f"*** {error.message}{hint}")
            return False

    def precmd(self, line: str) -> str:
        if not sys.stdin.isatty():  # show what was read, as a terminal does
            print("quit" if line == "EOF" else line, file=self.stdout)
        return line

    def emptyline(self) -> bool:
        return False

    def default(self, line: str) -> None:
        raise SpecError(f"unknown command {line.split()[0]!r}", hint="help lists the commands")

    def say(self, *lines: Any) -> None:
        for line in lines:
            print(line, file=self.stdout)

    def _resume(self, kind: str, text: str) -> bool:
        self.debugger.resume(kind, _count(text))
        return True

    # --- running --------------------------------------------------------------------------------

    def do_step(self, text: str) -> bool:
        """step [N]: run N instructions of this warp (s). step any [N]: of whichever warp runs."""
        word, _, rest = text.partition(" ")
        return self._resume("any", rest) if word == "any" else self._resume("step", text)

    def do_next(self, text: str) -> bool:
        """next [N]: run this warp to the next line of the kernel function (n)."""
        return self._resume("next", text)

    def do_continue(self, _: str) -> bool:
        """continue: run to the next breakpoint, or to the end (c)."""
        self.debugger.resume("continue")
        return True

    def do_until(self, text: str) -> bool:
        """until WHERE [if CONDITION]: run this warp to a line or label, as break names it (u)."""
        self.debugger.resume("until", target=self.debugger.point(text, self.stop))
        return True

    def do_event(self, text: str) -> None:
        """event [NUMBER]: let a step of an operation in flight happen: the oldest that can, or this one."""
        steps = self.stop.events()
        chosen = [s for s in steps if s.ready] if not text else [s for s in steps if str(s.serial) == text]
        if not chosen or not chosen[0].ready:
            raise SpecError("no such step can happen now", hint="events lists the steps")
        self.say(step_text(chosen[0]))
        self.stop.machine.engines.execute(chosen[0])

    def do_quit(self, _: str) -> bool:
        """quit: end the run, as incomplete (q)."""
        self.debugger.resume("continue")
        self.stop.machine.stop("stopped in the debugger")
        return True

    # --- where to stop --------------------------------------------------------------------------

    def do_break(self, text: str) -> None:
        """break WHERE [if CONDITION]: stop there (b). Without WHERE: list the breakpoints.

        WHERE is a line of the kernel's file, FILE:LINE, ptx:LINE (of the printed text), or a label.
        CONDITION is a Python expression over registers, lane, thread, warp and cta: it holds if it is true in
        any lane.
        """
        if text:
            self.say(f"breakpoint {self.debugger.add_breakpoint(text, self.stop).number}")
        else:
            self.say(*self.debugger.breakpoints or ("no breakpoints",))

    def do_delete(self, text: str) -> None:
        """delete N: forget a breakpoint."""
        self.debugger.delete_breakpoint(_count(text))

    def do_warp(self, text: str) -> None:
        """warp N [X[,Y[,Z]]]: step warp N, of this CTA or of the CTA with these coordinates, from now on."""
        number, _, place = text.partition(" ")
        if not number.isdigit() or not all(part.isdigit() for part in place.split(",") if place):
            raise SpecError(f"expected the number of a warp, and the coordinates of a CTA, got {text!r}")
        given = [int(part) for part in place.split(",")] if place else list(self.stop.cta)
        wanted = (*given, 0, 0)[:3]
        for cta in self.stop.machine.residency.live.values():
            if cta.coordinates == wanted and int(number) < len(cta.warps):
                self.debugger.focus(cta.warps[int(number)])
                self.say(f"step runs CTA {wanted} warp {number} now")
                return
        raise SpecError(
            f"CTA {wanted} does not run now, or has no warp {number}", hint="where lists the warps"
        )

    def do_lane(self, text: str) -> None:
        """lane N: step the lanes of this warp that go with lane N, also when the warp diverges. lane all."""
        warp = self.stop.place.split.warp
        if text == "all":
            self.debugger.focus(warp)
            self.say(f"step runs all lanes of warp {warp.index} now")
            return
        if not text.isdigit() or int(text) > 31 or not warp.live >> int(text) & 1:
            raise SpecError(f"expected a live lane of warp {warp.index}, 0..31, or all, got {text!r}")
        self.debugger.focus(warp, int(text))
        self.say(f"step runs lane {text} of warp {warp.index} now")

    # --- showing --------------------------------------------------------------------------------

    def do_where(self, text: str) -> None:
        """where: what all warps do (w). where N: those of warp N of each CTA."""
        found = self.stop.where()
        self.say(*(each for each in found if not text or str(each.warp) == text))

    def do_list(self, text: str) -> None:
        """list [N]: N lines of the PTX text before and after the instruction (l)."""
        self.say(self.stop, *self.stop.listing(_count(text, 4)))

    def do_registers(self, text: str) -> None:
        """registers [NAME...] [as TYPE]: values over the lanes, of variables or of all registers (r)."""
        names, _, kind = f" {text}".partition(" as ")
        type = type_called(kind.strip()) if kind else None
        for register in self.stop.registers(*names.split(), type=type):
            self.say(*register.lines(self.stop.lanes))

    def do_print(self, text: str) -> None:
        """print EXPRESSION: a Python expression over registers, lane, thread, warp and cta (p)."""
        value = self.stop.evaluate(text)
        if isinstance(value, np.ndarray) and value.shape == (32,):
            value = value[self.stop.lanes]
        self.say(value)

    def do_barriers(self, _: str) -> None:
        """barriers: phases, pending arrivals and bytes of the barriers of this CTA."""
        self.say(*self.stop.barriers() or ("no barriers",))

    def do_tile(self, text: str) -> None:
        """tile NAME [STAGE] [RxC] [TYPE] [SWIZZLE]: a buffer in shared memory as a matrix.

        Shape, type and swizzle (none, 32B, 64B, 128B) are those of the allocation, if they are not given.
        """
        name, *rest = text.split() or [""]
        if not name:
            raise SpecError("expected the name of a buffer")
        options: dict[str, Any] = {}
        stage = None
        for word in rest:
            if word in TYPES:
                options["type"] = type_called(word)
            elif word.isdigit():
                stage = int(word)
            elif word.replace("x", "").isdigit():
                options["shape"] = [int(part) for part in word.split("x") if part]
            else:
                options["swizzle"] = word
        found = self.stop.tile(name, stage, **options)
        self.say(found)

    def do_tensor(self, text: str) -> None:
        """tensor COLUMN [COUNT] [TYPE]: columns of tensor memory, a row for each lane."""
        words = text.split()
        type: ScalarType = TYPES["f32"]
        if words and words[-1] in TYPES:
            type = type_called(words.pop())
        if not words or not all(word.isdigit() for word in words):
            raise SpecError(f"expected a column, and a number of columns, got {text!r}")
        count = int(words[1]) if len(words) > 1 else 8
        self.say(self.stop.tensor_memory(int(words[0]), count, type))

    def do_events(self, _: str) -> None:
        """events: the steps of operations in flight."""
        self.say(*(map(step_text, self.stop.events()) if self.stop.events() else ["no operations in flight"]))

    def do_pdb(self, _: str) -> None:
        """pdb: Python's debugger, with the stop in the variable `stop`."""
        stop = self.stop
        breakpoint()
        del stop
