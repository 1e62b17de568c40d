"""PTX's ``call``, and the statements around it: prototypes, target lists, variables, scopes, pragmas.

These functions work at the level of :class:`~pyptx.dsl.program.Program`: each records exactly one PTX
statement.  ``@ptx.func`` is the convenient way to write and call a device function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import OperandError, TraceError
from ..core.types import ScalarType
from ..ir import (
    Arguments,
    Attribute,
    CallPrototype,
    Directive,
    Function,
    Param,
    Pragma,
    ScopeMark,
    TargetList,
)
from .call_sites import here
from .control import Guarded, place_label
from .emit import Predicate
from .labels import Label
from .operands import branch_target, elements, guard
from .records import records
from .registers import Reg, materialize, owned
from .symbols import Sym, check_name
from .trace import Trace, current
from .types import as_number
from .variables import constant, make_variable

__all__ = ["block", "branchtargets", "call", "callprototype", "calltargets", "pragma", "variable"]


# --- call -----------------------------------------------------------------------------------------


@records("call", "call.void", "call.indirect", "call.indirect.void")
def call(
    returns: Sequence[Any] | None,
    function: Sym | str | Reg,
    arguments: Sequence[Any] | None = None,
    *,
    uni: bool = False,
    prototype: str | Label | None = None,
    pred: Predicate = None,
) -> None:
    """Call a device function. Records one ``call``.

    Args:
        returns: where the results go, ``()`` for an empty list, None for no list: registers, ``ptx.sink``, or
            variables of ``.param`` space.
        function: a symbol, the name of a function, or a u64 register that holds a function's address.
        arguments: registers, numbers or variables of ``.param`` space; None for no list. A number takes the
            parameter's type; if that type is not known, write a float as ``ptx.pattern(bits, f32)``.
        uni: all threads of the warp call the same function (``call.uni``).
        prototype: for a call through a register: the name of a :func:`callprototype` or :func:`calltargets`.
        pred: guard.

    Raises:
        OperandError: an operand that a call does not take; a prototype in a call by name; no prototype in a
            call through a register.
        TraceError: when the recording ends, if no scope around this line defines the prototype.

    Results and arguments are compared with the function's signature when the module is complete.
    PTX ISA: `#control-flow-instructions-call`.
    """
    trace = current()
    condition = guard(pred, trace)
    modifiers = ("uni",) if uni else ()
    target: Any = function
    if isinstance(function, Reg):
        target = owned(function, trace).operand
    elif isinstance(function, str):
        target = Sym(check_name(function)).operand
    elif isinstance(function, Sym):
        target = function.operand
    else:
        raise OperandError(
            f"{function!r} cannot be called: expected a function's symbol or name, or a u64 register",
            see="control-flow-instructions-call",
        )
    if isinstance(function, Reg) != (prototype is not None):
        raise OperandError(
            f"call through the register {function}: the signature of the function is not known"
            if isinstance(function, Reg)
            else f"call of {function} with the prototype {prototype!r}: the function has its own signature",
            hint='name one: prototype="p", with ptx.callprototype("p", ...) or ptx.calltargets("p", [...])'
            if isinstance(function, Reg)
            else "leave prototype= out: only a call through a register takes one",
            see="control-flow-instructions-call",
        )
    with trace.atomic():
        given = [
            Arguments(elements([materialize(value, trace) for value in values], trace))
            for values in (returns, _typed(trace, function, arguments))
            if values is not None
        ]
        operands = [target, *given]
        if returns is not None:
            operands = [given[0], target, *given[1:]]
        source = here()[1]
        if prototype is None:
            trace.record("call", modifiers, operands, condition, source)
        else:
            trace.to_label("call", modifiers, operands, branch_target(prototype), condition, source)


def _typed(trace: Trace, function: Sym | str | Reg, arguments: Sequence[Any] | None) -> list[Any] | None:
    """Return the arguments of a call as operands; numbers become constants of the parameters' types."""
    if arguments is None:
        return None
    name = function.name if isinstance(function, Sym) else function
    signature = trace.builder.known.get(name) if isinstance(name, str) else None
    params: Sequence[Param] = signature.params if isinstance(signature, Function) else ()
    typed = list(arguments)
    for index, value in enumerate(arguments):
        number = as_number(value)
        if number is None:
            continue
        if index < len(params):
            typed[index] = constant(number, params[index].type)
        elif isinstance(number, float):
            raise OperandError(
                f"argument {index + 1} of {function} is {number!r}, and the parameter's type is not known",
                hint="give the bits of the number: ptx.pattern(0x3F800000, f32)",
                see="control-flow-instructions-call",
            )
    return typed


