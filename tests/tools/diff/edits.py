"""Edits of modules for the tests of diff: harmless ones, and single ones that a diff must name.

Every edit works on the IR of any kernel, so that a test can draw kernels, edits and places at random.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyptx.core.types import TYPES
from pyptx.ir import (
    Address,
    BranchTarget,
    Directive,
    Function,
    Guard,
    Immediate,
    Instruction,
    LabelStatement,
    Loc,
    Module,
    Register,
    ScopeMark,
    Special,
    Statement,
    Symbol,
    TargetList,
    Variable,
    map_registers,
    registers_of,
)
from pyptx.ir.walk import leaves

# --- harmless ---------------------------------------------------------------------------------


def disguised(module: Module, rng: random.Random) -> Module:
    """``module`` with other names of registers, labels, parameters and variables, in another order of
    declarations, with other `.loc` and labels that nothing refers to."""
    functions = [_disguised(function, rng) for function in module.functions]
    rng.shuffle(functions)
    variables = list(module.variables)
    rng.shuffle(variables)
    return replace(module, functions=tuple(functions), variables=tuple(variables), directives=())


def _names(count: int, prefix: str, rng: random.Random) -> list[str]:
    names = [f"{prefix}{i}" for i in range(count)]
    rng.shuffle(names)
    return names


def _disguised(function: Function, rng: random.Random) -> Function:
    held = [*function.registers, *(Register(p.name, p.type) for p in function.params if p.space == "reg")]
    held += [Register(p.name, p.type) for p in function.returns if p.space == "reg"]
    registers = dict(zip((r.name for r in held), _names(len(held), "q", rng), strict=True))
    labels = [s.name for s in function.body if isinstance(s, LabelStatement | TargetList)]
    names = dict(zip(labels, _names(len(labels), "$M", rng), strict=True))
    own = [v.name for v in (*function.variables, *(s for s in function.body if isinstance(s, Variable)))]
    plain = [p.name for p in (*function.params, *function.returns) if p.space != "reg"]
    names |= dict(zip([*own, *plain], _names(len(own) + len(plain), "thing", rng), strict=True))

    def operand(given: Any) -> Any:
        given = map_registers(given, lambda r: replace(r, name=registers.get(r.name, r.name)))
        if isinstance(given, Symbol | BranchTarget):
            return replace(given, name=names.get(given.name, given.name))
        if isinstance(given, Address):
            return replace(given, base=operand(given.base), extra=tuple(map(operand, given.extra)))
        if hasattr(given, "elements"):
            return replace(given, elements=tuple(map(operand, given.elements)))
        return given

    def param(given: Any) -> Any:
        table = registers if given.space == "reg" else names
        return replace(given, name=table.get(given.name, given.name))

    body: list[Statement] = []
    for statement in function.body:
        if isinstance(statement, Loc):
            continue
        if rng.random() < 0.05:
            body.append(Loc(1, rng.randrange(1, 999), 1))
        if rng.random() < 0.02:
            body.append(LabelStatement(f"$unused{len(body)}"))
        if isinstance(statement, Instruction):
            guard = statement.guard
            if guard is not None:
                guard = replace(guard, register=operand(guard.register))
            statement = replace(statement, operands=tuple(map(operand, statement.operands)), guard=guard)
        elif isinstance(statement, LabelStatement | Variable):
            statement = replace(statement, name=names.get(statement.name, statement.name))
        elif isinstance(statement, TargetList):
            targets = tuple(names.get(t, t) for t in statement.targets)
            statement = replace(statement, name=names[statement.name], targets=targets)
        body.append(statement)
    declared = [replace(r, name=registers[r.name]) for r in function.registers]
    rng.shuffle(declared)
    variables = [replace(v, name=names[v.name]) for v in function.variables]
    rng.shuffle(variables)
    return replace(
        function,
        registers=tuple(declared),
        variables=tuple(variables),
        params=tuple(map(param, function.params)),
        returns=tuple(map(param, function.returns)),
        body=tuple(body),
    )


# --- single edits -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """One edit: the module with it, the kind that a diff must report, and the texts that it must point to.

    ``a`` and ``b`` are instructions of either side as PTX, None where that side has none (or the edit is of
    no instruction); ``at`` is the place among that side's instructions.
    """

    module: Module
    kind: str
    a: str | None = None
    b: str | None = None
    at: int | None = None


def _with_body(module: Module, function: Function, body: list[Statement]) -> Module:
    changed = replace(function, body=tuple(body))
    return replace(module, functions=tuple(changed if f is function else f for f in module.functions))


def _places(function: Function, fits: Callable[[Instruction], object]) -> list[int]:
    return [i for i, s in enumerate(function.body) if isinstance(s, Instruction) and fits(s)]


def _index(function: Function, place: int) -> int:
    """Place of the statement at ``place`` among those that a diff aligns."""
    return sum(not isinstance(s, LabelStatement | Loc | ScopeMark | Variable) for s in function.body[:place])


def _alike(one: Statement, other: Statement) -> bool:
    return (
        isinstance(one, Instruction)
        and isinstance(other, Instruction)
        and (one.name, len(one.operands)) == (other.name, len(other.operands))
    )


def _replaced(module: Module, function: Function, place: int, kind: str, **changes: Any) -> Planted:
    old = function.body[place]
    assert isinstance(old, Instruction)
    new = replace(old, **changes)
    body = list(function.body)
    body[place] = new
    return Planted(_with_body(module, function, body), kind, str(old), str(new), _index(function, place))


def insert_fresh(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """An instruction on registers of its own."""
    registers = [Register(f"fresh{i}", TYPES["b32"]) for i in range(2)]
    new = Instruction("shf", ("l", "wrap", "b32"), (registers[0], registers[1], registers[1], Immediate(7)))
    return _inserted(module, replace(function), new, rng, registers, function)


def insert_copy(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """An instruction that the function has already, somewhere else."""
    places = _places(function, lambda i: i.opcode not in ("bra", "ret", "exit", "call", "brx"))
    if not places:
        return None
    new = function.body[rng.choice(places)]
    return _inserted(module, function, new, rng, [], function)


def _inserted(
    module: Module,
    function: Function,
    new: Statement,
    rng: random.Random,
    registers: list[Register],
    original: Function,
) -> Planted | None:
    place = rng.choice(_places(function, lambda i: True))
    near = [s for s in function.body[max(0, place - 1) : place + 1] if isinstance(s, Instruction)]
    if any(s == new for s in near):
        return None  # it cannot be said which of two equal neighbors is new
    body = [*function.body[:place], new, *function.body[place:]]
    changed = replace(function, body=tuple(body), registers=(*function.registers, *registers))
    result = replace(module, functions=tuple(changed if f is original else f for f in module.functions))
    return Planted(result, "inserted", None, str(new), _index(function, place))


def delete(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """An instruction less."""
    place = rng.choice(_places(function, lambda i: True))
    old = function.body[place]
    if any(
        s == old for s in (*function.body[max(0, place - 1) : place], *function.body[place + 1 : place + 2])
    ):
        return None
    body = [*function.body[:place], *function.body[place + 1 :]]
    return Planted(_with_body(module, function, body), "deleted", str(old), None, _index(function, place))


def move(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """An instruction elsewhere."""
    places = _places(function, lambda i: True)
    if len(places) < 4:
        return None
    source, target = rng.sample(places, 2)
    old = function.body[source]
    rest = [*function.body[:source], *function.body[source + 1 :]]
    if target > source:
        target -= 1
    low, high = sorted((source, target))
    between = [s for s in function.body[low : high + 2] if isinstance(s, Instruction)]
    if len(between) < 4 or sum(map(old.__eq__, between)) > 1:
        return None  # neighbors exchanged: either of them moved
    body = [*rest[:target], old, *rest[target:]]
    return Planted(_with_body(module, function, body), "moved", str(old), str(old), _index(function, source))


def modifier(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """Another word of the instruction's modifiers."""
    others = {
        "f32": "f64",
        "s32": "u32",
        "u32": "s32",
        "b32": "b64",
        "b64": "b32",
        "u64": "s64",
        "s64": "u64",
    }
    others |= {"rn": "rz", "lo": "hi", "global": "local", "shared": "global", "lt": "ge", "ge": "lt"}
    places = _places(function, lambda i: set(i.modifiers) & set(others))
    if not places:
        return None
    place = rng.choice(places)
    old = function.body[place]
    assert isinstance(old, Instruction)
    slot = rng.choice([n for n, word in enumerate(old.modifiers) if word in others])
    words = list(old.modifiers)
    words[slot] = others[words[slot]]
    return _replaced(module, function, place, "modifier", modifiers=tuple(words))


