"""The contract between a form of the instruction table and what executes it.

A *value* form is one function of arrays: typed values in, one value per lane out.  Hot integer forms add a
scalar expression over Python integers, which the one-lane code uses; a property test holds both equal.

An *effect* form gets the executing :class:`~.warp.Split` and the static :class:`Op` as well:

* ``per="lane"``: called for each active lane with plain Python values: ``f(split, op, lane, ...)``;
* ``per="warp"``: called once with an array of lane numbers and arrays: ``f(split, op, lanes, ...)``.

``bound`` says how far a ``bounded`` form may be from the hardware.  ``array`` is a template for hot integer
forms, ``np.add({a}, {b}, {out})``: the operands by name, ``{out}`` the keywords that write the destination
row.

``team`` marks effects that treat each lane alone: the lanes of several warps of a CTA may then execute them
in one call (lane numbers count from the first of these warps); only ``split.warp.cta`` may be read of the
warp.

``yields`` marks forms that may return a :class:`~.waits.Wait`: the split then parks until it is over.
``deferred`` marks forms that write their destination registers themselves, perhaps later.
``held`` names the operands whose registers an engine has for some time after the instruction: others that
touch them tell the warp (:class:`~.threads.units.RegisterOwner`). ``checks_registers`` marks forms that
themselves check the registers that they hold.
``loads`` marks ordinary loads into registers, ``takes_undefined`` forms that may pass on registers that
nothing wrote (compilers pass structs with bytes in them that mean nothing), ``takes_launches`` those that ask
for the work of clusters that have not started.  ``traits`` is what the chapter's own function wants to know
of a form.
``collective`` marks forms that all live lanes of the warp (or of the member mask) execute together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ...core.source import SourceLocation
from ...isa import Binding
from ...isa.table import CHAPTERS, chapter_of
from ..numbers.rounding import ArithmeticMode

__all__ = [
    "CLASSES",
    "FIDELITIES",
    "Bound",
    "Op",
    "RegisterPlace",
    "Semantic",
    "executes",
    "semantic_of",
    "semantics",
]

#: How close a form is to the hardware; the fidelity table in the docs is generated from this.
FIDELITIES = {
    "exact": "bit for bit",
    "bounded": "within a documented bound",
    "ordering": "only ordering and completion are modeled",
}

#: Register classes by the width of their registers, and the name of the view of their raw bits.
CLASSES = {"p": "p", "16": "u16", "32": "u32", "64": "u64", "128": "u128"}

Scalar = str | Callable[[dict[str, str]], "str | None"]


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a result may be from the hardware's: the larger of ``ulps`` units in the last place of the
    hardware's
    result and ``absolute``. ``note`` says where the bound comes from."""

    note: str
    ulps: float = 0.0
    absolute: float = 0.0


@dataclass(frozen=True, slots=True)
class Semantic:
    """How one form executes."""

    form_id: str
    function: Callable[..., Any]
    fidelity: str
    per: str
    scalar: Scalar | None
    wants_op: bool
    yields: bool
    collective: str
    lane_function: Callable[..., Any] | None
    deferred: bool
    array: Scalar | None = None
    team: bool = False
    bound: Bound | None = None
    held: tuple[str, ...] = ()
    checks_registers: bool = False
    modeled: bool = True
    traits: Any = None
    loads: bool = False
    takes_undefined: bool = False
    takes_launches: bool = False

    @classmethod
    def unmodeled(cls, reason: str) -> Semantic:
        """The meaning of an instruction that has none: to end the run when a thread gets there."""

        def refuse(s: Any, op: Op, lanes: Any) -> Any:
            del lanes
            raise s.warp.cta.machine.fault("not-modeled", f"{reason} is not modeled yet", s)

        return cls("", refuse, "exact", "warp", None, False, False, "", None, False, modeled=False)

    def expression(self, chosen: dict[str, str]) -> str | None:
        """The scalar template for these modifiers, or None."""
        return self.scalar(chosen) if callable(self.scalar) else self.scalar

    def template(self, chosen: dict[str, str]) -> str | None:
        """The array template for these modifiers, or None."""
        return self.array(chosen) if callable(self.array) else self.array


