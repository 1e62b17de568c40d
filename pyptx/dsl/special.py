"""``ptx.special``: the special registers.

``ptx.special.tid.x()`` records one ``mov`` into a new register of the special register's type.  Without the
call, ``ptx.special.tid.x`` serves as an operand of ``ptx.inst.mov``.  PTX ISA: `#special-registers`.
"""

from __future__ import annotations

import difflib
from typing import NoReturn

from ..core.errors import InstructionError, TargetError
from ..ir import Special
from ..isa.special import SPECIAL_REGISTERS
from .operands import SpecialName
from .registers import Reg, result
from .trace import current
from .types import move_type
from .valueless import Valueless

__all__ = ["Special1", "SpecialVector", "special"]


class Special1(SpecialName):
    """One special register. Calling the object reads the register."""

    __slots__ = ()

    def __call__(self) -> Reg:
        """Read the special register into a new register. Records one ``mov``.

        Raises :class:`TargetError` if the kernel's architecture lacks the special register.
        """
        trace = current()
        entry = SPECIAL_REGISTERS[self.name]
        if trace.target not in entry.on:
            raise TargetError(
                f"%{self.name} does not exist on {trace.target}",
                hint=f"%{self.name} exists on: {', '.join(t.name for t in entry.on.members())}",
                see="special-registers",
            )
        modifiers = (move_type(entry.type).name,)
        hint = self.name.replace(".", "_")
        return result(trace, entry.type, "mov", modifiers, (Special(self.name),), hint)


class SpecialVector(Valueless):
    """A special register with components, such as ``tid``; the fourth component is always 0."""

    __slots__ = ("name", "w", "x", "y", "z")

    def __init__(self, name: str) -> None:
        self.name = name
        self.x = Special1(f"{name}.x")
        self.y = Special1(f"{name}.y")
        self.z = Special1(f"{name}.z")
        self.w = Special1(f"{name}.w")

    def __repr__(self) -> str:
        return f"%{self.name}"

    def remedy(self) -> tuple[str, str]:
        return "a special register with components", f"read one component: ptx.special.{self.name}.x()"

    def __call__(self) -> NoReturn:
        self._refuse()


class SpecialRoot:
    """The root of ``ptx.special``."""

    tid = SpecialVector("tid")
    ntid = SpecialVector("ntid")
    ctaid = SpecialVector("ctaid")
    nctaid = SpecialVector("nctaid")
    clusterid = SpecialVector("clusterid")
    nclusterid = SpecialVector("nclusterid")
    cluster_ctaid = SpecialVector("cluster_ctaid")
    cluster_nctaid = SpecialVector("cluster_nctaid")

    def __getattr__(self, name: str) -> Special1:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in SPECIAL_REGISTERS:
            near = difflib.get_close_matches(name, dir(self), 3)
            raise InstructionError(
                f"there is no special register %{name}",
                hint=f"did you mean {' or '.join(near)}?" if near else "dir(ptx.special) lists them",
                see="special-registers",
            )
        return Special1(name)

    def __dir__(self) -> list[str]:
        return sorted({name.partition(".")[0] for name in SPECIAL_REGISTERS})


#: ``ptx.special``.
special = SpecialRoot()
