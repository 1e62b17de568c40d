"""The contract between a form of the instruction table and the function that executes it.

The function of a *value* form takes arrays of typed values and returns one value for each lane. Frequent
integer forms also have a scalar expression over Python integers, which the one-lane code uses. A property
test checks that the two agree.

The function of an *effect* form also gets the executing :class:`~.warp.Split` and the static :class:`Op`:

* ``per="lane"``: called for each active lane with plain Python values: ``f(split, op, lane, ...)``;
* ``per="warp"``: called once with an array of lane numbers and arrays: ``f(split, op, lanes, ...)``.

``bound`` is the largest difference between a ``bounded`` form and the hardware. ``array`` is a template for
frequent integer forms, such as ``np.add({a}, {b}, {out})``: it names the operands, and ``{out}`` stands for
the keywords that write the destination row.

``team`` marks effects whose lanes do not depend on each other. One call may then execute them for the lanes
of several warps of a CTA; lane numbers count from the first of these warps. The only attribute of the warp
that such an effect may read is ``split.warp.cta``.

``yields`` marks forms that may return a :class:`~.waits.Wait`: the split then parks until the wait is over.
``deferred`` marks forms that write their destination registers themselves, perhaps later. ``held`` names the
operands whose registers an engine uses for some time after the instruction. Other instructions that access
these registers notify the warp (:class:`~.threads.units.RegisterOwner`). ``checks_registers`` marks forms
whose own function checks the registers that they hold. ``undefined`` says how the form passes on bits that
come from unwritten memory (:mod:`.propagation`): by default from each operand of a value form to its results,
while an operand of an effect form must be defined. ``takes_undefined`` marks forms that may copy registers
that were never written (compilers pass structs with undefined bytes). ``takes_launches`` marks forms that try
to cancel the launch of clusters that have not started, and ``decodes_answer`` those that read what such a
form has answered. ``varies`` says what hardware chooses about the results: they may differ between two runs
of one kernel. ``registers_only`` marks effects that no other warp can observe: they access only registers of
the executing warp. ``control`` (:class:`Control`) marks forms that the machine itself executes, at the end of
a block. ``traits`` holds facts about the form for the chapter's own function. ``collective`` marks forms that
all live lanes of the warp (or of the member mask) execute together.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from dataclasses import field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

from ...core.records import dataclass
from ...core.source import SourceLocation
from ...isa import Binding
from ...isa.table import CHAPTERS, chapter_of
from ..memory.access import MemoryOrder, Scope, StateSpace
from ..numbers.rounding import ArithmeticMode
from .propagation import EACH, USED, Propagation

__all__ = [
    "CLASSES",
    "FIDELITIES",
    "Bound",
    "Collective",
    "Control",
    "Fidelity",
    "Op",
    "Per",
    "RegisterPlace",
    "Semantic",
    "Varies",
    "executed_by_the_machine",
    "executes",
    "semantic_of",
    "semantics",
]

Fidelity = Literal["exact", "bounded", "ordering"]
#: How a function is called: with values alone, once for each lane, or once for all lanes of the split.
Per = Literal["value", "lane", "warp"]
#: What hardware chooses about a form's results: nothing, any value, whether a wait is over, the count in the
#: state of an mbarrier, or which lane is elected.
Varies = Literal["", "value", "answer", "state", "lane"]
#: The lanes that execute a form together: none, all live lanes of the warp, or those of the member mask.
Collective = Literal["", "warp", "membermask"]

#: Degrees of fidelity of a form to the hardware. The fidelity table in the docs is generated from this.
FIDELITIES: dict[Fidelity, str] = {
    "exact": "bit for bit",
    "bounded": "within a documented bound",
    "ordering": "only ordering and completion are modeled",
}

#: Register classes by the width of their registers, each with the name of the view of its raw bits.
CLASSES = {"p": "p", "16": "u16", "32": "u32", "64": "u64", "128": "u128"}

Scalar = str | Callable[[dict[str, str]], "str | None"]


class Control(enum.Enum):
    """How an instruction that the machine itself executes directs threads.

    ``BRANCH``: to another block of the function, or out of it. ``CALL``: to another function, and back.
    """

    BRANCH = "branch"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest difference between a result and the hardware's.

    It is the larger of ``ulps`` units in the last place of the hardware's result and ``absolute``. ``note``
    says where the bound comes from.
    """

    note: str
    ulps: float = 0.0
    absolute: float = 0.0


@dataclass(frozen=True, slots=True)
class Semantic:
    """How the simulator executes one instruction form: a function, and its properties.

    The module's docstring explains the fields.
    """

    form_id: str
    function: Callable[..., Any]
    fidelity: Fidelity
    per: Per
    scalar: Scalar | None
    wants_op: bool
    yields: bool
    collective: Collective
    lane_function: Callable[..., Any] | None
    deferred: bool
    array: Scalar | None = None
    team: bool = False
    bound: Bound | None = None
    held: tuple[str, ...] = ()
    checks_registers: bool = False
    modeled: bool = True
    traits: Any = None
    undefined: Propagation = USED
    takes_undefined: bool = False
    takes_launches: bool = False
    decodes_answer: bool = False
    registers_only: bool = False
    varies: Varies = ""
    control: Control | None = None

    @classmethod
    def unmodeled(cls, reason: str) -> Semantic:
        """Return the semantics of an unmodeled instruction: a thread that executes it ends the run."""

        def refuse(s: Any, op: Op, lanes: Any) -> Any:
            del lanes
            raise s.warp.cta.machine.fault("not-modeled", f"{reason} is not modeled yet", s)

        return cls("", refuse, "exact", "warp", None, False, False, "", None, False, modeled=False)

    def expression(self, chosen: dict[str, str]) -> str | None:
        """Return the template of one-lane Python code for these modifiers, or None if there is none."""
        return self.scalar(chosen) if callable(self.scalar) else self.scalar

    def template(self, chosen: dict[str, str]) -> str | None:
        """Return the template of a numpy call for these modifiers, or None if there is none."""
        return self.array(chosen) if callable(self.array) else self.array