def opcode(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """Another instruction with the same operands."""
    others = {"add": "sub", "sub": "add", "mul": "min", "and": "or", "or": "xor", "shl": "shr", "ld": "ldu"}
    places = _places(function, lambda i: i.opcode in others)
    if not places:
        return None
    place = rng.choice(places)
    old = function.body[place]
    assert isinstance(old, Instruction)
    return _replaced(module, function, place, "opcode", opcode=others[old.opcode])


def operand(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """A register for another one that the function uses too."""
    uses = Counter(
        r
        for i in function.instructions()
        for r in {*(r for o in i.operands for r in registers_of(o)), *([i.guard.register] if i.guard else [])}
    )
    candidates = []
    for place in _places(function, lambda i: i.opcode not in ("call",)):
        statement = function.body[place]
        assert isinstance(statement, Instruction)
        for number, given in enumerate(statement.operands):
            mine = registers_of(given)
            if len(mine) == 1 and uses[mine[0]] >= 2:
                candidates.append((place, number, mine[0]))
    rng.shuffle(candidates)
    for place, number, old in candidates[:20]:
        others = [r for r in function.registers if r != old and r.type == old.type and uses[r] >= 2]
        if others:
            new = rng.choice(others)
            statement = function.body[place]
            assert isinstance(statement, Instruction)
            operands = list(statement.operands)
            operands[number] = map_registers(operands[number], lambda r, new=new: new)
            return _replaced(module, function, place, "operand", operands=tuple(operands))
    return None


def guard(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """A guard added, dropped or negated."""
    place = rng.choice(_places(function, lambda i: True))
    old = function.body[place]
    assert isinstance(old, Instruction)
    if old.guard is not None:
        new = rng.choice([None, replace(old.guard, negated=not old.guard.negated)])
        return _replaced(module, function, place, "guard", guard=new)
    predicates = [r for r in function.registers if r.type.name == "pred"]
    if not predicates:
        return None
    return _replaced(
        module, function, place, "guard", guard=Guard(rng.choice(predicates), rng.random() < 0.5)
    )


def _leaf(
    module: Module, function: Function, rng: random.Random, kind: str, of: type, new: Callable[[Any], Any]
) -> Planted | None:
    """An operand of a type, changed."""
    places = _places(function, lambda i: any(isinstance(o, of) for o in i.operands))
    if not places:
        return None
    place = rng.choice(places)
    old = function.body[place]
    assert isinstance(old, Instruction)
    number = rng.choice([n for n, o in enumerate(old.operands) if isinstance(o, of)])
    operands = list(old.operands)
    operands[number] = new(operands[number])
    if operands[number] is None:
        return None
    return _replaced(module, function, place, kind, operands=tuple(operands))


def immediate(module: Module, function: Function, rng: random.Random) -> Planted | None:
    return _leaf(
        module, function, rng, "immediate", Immediate, lambda i: replace(i, value=i.value + 1, pattern=None)
    )


def offset(module: Module, function: Function, rng: random.Random) -> Planted | None:
    def further(address: Address) -> Address:
        if isinstance(address.base, Symbol):
            return replace(address, base=replace(address.base, offset=address.base.offset + 4))
        return replace(address, offset=address.offset + 4)

    return _leaf(module, function, rng, "offset", Address, further)


def special(module: Module, function: Function, rng: random.Random) -> Planted | None:
    def other(register: Special) -> Special:
        return Special("laneid" if register.name != "laneid" else "warpid")

    return _leaf(module, function, rng, "special", Special, other)


def branch(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """A branch to another label that something else refers to as well."""
    places = {s.name: i for i, s in enumerate(function.body) if isinstance(s, LabelStatement)}
    used = Counter(
        leaf.name
        for i in function.instructions()
        for o in i.operands
        for leaf in leaves(o)
        if isinstance(leaf, BranchTarget)
    )

    def there(label: str) -> int:
        return _index(function, places[label])

    def other(target: BranchTarget) -> BranchTarget | None:
        if target.name not in places:
            return None
        names = [n for n in used if n in places and there(n) != there(target.name)]
        return BranchTarget(rng.choice(names)) if names else None

    return _leaf(module, function, rng, "branch", BranchTarget, other)


def label(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """A label one instruction later."""
    used = {
        leaf.name
        for i in function.instructions()
        for o in i.operands
        for leaf in leaves(o)
        if isinstance(leaf, BranchTarget)
    }
    body = list(function.body)
    places = [
        i
        for i, s in enumerate(body[:-1])
        if isinstance(s, LabelStatement) and s.name in used and isinstance(body[i + 1], Instruction)
    ]
    if not places:
        return None
    place = rng.choice(places)
    body[place], body[place + 1] = body[place + 1], body[place]
    return Planted(_with_body(module, function, body), "branch")


def blocks(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """Two neighboring blocks exchanged that nothing falls into or out of."""
    ends = [
        i
        for i, s in enumerate(function.body)
        if isinstance(s, Instruction) and s.guard is None and s.opcode in ("bra", "ret", "exit")
    ]
    closed = [
        (i + 1, j + 1)
        for i, j in itertools.pairwise(ends)
        if isinstance(function.body[i + 1], LabelStatement)
        and sum(isinstance(s, Instruction) for s in function.body[i + 1 : j]) > 2
    ]
    pairs = [(x, y) for x, y in itertools.pairwise(closed) if x[1] == y[0]]
    if not pairs:
        return None
    (start, middle), (_, end) = rng.choice(pairs)
    body = function.body
    new = [*body[:start], *body[middle:end], *body[start:middle], *body[end:]]
    return Planted(_with_body(module, function, new), "moved")


def directive(module: Module, function: Function, rng: random.Random) -> Planted | None:
    others = [d for d in function.directives if d.name != "maxnreg"]
    changed = replace(function, directives=(*others, Directive("maxnreg", (rng.randrange(24, 255),))))
    if Counter(changed.directives) == Counter(function.directives):
        return None
    functions = tuple(changed if f is function else f for f in module.functions)
    return Planted(replace(module, functions=functions), "directive")


def parameter(module: Module, function: Function, rng: random.Random) -> Planted | None:
    if not function.params:
        return None
    number = rng.randrange(len(function.params))
    params = list(function.params)
    params[number] = replace(params[number], align=64 if params[number].align != 64 else 32)
    changed = replace(function, params=tuple(params))
    functions = tuple(changed if f is function else f for f in module.functions)
    return Planted(replace(module, functions=functions), "parameter")


def variable(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """Another size or alignment of a variable of the function or of the module."""

    def other(v: Variable) -> Variable:
        if v.count and rng.random() < 0.5:
            return replace(v, count=v.count + 16, shape=())
        return replace(v, align=64 if v.align != 64 else 32)

    if function.variables:
        number = rng.randrange(len(function.variables))
        variables = list(function.variables)
        variables[number] = other(variables[number])
        changed = replace(function, variables=tuple(variables))
        functions = tuple(changed if f is function else f for f in module.functions)
        return Planted(replace(module, functions=functions), "variable")
    if not module.variables:
        return None
    number = rng.randrange(len(module.variables))
    outer = list(module.variables)
    outer[number] = other(outer[number])
    return Planted(replace(module, variables=tuple(outer)), "variable")


def rename(module: Module, function: Function, rng: random.Random) -> Planted | None:
    """Another name of a kernel."""
    if function.kind != "entry":
        return None
    changed = replace(function, name=function.name + "_renamed")
    functions = tuple(changed if f is function else f for f in module.functions)
    return Planted(replace(module, functions=functions), "renamed")


EDITS: dict[str, Callable[[Module, Function, random.Random], Planted | None]] = {
    edit.__name__: edit
    for edit in (
        insert_fresh,
        insert_copy,
        delete,
        move,
        modifier,
        opcode,
        operand,
        guard,
        immediate,
        offset,
        special,
        branch,
        label,
        blocks,
        directive,
        parameter,
        variable,
        rename,
    )
}