@dataclass(frozen=True, slots=True)
class RegisterPlace:
    """Where a register lives: its class (a key of :data:`CLASSES`), its row, its index in a one-lane list."""

    cls: str
    row: int
    index: int


@dataclass(eq=False, slots=True)
class Op:
    """What is known of an instruction before it runs.

    Attributes:
        dests: place of each written scalar register, by operand name (vectors: tuples).
        space: state space of the address operand, ``generic`` if none is named.
    """

    statement: int
    binding: Binding
    semantic: Semantic
    location: SourceLocation | None
    space: str = "generic"
    pair: bool = False
    dests: dict[str, Any] = field(default_factory=dict)
    #: Whatever an effect wants to compute once per instruction.
    cache: dict[Any, Any] = field(default_factory=dict)

    @property
    def chosen(self) -> dict[str, str]:
        return self.binding.match.chosen

    @property
    def name(self) -> str:
        return self.binding.match.name

    @property
    def traits(self) -> Any:
        """What its form's function wants to know of the form."""
        return self.semantic.traits

    @property
    def mode(self) -> ArithmeticMode:
        """What its modifiers say of a floating-point result, read once."""
        mode: ArithmeticMode | None = self.cache.get(ArithmeticMode)
        if mode is None:
            chosen = self.chosen
            mode = ArithmeticMode(chosen.get("rnd", "rn"), "ftz" in chosen, "sat" in chosen)
            self.cache[ArithmeticMode] = mode
        return mode

    def written_places(self) -> list[RegisterPlace]:
        """The registers that it writes."""
        return [p for d in self.dests.values() for p in (d if isinstance(d, tuple) else (d,))]


_SEMANTICS: dict[str, Semantic] = {}


def executes(
    *form_ids: str,
    fidelity: str = "exact",
    per: str = "value",
    scalar: Scalar | None = None,
    yields: bool = False,
    collective: str = "",
    lane: Callable[..., Any] | None = None,
    deferred: bool = False,
    array: Scalar | None = None,
    team: bool = False,
    bound: Bound | None = None,
    held: tuple[str, ...] = (),
    checks_registers: bool = False,
    traits: Any = None,
    loads: bool = False,
    takes_undefined: bool = False,
    takes_launches: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the meaning of forms. Raises KeyError for an id that the table lacks."""
    assert fidelity in FIDELITIES, fidelity
    assert (bound is not None) == (fidelity == "bounded"), "a bounded form states its bound"

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        wants_op = next(iter(inspect.signature(function).parameters), "") == "op"
        for form_id in form_ids:
            chapter_of(form_id)  # a KeyError says that the table has no such form
            assert form_id not in _SEMANTICS, f"{form_id} has two meanings"
            _SEMANTICS[form_id] = Semantic(
                form_id,
                function,
                fidelity,
                per,
                scalar,
                wants_op,
                yields,
                collective,
                lane,
                deferred,
                array,
                team,
                bound,
                held,
                checks_registers,
                traits=traits,
                loads=loads,
                takes_undefined=takes_undefined,
                takes_launches=takes_launches,
            )
        return function

    return register


@cache
def semantics() -> dict[str, Semantic]:
    """Every registered form; reads the chapters of sim/semantics on first use."""
    package = import_module("pyptx.sim.semantics")
    for chapter in iter_modules(package.__path__):
        assert chapter.name in CHAPTERS, f"sim/semantics/{chapter.name}.py is the twin of no chapter"
        import_module(f"{package.__name__}.{chapter.name}")
    return _SEMANTICS


def semantic_of(form_id: str) -> Semantic | None:
    """How a form executes, or None if it is not modeled."""
    return semantics().get(form_id)
