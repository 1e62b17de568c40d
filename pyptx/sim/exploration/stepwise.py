"""A machine that runs one transition at a time, each of the agent that a trail chooses.

Agents are the splits of warps and the steps of asynchronous operations. Courtesies of the other schedules are
off: an engine or a thread does not let others react, lanes that diverged do not run together again before
they must, and the end of a wait is a transition of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ...core.findings import Finding
from ...flow.graph import EXIT
from ...isa import Target
from ..code.function import CodeBlock
from ..code.interleaving import is_noticed
from ..engine.events import Step
from ..engine.waits import BarrierPhase, StepsDone, Wait
from ..machine.deadlock import deadlock
from ..machine.lapped import let_lapped_pass
from ..machine.machine import Machine
from ..machine.schedule import Policy
from ..memory.segments import Fault
from ..threads.limits import Limits, Progress
from ..threads.register_budget import RegisterWait
from ..threads.warp import Split
from ..weak.history import Choices
from .events import Act, Alternatives, Event, Role, Touch, conflicts
from .polling import Polling
from .touching import Touching, split_name
from .trail import Abandoned, Trail

__all__ = ["Explored", "StepwiseMachine"]


class Explored(Policy):
    """The schedule of an exploration: the trail of each run decides everything."""

    name = "all"
    warp_teams = False
    interleaves = True
    starves_threads = True
    reconverges = False
    weak_reads = True
    on_unanswered: Callable[[Hashable, int], None] | None = None

    def issued(self, machine: Machine, steps: list[Step]) -> None:
        pass

    def turn(self) -> int:
        return 1

    def unanswered(self, barrier: Hashable, phase: int) -> None:
        if self.on_unanswered is not None:
            self.on_unanswered(barrier, phase)


class StepwiseMachine(Machine):
    """A machine that follows a :class:`Trail`.

    ``contended`` has the synchronization objects whose operations count as dependent on each other.
    """

    def __init__(
        self,
        target: Target,
        limits: Limits,
        trail: Trail,
        contended: frozenset[Hashable],
        *,
        progress: Callable[[Progress], None] | None = None,
        started: float | None = None,
    ) -> None:
        policy = Explored()
        super().__init__(target, policy, limits, progress=progress, started=started)
        self.trail = trail
        self.touching = Touching(self, contended)
        policy.on_unanswered = self.touching.asked
        self.observe(self.touching)
        self._contended = contended
        #: What the strong accesses of the current transition must still choose, as one number.
        self._left = 0
        self._polling = Polling()
        #: Splits that stand before a block that others may notice, by name.
        self._standing: dict[str, Split] = {}
        #: Splits that poll in vain, with what they read.
        self._in_vain: dict[str, tuple[Split, list[Touch]]] = {}
        #: The mbarriers for which splits waited whose waits have timed out.
        self._given_up: dict[str, Touch] = {}
        self._visible: dict[tuple[int, int], bool] = {}
        #: Version of the memory when no agent could act for the first time, and the deadlock found then.
        self._stuck: tuple[int, Finding] | None = None

    # --- the run loop ---------------------------------------------------------------------------

    def turn(self) -> bool:
        if self.residency.undecided:
            self.residency.admit()
        self._settle()
        able: dict[str, Split | Step] = dict(self._standing)
        for s, wait in self.parked.items():
            if wait.over():
                able[split_name(s)] = s
                if isinstance(wait, RegisterWait):
                    self.trail.exempt.add(split_name(s))
        for step in self.engines.pending.values():
            if step.ready:
                able[self.touching.names[step.serial]] = step
        if not able:
            self.trail.note_enabled(set())
            return self._unstick()
        self.check_time()
        self.trail.looking = {name for name in self._standing if self._polling.looks(name)}
        chosen = self.trail.choose(sorted(able))
        self._act(chosen, able[chosen])
        return True

    def _settle(self) -> None:
        """Run all splits until each waits, or stands before a block that others may notice."""
        while self.ready:
            s = self.ready.pop()
            s.queued = False
            name = split_name(s)
            if s.pc not in (EXIT, s.rpc):
                block = s.warp.cta.grid.program.blocks[s.pc]
                useless = self._polling.repeats(name, s)
                if useless is not None:
                    self._wait_in_vain(name, s, useless)
                    continue
                if block.collective and not self.divergence.gathered(s, block):
                    continue
                if self._is_visible(s, block):
                    self._standing[name] = s
                    continue
                self._polling.note_block(name, block)
            elif s.pc == EXIT and s.warp.cta.live_warps == 1 and s.mask == s.warp.live:
                # The end of a CTA.
                self._standing[name] = s
                continue
            self._charge(s)
            self.execute(s)
            self.completed.clear()

    def _is_visible(self, s: Split, block: CodeBlock) -> bool:
        key = (s.warp.cta.grid.number, block.index)
        found = self._visible.get(key)
        if found is None:
            found = self._visible[key] = block.yields or any(
                is_noticed(op.binding, op.semantic) for _, op in block.ops
            )
        return found

    def _act(self, name: str, actor: Split | Step) -> None:
        """Run one transition, and append its event to the trail."""
        event = self._begin(name, actor)
        self._left = self.trail.number
        version = self.memory.version
        try:
            if isinstance(actor, Step):
                self.engines.execute(actor)
            elif actor in self.parked:
                self._resume(actor, self.parked[actor])
            else:
                del self._standing[name]
                self._charge(actor)
                self.execute(actor)
        except Fault:
            event.failed = True
            raise
        finally:
            self.completed.clear()
            self.touching.finish_event(changed=self.memory.version != version)
            if isinstance(actor, Split):
                event.location = actor.location
            waits = isinstance(actor, Split) and actor in self.parked
            if waits and not event.effect and all(each.role == Role.ASK for each in event.meetings):
                self._blocked(event)
            else:
                self._append(event)
        if self._left:
            raise Abandoned(f"{event.choice} has no such choice")

    def choose_writes(self, words: Sequence[Choices]) -> list[int]:
        """Return the positions that a strong access of the current transition chooses, as the trail says."""
        event = self.touching.current
        assert event is not None
        positions = []
        for word in words:
            count = len(word.positions)
            if count == 1 and not word.fenced:
                positions.append(word.positions[0])
                continue
            if event.weak is None:
                event.weak = Alternatives(self.trail.number)
            self._left, number = divmod(self._left, count)
            positions.append(word.positions[number])
            event.weak.count *= count
            event.weak.words += count > 1
            for source, later in word.others:
                event.weak.others.append((id(source.origin), tuple(id(write.origin) for write in later)))
            event.weak.fenced |= word.fenced
        return positions

    def _charge(self, s: Split) -> None:
        if s.warp.issuer.account is not self.account:
            self.charge(s.warp.issuer.account)

    def _begin(self, name: str, actor: Split | Step) -> Event:
        if isinstance(actor, Step):
            event = Event(name, None, 0, location=actor.operation.location)
        else:
            event = Event(name, (*actor.cta_key, actor.warp.index), actor.mask)
            roots = self.touching.roots.get(actor.cta_key, ())
            event.after |= {id(root) for root in roots}
        self.touching.begin_event(event)
        return event

    def _resume(self, s: Split, wait: Wait) -> None:
        if isinstance(wait, StepsDone):
            self.touching.follow_steps(wait.steps)
        self.end_wait(s, wait)

    def _append(self, event: Event) -> None:
        self.touching.keep_event(event)
        self.trail.add(event)
        self._polling.note_event(event)
        for name, (s, watched) in list(self._in_vain.items()):
            if _changes(event, watched):
                del self._in_vain[name]
                self.spinning.remove(s)
                self.wake(s)

    def _blocked(self, event: Event) -> None:
        """Note a wait whose condition does not hold."""
        event.touches = [touch for touch in event.touches if touch.object in self._contended]
        self.trail.add_void(event)

    def _wait_in_vain(self, name: str, s: Split, events: list[Event]) -> None:
        """Let ``s`` wait until what a useless pass of its loop has read changes.

        If something changed it after ``s`` had read it, ``s`` looks again at once.
        """
        watched: list[Touch] = []
        changed = False
        for event in events:
            own = [*event.touches]
            own += [Touch(each.object, Act.READ) for each in event.meetings if each.role == Role.ASK]
            watched += own
            since = self.trail.events[self.trail.events.index(event) + 1 :]
            changed = changed or any(_changes(each, own) for each in since)
        if name in self._given_up:
            watched.append(self._given_up[name])
        if len(events) > 1:
            # What the first of them reads does not decide alone.
            for event in events:
                event.poll = None
        self.trail.take_back(events)
        if changed:
            self.wake(s)
            return
        self._in_vain[name] = s, watched
        self.spinning.append(s)

    # --- no agent can act -----------------------------------------------------------------------

    def _unstick(self) -> bool:
        """Let happen what the machine does if nothing else can; report a deadlock if nothing does."""
        if self.residency.admit(idle=True):
            return True
        if not self.residency.live:
            return False
        if self._stuck is None or self._stuck[0] != self.memory.version:
            self._stuck = self.memory.version, deadlock(self)
        for s, wait in self.parked.items():
            if isinstance(wait, BarrierPhase):
                assert isinstance(wait.barrier.key, tuple)
                self._given_up[split_name(s)] = Touch(("mbarrier", *wait.barrier.key), Act.READ)
        if (
            self.retries.time_out()
            or self.divergence.release()
            or self.retries.time_out(again=True)
            or let_lapped_pass(self)
        ):
            self._in_vain = {name: each for name, each in self._in_vain.items() if each[0] in self.spinning}
            return True
        self.charge(self.residency.open[0].account)
        self.stuck = True
        self.report(self._stuck[1])
        return False

    # --- what the machine does differently ------------------------------------------------------

    def park(self, s: Split, wait: Wait) -> None:
        s.blocks = 0
        self.parked[s] = wait
        self.tell_wait(s, wait)
        # The wait ends by a transition of the split, not by a call.
        wait.subscribe(_nothing)

    def give_way(self, s: Split, blocks: int) -> None:
        del blocks
        self.wake(s)

    def regroups(self, s: Split) -> bool:
        del s
        return True

    def spins(self, s: Split, target: int) -> bool:
        del s, target
        return False


def _changes(event: Event, watched: list[Touch]) -> bool:
    """True if an event changes something that a polling loop has read."""
    if not event.effect:
        return False
    return conflicts(watched, event.touches) or any(
        touch.object == each.object for touch in watched for each in event.meetings
    )


def _nothing() -> None:
    pass
