"""The statements of a function as Python functions of one thread: what :mod:`tests.sim.reference.machine` executes.

Values come from :mod:`tests.sim.oracles.expected`; here is the rest of what random kernels use: control flow, calls, memory,
barriers, warp collectives, atomics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyptx.ir import (
    Address,
    Element,
    Function,
    Immediate,
    Instruction,
    LabelStatement,
    Negated,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    TargetList,
    Variable,
    Vector,
)
from pyptx.isa import Binding, bind_instruction
from tests.sim.oracles.expected import EXPECTED
from tests.sim.oracles.words import ANY

if TYPE_CHECKING:
    from tests.sim.reference.machine import Machine, Thread

__all__ = ["Code", "Frame", "as_bytes"]

Read = Callable[["Thread"], Any]
Write = Callable[["Thread", int], None]
Act = Callable[["Thread"], None]


class Frame:
    """One activation of a function by one thread."""

    def __init__(self, code: Code, base: int) -> None:
        self.code, self.base = code, base
        self.at = 0
        self.registers: dict[str, int] = {}
        self.back: Callable[[], None] | None = None


class Code:
    """A function's statements as Python functions of a thread, and where its labels and variables are."""

    def __init__(self, machine: Machine, function: Function) -> None:
        self.machine, self.function = machine, function
        self.labels = {s.name: i for i, s in enumerate(function.body) if isinstance(s, LabelStatement)}
        self.lists = {s.name: s.targets for s in function.body if isinstance(s, TargetList)}
        self.places: dict[str, int] = {}
        self.size = 0
        inner = [v for v in (*function.variables, *function.body) if isinstance(v, Variable)]
        own = (*function.params, *function.returns) if function.kind == "func" else ()
        for named in (*own, *inner):
            if named.space in ("param", "local"):
                self.size = -(-self.size // 16) * 16
                self.places[named.name] = self.size
                self.size += named.nbytes
        self.size = -(-self.size // 16) * 16
        self.statements = [self._statement(s) if isinstance(s, Instruction) else None for s in function.body]

    # --- operands -----------------------------------------------------------------------------

    def _name(self, operand: Any) -> str:
        if isinstance(operand, Element):
            return f"{operand.register.name}.{operand.selector}"
        return str(operand.name)

    def _parts(self, operand: Any) -> list[Any]:
        if isinstance(operand, Vector):
            return list(operand.elements)
        if isinstance(operand, Register) and operand.vector > 1:
            return [Element(operand, c) for c in "xyzw"[: operand.vector]]
        return [operand]

    def reader(self, operand: Any, bits: int) -> Read:
        mask = (1 << bits) - 1
        if isinstance(operand, Register | Element):
            name = self._name(operand)
            return lambda t: t.frame.registers[name] & mask
        if isinstance(operand, Negated):
            name = operand.register.name
            return lambda t: 1 - t.frame.registers[name]
        if isinstance(operand, Immediate):
            assert isinstance(operand.value, int)
            value = operand.value & mask
            return lambda t: value
        if isinstance(operand, Special):
            name = operand.name
            return lambda t: t.special[name] & mask
        assert isinstance(operand, Symbol), operand
        if operand.name in self.places:
            place = self.places[operand.name] + operand.offset
            return lambda t: t.frame.base + place
        found = self.machine.symbols[operand.name] + operand.offset
        return lambda t: found

    def writer(self, operand: Any) -> Write:
        if isinstance(operand, Sink):
            return lambda t, value: None
        name = self._name(operand)
        kind = operand.register.type if isinstance(operand, Element) else operand.type
        mask = (1 << kind.bits) - 1

        def write(t: Thread, value: int) -> None:
            t.frame.registers[name] = int(value) & mask

        return write

    def address(self, operand: Any) -> Read:
        assert isinstance(operand, Address)
        base, offset = self.reader(operand.base, 64), operand.offset
        return lambda t: base(t) + offset

    # --- statements ---------------------------------------------------------------------------

    def _statement(self, s: Instruction) -> tuple[str, bool, Act]:
        guard = ("", False) if s.guard is None else (s.guard.register.name, s.guard.negated)
        return (*guard, self._act(s))

    def _act(self, s: Instruction) -> Act:
        special = getattr(self, f"_{s.opcode}", None)
        if special is not None:
            found: Act = special(s)
            return found
        if s.opcode in ("membar", "fence", "nanosleep"):
            return lambda t: None
        binding = bind_instruction(s)
        if binding.form_id.startswith(("mov.vec", "mov.pack", "mov.unpack")):
            return self._pieces(s)
        return self._value(s, binding)

    def _value(self, s: Instruction, binding: Binding) -> Act:
        expected, chosen = EXPECTED[binding.form_id], binding.chosen
        (first, dest), *sources = binding.operands.items()
        reads = [self.reader(o, next(iter(binding.types(name))).bits) for name, o in sources]
        kind = next(iter(binding.types(first)))
        if isinstance(dest, Pair):
            writes = [self.writer(dest.first), self.writer(dest.second)]
        else:
            writes = [self.writer(dest)]

        def act(t: Thread) -> None:
            result = expected(chosen, *(read(t) for read in reads))
            assert result is not ANY
            values = result if isinstance(result, tuple) else (result,)
            for write, value in zip(writes, values, strict=False):
                if kind.kind == "s" and value >> (kind.bits - 1) & 1:
                    value |= -1 << kind.bits
                write(t, value)

        return act

    def _pieces(self, s: Instruction) -> Act:
        """``mov`` between a register and a vector, or two vectors: the bits, in order."""
        dest, source = s.operands
        to, of = self._parts(dest), self._parts(source)
        bits = int(s.modifiers[-1][1:]) * (len(to) if len(to) == len(of) else 1)
        reads, writes = [self.reader(o, bits // len(of)) for o in of], [self.writer(o) for o in to]

        def act(t: Thread) -> None:
            whole = sum(read(t) << i * (bits // len(of)) for i, read in enumerate(reads))
            for i, write in enumerate(writes):
                write(t, whole >> i * (bits // len(to)) & ((1 << bits // len(to)) - 1))

        return act

    # --- control flow -------------------------------------------------------------------------

    def _bra(self, s: Instruction) -> Act:
        target = self.labels[s.operands[0].name]  # type: ignore[union-attr]

        def act(t: Thread) -> None:
            t.frame.at = target

        return act

    def _brx(self, s: Instruction) -> Act:
        index = self.reader(s.operands[0], 32)
        targets = [self.labels[name] for name in self.lists[s.operands[1].name]]  # type: ignore[union-attr]

        def act(t: Thread) -> None:
            t.frame.at = targets[index(t)]

        return act

    def _ret(self, s: Instruction) -> Act:
        del s
        return lambda t: t.ret()

    def _exit(self, s: Instruction) -> Act:
        del s
        return lambda t: t.end()

    def _call(self, s: Instruction) -> Act:
        binding = bind_instruction(s)
        results = getattr(binding.operands.get("results"), "elements", ())
        given = getattr(binding.operands.get("params"), "elements", ())
        callee = binding.operands.get("fptr", binding.operands.get("func"))
        pointer = self.reader(callee, 64) if isinstance(callee, Register) else None
        name = str(callee)

        def act(t: Thread) -> None:
            called = name if pointer is None else self.machine.names[pointer(t)]
            code = self.machine.code(called)
            caller = t.frame
            frame = Frame(code, caller.base + self.size)
            for argument, param in zip(given, code.function.params, strict=True):
                if isinstance(argument, Symbol):
                    value = t.load(caller.base + self.places[argument.name], param.nbytes)
                else:
                    value = self.reader(argument, param.type.bits)(t)
                if param.space == "reg":
                    frame.registers[param.name] = value
                else:
                    t.store(frame.base + code.places[param.name], value, param.nbytes)

            def back() -> None:
                for result, param in zip(results, code.function.returns, strict=True):
                    if param.space == "reg":
                        value = frame.registers[param.name]
                    else:
                        value = t.load(frame.base + code.places[param.name], param.nbytes)
                    if isinstance(result, Symbol):
                        t.store(caller.base + self.places[result.name], value, param.nbytes)
                    else:
                        self.writer(result)(t, value)

            frame.back = back
            t.stack.append(frame)

        return act

    # --- memory -------------------------------------------------------------------------------

    def _memory(self, s: Instruction, address: Any) -> tuple[Callable[[Thread], Any], Read, int]:
        """The bytes that a thread's access goes to, the address there, and the width of an element."""
        width = int(s.modifiers[-1][1:]) // 8
        space = next(m.partition(":")[0] for m in s.modifiers if m.partition(":")[0] in _SPACES)
        if space == "param" and self.function.kind == "entry" and address.base.name not in self.places:
            index = next(i for i, p in enumerate(self.function.params) if p.name == address.base.name)
            value = self.machine.arguments[index].to_bytes(8, "little")
            return (lambda t: value), (lambda t: 0), width
        place = self.address(address)
        if space in ("param", "local"):
            return (lambda t: t.local), place, width
        if space == "shared":
            return (lambda t: t.cta.shared), place, width
        arrays = self.machine.arrays
        return (lambda t: arrays[place(t) >> 32]), (lambda t: place(t) & 0xFFFFFFFF), width

    def _ld(self, s: Instruction) -> Act:
        dest, source = s.operands
        memory, place, width = self._memory(s, source)
        writes = [self.writer(part) for part in self._parts(dest)]
        signed = s.modifiers[-1][0] == "s"

        def act(t: Thread) -> None:
            data, at = memory(t), place(t)
            for i, write in enumerate(writes):
                piece = bytes(data[at + i * width : at + (i + 1) * width])
                assert len(piece) == width, f"{s} at {at:#x}"
                write(t, int.from_bytes(piece, "little", signed=signed))

        return act

    def _st(self, s: Instruction) -> Act:
        target, source = s.operands
        memory, place, width = self._memory(s, target)
        reads = [self.reader(part, 8 * width) for part in self._parts(source)]

        def act(t: Thread) -> None:
            data, at = memory(t), place(t)
            for i, read in enumerate(reads):
                start = at + i * width
                assert 0 <= start <= len(data) - width, f"{s} at {at:#x}"
                data[start : start + width] = as_bytes(read(t), width)

        return act

    def _atom(self, s: Instruction) -> Act:
        dest, target, *sources = s.operands
        return self._atomic(s, self.writer(dest), target, sources)

    def _red(self, s: Instruction) -> Act:
        target, *sources = s.operands
        return self._atomic(s, lambda t, value: None, target, sources)

    def _atomic(self, s: Instruction, write: Write, target: Any, sources: Sequence[Any]) -> Act:
        memory, place, width = self._memory(s, target)
        reads = [self.reader(o, 8 * width) for o in sources]
        operation = next(_ATOMICS[m] for m in s.modifiers if m in _ATOMICS)

        def act(t: Thread) -> None:
            data, at = memory(t), place(t)
            old = int.from_bytes(bytes(data[at : at + width]), "little")
            data[at : at + width] = as_bytes(operation(old, *(read(t) for read in reads)), width)
            write(t, old)

        return act

    # --- threads together ---------------------------------------------------------------------

    def _bar(self, s: Instruction) -> Act:
        if "warp" in s.modifiers:
            return self._collective(s, None, s.operands[0], [], lambda mask, given, lane: 0)
        number = self.reader(s.operands[0], 32)
        count = self.reader(s.operands[1], 32) if len(s.operands) > 1 else None
        waits = "sync" in s.modifiers

        def act(t: Thread) -> None:
            over = t.cta.arrive(number(t), t, None if count is None else count(t))
            if waits:
                t.wait = over

        return act

    _barrier = _bar

    def _shfl(self, s: Instruction) -> Act:
        dest, a, b, c, mask = s.operands
        mode = s.modifiers[1]

        def result(mask: int, given: dict[int, list[int]], lane: int) -> int:
            value, by, bound = given[lane]
            segment = bound >> 8 & 31
            last = lane & segment | bound & 31 & ~segment
            by &= 31
            if mode == "up":
                source, inside = lane - by, lane - by >= last
            elif mode == "down":
                source, inside = lane + by, lane + by <= last
            elif mode == "bfly":
                source = lane ^ by
                inside = source <= last
            else:
                source = lane & segment | by & ~segment
                inside = source <= last
            return given[source][0] if inside else value

        return self._collective(s, dest, mask, [a, b, c], result)

    def _vote(self, s: Instruction) -> Act:
        dest, a, mask = s.operands
        mode = s.modifiers[1]

        def result(mask: int, given: dict[int, list[int]], lane: int) -> int:
            yes = sum(1 << other for other, (flag,) in given.items() if flag)
            whole = sum(1 << other for other in given)
            return {
                "ballot": yes,
                "any": int(yes != 0),
                "all": int(yes == whole),
                "uni": int(yes in (0, whole)),
            }[mode]

        return self._collective(s, dest, mask, [a], result)

    def _redux(self, s: Instruction) -> Act:
        dest, a, mask = s.operands
        mode = s.modifiers[1]

        def result(mask: int, given: dict[int, list[int]], lane: int) -> int:
            values = [value for (value,) in given.values()]
            return {"add": sum, "max": max, "min": min}[mode](values)

        return self._collective(s, dest, mask, [a], result)

    def _collective(
        self,
        s: Instruction,
        dest: Any,
        mask: Any,
        sources: Sequence[Any],
        result: Callable[[int, dict[int, list[int]], int], int],
    ) -> Act:
        members = self.reader(mask, 32)
        reads = [self.reader(o, 32) for o in sources]
        write = self.writer(dest) if dest is not None else lambda t, value: None

        def act(t: Thread) -> None:
            group = t.cta.gather(t, s.name, members(t), [read(t) for read in reads])

            def over() -> bool:
                if not group.full():
                    return False
                write(t, result(group.mask, group.given, t.lane))
                return True

            t.wait = over

        return act

    # --- barriers in shared memory ------------------------------------------------------------

    def _mbarrier(self, s: Instruction) -> Act:
        verb = s.modifiers[0]
        if verb == "init":
            place, count = self.address(s.operands[0]), self.reader(s.operands[1], 32)

            def init(t: Thread) -> None:
                t.cta.mbarriers[place(t)] = [count(t), count(t), 0]

            return init
        if verb == "inval":
            return lambda t: None
        write = self.writer(s.operands[0])
        place = self.address(s.operands[1])
        if verb == "arrive":

            def arrive(t: Thread) -> None:
                barrier = t.cta.mbarriers[place(t)]
                write(t, barrier[2])
                barrier[1] -= 1
                if not barrier[1]:
                    barrier[1] = barrier[0]
                    barrier[2] += 1

            return arrive
        assert verb == "test_wait", s
        state = self.reader(s.operands[2], 64)
        return lambda t: write(t, int(t.cta.mbarriers[place(t)][2] > state(t)))


def as_bytes(value: int, width: int) -> bytes:
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


_SPACES = ("param", "local", "shared", "global")
_ATOMICS: dict[str, Callable[..., int]] = {
    "add": lambda old, value: old + value,
    "max": max,
    "min": min,
    "exch": lambda old, value: value,
    "cas": lambda old, compare, value: value if old == compare else old,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
}
