"""The lowest level of the DSL: :class:`Program`, the entries, functions and variables of one PTX module.

A program contains exactly what the author writes: the DSL adds no prologue, no ``ret`` and no parameter.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from ..core.errors import OperandError
from ..core.source import defined_at
from ..core.tracebacks import short_traceback
from ..core.types import ScalarType
from ..ir import (
    Attribute,
    Directive,
    Function,
    Module,
    ModuleDirective,
    Param,
    Pointer,
    Pragma,
    PrintedModule,
    print_module,
)
from ..isa import check_module, required_version
from ..isa.directives import DIRECTIVES
from ..isa.targets import written_target
from .annotations import Annotations
from .call_sites import caller_frame, here
from .module_builder import ModuleBuilder
from .recording import finished
from .registers import Reg
from .symbols import Sym, VectorReg, check_name
from .trace import Trace
from .types import the_type
from .variables import make_variable

__all__ = ["Program", "directives_of", "param"]

_LINKAGE = ("visible", "extern", "weak", "")


class Program:
    """A PTX module, recorded by hand.

    ::

        program = Program("sm_90a")
        table = program.const(f32, "table", shape=(4,), init=[1.0, 2.0, 3.0, 4.0])

        @program.entry(params=(u64,), maxntid=(128, 1, 1))
        def kernel(out: Sym) -> None:
            p = reg.scalar(u64)
            ptx.inst.ld.param.u64(p, ptx.addr(out))
            ptx.inst.st.global_.u64(ptx.addr(p), 1)
            ptx.ret()

        print(program.ptx())

    ``@ptx.func`` functions that a body calls are recorded in front of it.
    """

    def __init__(
        self,
        arch: str,
        *,
        version: tuple[int, int] | None = None,
        options: Sequence[str] = (),
        address_size: int = 64,
    ) -> None:
        """Begin an empty module.

        Args:
            arch: target; one before sm_75 has the instructions of sm_75.
            version: PTX ISA version; default: the lowest version that has every recorded instruction.
            options: options after the architecture in ``.target``, such as ``"debug"``.
            address_size: 64.

        Raises:
            TargetError: no such architecture.

        PTX ISA: `#ptx-module-directives-target`.
        """
        self.arch = arch
        self.version = version
        self.options = tuple(options)
        self.address_size = address_size
        self._target = written_target(arch)
        self._builder = ModuleBuilder()

    def __repr__(self) -> str:
        return f"<program for {self.arch}: {len(self._builder.functions)} functions>"

    # --- declarations -------------------------------------------------------------------------

    def variable(
        self,
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
        """Declare a variable of the module.

        Args:
            space: ``"global"``, ``"const"``, ``"shared"`` ...
            kind: type of an element, as declared.
            name: exactly this name; default: the Python variable that the result is bound to.
            shape: extents of an array, outermost first; empty for one element. If the first extent is 0, the
                array has as many elements as ``init``, or no size with ``external``.
            align: bytes, a power of two.
            vector: 2, 4 or 8 for vector elements.
            init: a number, a symbol (its address), an ``ir`` initializer such as
                ``ir.SymbolAddress("x")`` (its generic address), or a nested list of them.
            external: ``.extern``: defined in another module.
            linkage: ``"visible"``, ``"weak"``, ``"common"`` or empty.
            attributes: such as ``ir.Attribute("managed")``.

        Returns: the variable's symbol, which serves as an operand and as the base of addresses.

        Raises:
            OperandError: a space, type, shape, alignment or initial value that PTX does not have.
            TraceError: a name that PTX does not allow.

        PTX ISA: `#variables`.
        """
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
        self._builder.variables.append(made)
        self._builder.take(made.name)
        return Sym(made.name)

    def const(self, kind: ScalarType, name: str | None = None, **options: Any) -> Sym:
        """Declare a :meth:`variable` of constant space. PTX ISA: `#constant-state-space`."""
        return self.variable("const", kind, name or here()[0].name, **options)

    def global_(self, kind: ScalarType, name: str | None = None, **options: Any) -> Sym:
        """Declare a :meth:`variable` of global space. PTX ISA: `#global-state-space`."""
        return self.variable("global", kind, name or here()[0].name, **options)

    def shared(self, kind: ScalarType, name: str | None = None, **options: Any) -> Sym:
        """Declare a :meth:`variable` of shared space. Dynamic shared memory is unsized and ``external=True``.

        PTX ISA: `#shared-state-space`.
        """
        return self.variable("shared", kind, name or here()[0].name, **options)

    def directive(self, directive: ModuleDirective) -> None:
        """Put a directive into the module.

        Args:
            directive: ``ir.Pragma``, ``ir.File``, ``ir.Alias``, ``ir.Section`` or ``ir.Dwarf``.

        Raises :class:`OperandError` for anything else.  PTX ISA: `#directives`.
        """
        if not isinstance(directive, ModuleDirective):
            raise OperandError(
                f"{directive!r} is not a directive of a module: expected a node such as ir.Pragma"
            )
        self._builder.directives.append(directive)

    def declare(
        self,
        name: str,
        *,
        params: Sequence[Param] = (),
        returns: Sequence[Param] = (),
        linkage: str = "extern",
        kind: str = "func",
        attributes: Sequence[Attribute] = (),
        pragmas: Sequence[str] = (),
        directives: Sequence[Directive] = (),
        **named: int | Sequence[int] | bool,
    ) -> Sym:
        """Declare a function without a body: a function of another module, or one that is defined later.

        Args:
            name: exactly this name.
            params, returns: as for :meth:`func`.
            linkage: ``"extern"``, ``"visible"``, ``"weak"`` or empty.
            kind: ``"func"`` or ``"entry"``.
            attributes, pragmas, directives, named: as for :meth:`func`.

        Returns: the function's symbol, for ``ptx.call``.

        PTX ISA: `#kernel-and-function-directives-func`.
        """
        head = self._head(kind, name, params, returns, linkage, attributes, pragmas, directives, named)
        self._builder.functions.append(replace(head, prototype=True))
        self._builder.take(name)
        self._builder.known[name] = head
        return Sym(name)

    # --- bodies -------------------------------------------------------------------------------

    def entry(
        self,
        name: str | None = None,
        *,
        params: Sequence[Param | ScalarType] | None = None,
        linkage: str = "visible",
        attributes: Sequence[Attribute] = (),
        pragmas: Sequence[str] = (),
        directives: Sequence[Directive] = (),
        **named: int | Sequence[int] | bool,
    ) -> Callable[[Callable[..., None]], Sym]:
        """Return a decorator that records a kernel: it calls the function at once and returns its symbol.

        The function gets a symbol for each parameter, in order. It must load the parameters itself, and end
        with ``ptx.ret()``.

        Args:
            name: exactly this name; default: the Python function's.
            params: for each parameter its type (``u32``) or a :func:`ptx.param`
                (``ptx.param(b8, 128, align=64)``), which gets the name of the Python parameter; or an
                ``ir.Param("n", u32)`` with its own name. Default: the function's annotations, as in
                ``def kernel(x: u64, map: ptx.param(b8, 128, align=64))``. Type checkers accept only
                ``params=``, because a PTX type is not a Python type.
            linkage: ``"visible"``, ``"weak"`` or empty.
            attributes: such as ``ir.Attribute("unified", (19, 95))``.
            pragmas: strings of ``.pragma`` directives in the header.
            directives: performance directives as nodes.
            named: performance directives by name, in the order given, after ``directives``:
                ``maxntid=(128, 1, 1)``, ``minnctapersm=2``; True for a directive without numbers.

        Raises:
            OperandError: a parameter, linkage or directive that PTX does not have.
            PyptxError: a mistake in the body, reported at its line; then nothing is added to the module.

        PTX ISA: `#kernel-and-function-directives-entry`.
        """
        return self._decorator("entry", name, params, (), linkage, attributes, pragmas, directives, named)

    def func(
        self,
        name: str | None = None,
        *,
        params: Sequence[Param | ScalarType] | None = None,
        returns: Sequence[Param] = (),
        linkage: str = "",
        attributes: Sequence[Attribute] = (),
        pragmas: Sequence[str] = (),
        directives: Sequence[Directive] = (),
        **named: int | Sequence[int] | bool,
    ) -> Callable[[Callable[..., None]], Sym]:
        """Return a decorator that records a device function, as :meth:`entry` records a kernel.

        The Python function gets the results first, then the parameters, in the order of the header: a symbol
        for each of ``.param`` space, a register for each of ``.reg`` space (``ir.Param("x", f32,
        space="reg")``). ``ptx.call`` calls the device function.

        PTX ISA: `#kernel-and-function-directives-func`.
        """
        return self._decorator("func", name, params, returns, linkage, attributes, pragmas, directives, named)

    def _head(
        self,
        kind: str,
        name: str,
        params: Sequence[Param],
        returns: Sequence[Param],
        linkage: str,
        attributes: Sequence[Attribute],
        pragmas: Sequence[str],
        directives: Sequence[Directive],
        named: dict[str, Any],
    ) -> Function:
        check_name(name)
        if kind not in ("entry", "func"):
            raise OperandError(f"{name}: kind is {kind!r}: expected entry or func")
        if linkage not in _LINKAGE:
            raise OperandError(f"{name}: linkage is {linkage!r}: expected visible, extern, weak or nothing")
        for param in (*params, *returns):
            if not isinstance(param, Param):
                raise OperandError(
                    f"{name}: {param!r} is not a parameter", hint='write it as ir.Param("n", u32)'
                )
        source = here()[1]
        return Function(
            name,
            tuple(params),
            (*directives, *directives_of(named, kind)),
            source=source,
            kind=kind,
            linkage=linkage,
            returns=tuple(returns),
            attributes=tuple(attributes),
            pragmas=tuple(Pragma((text,), source) for text in pragmas),
        )

    def _decorator(
        self,
        kind: str,
        name: str | None,
        params: Sequence[Param | ScalarType] | None,
        returns: Sequence[Param],
        *rest: Any,
    ) -> Callable[[Callable[..., None]], Sym]:
        scope = caller_frame().f_locals

        @short_traceback
        def decorate(body: Callable[..., None]) -> Sym:
            if params is None:
                found = _annotated(body, Annotations(body, scope), len(returns))
            else:
                found = _named(body, params, len(returns))
            head = self._head(kind, name if name is not None else body.__name__, found, returns, *rest)
            self._record(head, body)
            return Sym(head.name)

        return decorate

    def _record(self, head: Function, body: Callable[..., None]) -> None:
        location = defined_at(body)
        trace = Trace(head.name, self._target, location, self._builder)
        trace.refuses_undefined = False  # compilers emit such reads where the value does not matter
        mark = self._builder.mark()
        self._builder.take(head.name)
        self._builder.known[head.name] = head
        try:
            arguments = [_formal(trace, param) for param in (*head.returns, *head.params)]
            trace.run(body, arguments, {})
            function = finished(trace, replace(head, source=location), trace.close())
        except BaseException:
            self._builder.restore(mark)
            raise
        self._builder.functions.append(function)

    # --- the module ---------------------------------------------------------------------------

    @short_traceback
    def module(self, *, check: bool = True) -> Module:
        """Return the module as recorded so far.

        Args:
            check: compare the module with the instruction table (:func:`pyptx.isa.check_module`).

        Raises:
            PyptxError: the first fault, at its line.
        """
        builder = self._builder
        module = Module(
            self.version or self._target.since,
            self.arch,
            tuple(builder.functions),
            tuple(builder.variables),
            self.address_size,
            self.options,
            tuple(builder.directives),
        )
        if self.version is None:
            module = replace(module, version=required_version(module))
        if check:
            for fault in check_module(module):
                raise fault
        return module

    def printed(self, *, lines: bool = False, annotate: bool = False) -> PrintedModule:
        """Return the PTX text of :meth:`module`, with a table from its lines to Python lines.

        Args:
            lines: write ``.file`` and ``.loc`` directives for the Python line that recorded each instruction.
            annotate: put the Python lines between the instructions, as comments.

        PTX ISA: `#debugging-directives-loc`.
        """
        return print_module(self.module(), lines=lines, annotate=annotate)

    def ptx(self, *, lines: bool = False, annotate: bool = False) -> str:
        """Return the text of :meth:`printed`."""
        return self.printed(lines=lines, annotate=annotate).text


def directives_of(named: dict[str, Any], kind: str) -> tuple[Directive, ...]:
    """Convert keywords such as ``maxntid=(128, 1, 1)`` to directives of an ``entry`` or a ``func``.

    Raises :class:`OperandError` for a name that is not such a directive, or a value that is not an integer.
    """
    found: list[Directive] = []
    known = [rule.name for rule in DIRECTIVES.values() if kind in rule.where and rule.name != "pragma"]
    for name, value in named.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise OperandError(
                f"{name}= is neither an option nor a directive of "
                f"{'a kernel' if kind == 'entry' else 'a function'}",
                hint=f"did you mean {near[0]}=?" if near else f"the directives are: {', '.join(known)}",
                see="performance-tuning-directives",
            )
        if value is None or value is False:
            continue
        values: Iterable[Any] = () if value is True else (value,) if isinstance(value, int) else value
        numbers = tuple(values)
        if not all(isinstance(number, int) for number in numbers):
            raise OperandError(
                f"{name} is {value!r}: expected an integer, or a tuple of integers",
                see="performance-tuning-directives",
            )
        found.append(Directive(name, numbers))
    return tuple(found)


def param(
    kind: ScalarType,
    count: int | None = None,
    *,
    align: int | None = None,
    pointer: str | None = None,
    space: str = "param",
    name: str = "_",
) -> Param:
    """Describe a parameter in an annotation: ``def kernel(map: ptx.param(b8, 128, align=64))``.

    Records nothing.

    Args:
        kind: type of an element.
        count: number of elements of an array that is passed by value; None for one value.
        align: alignment in bytes; with ``pointer``, the alignment of the memory that it points to.
        pointer: state space that a pointer points to; with ``"generic"`` the text names no space.
        space: ``"reg"`` for a device function's register.
        name: name of the parameter; in an annotation, it gets the Python parameter's name.

    Raises :class:`OperandError` for a ``kind`` that is not a type.  PTX ISA: `#kernel-function-parameters`.
    """
    the_type(kind)
    if pointer is None:
        return Param(name, kind, count, align, space=space)
    target = "" if pointer == "generic" else pointer
    return Param(name, kind, count, space=space, pointer=Pointer(target, align))


def _annotated(body: Callable[..., None], resolve: Annotations, skip: int) -> tuple[Param, ...]:
    """Return the parameters in the annotations of ``body``, without its first ``skip`` ones, the results."""
    found: list[Param] = []
    for parameter in list(inspect.signature(body).parameters.values())[skip:]:
        given = resolve(parameter.annotation)
        if isinstance(given, ScalarType):
            given = Param(parameter.name, given)
        if not isinstance(given, Param):
            raise OperandError(
                f"{body.__name__}: the parameter {parameter.name} has no type",
                hint="annotate it (n: u32), or give params=(ir.Param(...), ...)",
                see="kernel-function-parameters",
            )
        found.append(replace(given, name=parameter.name, source=here()[1]))
    return tuple(found)


def _named(body: Callable[..., None], params: Sequence[Param | ScalarType], skip: int) -> tuple[Param, ...]:
    """Return ``params``; one without a name gets the name of the Python parameter, after ``skip`` results.

    Raises :class:`OperandError` if a parameter has no name and ``body`` has another number of parameters.
    """
    found = list(params)
    unnamed = [i for i, p in enumerate(found) if isinstance(p, ScalarType) or getattr(p, "name", "") == "_"]
    if not unnamed:
        return tuple(cast(list[Param], found))  # _head() refuses an element that is not a Param
    names = list(inspect.signature(body).parameters)[skip:]
    if len(names) != len(found):
        raise OperandError(
            f"{body.__name__} has the parameters ({', '.join(names)}), and params= has {len(found)}",
            hint="give one type for each parameter, in order",
            see="kernel-function-parameters",
        )
    for i in unnamed:
        given = found[i]
        kind = Param("_", given) if isinstance(given, ScalarType) else given
        found[i] = replace(kind, name=names[i], source=here()[1])
    return tuple(cast(list[Param], found))


def _formal(trace: Trace, param: Param) -> Sym | Reg:
    """Return the symbol or register that a body gets for one of its parameters or results."""
    if param.space != "reg":
        trace.symbols.names.append(param.name)
        return Sym(param.name)
    register = trace.declare_as(param.name, param.type, param.vector, listed=False)
    made = VectorReg if param.vector > 1 else Reg
    return made(trace, register, param.type, trace.regions[0], trace.location)
