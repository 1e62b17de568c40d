"""A parsed module recorded again through :class:`pyptx.Program`, statement by statement.

What ``Program`` cannot say, this cannot replay: the recorded module equals the parsed one, modifiers in
canonical order.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pyptx import Program, ir, ptx, reg
from pyptx.isa import bind_instruction

__all__ = ["canonical", "replayed"]


def canonical(module: ir.Module) -> ir.Module:
    """``module`` with every instruction's modifiers and constants as the table has them."""

    def statement(given: ir.Statement) -> ir.Statement:
        if not isinstance(given, ir.Instruction):
            return given
        binding = bind_instruction(given)
        return replace(given, modifiers=binding.match.spelling, operands=binding.fitted)

    functions = [replace(f, body=tuple(map(statement, f.body))) for f in module.functions]
    return replace(module, functions=tuple(functions))


def replayed(module: ir.Module) -> ir.Module:
    """``module``, recorded anew."""
    program = Program(
        module.target,
        version=module.version,
        options=module.target_options,
        address_size=module.address_size,
    )
    for variable in module.variables:
        program.variable(variable.space, variable.type, variable.name, **_options(variable))
    for directive in module.directives:
        program.directive(directive)
    for function in module.functions:
        options: dict[str, Any] = {
            "params": function.params,
            "linkage": function.linkage,
            "attributes": function.attributes,
            "pragmas": [text for pragma in function.pragmas for text in pragma.strings],
            "directives": function.directives,
        }
        if function.kind == "func":
            options["returns"] = function.returns
        if function.prototype:
            program.declare(function.name, kind=function.kind, **options)
        else:
            recorder = program.entry if function.kind == "entry" else program.func
            recorder(function.name, **options)(_body(function))
    return program.module()


def _options(variable: ir.Variable) -> dict[str, Any]:
    shape = variable.shape or (() if variable.count is None else (variable.count,))
    return {
        "shape": shape,
        "align": variable.align,
        "vector": variable.vector,
        "init": variable.initial,
        "external": variable.external,
        "linkage": variable.linkage,
        "attributes": variable.attributes,
    }


def _body(function: ir.Function) -> Callable[..., None]:
    formals = [p for p in (*function.returns, *function.params) if p.space == "reg"]

    def body(*arguments: Any) -> None:
        registers = {p.name: a for p, a in zip((*function.returns, *function.params), arguments, strict=True)}
        registers = {p.name: registers[p.name] for p in formals}
        for register in function.registers:
            registers[register.name] = reg.declare(register.type, register.name, vector=register.vector)
        for variable in function.variables:
            ptx.variable(variable.space, variable.type, variable.name, **_options(variable))
        blocks: list[ExitStack] = []
        for statement in function.body:
            if isinstance(statement, ir.Instruction):
                _instruction(statement, registers)
            elif isinstance(statement, ir.LabelStatement):
                ptx.label(statement.name)
            elif isinstance(statement, ir.Variable):
                ptx.variable(statement.space, statement.type, statement.name, **_options(statement))
            elif isinstance(statement, ir.ScopeMark):
                if statement.opens:
                    blocks.append(ExitStack())
                    blocks[-1].enter_context(ptx.block())
                else:
                    blocks.pop().close()
            elif isinstance(statement, ir.Pragma):
                ptx.pragma(*statement.strings)
            elif isinstance(statement, ir.CallPrototype):
                ptx.callprototype(
                    statement.name,
                    returns=statement.returns,
                    params=statement.params,
                    directives=statement.directives,
                )
            elif isinstance(statement, ir.TargetList):
                make = ptx.branchtargets if statement.kind == "branchtargets" else ptx.calltargets
                make(statement.name, statement.targets)
            else:
                raise AssertionError(f"no way to replay {statement!r}")

    return body


def _instruction(instruction: ir.Instruction, registers: dict[str, Any]) -> None:
    pred = None
    if instruction.guard is not None:
        pred = registers[instruction.guard.register.name]
        pred = ~pred if instruction.guard.negated else pred
    operands = [registers[o.name] if isinstance(o, ir.Register) else o for o in instruction.operands]
    label = operands[-1].name if operands and isinstance(operands[-1], ir.BranchTarget) else None
    if instruction.opcode == "call":
        _call(instruction, operands, label, pred)
        return
    name = ".".join((instruction.opcode, *bind_instruction(instruction).match.spelling))
    if label is not None:
        operands[-1] = label
    ptx.inst[name](*operands, pred=pred)


def _call(instruction: ir.Instruction, operands: list[Any], label: str | None, pred: Any) -> None:
    if label is not None:
        operands = operands[:-1]
    results = operands.pop(0).elements if isinstance(operands[0], ir.Arguments) else None
    function, *arguments = operands
    target = ptx.symbol(function.name) if isinstance(function, ir.Symbol) else function
    given = arguments[0].elements if arguments else None
    uni = "uni" in instruction.modifiers
    ptx.call(results, target, given, uni=uni, prototype=label, pred=pred)
