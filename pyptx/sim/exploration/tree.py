"""The tree of an exploration: the runs to do next, found by dynamic partial-order reduction with sleep sets.

A run follows a prefix of choices and then the trail's own. Each of its races names a node, a prefix of its
choices, and agents of which one must act there first in some run. What a node has tried already sleeps in
the runs that it tries next, so each class of equivalent runs is explored to its end exactly once.

Source: Abdulla, Aronis, Jonsson, Sagonas, *Source Sets: A Foundation for Optimal Dynamic Partial Order
Reduction*, J. ACM 64(4), 2017.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field

from ...core.records import dataclass
from .events import Agent, Choice, Event, Touch, agent_of
from .order import Order, Race
from .trail import Trail

__all__ = ["Found", "Node", "Task", "Tree", "found_in"]

Touches = tuple[Touch, ...]
#: The agents that a path's nodes have tried before the path's own choice, by position.
Siblings = Mapping[int, Mapping[Agent, Touches]]


@dataclass(frozen=True)
class Task:
    """One run to do: its first choices, the agents that sleep, and the objects that count as contended."""

    prefix: tuple[Choice, ...] = ()
    siblings: Siblings = field(default_factory=dict)
    contended: frozenset[Hashable] = frozenset()

    def trail(self) -> Trail:
        """Return the trail that a run of this task follows."""
        return Trail(self.prefix, self.siblings)


@dataclass(frozen=True)
class _Place:
    """What a node needs to know about its position on the path of a run."""

    sleep: Mapping[Agent, Touches]
    choice: Choice
    touches: Touches | None


@dataclass(frozen=True)
class Found:
    """What a run has shown about the tree.

    Attributes:
        choices: the agents that acted, in order, and what they chose.
        blocked: True if the last choice of the prefix could not happen.
        races: reversals to try.
        places: for the position of each race, what its node needs; also for the last choice of the prefix.
        contended: objects that must count as contended.
        long_pass: True if a useless pass of a polling loop had several transitions. The order of such passes
            is not explored in full.
    """

    choices: tuple[Choice, ...]
    blocked: bool
    races: tuple[Race, ...]
    places: Mapping[int, _Place]
    contended: frozenset[Hashable]
    long_pass: bool = False


def found_in(task: Task, trail: Trail) -> Found:
    """Analyze the trail of a run."""
    last = len(task.prefix) - 1
    order = Order(trail, task.contended, since=max(last, 0))
    places = {
        position: _place(trail, position, trail.events[position])
        for position in {race.position for race in order.races} | ({last} if last >= 0 else set())
        if position < len(trail.events)
    }
    if any(race.position == len(trail.events) for race in order.races):
        places[len(trail.events)] = _place(trail, len(trail.events), None)
    if trail.withdrawn is not None:
        places[trail.withdrawn[0]] = _place(trail, *trail.withdrawn)
    return Found(
        tuple(event.choice for event in trail.events),
        last >= 0 and (last >= len(trail.events) or trail.events[last].choice != task.prefix[last]),
        tuple(order.races),
        places,
        frozenset(order.contended),
        trail.long_pass,
    )


def _place(trail: Trail, position: int, event: Event | None) -> _Place:
    sleep = {agent: tuple(touches) for agent, touches in trail.sleeps[position].items()}
    if event is None:
        return _Place(sleep, "", None)
    return _Place(sleep, event.choice, tuple(event.touches) if event.sleeps else None)


@dataclass
class Node:
    """A prefix from which several agents must act first, or one agent must choose several writes.

    Attributes:
        prefix, siblings: the path to the node, as in :class:`Task`.
        sleep: the agents that sleep at the node from the beginning.
        done: the choices whose runs have begun, with the touches of their transitions; None if it cannot
            happen.
        pending: the choices to try.
        running: the choice that is tried now.
    """

    prefix: tuple[Choice, ...]
    siblings: Siblings
    sleep: Mapping[Agent, Touches]
    done: dict[Choice, Touches | None] = field(default_factory=dict)
    pending: list[Choice] = field(default_factory=list)
    running: Choice | None = None

    def knows(self, choices: Sequence[Choice]) -> bool:
        """True if one of the choices is tried, is to be tried, or its agent sleeps."""
        known = (*self.done, *self.pending, *self.sleep, self.running)
        return any(choice in known for choice in choices)

    def siblings_of(self, choice: Choice) -> dict[Agent, Touches]:
        """Return the agents that sleep in a run with this choice, because the node has tried them before.

        What an agent chooses among writes is one transition with several outcomes: the agents sleep that
        slept when the agent was tried first.
        """
        agent, number = agent_of(choice)
        tried: dict[Agent, Touches] = {}
        for each, touches in self.done.items():
            if agent_of(each)[0] == agent:
                return tried
            if touches is not None and not agent_of(each)[1]:
                tried[each] = touches
        return {} if number else tried


class Tree:
    """The nodes of an exploration.

    Attributes:
        contended: synchronization objects whose operations have turned out not to commute.
        nodes: the nodes with something left to try, or below which something may be found.
        begun: True once the first task was given out.
        long_passes: True if a run had a useless pass with several transitions.
    """

    def __init__(self) -> None:
        self.contended: frozenset[Hashable] = frozenset()
        self.nodes: dict[tuple[Choice, ...], Node] = {}
        self.begun = False
        self.long_passes = False

    def next_task(self) -> Task | None:
        """Return the next run to do, the deepest first; None if there is none now."""
        if not self.begun:
            self.begun = True
            return Task(contended=self.contended)
        free = [node for node in self.nodes.values() if node.pending and node.running is None]
        if not free:
            return None
        node = max(free, key=lambda node: len(node.prefix))
        choice = node.running = node.pending.pop(0)
        position = len(node.prefix)
        siblings = {**node.siblings, position: node.siblings_of(choice)}
        return Task((*node.prefix, choice), siblings, self.contended)

    def give_back(self, task: Task) -> None:
        """Let a task that was given out be given out again later: no run has done it."""
        if task.contended != self.contended:
            return
        if not task.prefix:
            self.begun = False
            return
        node = self.nodes[task.prefix[:-1]]
        if node.running == task.prefix[-1]:
            node.pending.insert(0, node.running)
            node.running = None

    @property
    def finished(self) -> bool:
        """True if nothing is left to try, and nothing runs."""
        return self.begun and not any(node.pending or node.running for node in self.nodes.values())

    def absorb(self, task: Task, found: Found) -> bool:
        """Add what a run has shown.

        Return False if the run does not count: it shows that more is contended, so that the exploration
        begins again, or it belongs to the time before that.
        """
        if task.contended != self.contended:
            return False
        self.long_passes |= found.long_pass
        if found.contended - self.contended:
            self.contended |= found.contended
            self.nodes.clear()
            self.begun = False
            return False
        last = len(task.prefix) - 1
        if last >= 0:
            node = self.nodes[task.prefix[:-1]]
            node.running = None
            node.done[task.prefix[-1]] = None if found.blocked else found.places[last].touches
        for race in found.races:
            self._add(task, found, race)
        self._prune()
        return True

    def _add(self, task: Task, found: Found, race: Race) -> None:
        prefix = found.choices[: race.position]
        node = self.nodes.get(prefix)
        if node is None:
            place = found.places[race.position]
            above = {at: tried for at, tried in task.siblings.items() if at < race.position}
            node = Node(prefix, above, place.sleep, {place.choice: place.touches})
            self.nodes[prefix] = node
        if not node.knows(race.first):
            node.pending.append(race.first[0])

    def _prune(self) -> None:
        """Forget nodes below which everything has been explored: all that are deeper than what is left."""
        open_at = [len(node.prefix) for node in self.nodes.values() if node.pending or node.running]
        if len(self.nodes) > 2 * len(open_at) + 64:
            deepest = max(open_at, default=-1)
            self.nodes = {
                prefix: node
                for prefix, node in self.nodes.items()
                if node.pending or node.running or len(prefix) < deepest
            }
