"""Judges a program: which pairs of accesses race, and by which rule.

The method is the obvious one.  All pairs of overlapping accesses are looked at, and the order between two of them is
reachability in the graph of :mod:`.graph`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

from .edges import TABLE, bits
from .execution import Execution, execute
from .graph import Access, Fence, Graph
from .program import Program

__all__ = ["Finding", "Judge", "judge"]

#: Asynchronous operations of the generic proxy.
_STORED = ("st.async", "red.async")
#: A statement: (CTA, warp) and position.
Key = tuple[tuple[int, int], int]
#: A rule and the statements of the two accesses, the smaller first.
Finding = tuple[str, Key, Key]


class Judge:
    """Judges one program, with any entries of the table switched off."""

    def __init__(self, program: Program, execution: Execution | None = None) -> None:
        self.program = program
        self.execution = execution or execute(program)
        self.graph = Graph(self.execution)
        self._order = _topological(self.graph)
        self._pairs = _conflicts(self.graph.accesses)
        #: For each node the nodes that are executed after it, as bits.
        self.executed = self._reach(0, causal=False)
        self._causal = self._reach(0, causal=True)
        #: The entries that some edge needs.
        self._edges = 0
        for successors in self.graph.edges:
            for _, needs, off, _ in successors:
                self._edges |= needs | off

    def findings(self, off: int = 0) -> frozenset[Finding]:
        """The findings.

        Args:
            off: entries of the table to leave out, as :func:`~.edges.bits`.
        """
        same = not off & self._edges
        causal = self._causal if same else self._reach(off, causal=True)
        executed = self.executed if same else self._reach(off, causal=False)
        order = _Order(causal, self._reach(off | bits("synchronization_scope"), causal=True), executed)
        found: set[Finding] = set()
        for first, second in self._pairs:
            rule = self._pair(first, second, off, order)
            if rule is not None:
                found.add(_finding(rule, first, second))
        for access in self.graph.accesses:
            if not self._alive(access, off, causal, executed):
                found.add(_finding("cluster-lifetime", access, access))
        return frozenset(found)

    def decisive(self) -> list[str]:
        """The entries whose absence changes the findings."""
        base = self.findings()
        used = self._edges | bits(*(name for name, entry in TABLE.items() if entry.kind != "edge"))
        return [name for name in TABLE if bits(name) & used and self.findings(bits(name)) != base]

    def _reach(self, off: int, *, causal: bool) -> list[int]:
        """For each node the set of nodes that come after it, as bits."""
        edges = self.graph.edges
        reach = [0] * len(edges)
        for node in reversed(self._order):
            after = 1 << node
            for successor, needs, absent, is_causal in edges[node]:
                if needs & off or (absent and not absent & off) or (causal and not is_causal):
                    continue
                after |= reach[successor]
            reach[node] = after
        return reach

    # One pair.

    def _pair(self, a: Access, b: Access, off: int, order: _Order) -> str | None:
        causal = order.causal
        if a.role != "data" or b.role != "data":
            return self._mbarrier_pair(a, b, off, order)
        if _one_store(a, b) and not off & bits("store_collision"):
            return "store-collision"
        if _morally_strong(self.graph, a, b, off):
            return None
        if causal[a.source] >> b.target & 1:
            return self._proxies(a, b, off, causal)
        if causal[b.source] >> a.target & 1:
            return self._proxies(b, a, off, causal)
        if self._gone(a, b, causal) or self._gone(b, a, causal):
            return None
        if off & bits("relaxed_handover"):
            return "data-race"
        rules = [_handover(first, second, off, order) for first, second in ((a, b), (b, a))]
        return next((rule for rule in rules if rule != "data-race"), "data-race")

    def _gone(self, first: Access, second: Access, causal: list[int]) -> bool:
        """Whether the thread of ``first`` has overwritten it by a write that is before ``second``.

        A strong write whose value a thread has read is before what this thread does next, and the writes that it has
        replaced in its own thread are not. Coherence still lets nobody see them any more.
        """
        return bool(first.scope) and any(
            later.instance.thread == first.instance.thread
            and later.instance.number > first.instance.number
            and later.write
            and (later.place, later.start, later.end, later.scope != "")
            == (first.place, first.start, first.end, True)
            and causal[later.source] >> second.target & 1
            for later in self.graph.accesses
        )

    def _mbarrier_pair(self, a: Access, b: Access, off: int, order: _Order) -> str | None:
        causal = order.causal
        if a.role == b.role == "use":
            return None
        for role in ("init", "inval"):
            if role in (a.role, b.role) and off & bits(f"mbarrier_{role}"):
                return None
        ordered = causal[a.source] >> b.target & 1 or causal[b.source] >> a.target & 1
        if ordered:
            return None
        first, second = (a, b) if b.role == "inval" else (b, a)
        behind = order.executed[first.source] >> second.target & 1
        left = first.role == "use" and second.role == "inval" and behind
        return "relaxed-handover" if left else "data-race"

    def _proxies(self, first: Access, second: Access, off: int, causal: list[int]) -> str | None:
        """The rule that two accesses break although the first is before the second."""
        proxies = _proxy(first, off), _proxy(second, off)
        if proxies[1] == "nc":
            return "data-race" if first.write and not off & bits("noncoherent") else None
        if proxies == ("async", "generic") and off & bits("completion_fence"):
            return "proxy-fence-missing"
        if proxies == ("generic", "async"):
            reduces = second.instance.instruction.op == "bulk.reduce"
            overwrites = not first.write or (second.write and not reduces)
            rule = "proxy-fence-open" if overwrites else "proxy-fence-missing"
            entry = "write_then_async" if first.write else "read_then_async"
        elif proxies == ("async", "async") and first.place[0] < 0 and _ctas_differ(first, second):
            rule, entry = "proxy-fence-open", "async_across_ctas"
        else:
            return None
        if off & bits(entry):
            return None
        elsewhere = False
        for fence in self.graph.fences:
            if self._between(fence, first, second, off, causal) and _covers(fence, second, off):
                if fence.cta in (second.instance.thread[0], second.place[0]) or off & bits("proxy_cta"):
                    return None
                elsewhere = True
        return "proxy-fence-open" if elsewhere else rule

    def _between(self, fence: Fence, first: Access, second: Access, off: int, causal: list[int]) -> bool:
        if off & bits("proxy_path"):
            return True
        return bool(causal[first.source] >> fence.node & 1 and causal[fence.node] >> second.target & 1)

    def _alive(self, access: Access, off: int, causal: list[int], executed: list[int]) -> bool:
        """Whether another CTA's shared memory exists while it is accessed."""
        cta = access.place[0]
        if cta < 0 or cta == access.instance.thread[0]:
            return True
        started = executed[self.graph.starts[cta]] >> access.target & 1
        stored = access.instance.instruction.op in _STORED
        # A load is complete when its thread goes on.
        done = access.role != "data" or access.proxy == "async" or stored or not access.write
        ended = (executed if done else causal)[access.source] >> self.graph.ends[cta] & 1
        started = started or off & bits("lifetime_start")
        return bool(started and (ended or off & bits("lifetime_exit")))


