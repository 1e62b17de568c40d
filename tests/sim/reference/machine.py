"""A reference machine: one thread at a time, one instruction at a time, Python integers.

It knows nothing of splits, teams or reconvergence: every thread has its own program counter and stack, threads
take turns of a few instructions, and whoever must wait for others is asked again later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyptx.ir import Module, Symbol
from tests.sim.reference.code import Code, Frame, as_bytes

__all__ = ["Machine", "Thread", "TooLong"]

#: Where functions and arrays have their addresses.
_FUNCTIONS, _ARRAYS = 1 << 40, 1 << 44
#: Instructions of a turn, about.
_TURN = 7


class TooLong(Exception):
    """The kernel executes more instructions than allowed."""


class Group:
    """Lanes of a warp on their way to one collective."""

    def __init__(self, mask: int, warp: list[Thread]) -> None:
        self.mask, self.warp = mask, warp
        self.given: dict[int, list[int]] = {}
        self.closed = False

    def full(self) -> bool:
        if not self.closed:
            missing = [t for t in self.warp if self.mask >> t.lane & 1 and t.lane not in self.given]
            self.closed = not any(t.live for t in missing)
        return self.closed


class CTA:
    def __init__(self, machine: Machine, number: int) -> None:
        self.shared = bytearray(machine.shared)
        x, y, z = machine.block
        self.threads = [Thread(machine, self, number, i) for i in range(x * y * z)]
        self.warps = [self.threads[i : i + 32] for i in range(0, len(self.threads), 32)]
        self.mbarriers: dict[int, list[int]] = {}
        self._rounds: dict[int, tuple[set[Thread], list[bool]]] = {}
        self._groups: dict[tuple[int, str, int], Group] = {}

    def arrive(self, number: int, t: Thread, count: int | None) -> Callable[[], bool]:
        """``t`` is at barrier ``number``: says whether enough are."""
        arrived, over = self._rounds.setdefault(number, (set(), [False]))
        arrived.add(t)

        def complete() -> bool:
            if not over[0]:
                warps = [w for w in self.warps if not arrived.isdisjoint(w)]
                there = [w for w in warps if all(t in arrived for t in w if t.live)]
                alive = sum(any(t.live for t in w) for w in self.warps)
                if len(there) >= (alive if count is None else count // 32):
                    over[0] = True
                    del self._rounds[number]
            return over[0]

        complete()
        return complete

    def gather(self, t: Thread, name: str, mask: int, given: list[int]) -> Group:
        key = (t.number // 32, name, mask)
        group = self._groups.get(key)
        if group is None or group.full():
            group = self._groups[key] = Group(mask, self.warps[key[0]])
        group.given[t.lane] = given
        return group


class Thread:
    def __init__(self, machine: Machine, cta: CTA, block: int, number: int) -> None:
        self.cta, self.number, self.lane = cta, number, number % 32
        (x, y, z), (gx, gy, gz) = machine.block, machine.grid
        self.special = {
            "tid.x": number % x, "tid.y": number // x % y, "tid.z": number // (x * y), "laneid": self.lane,
            "ntid.x": x, "ntid.y": y, "ntid.z": z, "warpid": number // 32,
            "ctaid.x": block % gx, "ctaid.y": block // gx % gy, "ctaid.z": block // (gx * gy),
            "nctaid.x": gx, "nctaid.y": gy, "nctaid.z": gz,
        }  # fmt: skip
        self.local = bytearray(machine.local)
        self.stack = [Frame(machine.code(machine.entry.name), 0)]
        self.live = True
        self.wait: Callable[[], bool] | None = None
        #: Depth of calls, function and statement of every instruction executed.
        self.path: list[tuple[int, Code, int]] = []

    @property
    def frame(self) -> Frame:
        return self.stack[-1]

    def load(self, address: int, nbytes: int) -> int:
        return int.from_bytes(self.local[address : address + nbytes], "little")

    def store(self, address: int, value: int, nbytes: int) -> None:
        assert address + nbytes <= len(self.local)
        self.local[address : address + nbytes] = value.to_bytes(nbytes, "little")

    def end(self) -> None:
        self.live = False

    def ret(self) -> None:
        frame = self.stack.pop()
        if not self.stack:
            self.stack.append(frame)
            self.end()
        elif frame.back is not None:
            frame.back()

    def turn(self, length: int) -> int:
        """Execute up to ``length`` instructions; how many were."""
        if self.wait is not None:
            if not self.wait():
                return 0
            self.wait = None
        done = 0
        while done < length and self.live and self.wait is None:
            frame = self.stack[-1]
            if frame.at >= len(frame.code.statements):
                self.ret()
                continue
            statement = frame.code.statements[frame.at]
            frame.at += 1
            if statement is None:
                continue
            done += 1
            self.path.append((len(self.stack), frame.code, frame.at - 1))
            guard, negated, act = statement
            if not guard or bool(frame.registers[guard]) != negated:
                act(self)
        return done


class Machine:
    """One launch of ``entry``. ``arguments`` are numpy arrays, written in place, and integers."""

    def __init__(
        self,
        module: Module,
        entry: str,
        arguments: Sequence[Any],
        *,
        block: tuple[int, int, int],
        grid: tuple[int, int, int] = (1, 1, 1),
        local: int = 16384,
    ) -> None:
        self.module, self.block, self.grid, self.local = module, block, grid, local
        self.symbols: dict[str, int] = {}
        self.names: dict[int, str] = {}
        for i, name in enumerate(module.by_name):
            self.symbols[name] = _FUNCTIONS + i
            self.names[_FUNCTIONS + i] = name
        self.arrays: dict[int, memoryview | bytearray] = {}
        self.arguments = [
            self._map(memoryview(a.reshape(-1).view(np.uint8))) if isinstance(a, np.ndarray) else int(a)
            for a in arguments
        ]
        self.shared = 0
        inner = [v for f in module.functions for v in f.variables]
        for variable in (*module.variables, *inner):
            if variable.space == "shared":
                self.shared = -(-self.shared // 16) * 16
                self.symbols[variable.name] = self.shared
                self.shared += variable.nbytes
            elif variable.space == "global":
                data = bytearray(variable.nbytes)
                for i, element in enumerate(getattr(variable.initial, "elements", ())):
                    value = self.symbols[element.name] if isinstance(element, Symbol) else int(element.value)
                    width = variable.type.nbytes
                    data[i * width : (i + 1) * width] = as_bytes(value, width)
                self.symbols[variable.name] = self._map(data)
        self._codes: dict[str, Code] = {}
        self.entry = module.entry(entry)

    def _map(self, data: memoryview | bytearray) -> int:
        address = _ARRAYS + (len(self.arrays) << 32)
        self.arrays[address >> 32] = data
        return address

    def code(self, name: str) -> Code:
        found = self._codes.get(name)
        if found is None:
            found = self._codes[name] = Code(self, self.module.by_name[name])
        return found

    def run(self, *, seed: int = 0, limit: int = 10**6) -> list[Thread]:
        """Run to the end. Raises :class:`TooLong`; a deadlock is an AssertionError."""
        chance = random.Random(seed)
        x, y, z = self.grid
        everyone = [t for n in range(x * y * z) for t in CTA(self, n).threads]
        live, steps = list(everyone), 0
        while live:
            moved = 0
            for t in live:
                waited = t.wait is not None
                moved += t.turn(chance.randrange(1, 2 * _TURN)) + (waited and t.wait is None)
            assert moved, "deadlock"
            steps += moved
            if steps > limit:
                raise TooLong
            live = [t for t in live if t.live]
        return everyone
