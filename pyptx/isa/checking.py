"""Checks a whole module against the table: :func:`check_module`, for PTX from any source.

Owns the rules of whole functions: names and their state spaces, labels, parameter and shared-memory space,
directives that exclude each other.  Other modules have the rules of single instructions (:mod:`.binding`), of
target, version and ``cta_group`` (:mod:`.availability`), of calls (:mod:`.signatures`) and of declarations
(:mod:`.declared`).  A check does not stop at the first fault: it returns all of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace

from ..core.errors import InstructionError, OperandError, PyptxError, TargetError
from ..core.source import SourceLocation
from ..ir import (
    Address,
    BranchTarget,
    CallPrototype,
    Directive,
    Function,
    Instruction,
    LabelStatement,
    Module,
    Param,
    Symbol,
    TargetList,
    Variable,
    leaves,
)
from .availability import (
    cta_group_fault,
    named_symbols,
    reached_functions,
    target_version_fault,
    version_fault,
)
from .binding import Binding, bind_instruction, check_target
from .directives import DIRECTIVES
from .notation import OperandSpec
from .operands import address_space
from .targets import Target, target, version_text, written_target

__all__ = ["check_kernel", "check_module"]

#: Largest size of an entry's parameters in bytes, before PTX 8.1 and since.
_PARAMETERS_BEFORE_8_1 = 4352
_PARAMETERS = 32764
#: Largest constant memory of a module in bytes.
_CONSTANTS = 65536
#: Directives that an entry may not have together.
_EXCLUSIVE = (("maxntid", "reqntid"), ("maxclusterrank", "reqnctapercluster"))
#: Directives whose values are at least 1; the extents of a cluster may be 0.
_POSITIVE = frozenset({"maxntid", "reqntid", "minnctapersm", "maxnreg"})
#: Largest number of values of a directive: the extents of a block or a cluster.
_EXTENTS = 3
#: The directives that a directive requires in the same entry.
_NEEDED = {"blocksareclusters": ("reqntid", "reqnctapercluster")}
#: State spaces whose variables may be the base of a generic address.
_GENERIC = frozenset({"global", "shared", "local"})
#: State spaces in which the variable of an address is checked. The others are handles and tensor memory.
_MEMORY = frozenset({"generic", "global", "shared", "local", "const", "param"})


def check_module(module: Module) -> list[PyptxError]:
    """Return an error for everything in ``module`` that ptxas would refuse, in the order of the text.

    Each error carries the line at fault. An empty list means that every instruction exists on the module's
    target and in its version, with legal operands. A target before sm_75, for which ptxas no longer makes
    code, counts as sm_75.
    """
    try:
        arch = written_target(module.target)
    except TargetError as error:
        return [TargetError(error.message, hint=error.hint, see=error.see, location=_first_line(module))]
    found: list[PyptxError] = []
    old = target_version_fault(module, arch, _first_line(module))
    if old is not None:
        found.append(old)
    size = sum(v.nbytes for v in module.variables if v.space == "const" and not v.external)
    if size > _CONSTANTS:
        found.append(
            OperandError(
                f"the module declares {size} bytes of constant memory, at most {_CONSTANTS} are allowed",
                see="state-spaces-constant-state-space",
                location=_first_line(module),
            )
        )
    from .declared import declaration_faults

    found += declaration_faults(module)
    for function in module.functions:
        found += _FunctionCheck(module, function, arch).run()
    return found


def check_kernel(module: Module, function: Function) -> list[PyptxError]:
    """Return an error for each rule of whole entries that ``function`` breaks.

    Instructions and names are not checked: in a recorded kernel, every call was checked when it was recorded.
    """
    return _FunctionCheck(module, function, target(module.target)).run_whole()


def _first_line(module: Module) -> SourceLocation | None:
    """Return line 1 of the module's source, or None if the module has no source locations."""
    sources = [*(f.source for f in module.functions), *(v.source for v in module.variables)]
    first = next((source for source in sources if source is not None), None)
    return None if first is None else replace(first, line=1)


