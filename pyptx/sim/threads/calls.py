"""Calls of device functions: activations, arguments, results and returns.

Parameters in ``.param`` space are in the activation's frame in local memory. A call copies the bytes of its
arguments there, and a return copies the bytes of the results back. Lanes that called together return
together; if nothing else can run, the lanes that have reached the return continue without the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir import Immediate, Operand, Param, Register, Sink, Symbol
from ..code.emitter import CLASS_BITS, typed
from ..code.function import CallSite, CodeBlock
from ..code.semantic import CLASSES, RegisterPlace
from ..memory.access import AccessKind, StateSpace
from .builtins import BUILTINS, SIGNATURES, CallArguments
from .call_bits import check_local, move, read_local, use_register, write_local
from .frames import Frame
from .warp import ReconvergencePoint, Split, mask_of

if TYPE_CHECKING:
    from ...ir import Function
    from .machine_state import MachineState

__all__ = ["FunctionCalls"]

#: The largest depth of calls of one thread. A deeper recursion ends the run with a finding.
_DEEPEST = 2000


class FunctionCalls:
    """The part of a machine that enters and leaves functions."""

    def __init__(self, machine: MachineState) -> None:
        self.machine = machine

    def enter(self, s: Split, block: CodeBlock) -> Split | None:
        """Return the split in the called function; None if lanes call different functions and diverge."""
        site = block.call
        assert site is not None and block.next is not None
        s.scatter()
        s.acting = None
        s.op = None
        function = self._callee(s, site, block)
        if function is None:
            return None
        if function.prototype:
            self._builtin(s, site, function)
            s.pc = block.next
            return s
        return self._activate(s, site, function, block.next)

    def _callee(self, s: Split, site: CallSite, block: CodeBlock) -> Function | None:
        image = s.warp.cta.grid.program.image
        if isinstance(site.callee, str):
            found = image.functions.get(site.callee)
            if found is None or found.kind == "entry":
                raise self.machine.fault(
                    "not-modeled", f"{site.callee} is not a function of the module", At(s, site)
                )
            return found
        use_register(
            s,
            site.callee,
            f"used as the function that {site.instruction.name} calls",
            site.instruction.source,
        )
        addresses = s.frame.u64[site.callee.row]
        values = set(addresses[s.lanes].tolist())
        if len(values) > 1:
            ways = [(mask_of(addresses == value) & s.mask, block.index) for value in sorted(values)]
            self.machine.divergence.part(s, block.rpc, ways)
            return None
        address = values.pop()
        found = image.function_at(address)
        if found is None or found.kind == "entry":
            raise self.machine.fault(
                "out-of-bounds",
                f"indirect call of {address:#x}, which is not the address of a function that can be called",
                At(s, site),
            )
        return found

    # --- device functions ---------------------------------------------------------------------

    def _activate(self, s: Split, site: CallSite, function: Function, resume: int) -> Split:
        machine = self.machine
        code = s.warp.cta.grid.program.code(function)
        warp, caller = s.warp, s.frame
        if caller.depth + 1 > _DEEPEST:
            raise machine.fault(
                "stack-overflow",
                f"a call of {function.name} at a depth of {_DEEPEST} calls, which is the limit",
                At(s, site),
            )
        self._check(s, site, function)
        frame = machine.registers(code, 1).frame(0)
        frame.special, frame.shared = warp.frame.special, warp.frame.shared
        frame.base = -(-int(warp.stack[s.lanes].max()) // 32) * 32
        frame.stack = warp.stack.copy()
        warp.cta.local_memory.ensure(s, frame.base + code.local_bytes)
        warp.cta.local_memory.discard(s, s.lanes, frame.base, code.local_bytes)
        warp.stack[s.lanes] = frame.base + code.local_bytes
        frame.caller, frame.resume, frame.outer, frame.site = caller, resume, s.stack, site
        frame.lanes, frame.depth = s.mask, caller.depth + 1
        for argument, param in zip(site.arguments, function.params, strict=True):
            self._pass(s, argument, caller, param, frame)
        point = ReconvergencePoint(s.mask, code.end, frame)
        warp.reconvergence.append((point, []))
        return Split(warp, s.mask, code.first, [point], frame)

    def _check(self, s: Split, site: CallSite, function: Function) -> None:
        """Raise a fault if arguments or results do not fit the function, which an indirect call may reach."""
        wrong = ""
        places = s.frame.code.places
        if len(site.arguments) != len(function.params):
            wrong = f"{len(site.arguments)} arguments given, but {function.name} has {len(function.params)}"
        elif len(site.results) > len(function.returns):
            wrong = f"{len(site.results)} results taken, but {function.name} has {len(function.returns)}"
        passed = zip((*site.arguments, *site.results), (*function.params, *function.returns), strict=False)
        for operand, param in passed if not wrong else ():
            if param.space == "reg" and param.vector > 1:
                wrong = f"{param.name} of {function.name} is a vector register, which a parameter cannot be"
            elif isinstance(operand, Symbol) and operand.name in s.frame.code.symbols:
                if s.frame.code.symbols[operand.name][0] is not StateSpace.LOCAL:
                    wrong = f"{operand.name}, a parameter of the kernel, is an operand of a call"
            elif isinstance(operand, Register):
                held = max(8, CLASS_BITS[places[operand.name].cls]) // 8
                if param.nbytes > held or param.type.bits == 1:
                    wrong = (
                        f"{operand} given for {param.name} of {function.name}, which has {param.nbytes} bytes"
                    )
        if wrong:
            raise self.machine.fault("not-modeled", wrong, At(s, site))

    def leave(self, s: Split) -> Split:
        """Store the results, and return the split in the caller."""
        frame = s.frame
        caller, site = frame.caller, frame.site
        assert caller is not None and frame.stack is not None
        s.scatter()
        s.acting = None
        results = frame.code.function.returns
        for result, param in zip(site.results, results, strict=False):
            self._fetch(s, result, caller, param, frame)
        s.warp.stack[s.lanes] = frame.stack[s.lanes]
        frame.lanes &= ~s.mask & s.warp.live
        back = Split(s.warp, s.mask, frame.resume, frame.outer, caller)
        if not frame.lanes:
            # Writes in flight must not reach registers that are released here.
            s.warp.complete_register_writes()
            self.machine.release(frame.registers)
        return back

    def _pass(self, s: Split, argument: Operand, caller: Frame, param: Param, frame: Frame) -> None:
        """Copy one argument of a call to the called function's parameter."""
        lanes = s.lanes
        if param.space == "reg":
            place = frame.code.places[param.name]
            target = getattr(frame, CLASSES[place.cls])
            target[place.row, lanes] = self._value(argument, caller, param)[lanes]
            move(s, caller, self._place(argument, caller), frame, place)
            if param.name in frame.code.tracked:
                frame.written[frame.code.tracked[param.name], lanes] = True
            return
        place_of = frame.code.symbols[param.name][1] + frame.base
        if isinstance(argument, Symbol) and argument.name in caller.code.symbols:
            self._copy(s, self._local(argument, caller), place_of, param.nbytes)
        else:
            self._write(s, place_of, self._value(argument, caller, param)[lanes], param.nbytes)
            write_local(s, caller, self._place(argument, caller), place_of, param.nbytes)

    def _fetch(self, s: Split, result: Operand, caller: Frame, param: Param, frame: Frame) -> None:
        """Copy one result from its parameter to the caller's operand."""
        lanes = s.lanes
        if isinstance(result, Sink):
            return
        if isinstance(result, Symbol):
            if param.space == "reg":
                place = frame.code.places[param.name]
                values = getattr(frame, CLASSES[place.cls])[place.row, lanes]
                self._write(s, self._local(result, caller), values, param.nbytes)
                write_local(s, frame, place, self._local(result, caller), param.nbytes)
            else:
                source = frame.code.symbols[param.name][1] + frame.base
                self._copy(s, source, self._local(result, caller), param.nbytes)
            return
        assert isinstance(result, Register)
        target_place = caller.code.places[result.name]
        target = getattr(caller, CLASSES[target_place.cls])
        if param.space == "reg":
            place = frame.code.places[param.name]
            target[target_place.row, lanes] = getattr(frame, CLASSES[place.cls])[place.row, lanes]
            move(s, frame, place, caller, target_place)
        else:
            source = frame.code.symbols[param.name][1] + frame.base
            data = s.warp.cta.local_memory.table()
            raw = np.ascontiguousarray(data[32 * s.warp.index + lanes, source : source + param.nbytes])
            target[target_place.row, lanes] = raw.view(f"u{param.nbytes}")[:, 0]
            read_local(
                s, caller, target_place, source, param.nbytes, frame.site, frame.site.instruction.source
            )
        if result.name in caller.code.tracked:
            caller.written[caller.code.tracked[result.name], lanes] = True

    def _value(self, argument: Operand, caller: Frame, param: Param) -> Any:
        """Return the value of a call's argument in every lane; the argument is a register or a constant."""
        if isinstance(argument, Register):
            place = caller.code.places[argument.name]
            return getattr(caller, CLASSES[place.cls])[place.row]
        if isinstance(argument, Symbol):
            space, address = caller.code.symbol(argument.name) or (StateSpace.GENERIC, 0)
            base = {StateSpace.LOCAL: caller.base, StateSpace.SHARED: caller.shared}.get(space, 0)
            return np.full(32, address + argument.offset + base, np.uint64)
        assert isinstance(argument, Immediate), argument
        kind = param.type
        raw = np.asarray(typed(argument, kind))
        return np.full(32, raw.view(f"u{raw.itemsize}") if raw.dtype.kind == "f" else raw)

    @staticmethod
    def _place(argument: Operand, caller: Frame) -> RegisterPlace | None:
        """Return the place of an argument that is a register; None for a constant."""
        return caller.code.places[argument.name] if isinstance(argument, Register) else None

    @staticmethod
    def _local(symbol: Symbol, frame: Frame) -> int:
        found = frame.code.symbols[symbol.name]
        return found[1] + symbol.offset + frame.base

    @staticmethod
    def _copy(s: Split, source: int, target: int, nbytes: int) -> None:
        threads = 32 * s.warp.index + s.lanes
        memory = s.warp.cta.local_memory
        for table in (memory.table(), memory.written()):
            table[threads, target : target + nbytes] = table[threads, source : source + nbytes]
        if memory.segment.origins is not None:
            origins = memory.segment.origins.reshape(memory.threads, memory.capacity)
            origins[threads, target : target + nbytes] = origins[threads, source : source + nbytes]

    @staticmethod
    def _write(s: Split, target: int, values: Any, nbytes: int) -> None:
        threads = 32 * s.warp.index + s.lanes
        data = s.warp.cta.local_memory.table()
        raw = np.ascontiguousarray(values)
        data[threads, target : target + nbytes] = raw.view(np.uint8).reshape(len(raw), -1)[:, :nbytes]

    # --- functions of the system --------------------------------------------------------------

    def _builtin(self, s: Split, site: CallSite, function: Function) -> None:
        behavior = BUILTINS.get(function.name)
        if behavior is None or SIGNATURES[function.name] != (
            tuple(param.nbytes for param in function.params),
            tuple(param.nbytes for param in function.returns),
        ):
            raise self.machine.fault(
                "not-modeled", f"{function.name} has no body in the module and is not modeled", At(s, site)
            )
        self._check(s, site, function)
        lanes = s.lanes
        given: list[Any] = []
        data = s.warp.cta.local_memory.table()
        for argument, param in zip(site.arguments, function.params, strict=True):
            if isinstance(argument, Symbol):
                at = self._local(argument, s.frame)
                check_local(s, at, param.nbytes, At(s, site))
                raw = np.ascontiguousarray(data[32 * s.warp.index + lanes, at : at + param.nbytes])
                given.append(raw.view(f"u{param.nbytes}")[:, 0])
            else:
                if isinstance(argument, Register):
                    place = s.frame.code.places[argument.name]
                    use_register(s, place, f"used by {function.name}", site.instruction.source)
                given.append(self._value(argument, s.frame, param)[lanes])
        answer = behavior(CallArguments(self.machine, At(s, site), lanes, given))
        for result, param in zip(site.results, function.returns, strict=False):
            values = np.broadcast_to(np.asarray(answer, f"u{param.nbytes}"), lanes.shape)
            if isinstance(result, Symbol):
                self._write(s, self._local(result, s.frame), values, param.nbytes)
                write_local(s, s.frame, None, self._local(result, s.frame), param.nbytes)
            elif isinstance(result, Register):
                place = s.frame.code.places[result.name]
                getattr(s.frame, CLASSES[place.cls])[place.row, lanes] = values
                move(s, s.frame, None, s.frame, place)


class At:
    """Stands for a call as the actor in findings and memory accesses: it names the line and the thread."""

    def __init__(self, s: Split, site: CallSite) -> None:
        self.split, self.acting = s, None
        self.location = site.instruction.source

    def description(self, lane: int | None = None) -> str:
        return self.split.description(lane)

    def follows_unwritten(self, segment: Any, position: int, size: int, known: Any) -> bool:
        return False

    @property
    def cta_key(self) -> tuple[int, int]:
        return self.split.cta_key

    def thread_numbers(self) -> Any:
        return self.split.thread_numbers()

    def local(self, address: Any, size: int, kind: AccessKind) -> tuple[Any, Any]:
        return self.split.local(address, size, kind)
