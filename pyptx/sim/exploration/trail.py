"""One run of an exploration: its choices, its events, and the agents that sleep.

An agent sleeps while a run that does its next transition first has been explored, and nothing has happened
since that conflicts with this transition: to let it act now would lead to the same runs again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .events import Agent, Choice, Event, Touch, agent_of, conflicts

__all__ = ["Abandoned", "Sleepers", "Trail", "is_step"]

#: Agents with the touches of their next transition.
Sleepers = Mapping[Agent, Sequence[Touch]]

#: Transitions that only read, one after the other, after which another agent gets a turn.
_PATIENCE = 64


class Abandoned(Exception):
    """Raised when a run would repeat what other runs explore, or cannot follow its choices."""


class Trail:
    """The choices that a run follows, and what has happened in it.

    Attributes:
        events: the events so far; those of useless passes of a loop are not among them.
        log: all events in order, with those that were taken back or could not happen.
        void: the numbers in ``log`` of the latter.
        sleeps: for each number of events: the agents that sleep then, before siblings are added.
        enabled: for each number of events: the agents that could act then, at any moment.
        latest: the same, at the last moment.
        number: what the agent that was chosen last must choose among writes.
        free: number of choices after which the run does what it would do without a prefix and sleepers.
    """

    def __init__(self, prefix: Sequence[Choice], siblings: Mapping[int, Sleepers]) -> None:
        self.prefix, self.siblings = prefix, siblings
        self.events: list[Event] = []
        self.log: list[Event] = []
        self.void: set[int] = set()
        self.sleeps: list[dict[Agent, Sequence[Touch]]] = [{}]
        self.enabled: list[set[Agent]] = []
        self.latest: list[set[Agent]] = []
        self.free = self.number = 0
        #: Agents that are about to begin a pass of a loop, and agents that may stop being able to act
        #: although nothing conflicts.
        self.looking: set[Agent] = set()
        #: The position and the event from which a useless pass was taken back that the prefix has.
        self.withdrawn: tuple[int, Event] | None = None
        #: True if a useless pass had several transitions.
        self.long_pass = False
        self.exempt: set[Agent] = set()
        self._streak = 0
        self._free_now = True

    def choose(self, enabled: Sequence[Agent]) -> Agent:
        """Return the agent that acts next. Raise :class:`Abandoned` if none should."""
        position, able = len(self.events), set(enabled)
        self.note_enabled(able)
        # A transition that cannot happen now is another one when it can again.
        inherited = self.sleeps[position]
        for agent in [agent for agent in inherited if agent not in able]:
            del inherited[agent]
        if position < len(self.prefix):
            chosen, self.number = agent_of(self.prefix[position])
            if chosen not in able:
                raise Abandoned(f"{chosen} cannot act")
        else:
            self.number = 0
            awake = [agent for agent in enabled if agent not in inherited]
            if not awake:
                raise Abandoned("all agents sleep")
            chosen = self._default(awake)
        self._free_now = chosen == self._default(enabled) and not self.number
        return chosen

    def _default(self, awake: Sequence[Agent]) -> Agent:
        """Return the agent that acts next if a run is free to choose: one that polls, or the last one."""
        looking = [agent for agent in awake if agent in self.looking]
        if looking and self._streak < _PATIENCE:
            # What a polling loop sees after each change shows which values it waits for.
            return looking[0]
        last = self.events[-1].agent if self.events else ""
        if last in awake and self._streak < _PATIENCE:
            return last
        # Threads before engines, and in turn.
        pool = [agent for agent in awake if not is_step(agent)] or awake
        return min([agent for agent in pool if agent > last] or pool)

    def note_enabled(self, able: set[Agent]) -> None:
        """Record which agents could act at this moment; none if the run is stuck or over."""
        position = len(self.events)
        if len(self.enabled) == position:
            self.enabled.append(set())
            self.latest.append(set())
        self.enabled[position] |= able
        self.latest[position] = able

    def add(self, event: Event) -> None:
        """Append the event of the transition that was chosen."""
        position = len(self.events)
        again = bool(self.events) and self.events[-1].agent == event.agent and not event.effect
        self._streak = self._streak + 1 if again else 0
        self.events.append(event)
        if not self._free_now:
            self.free = len(self.events)
        self.log.append(event)
        self._sleep(position)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices that lead to this run without sleepers, as the prefix of another run."""
        return tuple(event.choice for event in self.events[: self.free])

    def _sleep(self, position: int) -> None:
        """Compute who sleeps after the event at ``position``."""
        event = self.events[position]
        del self.sleeps[position + 1 :]
        sleeping = {**self.sleeps[position], **self.siblings.get(position, {})}
        self.sleeps.append(
            {
                agent: touches
                for agent, touches in sleeping.items()
                if agent != event.agent and not conflicts(touches, event.touches)
            }
        )

    def add_void(self, event: Event) -> None:
        """Append an event that could not happen: what the agent waits for is not there."""
        self.void.add(len(self.log))
        self.log.append(event)
        self._check_prefix(len(self.events))

    def take_back(self, events: Sequence[Event]) -> None:
        """Remove the events of a useless pass. Raise :class:`Abandoned` if the run had to do one of them."""
        self.long_pass |= len(events) > 1
        first, taken = len(self.events), None
        for event in events:
            position = self.events.index(event)
            if position < first:
                first, taken = position, event
            able = self.enabled[position]
            del self.events[position], self.enabled[position], self.latest[position]
            if position < len(self.enabled):
                self.enabled[position] |= able
            self.void.add(self.log.index(event))
        self._streak = 0
        if first < self.free:
            self.free = len(self.events)
        if first < len(self.prefix) and taken is not None:
            self.withdrawn = first, taken
        self._check_prefix(first)
        del self.sleeps[first + 1 :]
        for position in range(first, len(self.events)):
            self._sleep(position)

    def _check_prefix(self, position: int) -> None:
        if position < len(self.prefix):
            raise Abandoned(f"{self.prefix[position]} waits")


def is_step(agent: Agent) -> bool:
    """True for a step of an asynchronous operation."""
    return "#" in agent