class _FunctionCheck:
    """Checks one function: its names, then each instruction, then the rules of the whole function."""

    def __init__(self, module: Module, function: Function, arch: Target) -> None:
        self.module, self.function, self.arch = module, function, arch
        self.found: list[PyptxError] = []
        self.names: dict[str, Variable | Param] = {v.name: v for v in module.variables}
        self.names.update({p.name: p for p in (*function.params, *function.returns)})
        self.names.update({v.name: v for v in function.variables})
        self.labels: dict[str, LabelStatement | TargetList | CallPrototype] = {}

    def run(self) -> list[PyptxError]:
        """Return an error for each rule that the function breaks."""
        self._read_names()
        for statement in self.function.body:
            if isinstance(statement, Instruction):
                self._instruction(statement)
            elif isinstance(statement, TargetList):
                self._target_list(statement)
        return self.run_whole()

    def run_whole(self) -> list[PyptxError]:
        """Check the rules of the whole function. Return the errors of these and of all earlier checks."""
        self._directives()
        if self.function.kind == "entry":
            self._parameters()
            if not self.function.prototype:
                self._shared_memory()
                mixed = cta_group_fault(self.module, self.function)
                if mixed is not None:
                    self.found.append(mixed)
        return self.found

    def _fault(
        self,
        kind: Callable[..., PyptxError],
        message: str,
        location: SourceLocation | None = None,
        *,
        hint: str = "",
        see: str = "",
    ) -> None:
        where = location if location is not None else self.function.source
        self.found.append(kind(message, hint=hint, see=see, location=where))

    # --- names --------------------------------------------------------------------------------

    def _read_names(self) -> None:
        for statement in self.function.body:
            if isinstance(statement, Variable):
                self.names[statement.name] = statement
            elif isinstance(statement, LabelStatement | TargetList | CallPrototype):
                if statement.name in self.labels:
                    self._fault(
                        OperandError,
                        f"label {statement.name} is defined twice",
                        statement.source,
                        see="labels",
                    )
                self.labels[statement.name] = statement

    def _target_list(self, statement: TargetList) -> None:
        for name in statement.targets:
            known = isinstance(self.labels.get(name), LabelStatement)
            if statement.kind == "calltargets":
                callee = self.module.by_name.get(name)
                known = callee is not None and callee.kind == "func"
            if not known:
                what = "label of this function" if statement.kind == "branchtargets" else "device function"
                message = f".{statement.kind} names {name}, which is no {what}"
                self._fault(OperandError, message, statement.source)

    # --- one instruction ----------------------------------------------------------------------

    def _instruction(self, instruction: Instruction) -> None:
        location = instruction.source
        guard = instruction.guard
        if guard is not None and guard.register.type.kind != "p":
            self._fault(
                OperandError,
                f"the guard {guard} is .{guard.register.type}, not a predicate",
                location,
                see="predicated-execution",
            )
        symbols = [
            leaf for operand in instruction.operands for leaf in leaves(operand) if isinstance(leaf, Symbol)
        ]
        unknown = {s.name for s in symbols} - self.names.keys() - self.module.by_name.keys()
        if unknown:
            self._fault(
                OperandError,
                f"no variable, parameter, function or label in scope is called {', '.join(sorted(unknown))}",
                location,
                see="identifiers",
            )
            return
        try:
            binding = bind_instruction(instruction)
            check_target(binding, self.arch, location)
        except (InstructionError, OperandError, TargetError) as error:
            self.found.append(type(error)(error.message, hint=error.hint, see=error.see, location=location))
            return
        old = version_fault(self.module, binding, location)
        if old is not None:
            self.found.append(old)
        for name, operand in binding.operands.items():
            spec = binding.specs[name]
            if isinstance(operand, BranchTarget):
                self._label(operand, spec, location)
            elif isinstance(operand, Address):
                self._address(operand, spec, binding, location)
            else:
                for leaf in leaves(operand):
                    if isinstance(leaf, Symbol):
                        self._width(leaf, binding, spec, location)
        if instruction.opcode == "call":
            self._call(binding, location)

    def _label(self, operand: BranchTarget, spec: OperandSpec, location: SourceLocation | None) -> None:
        wanted = {
            "": (LabelStatement, "label"),
            "targets": (TargetList, ".branchtargets list"),
        }.get(spec.space, (CallPrototype | TargetList, ".callprototype or .calltargets"))
        if not isinstance(self.labels.get(operand.name), wanted[0]):
            self._fault(OperandError, f"{operand.name} is no {wanted[1]} of this function", location)

    def _width(
        self, symbol: Symbol, binding: Binding, spec: OperandSpec, location: SourceLocation | None
    ) -> None:
        declared = self.names.get(symbol.name)
        if declared is None or declared.space != "global" or not spec.types or spec.access == "a":
            return
        if all(kind.bits == 32 for kind in binding.types(spec.name)):
            self._fault(
                OperandError,
                f"{symbol.name} is in .global space, so its address has 64 bits, "
                f"but {binding.match.name} takes 32 bits",
                location,
                see=binding.match.form.anchor,
            )

    def _address(
        self, operand: Address, spec: OperandSpec, binding: Binding, location: SourceLocation | None
    ) -> None:
        if not isinstance(operand.base, Symbol):
            return
        space = address_space(spec, binding.chosen).partition("::")[0]
        declared = self.names.get(operand.base.name)
        if space not in _MEMORY:
            return
        given = declared.space if declared is not None else "a function"
        if given != space and not (space == "generic" and given in _GENERIC):
            self._fault(
                OperandError,
                f"{operand.base.name} is in .{given} space, "
                f"but {binding.match.name} takes an address of {space} space"
                if declared is not None
                else f"{operand.base.name} is a function; take its address with mov",
                location,
                see=binding.match.form.anchor,
            )
        elif binding.match.form.opcode == "st" and declared in self.function.params:
            self._fault(
                OperandError,
                f"{operand.base.name} is a parameter of the function, which the function can only read",
                location,
                see=binding.match.form.anchor,
            )

    def _call(self, binding: Binding, location: SourceLocation | None) -> None:
        operands = binding.operands
        callee: Function | CallPrototype | None = None
        if "func" in operands:
            name = str(operands["func"])
            callee = self.module.by_name.get(name)
            if callee is not None and callee.kind != "func":
                self._fault(
                    OperandError, f"{name} is an entry; only device functions can be called", location
                )
                return
        elif isinstance(operands.get("fproto"), BranchTarget):
            named = self.labels.get(str(operands["fproto"]))
            if isinstance(named, TargetList) and named.targets:
                callee = self.module.by_name.get(named.targets[0])
            elif isinstance(named, CallPrototype):
                callee = named
        if callee is not None:
            from .signatures import call_faults

            for fault in call_faults(operands.get("results"), operands.get("params"), callee, self.names):
                self._fault(OperandError, fault, location, see="control-flow-instructions-call")

    # --- the function as a whole --------------------------------------------------------------

    def _parameters(self) -> None:
        end = 0
        for param in self.function.params:
            align = param.align or max(param.type.nbytes * param.vector, 1)
            end = -(-end // align) * align + param.nbytes
        early = self.module.version < (8, 1)
        limit = _PARAMETERS_BEFORE_8_1 if early else _PARAMETERS
        if end > limit:
            more = f"; PTX ISA 8.1 and later allow {_PARAMETERS}" if early and end <= _PARAMETERS else ""
            self._fault(
                OperandError,
                f"{self.function.name} has {end} bytes of parameters, at most {limit} are allowed{more}",
                see="kernel-function-parameters",
            )

    def _directives(self) -> None:
        have = {directive.name: directive for directive in self.function.directives}
        for directive in have.values():
            reason = self._directive(directive)
            if reason:
                self._fault(InstructionError, reason, see="performance-tuning-directives")
        for pair in _EXCLUSIVE:
            if have.keys() >= set(pair):
                self._fault(
                    InstructionError,
                    f".{pair[0]} and .{pair[1]} exclude each other",
                    see=f"performance-tuning-directives-{pair[0]}",
                )
        for name, needed in _NEEDED.items():
            if name in have and not have.keys() >= set(needed):
                self._fault(
                    InstructionError,
                    f".{name} requires {' and '.join('.' + n for n in needed)}",
                    see=f"cluster-dimension-directives-{name}",
                )

    def _directive(self, directive: Directive) -> str:
        """Return a message that says why the function cannot have the directive, or an empty string."""
        rule, version, kind = DIRECTIVES.get(directive.name), self.module.version, self.function.kind
        if rule is None or not rule.where & {"entry", "func"}:
            near = difflib.get_close_matches(directive.name, DIRECTIVES, 1)
            return f"no directive .{directive.name}" + (f" (did you mean .{near[0]}?)" if near else "")
        if kind not in rule.where:
            return f".{rule.name} is a directive of {'device functions' if kind == 'entry' else 'kernels'}"
        if version < rule.since or (rule.until is not None and version >= rule.until):
            change = f"exists since PTX ISA {version_text(rule.since)}"
            if rule.until is not None:
                change = f"no longer exists in PTX ISA {version_text(rule.until)} and later"
            return f".{rule.name} {change}, but the module has .version {version_text(version)}"
        if self.arch not in rule.on:
            return f".{rule.name} does not exist on {self.arch}; it exists on {rule.on}"
        if len(directive.values) > _EXTENTS:
            return f".{rule.name} has {len(directive.values)} values, at most {_EXTENTS} are allowed"
        if rule.name in _POSITIVE and any(value < 1 for value in directive.values):
            return f".{directive}: every value must be at least 1"
        return ""

    def _shared_memory(self) -> None:
        shared = [variable for variable in self.module.variables if variable.space == "shared"]
        used: dict[str, Variable] = {}
        for function in reached_functions(self.module, self.function):
            # A function's own variables always count, those of the module only if the function uses them.
            named = set(named_symbols(function)) if shared else set()
            used.update({v.name: v for v in function.variables if v.space == "shared"})
            used.update({v.name: v for v in shared if v.name in named})
        size = sum(variable.nbytes for variable in used.values() if not variable.external)
        limit = self.arch.static_shared_limit
        if size > limit:
            self._fault(
                OperandError,
                f"{self.function.name} declares {size} bytes of shared memory, "
                f"at most {limit} are allowed on {self.arch}",
                hint="declare an .extern array without a size, and give the size at the launch",
                see="state-spaces-shared-state-space",
            )
