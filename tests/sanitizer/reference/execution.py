"""Executes a program step by step, to learn what each wait waits for: phases, rounds of barriers, values of flags.

The programs are made so that the answers are the same under every schedule; :func:`execute` with several seeds
shows where they are not.  Nothing here knows about memory order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from .program import Instruction, Operand, Program, Thread

__all__ = ["Execution", "Illegal", "Instance", "execute"]

#: The names of places that are the same for all threads: (CTA or -1 for global memory, name, first byte).
Location = tuple[int, str, int]
#: An mbarrier: CTA and name.
Barrier = tuple[int, str]

#: Operations that use an mbarrier, and wait here until it is initialized.
_USES = ("bulk.load", "bulk.copy", "st.async", "red.async", "cp.async.arrive")


class Illegal(Exception):
    """The program deadlocks, or its barriers are counted wrongly."""


@dataclass(eq=False)
class Instance:
    """One instruction executed by one thread.

    Attributes:
        thread: CTA, warp, lane.
        key: (CTA, warp) and position of the statement.
        nth: place of the lane among the statement's lanes.
        time: when it was executed (a wait: when it ended).
        number: position among all instances.
    """

    thread: Thread
    key: tuple[tuple[int, int], int]
    instruction: Instruction
    nth: int
    number: int
    time: int = -1

    def location(self, operand: Operand, program: Program) -> Location:
        """Where ``operand`` points for this lane."""
        buffer = program.buffers.get(operand.name)
        shared = buffer is None or buffer.space == "shared"
        cta = (self.thread[0] if operand.rank is None else operand.rank) if shared else -1
        return cta, operand.name, operand.offset + self.nth * operand.stride


@dataclass
class _Mbarrier:
    count: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.count


@dataclass
class Execution:
    """What one execution showed.

    Attributes:
        order: the instances of each thread in program order.
        phases: the phase that an arrival, a signal or a wait belongs to, by instance and mbarrier.
        rounds: the round of a barrier that an instance took part in.
        observed: the stores that the last load of a polling loop observes.
    """

    program: Program
    order: dict[Thread, list[Instance]]
    phases: dict[Instance, dict[Barrier, int]] = field(default_factory=dict)
    rounds: dict[Instance, tuple[object, ...]] = field(default_factory=dict)
    observed: dict[Instance, list[Instance]] = field(default_factory=dict)

    def instances(self) -> list[Instance]:
        return [instance for instances in self.order.values() for instance in instances]

    def answers(self) -> tuple[object, ...]:
        """What must be the same in every execution."""
        return (
            sorted((i.number, sorted(p.items())) for i, p in self.phases.items()),
            sorted((i.number, str(r)) for i, r in self.rounds.items()),
            sorted((i.number, sorted(w.number for w in ws)) for i, ws in self.observed.items()),
        )


def instances_of(program: Program) -> dict[Thread, list[Instance]]:
    """The instructions that each thread executes."""
    order: dict[Thread, list[Instance]] = {}
    number = 0
    for thread in program.threads():
        cta, warp, lane = thread
        order[thread] = []
        for position, statement in enumerate(program.code.get((cta, warp), ())):
            if not statement.lanes or lane in statement.lanes:
                nth = statement.lanes.index(lane) if statement.lanes else 0
                key = ((cta, warp), position)
                order[thread].append(Instance(thread, key, statement.instruction, nth, number))
                number += 1
    return order


def execute(program: Program, seed: int = 0) -> Execution:
    """Execute ``program`` under the schedule of ``seed``.

    Raises:
        Illegal: no thread can go on, or an mbarrier is counted wrongly.
    """
    return _Executor(program, seed).run()


class _Executor:
    def __init__(self, program: Program, seed: int) -> None:
        self.program = program
        self.random = random.Random(seed)
        self.result = Execution(program, instances_of(program))
        self.at = {thread: 0 for thread in self.result.order}
        self.time = 0
        self.mbarriers: dict[Barrier, _Mbarrier] = {}
        self.memory: dict[Location, tuple[int, list[Instance]]] = {}
        self.signals: list[Callable[[], None]] = []
        self.copies: dict[Thread, list[int]] = {thread: [] for thread in self.at}
        self.arrived: set[Instance] = set()
        self.named: dict[tuple[int, int], list[object]] = {}
        self.warp_turns: dict[tuple[Thread, tuple[int, ...]], int] = {}
        self.cluster: dict[Thread, list[int]] = {thread: [0, 0] for thread in self.at}

    def run(self) -> Execution:
        live = [thread for thread, order in self.result.order.items() if order]
        while live or self.signals:
            if self.signals and (not live or self.random.random() < 0.3):
                self._signal()
                continue
            candidates = list(live)
            self.random.shuffle(candidates)
            for thread in candidates:
                if self._step(self.result.order[thread][self.at[thread]]):
                    self.at[thread] += 1
                    if self.at[thread] == len(self.result.order[thread]):
                        live.remove(thread)
                    break
            else:
                if not self.signals:
                    raise Illegal("deadlock")
                self._signal()
        return self.result

    def _signal(self) -> None:
        self.signals.pop(self.random.randrange(len(self.signals)))()

    def _step(self, one: Instance) -> bool:
        """Execute one instruction, or say that the thread must wait."""
        op = one.instruction.op
        uses = op in _USES or (op.startswith("mbarrier.") and op != "mbarrier.init")
        if uses and any(barrier not in self.mbarriers for barrier in self._barriers(one)):
            return False
        handler = getattr(self, "_" + op.replace(".", "_"), None)
        done = True if handler is None else handler(one)
        if done:
            one.time = self.time
            self.time += 1
        return bool(done)

    # Memory that threads poll.

    def _st(self, one: Instance) -> bool:
        to = one.instruction.to
        assert to is not None
        self.memory[one.location(to, self.program)] = (one.instruction.value, [one])
        return True

    def _atom(self, one: Instance) -> bool:
        to = one.instruction.to
        assert to is not None
        location = one.location(to, self.program)
        value, writers = self.memory.get(location, (0, []))
        self.memory[location] = (value + one.instruction.value, [*writers, one])
        return True

    _red = _red_v2 = _red_f16x2 = _atom

    def _poll(self, one: Instance) -> bool:
        to = one.instruction.to
        assert to is not None
        value, writers = self.memory.get(one.location(to, self.program), (0, []))
        if value != one.instruction.value:
            return False
        self.result.observed[one] = list(writers)
        return True

    _poll_atom = _poll

    # Barriers of the CTA, the warp and the cluster.

    def _bar(self, one: Instance) -> bool:
        cta, warp, _ = one.thread
        key = (cta, one.instruction.number)
        state = self.named.setdefault(key, [0, 0])
        if one not in self.arrived:
            self.arrived.add(one)
            self.result.rounds[one] = (*key, state[0])
            lanes = self.program.active_lanes((cta, warp))
            together = [o for o in self.arrived if o.key == one.key]
            if len(together) == len(lanes):
                for other in together:
                    self.result.rounds[other] = (*key, state[0])
                state[1] += 32  # type: ignore[operator]
                if state[1] == one.instruction.threads:
                    state[0] += 1  # type: ignore[operator]
                    state[1] = 0
        if one.instruction.op == "bar.arrive":
            return True
        return state[0] > self.result.rounds[one][2]  # type: ignore[operator]

    _bar_sync = _bar_arrive = _bar_red = _bar

    def _bar_warp_sync(self, one: Instance) -> bool:
        """All lanes of the mask execute a bar.warp.sync of this mask, perhaps at different places."""
        lanes = self._mask(one)
        if one not in self.arrived:
            self.arrived.add(one)
            turn = self.warp_turns.setdefault((one.thread, lanes), 0)
            self.warp_turns[one.thread, lanes] += 1
            self.result.rounds[one] = ("warp", one.key[0], lanes, turn)
        mine = self.result.rounds[one]
        return sum(self.result.rounds[o] == mine for o in self.arrived) == len(lanes)

    def _mask(self, one: Instance) -> tuple[int, ...]:
        if one.instruction.number:
            return tuple(lane for lane in range(32) if one.instruction.number >> lane & 1)
        return self.program.code[one.key[0]][one.key[1]].lanes or self.program.active_lanes(one.key[0])

    def _cluster_arrive(self, one: Instance) -> bool:
        turns = self.cluster[one.thread]
        if turns[0] != turns[1]:
            raise Illegal("a second cluster arrival without a wait")
        self.result.rounds[one] = ("cluster", turns[0])
        turns[0] += 1
        return True

    def _cluster_wait(self, one: Instance) -> bool:
        mine = self.cluster[one.thread]
        if mine[0] == mine[1]:
            raise Illegal("a cluster wait without an arrival")
        if any(turns[0] <= mine[1] for turns in self.cluster.values()):
            return False
        self.result.rounds[one] = ("cluster", mine[1])
        mine[1] += 1
        return True

    # mbarriers.

    def _barriers(self, one: Instance) -> list[Barrier]:
        """The mbarriers that an instruction uses: several for a multicast."""
        cta, name = self._barrier(one)
        mask = one.instruction.number if one.instruction.op == "bulk.load" else 0
        ranks = [rank for rank in range(self.program.ctas) if mask >> rank & 1] if mask else [cta]
        return [(rank, name) for rank in ranks]

    def _join(self, one: Instance, barrier: Barrier) -> _Mbarrier:
        state = self.mbarriers.get(barrier)
        if state is None:
            raise Illegal(f"{one.instruction.op} on an mbarrier that is not initialized")
        self.result.phases.setdefault(one, {})[barrier] = state.phase
        return state

    def _barrier(self, one: Instance) -> Barrier:
        assert one.instruction.mbarrier is not None
        return one.location(one.instruction.mbarrier, self.program)[:2]

    def _mbarrier_init(self, one: Instance) -> bool:
        self.mbarriers[self._barrier(one)] = _Mbarrier(one.instruction.number, one.instruction.number)
        return True

    def _mbarrier_inval(self, one: Instance) -> bool:
        del self.mbarriers[self._barrier(one)]
        return True

    def _mbarrier_arrive(self, one: Instance) -> bool:
        state = self._join(one, self._barrier(one))
        state.bytes += one.instruction.bytes
        state.pending -= max(1, one.instruction.number)
        if state.pending < 0:
            raise Illegal("one arrival too many")
        state.settle()
        return True

    _mbarrier_arrive_expect_tx = _mbarrier_arrive

    def _mbarrier_expect_tx(self, one: Instance) -> bool:
        self._join(one, self._barrier(one)).bytes += one.instruction.bytes
        return True

    def _mbarrier_wait(self, one: Instance) -> bool:
        barrier = self._barrier(one)
        completed = self.mbarriers[barrier].phase - 1
        if completed & 1 != one.instruction.number:
            return False
        self.result.phases.setdefault(one, {})[barrier] = completed
        return True

    # Copies.

    def _bulk_load(self, one: Instance) -> bool:
        def signal(barrier: Barrier) -> None:
            state = self._join(one, barrier)
            state.bytes -= one.instruction.size
            state.settle()

        self.signals += [partial(signal, barrier) for barrier in self._barriers(one)]
        return True

    _bulk_copy = _st_async = _red_async = _bulk_load

    def _cp_async_arrive(self, one: Instance) -> bool:
        barrier = self._barrier(one)
        noinc = one.instruction.qualifier == "noinc"
        if not noinc:
            self._join(one, barrier).pending += 1

        def signal() -> None:
            state = self._join(one, barrier)
            state.pending -= 1
            if state.pending < 0:
                raise Illegal("one arrival too many")
            state.settle()

        self.signals.append(signal)
        return True
