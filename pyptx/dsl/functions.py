"""``@ptx.func``: device functions of the user, recorded once per module and called by one ``call``.

Owns the calling convention.  A value of 32 or 64 bits is a ``.reg`` parameter or result.  A
value of 16 bits (or of 8 bits, which lie in a 16-bit register) is ``.param .b16``: the only way to pass such
a register that ptxas accepts everywhere.  Several results are one array of ``.param`` space: with more than
one ``.reg`` result, ptxas gives up the ABI, and with the ABI recursion.  Predicates and 128-bit values cannot
be passed: ptxas refuses predicates, and fails at 128 bits on some targets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, overload

from ..core.errors import OperandError, SpecError, TraceError
from ..core.records import dataclass
from ..core.source import SourceLocation, defined_at
from ..core.types import ScalarType, b8, b16, pred
from ..ir import (
    Address,
    Arguments,
    Function,
    Guard,
    Immediate,
    Instruction,
    Operand,
    Param,
    Register,
    ScopeMark,
    Symbol,
    Variable,
)
from .annotations import Annotations
from .call_sites import AssignedNames, caller_frame, here
from .emit import Predicate
from .operands import guard
from .program import directives_of
from .recording import ended, finished
from .register_arrays import RegArray
from .registers import NotPred, Number, Reg, new_register, owned, writable
from .trace import Plan, Trace, current, identifier
from .types import as_number, bits_of, declared, memory_type, move_type
from .variables import constant

__all__ = ["DeviceFunction", "func"]

#: Keyword arguments of every call. No parameter may have one of these names.
_RESERVED = frozenset({"pred", "out", "uniform"})
#: Widths in bits that a ``.reg`` parameter or result may have.
_REGISTER_BITS = (32, 64)
_SEE = "control-flow-instructions-call"


@overload
def func(body: Callable[..., Any], /) -> DeviceFunction: ...


@overload
def func(
    *,
    params: Sequence[ScalarType] | None = None,
    returns: Sequence[ScalarType] | ScalarType | None = None,
    name: str | None = None,
    **directives: int | Sequence[int] | bool,
) -> Callable[[Callable[..., Any]], DeviceFunction]: ...


def func(
    body: Callable[..., Any] | None = None,
    /,
    *,
    params: Sequence[ScalarType] | None = None,
    returns: Sequence[ScalarType] | ScalarType | None = None,
    name: str | None = None,
    **directives: int | Sequence[int] | bool,
) -> Any:
    """Make a device function: ``@ptx.func``, or ``@ptx.func(params=(f32, f32), returns=f32)``.

    Types come from ``params`` and ``returns``, else from annotations: ``def dot(x: f32, y: f32) -> f32``.
    If neither gives the types of the results, the values that the function returns give them.  Keyword-only
    parameters are Python constants: the function is recorded once for each set of constants.

    The function is called with registers and numbers while a kernel or another device function is recorded;
    see :meth:`DeviceFunction.__call__`.  It returns one register or number, several, or nothing.  Its
    parameters, other registers and labels are its own.  Shared memory belongs to the kernel: pass an address.
    PTX has no way to forbid inlining, so there is no ``noinline``.

    Watch out: ptxas serializes ``wgmma`` whose pipeline crosses a call.

    Args:
        params: type of each parameter.
        returns: type of the result, or a sequence of types.
        name: name in the text; default: the Python function's name, made unique in the module.
        directives: directives of the function, by name: ``noreturn=True``.

    Raises:
        SpecError: a parameter without a type, a predicate or a 128-bit type, or a parameter named like a
            keyword of calls (``pred``, ``out``, ``uniform``).

    PTX ISA: `#kernel-and-function-directives-func`.
    """
    scope = caller_frame().f_locals

    def make(function: Callable[..., Any]) -> DeviceFunction:
        return DeviceFunction(function, params, returns, name, dict(directives), scope)

    return make if body is None else make(body)


@dataclass
class _Recorded:
    """A device function in one module, from the moment that its recording begins.

    ``results`` is None while the result types are not known.  ``begins`` is its place among the module's
    functions. ``forward`` is True if another function calls it before it is complete: then a prototype is
    inserted at ``begins``.
    """

    name: str
    begins: int
    results: tuple[ScalarType, ...] | None
    trace: Trace
    forward: bool = False


class DeviceFunction:
    """A device function; made by :func:`func`.

    Attributes:
        name: stem of its name in the text.
        params: types of its parameters, by name.
        returns: types of its results, or None if they are not declared.
    """

    def __init__(
        self,
        body: Callable[..., Any],
        params: Sequence[ScalarType] | None,
        returns: Sequence[ScalarType] | ScalarType | None,
        name: str | None,
        directives: dict[str, Any],
        scope: Mapping[str, Any],
    ) -> None:
        self._body = body
        self.__doc__ = body.__doc__
        self.__name__ = body.__name__
        self.name = identifier(name if name is not None else body.__name__)
        self.location = defined_at(body)
        self._signature = inspect.signature(body)
        self._directives = directives_of(directives, "func")
        resolve = Annotations(body, scope)
        self.params = self._parameters(params, resolve)
        self.returns = self._results(returns, resolve)
        for kind in (*self.params.values(), *(self.returns or ())):
            self._check_type(kind)

    def __repr__(self) -> str:
        return f"<device function {self.name}>"

    # --- the specification --------------------------------------------------------------------

    def _refuse(self, message: str, hint: str = "") -> NoReturn:
        raise SpecError(f"{self.name}: {message}", hint=hint, see=_SEE, location=self.location)

    def _parameters(self, given: Sequence[Any] | None, resolve: Annotations) -> dict[str, ScalarType]:
        names: list[str] = []
        for parameter in self._signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self._refuse(
                    f"*{parameter.name} cannot be a parameter: PTX functions have a fixed number of them"
                )
            if parameter.name in _RESERVED:
                self._refuse(
                    f"a parameter cannot be called {parameter.name}: every call takes a keyword of that name"
                )
            if parameter.kind is not parameter.KEYWORD_ONLY:
                names.append(parameter.name)
        if given is None:
            given = [resolve(self._signature.parameters[name].annotation) for name in names]
        if len(given) != len(names):
            self._refuse(f"{len(given)} types in params= for {len(names)} parameters ({', '.join(names)})")
        for name, kind in zip(names, given, strict=True):
            if not isinstance(kind, ScalarType):
                shown = (
                    "no type" if kind is inspect.Parameter.empty else f"type {kind!r}, expected a PTX type"
                )
                self._refuse(
                    f"the parameter {name} has {shown}",
                    hint="annotate it (x: f32), or give all types in @ptx.func(params=(f32, ...))",
                )
        return dict(zip(names, given, strict=True))

    def _results(self, given: Any, resolve: Annotations) -> tuple[ScalarType, ...] | None:
        if given is None:
            given = resolve(self._signature.return_annotation)
            if given in (inspect.Signature.empty, Any):
                return None
            if given is None:
                return ()
            given = getattr(given, "__args__", given)  # tuple[f32, u32]
        kinds = (given,) if isinstance(given, ScalarType) else given
        if not isinstance(kinds, tuple | list) or not all(isinstance(kind, ScalarType) for kind in kinds):
            self._refuse(
                f"returns is {given!r}: expected a PTX type or a sequence of PTX types",
                hint="write returns=(f32, u32)",
            )
        return tuple(kinds)

    def _check_type(self, kind: ScalarType) -> None:
        if kind is pred or kind.bits > max(_REGISTER_BITS):
            self._refuse(
                f"a .{kind} value can be neither passed nor returned: ptxas does not compile such a call",
                hint="pass a u32: ptx.inst.selp.u32(n, 1, 0, p) before the call, n != 0 in the function"
                if kind is pred
                else "pass the halves as two b64: ptx.inst.mov.b128([low, high], x)",
            )

    # --- a call -------------------------------------------------------------------------------

    def __call__(
        self,
        *arguments: Reg | Number,
        pred: Predicate = None,
        out: Reg | Sequence[Reg] | None = None,
        uniform: bool = False,
        **keywords: Any,
    ) -> Any:
        """Call the function. Records one ``call`` (``call.uni`` where ``uniform``).

        With several results it also declares the array of ``.param`` space that holds them, and records one
        ``ld.param`` for each result.  The first call in a module records the function itself.

        Args:
            arguments: registers of the parameters' types, or numbers.
            pred: guard. Where it is false, the result registers keep their values, so ``out`` is needed.
            out: registers that take the results; default: new registers.
            uniform: promises that all threads of the warp execute the call together.
            keywords: parameters by name, and the function's constants.

        Returns: nothing, the register of the result, or a tuple of registers.

        Raises:
            OperandError: an argument or a result of another type, or a wrong number of them.
            TraceError: outside a kernel; a recursive call of a function whose results are not declared.
            PyptxError: a mistake in the body, reported at its line.

        PTX ISA: `#control-flow-instructions-call`.
        """
        trace = current()
        condition = guard(pred, trace)
        values, constants = self._bind(arguments, keywords)
        kinds = self.params.items()
        passed = [self._argument(trace, n, k, v) for (n, k), v in zip(kinds, values, strict=True)]
        site, source = here()
        with trace.atomic():
            known = self._in(trace, constants)
            if known.results is None:
                raise TraceError(
                    f"{self.name} calls itself, and the types of its results are not known yet",
                    hint="declare the results: @ptx.func(returns=(u32,)), or -> u32; returns=() for none",
                    see=_SEE,
                )
            results = self._destinations(trace, known.results, out, condition, site, source)
            modifiers = ("uni",) if uniform else ()
            self._emit(trace, known, modifiers, passed, results, condition, source)
        if not results:
            return None
        return results[0] if len(results) == 1 else tuple(results)

    def _bind(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in order of the parameters, and the constants by name."""
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise OperandError(f"{self.name}{self._signature}: {error}", see=_SEE) from None
        bound.apply_defaults()
        values = dict(bound.arguments)
        return [values.pop(name) for name in self.params], values

    def _argument(self, trace: Trace, name: str, kind: ScalarType, value: Any) -> Register | Immediate:
        if isinstance(value, Reg):
            if not _same(value.type, kind):
                self._refuse_type(f"the argument {name}", value, kind)
            return owned(value, trace).operand
        number = as_number(value)
        if number is None:
            what = "a predicate" if isinstance(value, NotPred) else f"{type(value).__name__} {value!r}"
            raise OperandError(
                f"{self.name}: the argument {name} is {what}; a .{kind} register or a number is expected",
                hint="for a buffer or a tile, pass its address: buffer.addr, tile.ptr",
                see=_SEE,
            )
        return constant(number, kind)

    def _refuse_type(self, what: str, value: Reg, kind: ScalarType) -> NoReturn:
        raise OperandError(
            f"{self.name}: {what} is {value} (.{value.type}): expected .{kind}",
            hint=f"reinterpret its bits: x.view({kind})"
            if value.type.bits == kind.bits and pred not in (value.type, kind)
            else f"convert it: ptx.inst.cvt.{kind}.{value.type}(d, x)",
            see=_SEE,
        )

    def _destinations(
        self,
        trace: Trace,
        kinds: tuple[ScalarType, ...],
        out: Reg | Sequence[Reg] | None,
        condition: Guard | None,
        site: AssignedNames,
        source: SourceLocation,
    ) -> list[Reg]:
        if out is None:
            if condition is not None and kinds:
                raise OperandError(
                    f"{self.name} under the guard {condition}: where the guard is false, "
                    f"the result{'s' if len(kinds) > 1 else ''} would have no value",
                    hint="pass registers that already have a value: out=r",
                    see="predicated-execution",
                )
            hints = self._hints(site, len(kinds))
            return [new_register(trace, k, hint, source) for k, hint in zip(kinds, hints, strict=True)]
        given = [out] if isinstance(out, Reg) else list(out)
        if len(given) != len(kinds):
            raise OperandError(
                f"{self.name}: {len(given)} registers in out= for {len(kinds)} result"
                f"{'' if len(kinds) == 1 else 's'}",
                see=_SEE,
            )
        for number, (register, kind) in enumerate(zip(given, kinds, strict=True), 1):
            if not isinstance(register, Reg):
                raise OperandError(
                    f"{self.name}: out= gives {register!r} for result {number}: expected a register"
                )
            if not _same(register.type, kind):
                self._refuse_type(f"out={register}, for result {number},", register, kind)
            writable(owned(register, trace))
        return given

    def _hints(self, site: AssignedNames, count: int) -> Sequence[str]:
        """Return names for ``count`` results: the assigned Python variables, else the function's name."""
        stem = site.name or self.name
        if count == 1:
            return [stem]
        return site.names if len(site.names) == count else [f"{stem}{number}" for number in range(count)]

    @staticmethod
    def _emit(
        trace: Trace,
        known: _Recorded,
        modifiers: tuple[str, ...],
        passed: list[Register | Immediate],
        results: list[Reg],
        condition: Guard | None,
        source: SourceLocation,
    ) -> None:
        operands: list[Operand] = [Symbol(known.name)]
        if passed:
            operands.append(Arguments(tuple(passed)))
        if len(results) < 2:
            if results:
                operands.insert(0, Arguments((results[0].operand,)))
            trace.record("call", modifiers, operands, condition, source)
            return
        assert known.results is not None
        layout = _Layout(known.results)
        symbol = trace.free_symbol(f"{known.name}_results")
        array = Variable(symbol, "param", b8, layout.size, layout.align, source=source)
        trace.symbols.names.append(symbol)
        trace.statements += [ScopeMark(True, source), array]
        trace.record("call", modifiers, [Arguments((Symbol(symbol),)), *operands], condition, source)
        for register, kind, offset in zip(results, known.results, layout.offsets, strict=True):
            address = Address(Symbol(symbol), offset)
            trace.record("ld", _memory(kind), (register.operand, address), condition, source)
        trace.statements.append(ScopeMark(False, source))

    # --- recording the function ---------------------------------------------------------------

    def _in(self, caller: Trace, constants: dict[str, Any]) -> _Recorded:
        """Return this function's recording in the caller's module; the first call records the function."""
        builder = caller.builder
        key: Hashable = (self, tuple(constants.items()))
        try:
            known: _Recorded | None = builder.known.get(key)
        except TypeError:
            raise OperandError(
                f"{self.name}: constants must be hashable, because one function is recorded for each set of "
                f"constants: {constants!r}"
            ) from None
        if known is None:
            name = caller.free_symbol(self.name)
            builder.take(name)
            trace = Trace(name, caller.target, self.location, builder)
            known = builder.known[key] = _Recorded(name, len(builder.functions), self.returns, trace)
            self._record(known, constants)
        elif known.name in caller.symbols.names:
            raise TraceError(
                f"a variable of {caller.name} and the function {self.name} are both called {known.name}",
                hint="give one of the two another name",
                see="identifiers",
            )
        elif not known.trace.finished and known.trace is not caller:
            known.forward = True
        return known

    def _record(self, known: _Recorded, constants: dict[str, Any]) -> None:
        trace = known.trace
        params, arguments = self._formals(trace)
        formals: list[Param] = []

        def body(*given: Reg) -> None:
            returned = self._body(*given, **constants)
            kinds, values = self._returned(trace, returned)
            formals.extend(self._results_of(trace, kinds, values))
            known.results = kinds

        trace.run(body, arguments, {})
        head = Function(
            known.name,
            params,
            self._directives,
            source=self.location,
            kind="func",
            linkage="",
            returns=tuple(formals),
        )
        builder = trace.builder
        function = finished(trace, head, ended(trace.close(), self.location))
        builder.functions.append(function)
        if known.forward:
            builder.functions.insert(
                known.begins, replace(function, prototype=True, registers=(), variables=(), body=())
            )

    def _formals(self, trace: Trace) -> tuple[tuple[Param, ...], list[Reg]]:
        """Return the formal parameters, and the registers that the Python function gets for them.

        Parameters of ``.param`` space are loaded into their registers once.
        """
        params: list[Param] = []
        registers: list[Reg] = []
        for index, (name, kind) in enumerate(self.params.items()):
            if kind.bits in _REGISTER_BITS:
                register = trace.declare(kind, name, listed=False)
                params.append(Param(register.name, register.type, source=self.location, space="reg"))
            else:
                symbol = trace.free_symbol(identifier(name))
                trace.symbols.names.append(symbol)
                params.append(Param(symbol, b16, source=self.location))
                register = trace.prepare(("param", index), kind, name, _load(symbol, kind), self.location)
            registers.append(Reg(trace, register, kind, trace.regions[0], self.location))
        return tuple(params), registers

    def _returned(self, trace: Trace, given: Any) -> tuple[tuple[ScalarType, ...], list[Reg | Immediate]]:
        """Return the types of the values that the body returned, and the values as registers or constants."""
        several = isinstance(given, tuple | list | RegArray)
        values: list[Any] = [] if given is None else list(given) if several else [given]
        kinds = self.returns
        if kinds is not None and len(values) != len(kinds):
            self._refuse(
                f"{len(values)} result{'' if len(values) == 1 else 's'} returned, {len(kinds)} declared "
                f"({', '.join(map(str, kinds)) or 'none'})"
            )
        found: list[Reg | Immediate] = []
        for number, value in enumerate(values):
            wanted = kinds[number] if kinds is not None else getattr(value, "type", None)
            if isinstance(wanted, ScalarType):
                self._check_type(wanted)
            what = f"result {number + 1}"
            plain = as_number(value)
            if isinstance(value, Reg):
                assert wanted is not None
                trace.check_read((owned(value, trace).name,))
                if not _same(value.type, wanted):
                    self._refuse(f"{what} is {value} (.{value.type}), .{wanted} is declared")
                found.append(value)
            elif plain is not None and wanted is not None:
                found.append(constant(plain, wanted))
            else:
                self._refuse(
                    f"{what} is {type(value).__name__} {value!r}: a register is expected",
                    hint="to return a number, declare the type of the result: -> u32"
                    if plain is not None
                    else "",
                )
        if kinds is None:
            kinds = tuple(value.type for value in found if isinstance(value, Reg))
        return kinds, found

    def _results_of(
        self, trace: Trace, kinds: tuple[ScalarType, ...], values: list[Reg | Immediate]
    ) -> list[Param]:
        """Return the formal results of the function, and record the moves of the returned values to them.

        If the body returns one register of its own, that register is the formal result: nothing is recorded.
        """
        if not values:
            return []
        location = self.location
        if len(values) == 1 and kinds[0].bits in _REGISTER_BITS:
            own = {register.name: register for register in trace.registers}
            value = values[0]
            register = own.get(value.operand.name) if isinstance(value, Reg) else None
            if register is None:
                self._check_ends(trace)
                register = trace.declare(kinds[0], "result")
                given = value.operand if isinstance(value, Reg) else value
                trace.record("mov", (move_type(kinds[0]).name,), (register, given), source=location)
            return [Param(register.name, register.type, source=location, space="reg")]
        self._check_ends(trace)
        symbol = trace.free_symbol(f"{trace.name}_result{'s' if len(values) > 1 else ''}")
        trace.symbols.names.append(symbol)
        layout = _Layout(kinds)
        for kind, value, offset in zip(kinds, values, layout.offsets, strict=True):
            given = value.operand if isinstance(value, Reg) else value
            trace.record("st", _memory(kind), (Address(Symbol(symbol), offset), given), source=location)
        if len(values) == 1:
            return [Param(symbol, b16, source=location)]
        return [Param(symbol, b8, layout.size, layout.align, location)]

    def _check_ends(self, trace: Trace) -> None:
        """Raise :class:`TraceError` for a ``ret`` that leaves the function before its results are written."""
        for statement in trace.statements:
            if isinstance(statement, Instruction) and statement.opcode == "ret":
                raise TraceError(
                    f"this ret leaves {self.name} before its results are in place",
                    location=statement.source,
                    hint="branch to a label at the end of the function instead, or return one register "
                    "of 32 or 64 bits that is written before the ret",
                    see=_SEE,
                )


class _Layout:
    """The layout of several results in one array: the offset of each result, size and alignment, in bytes."""

    def __init__(self, kinds: Sequence[ScalarType]) -> None:
        self.offsets: list[int] = []
        end = 0
        for kind in kinds:
            size = declared(kind).nbytes
            end = -(-end // size) * size
            self.offsets.append(end)
            end += size
        self.align = max(declared(kind).nbytes for kind in kinds)
        self.size = -(-end // self.align) * self.align


def _same(given: ScalarType, wanted: ScalarType) -> bool:
    """True if a value of type ``given`` can be passed for type ``wanted``: untyped bits and integers mix."""
    if given is wanted:
        return True
    kinds = {given.kind, wanted.kind}
    return given.bits == wanted.bits and "b" in kinds and kinds <= {"b", "u", "s"}


def _memory(kind: ScalarType) -> tuple[str, str]:
    """Return the modifiers of the ``ld`` or ``st`` of a result or parameter, as wide as its register."""
    return ("param", memory_type(bits_of(declared(kind))).name)


def _load(symbol: str, kind: ScalarType) -> Callable[[Register], Plan]:
    return lambda register: [("ld", _memory(kind), (register, Address(Symbol(symbol))))]