@dataclass(frozen=True)
class _Order:
    """For each node the nodes that come after it, as bits.

    Attributes:
        causal: in causality order.
        wide: in causality order, if the scopes of synchronizing operations did not matter.
        executed: in the order of execution.
    """

    causal: list[int]
    wide: list[int]
    executed: list[int]


def _handover(first: Access, second: Access, off: int, order: _Order) -> str | None:
    """The rule for two accesses that causality order does not order, of which the first may be the earlier one.

    Compilers hand stages of asynchronous copies over by arrivals of too narrow a scope, and hand a stage back by
    relaxed operations.
    """
    wide = order.wide[first.source] >> second.target & 1
    executed = order.executed[first.source] >> second.target & 1
    proxies = _proxy(first, off), _proxy(second, off)
    if proxies == ("async", "async"):
        back = not (first.write and not second.write)
        return None if wide else "relaxed-handover" if executed and back else "data-race"
    if proxies == ("generic", "async"):
        return "proxy-fence-open" if wide and not first.write else "data-race"
    stored = first.instance.instruction.op in _STORED
    return "relaxed-handover" if wide and (proxies[0] == "async" or stored) else "data-race"


def _ctas_differ(first: Access, second: Access) -> bool:
    return first.instance.thread[0] != second.instance.thread[0]


def _finding(rule: str, first: Access, second: Access) -> Finding:
    low, high = sorted((first.instance.key, second.instance.key))
    return rule, low, high


def _proxy(access: Access, off: int) -> str:
    return "async" if access.unless & off else access.proxy


def _one_store(a: Access, b: Access) -> bool:
    """Whether the accesses are two lanes of one store."""
    return a.instance.key == b.instance.key and a.instance.instruction.op == b.instance.instruction.op == "st"


def _morally_strong(graph: Graph, a: Access, b: Access, off: int) -> bool:
    if not a.scope or not b.scope or (a.needs | b.needs) & off or off & bits("strong"):
        return False
    threads = a.instance.thread, b.instance.thread
    if not off & bits("strong_scope"):
        fits = graph.includes(a.scope, threads[0], threads[1]) and graph.includes(
            b.scope, threads[1], threads[0]
        )
        if not fits:
            return False
    if not off & bits("strong_size"):
        if off & bits("vector_elements"):
            fits = (a.start, a.end) == (b.start, b.end)
        else:
            fits = a.element == b.element and (a.start - b.start) % a.element == 0
        if not fits:
            return False
    return bool(_proxy(a, off) == _proxy(b, off) or off & bits("strong_proxy"))


def _covers(fence: Fence, access: Access, off: int) -> bool:
    entry = {"": "", "shared::cta": "_cta", "shared::cluster": "_cluster", "global": "_global"}[fence.space]
    if off & bits(f"proxy_fence{entry}"):
        return False
    if off & bits("proxy_space") or not fence.space:
        return True
    cta = access.place[0]
    if fence.space == "shared::cta":
        return cta == fence.cta
    return (cta < 0) == (fence.space == "global")


def _conflicts(accesses: list[Access]) -> list[tuple[Access, Access]]:
    """The pairs that overlap, of which one writes, and that one thread did not make one after the other."""
    by_place: dict[tuple[int, str], list[Access]] = defaultdict(list)
    for access in accesses:
        by_place[access.place].append(access)
    return [
        (a, b)
        for group in by_place.values()
        for a, b in combinations(group, 2)
        if (a.write or b.write) and a.start < b.end and b.start < a.end and a.instance is not b.instance
    ]


def _topological(graph: Graph) -> list[int]:
    """The nodes, each before its successors."""
    degree = [0] * len(graph.edges)
    for successors in graph.edges:
        for successor, *_ in successors:
            degree[successor] += 1
    ready = [node for node, count in enumerate(degree) if not count]
    order: list[int] = []
    while ready:
        node = ready.pop()
        order.append(node)
        for successor, *_ in graph.edges[node]:
            degree[successor] -= 1
            if not degree[successor]:
                ready.append(successor)
    assert len(order) == len(graph.edges), "the graph has a circle"
    return order


def judge(program: Program, *off: str) -> frozenset[Finding]:
    """The findings of ``program``, with the named entries of the table left out."""
    return Judge(program).findings(bits(*off))