@dataclass(frozen=True, slots=True)
class RegisterPlace:
    """The place of a register: its class (see :data:`CLASSES`), its row, its index in a one-lane list."""

    cls: str
    row: int
    index: int


@dataclass(eq=False, slots=True)
class Op:
    """The facts about an instruction that are known before it runs.

    Attributes:
        dests: operand name -> place of each scalar register that the operand writes (for vectors, a tuple).
        space: state space of the address operand, ``GENERIC`` if the instruction names none.
        chosen: value of each modifier that the instruction has, by the modifier's name in the table.
        traits: the facts about the form that its function needs.
        order, scope: memory order and scope that modifiers name, or None.
    """

    statement: int
    binding: Binding
    semantic: Semantic
    location: SourceLocation | None
    space: StateSpace = StateSpace.GENERIC
    pair: bool = False
    dests: dict[str, Any] = field(default_factory=dict)
    #: Values that an effect computes once for each instruction.
    cache: dict[Any, Any] = field(default_factory=dict)
    # Effects read these each time that they run.
    chosen: dict[str, str] = field(init=False)
    traits: Any = field(init=False)
    order: MemoryOrder | None = field(init=False)
    scope: Scope | None = field(init=False)

    def __post_init__(self) -> None:
        self.chosen = self.binding.shape.match.chosen
        self.traits = self.semantic.traits
        order, scope = self.chosen.get("sem"), self.chosen.get("scope")
        self.order = None if order is None else MemoryOrder(order)
        self.scope = None if scope is None else Scope(scope)

    @property
    def name(self) -> str:
        return self.binding.match.name

    @property
    def mode(self) -> ArithmeticMode:
        """The modifiers that change a floating-point result: rounding, ``ftz``, saturation. Computed once."""
        mode: ArithmeticMode | None = self.cache.get(ArithmeticMode)
        if mode is None:
            chosen = self.chosen
            mode = ArithmeticMode(chosen.get("rnd", "rn"), "ftz" in chosen, "sat" in chosen)
            self.cache[ArithmeticMode] = mode
        return mode

    def written_places(self) -> list[RegisterPlace]:
        """Return the places of the registers that the instruction writes."""
        return [p for d in self.dests.values() for p in (d if isinstance(d, tuple) else (d,))]


_SEMANTICS: dict[str, Semantic] = {}


def executes(
    *form_ids: str,
    fidelity: Fidelity = "exact",
    per: Per = "value",
    scalar: Scalar | None = None,
    yields: bool = False,
    collective: Collective = "",
    lane: Callable[..., Any] | None = None,
    deferred: bool = False,
    array: Scalar | None = None,
    team: bool = False,
    bound: Bound | None = None,
    held: tuple[str, ...] = (),
    checks_registers: bool = False,
    traits: Any = None,
    undefined: Propagation | None = None,
    takes_undefined: bool = False,
    takes_launches: bool = False,
    decodes_answer: bool = False,
    registers_only: bool = False,
    varies: Varies = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function as the semantics of instruction forms.

    Raises KeyError for an id that is not in the table.
    """
    assert fidelity in FIDELITIES, fidelity
    assert (bound is not None) == (fidelity == "bounded"), "a bounded form states its bound"

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        wants_op = next(iter(inspect.signature(function).parameters), "") == "op"
        for form_id in form_ids:
            _new(form_id)
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
                undefined=undefined or (EACH if per == "value" else USED),
                takes_undefined=takes_undefined,
                takes_launches=takes_launches,
                decodes_answer=decodes_answer,
                registers_only=registers_only,
                varies=varies,
            )
        return function

    return register


def executed_by_the_machine(*form_ids: str, control: Control) -> None:
    """Register instruction forms that the machine itself executes, so that they have no function.

    Raises KeyError for an id that is not in the table.
    """
    for form_id in form_ids:
        _new(form_id)
        _SEMANTICS[form_id] = Semantic(
            form_id, _no_function, "exact", "warp", None, False, False, "", None, False, control=control
        )


def _new(form_id: str) -> None:
    chapter_of(form_id)  # Raises KeyError if the table has no such form.
    assert form_id not in _SEMANTICS, f"{form_id} has two semantics"


def _no_function(s: Any, op: Op, lanes: Any) -> Any:
    raise AssertionError(f"{op.name} has no semantics function: the machine itself executes it")


@cache
def semantics() -> dict[str, Semantic]:
    """Return how each instruction form executes, by its id.

    Imports the chapters of sim/semantics at the first use.
    """
    package = import_module("pyptx.sim.semantics")
    for chapter in iter_modules(package.__path__):
        assert chapter.name in CHAPTERS, f"sim/semantics/{chapter.name}.py has no chapter of the same name"
        import_module(f"{package.__name__}.{chapter.name}")
    return _SEMANTICS


def semantic_of(form_id: str) -> Semantic | None:
    """Return how an instruction form executes, or None if the simulator does not model it."""
    return semantics().get(form_id)