def callprototype(
    name: str | Label,
    *,
    returns: Sequence[Param] = (),
    params: Sequence[Param] = (),
    directives: Sequence[Directive] = (),
) -> Label:
    """Declare the signature of calls through a register: ``name: .callprototype (...) _ (...);``.

    Records no instruction.

    Args:
        name: a label; :func:`call` takes it as ``prototype=``.
        returns, params: results and parameters; their names have no effect and may be ``_``.
        directives: such as ``ir.Directive("noreturn")``.

    Raises :class:`TraceError` for a name that is taken.  PTX ISA:
    `#kernel-and-function-directives-callprototype`.
    """
    source = here()[1]
    statement = CallPrototype("", tuple(returns), tuple(params), tuple(directives), source)
    return place_label(name, statement)


def calltargets(name: str | Label, functions: Sequence[Sym | str]) -> Label:
    """Declare the functions that a call through a register may reach: ``name: .calltargets f, g;``.

    Records no instruction.  Raises :class:`TraceError` for a name that is taken.  PTX ISA:
    `#control-flow-directives-calltargets`.
    """
    names = tuple(f.name if isinstance(f, Sym) else check_name(f) for f in functions)
    return place_label(name, TargetList("", "calltargets", _some(names, "function"), here()[1]))


def branchtargets(name: str | Label, labels: Sequence[str | Label]) -> Label:
    """Declare labels for ``ptx.inst.brx.idx(index, name)`` to choose from: ``name: .branchtargets L1, L2;``.

    Records no instruction; the labels may be defined later.  Raises :class:`TraceError` for a name that is
    taken and, when the recording ends, for a label that is not defined.  PTX ISA:
    `#control-flow-directives-branchtargets`.
    """
    targets = _some(tuple(branch_target(label) for label in labels), "label")
    return place_label(name, TargetList("", "branchtargets", (), here()[1]), targets)


def _some(values: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if not values:
        raise OperandError(f"the list of targets is empty: give at least one {what}")
    return values


# --- scopes, variables, pragmas -------------------------------------------------------------------


class block(Guarded):
    """``with ptx.block():`` records ``{`` and ``}``: the scope of the variables declared inside.

    Records no instruction.  Names stay unique in the function: a block does not hide outer names.
    """

    kind = "block"

    def __enter__(self) -> None:
        source = self._open()
        assert self.region is not None
        self.trace.regions.append(self.region)
        self.trace.statements.append(ScopeMark(True, source))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(kind)
        if kind is None:
            assert self.region is not None
            self.trace.statements.append(ScopeMark(False, self.region.source))


def _nested(trace: Trace) -> bool:
    """True while the recording is inside a ``with ptx.block():``."""
    return any(open.kind == block.kind for open in trace.regions)


def variable(
    space: str,
    kind: ScalarType,
    name: str | None = None,
    *,
    shape: Sequence[int] = (),
    align: int | None = None,
    vector: int = 1,
    init: Any = None,
    external: bool = False,
    linkage: str = "",
    attributes: Sequence[Attribute] = (),
) -> Sym:
    """Declare a variable of this function. Records no instruction.

    A variable of ``.param`` space, and a variable of ``.local`` space inside a :class:`block`, is declared at
    this place among the statements; any other variable at the beginning of the function.

    Args:
        space: ``"local"``, ``"param"``, ``"shared"`` ...
        kind: type of an element, as declared.
        name: exactly this name; default: the Python variable that the result is bound to.
        shape: extents of an array, outermost first; empty for one element.
        align: bytes, a power of two.
        vector: 2, 4 or 8 for vector elements.
        init: as for :meth:`Program.variable`.
        external: ``.extern``.
        linkage: ``"visible"``, ``"weak"``, ``"common"`` or empty.
        attributes: ``ir.Attribute(...)``.

    Returns: the variable's symbol.

    Raises:
        OperandError: a space, type, shape or alignment that PTX does not have.
        TraceError: a name that PTX does not allow, or that this function already uses.

    PTX ISA: `#variables`.
    """
    trace = current()
    site, source = here()
    made = make_variable(
        space,
        kind,
        name or site.name,
        shape=shape,
        align=align,
        vector=vector,
        external=external,
        linkage=linkage,
        attributes=attributes,
        init=init,
        source=source,
    )
    if made.name in trace.symbols.names:
        raise TraceError(
            f"{trace.name} already has a variable or parameter called {made.name}: choose another name"
        )
    trace.symbols.names.append(made.name)
    if space == "param" or (space == "local" and _nested(trace)):
        trace.statements.append(made)
    else:
        trace.symbols.variables.append(made)
    return Sym(made.name)


def pragma(*strings: Any) -> None:
    """Place a ``.pragma "nounroll";`` here. Records no instruction.

    PTX ISA: `#miscellaneous-directives-pragma`.
    """
    if not strings or not all(isinstance(s, str) and '"' not in s for s in strings):
        raise OperandError(f"ptx.pragma takes one or more strings without quotes, not {strings!r}")
    current().statements.append(Pragma(tuple(strings), here()[1]))
