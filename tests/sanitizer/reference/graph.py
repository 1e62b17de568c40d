"""The happens-before graph of one execution: nodes for instructions and for the steps of copies, edges with reasons.

There are two orders.  *Causal* edges are the base causality order of the memory model.  The order of execution has
these edges and more: relaxed synchronization makes one thing happen after another, but publishes nothing.

An access has a node of its own as the target of order and one as the source, where the two differ: a copy happens
after what its thread did before, but its complete-tx does not publish what the thread did before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from .edges import bits
from .execution import Execution, Instance, Location
from .program import Operand, Program, Thread

__all__ = ["Access", "Fence", "Graph"]

#: Instructions that wait: what they do first is before what they wait for.
_WAITING = ("bar.sync", "bar.red", "bar.warp.sync", "mbarrier.wait", "poll", "poll.atom")
_WIDER = ("gpu", "gl", "sys")


@dataclass(eq=False)
class Access:
    """Bytes that one instruction, or one step of a copy, reads or writes.

    Attributes:
        place: CTA (-1 for global memory) and name.
        element: bytes of one element.
        scope: of a strong access; empty for a weak one.
        needs: entries without which a strong access would be weak.
        proxy: ``generic``, ``async`` or ``nc``.
        unless: an entry without which the proxy would be ``async``.
        role: ``data``; for mbarriers ``init``, ``inval`` or ``use``.
        source, target: nodes.
    """

    instance: Instance
    place: tuple[int, str]
    start: int
    end: int
    element: int
    write: bool
    source: int
    target: int
    scope: str = ""
    needs: int = 0
    proxy: str = "generic"
    unless: int = 0
    role: str = "data"


@dataclass(frozen=True)
class Fence:
    """A proxy fence: its node, its state space (empty for all) and its CTA."""

    node: int
    space: str
    cta: int


@dataclass(frozen=True)
class _End:
    """The first operation of a release pattern or the last of an acquire pattern."""

    node: int
    thread: Thread
    scope: str
    needs: int


class Graph:
    """The graph of ``execution``.

    Attributes:
        edges: for each node its successors as (node, needed entries, entry that must be off or 0, causal).
        accesses: all accesses.
        fences: all proxy fences.
        starts, ends: nodes of the start and the end of each CTA.
    """

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.program: Program = execution.program
        self.edges: list[list[tuple[int, int, int, bool]]] = []
        self.accesses: list[Access] = []
        self.fences: list[Fence] = []
        self.enter: dict[Instance, int] = {}
        self.leave: dict[Instance, int] = {}
        #: Sources of the accesses to flags and mbarriers, which are ordered before what their readers do next.
        self._observed: dict[tuple[Instance, object], int] = {}
        #: complete-tx and asynchronous arrivals, by instance and mbarrier.
        self._signals: dict[tuple[Instance, object], int] = {}
        #: Nodes of the reading and writing of copies, as sources.
        self._copied: dict[Instance, list[tuple[str, int]]] = defaultdict(list)
        self.starts = [self.node() for _ in range(self.program.ctas)]
        self.ends = [self.node() for _ in range(self.program.ctas)]
        self._threads()
        for instance in execution.instances():
            self._accesses(instance)
        self._barriers()
        for order in execution.order.values():
            self._groups(order)
        self._mbarriers()
        self._flags()

    def node(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, first: int, second: int, needs: int = 0, off: int = 0, causal: bool = True) -> None:
        self.edges[first].append((second, needs, off, causal))

    def completed(self, one: Instance, barrier: tuple[int, str]) -> int:
        """The node at which ``one`` counts at an mbarrier: of a copy, its signal."""
        return self._signals.get((one, barrier), self.enter[one])

    def includes(self, scope: str, first: Thread, second: Thread) -> bool:
        """Whether ``scope``, named by one of the threads, includes the other."""
        return first[0] == second[0] or scope in _WIDER or (scope == "cluster" and not self.program.apart)

    # Program order.

    def _threads(self) -> None:
        for thread, order in self.execution.order.items():
            previous = self.starts[thread[0]]
            needs = bits("cta_start")
            for one in order:
                enter = self.enter[one] = self.leave[one] = self.node()
                if one.instruction.op in _WAITING:
                    self.leave[one] = self.node()
                    self.edge(enter, self.leave[one], bits("program_order"))
                self.edge(previous, enter, needs)
                previous, needs = self.leave[one], bits("program_order")
            if order:
                self.edge(previous, self.ends[thread[0]], bits("cta_exit"))

    # Accesses.

    def _accesses(self, one: Instance) -> None:
        handler = {
            "ld": self._load,
            "poll": self._load,
            "poll.atom": self._atomic,
            "ld.nc": self._load,
            "st": self._store,
            "atom": self._atomic,
            "red": self._atomic,
            "red.v2": self._atomic,
            "red.f16x2": self._atomic,
            "cp.async": self._copy,
            "bulk.load": self._copy,
            "bulk.copy": self._copy,
            "bulk.store": self._copy,
            "bulk.reduce": self._copy,
            "st.async": self._copy,
            "red.async": self._copy,
        }.get(one.instruction.op)
        if handler is not None:
            handler(one)
        if one.instruction.op == "fence.proxy.async":
            self.fences.append(Fence(self.enter[one], one.instruction.qualifier, one.thread[0]))
        if one.instruction.op.startswith("mbarrier."):
            self._mbarrier_access(one)

    def _add(self, one: Instance, operand: Operand, size: int, write: bool, **more: object) -> Access:
        cta, name, start = one.location(operand, self.program)
        element = more.pop("element", one.instruction.size)
        nodes = {"source": self.leave[one], "target": self.enter[one], **more}
        access = Access(one, (cta, name), start, start + size, element, write, **nodes)  # type: ignore[arg-type]
        self.accesses.append(access)
        return access

    def _load(self, one: Instance) -> None:
        it = one.instruction
        assert it.to is not None
        scope, needs = _strength(it.sem, it.scope)
        proxy = "nc" if it.op == "ld.nc" else "generic"
        self._add(one, it.to, it.size * it.vector, False, scope=scope, needs=needs, proxy=proxy)

    def _store(self, one: Instance) -> None:
        it = one.instruction
        assert it.to is not None
        scope, needs = _strength(it.sem, it.scope)
        access = self._add(one, it.to, it.size * it.vector, True, scope=scope, needs=needs)
        self._observable(one, access)

    def _atomic(self, one: Instance) -> None:
        it = one.instruction
        assert it.to is not None
        needs = 0 if it.sem or it.scope else bits("atomic_default")
        size = it.size * it.vector
        element = 2 if it.op == "red.f16x2" else it.size
        access = self._add(one, it.to, size, True, scope=it.scope or "gpu", needs=needs, element=element)
        self._observable(one, access)

    def _observable(self, one: Instance, access: Access) -> None:
        access.source = self.node()
        self.edge(access.source, self.leave[one])
        self._observed[one, "data"] = access.source

    def _copy(self, one: Instance) -> None:
        it = one.instruction
        assert it.to is not None
        generic = {"cp.async": bits("cp_async_generic"), "st.async": bits("st_async_generic")}
        unless = generic.get(it.op.replace("red.", "st."), 0)
        proxy = {"proxy": "generic" if unless else "async", "unless": unless}
        if it.source is not None:
            source, target = self._step(one, "read")
            self._add(one, it.source, it.size, False, source=source, target=target, **proxy)
        mask = it.number if it.op == "bulk.load" else 0
        ranks = [rank for rank in range(self.program.ctas) if mask >> rank & 1] if mask else [it.to.rank]
        for rank in ranks:
            source, target = self._step(one, "write")
            to = Operand(it.to.name, it.to.offset, rank, it.to.stride)
            strong: dict[str, object] = {}
            if it.op == "bulk.reduce":
                strong = {"scope": "gpu", "needs": bits("reduce_atomic"), "element": 4}
            elif it.op == "red.async":
                strong = {"scope": "cluster", "element": it.size}
            self._add(one, to, it.size, True, source=source, target=target, **proxy, **strong)
        if it.mbarrier is not None:
            for rank in ranks if mask else [it.mbarrier.rank]:
                self._signal(one, Operand(it.mbarrier.name, 0, rank), [n for _, n in self._copied[one]])

    def _step(self, one: Instance, kind: str) -> tuple[int, int]:
        """The nodes of one step of a copy: as a source and as a target of order."""
        target, source = self.node(), self.node()
        self.edge(self.enter[one], target, bits("async_issue"))
        self.edge(target, source, causal=False)
        self._copied[one].append((kind, source))
        return source, target

    def _signal(self, one: Instance, mbarrier: Operand, after: Iterable[int]) -> None:
        """The signal that follows the steps ``after``."""
        target, source, signal = self.node(), self.node(), self.node()
        self.edge(self.enter[one], target, bits("async_issue"))
        self.edge(target, source, causal=False)
        self.edge(source, signal, causal=False)
        reason = {"cp.async.arrive": "cp_async_arrive", "st.async": "st_async", "red.async": "st_async"}
        needs = bits(reason.get(one.instruction.op, "complete_tx"))
        for step in after:
            self.edge(step, signal, needs)
        access = self._add(one, mbarrier, 8, True, source=source, target=target, role="use")
        self._signals[one, access.place] = signal
        self._observed[one, access.place] = source

    def _mbarrier_access(self, one: Instance) -> None:
        assert one.instruction.mbarrier is not None
        role = {"mbarrier.init": "init", "mbarrier.inval": "inval"}.get(one.instruction.op, "use")
        access = self._add(one, one.instruction.mbarrier, 8, True, role=role)
        access.source = self.node()
        self.edge(access.source, self.leave[one])
        self._observed[one, access.place] = access.source

    # Barriers of the CTA, the warp and the cluster.

    def _barriers(self) -> None:
        hubs: dict[object, int] = {}
        for one, round_ in self.execution.rounds.items():
            if round_ not in hubs:
                hubs[round_] = self.node()
            hub, op = hubs[round_], one.instruction.op
            if op == "cluster.arrive":
                self._cluster_arrive(one, hub)
            elif op == "cluster.wait":
                self.edge(hub, self.leave[one])
            else:
                self.edge(self.enter[one], hub, bits(op.replace(".", "_")))
                if op != "bar.arrive":
                    self.edge(hub, self.leave[one], bits(op.replace(".", "_")))

    def _cluster_arrive(self, one: Instance, hub: int) -> None:
        if one.instruction.sem != "relaxed":
            self.edge(self.enter[one], hub, bits("cluster_barrier"))
            return
        self.edge(self.enter[one], hub, bits("cluster_relaxed"), causal=False)
        inits: list[Instance] = []
        for earlier in self._before(one):
            op = earlier.instruction.op
            if op == "mbarrier.init":
                inits.append(earlier)
            elif op == "fence.mbarrier_init":
                for init in inits:
                    place = self._place(init)
                    self.edge(self._observed[init, place], hub, bits("fence_mbarrier_init"))
            fence = self._fence(earlier, "release")
            if fence is not None:
                off = bits("synchronization_scope") if fence.scope == "cta" else 0
                self.edge(fence.node, hub, fence.needs | bits("release_fence", "cluster_barrier"), off)

    def _place(self, one: Instance) -> tuple[int, str]:
        assert one.instruction.mbarrier is not None
        return one.location(one.instruction.mbarrier, self.program)[:2]

    # Groups of copies.

    def _groups(self, order: list[Instance]) -> None:
        """commit and wait of bulk copies and of cp.async, and cp.async.mbarrier.arrive."""
        open_: dict[str, list[Instance]] = {"bulk": [], "cp": []}
        closed: dict[str, list[list[Instance]]] = {"bulk": [], "cp": []}
        for one in order:
            op = one.instruction.op
            if op in ("bulk.store", "bulk.reduce"):
                open_["bulk"].append(one)
            elif op == "cp.async":
                open_["cp"].append(one)
            elif op in ("bulk.commit", "cp.async.commit"):
                family = op.split(".")[0]
                closed[family].append(open_[family])
                open_[family] = []
            elif op == "bulk.wait":
                only = one.instruction.qualifier == "read"
                reason = "bulk_wait_read" if only else "bulk_wait"
                self._waited(one, closed["bulk"], one.instruction.number, reason, only_reads=only)
            elif op == "cp.async.wait":
                self._waited(one, closed["cp"], one.instruction.number, "cp_async_wait")
            elif op == "cp.async.wait_all":
                self._waited(one, [*closed["cp"], open_["cp"]], 0, "cp_async_wait_all")
            elif op == "cp.async.arrive":
                earlier = [o for o in self._before(one) if o.instruction.op == "cp.async"]
                assert one.instruction.mbarrier is not None
                steps = [node for copy in earlier for _, node in self._copied[copy]]
                self._signal(one, one.instruction.mbarrier, steps)

    def _waited(
        self, one: Instance, groups: list[list[Instance]], pending: int, reason: str, only_reads: bool = False
    ) -> None:
        for group in groups[: len(groups) - pending] if pending else groups:
            for copy in group:
                for kind, node in self._copied[copy]:
                    if kind == "read" or not only_reads:
                        self.edge(node, self.leave[one], bits(reason))

    # Release and acquire patterns.

    def _before(self, one: Instance) -> list[Instance]:
        order = self.execution.order[one.thread]
        return order[: order.index(one)]

    def _after(self, one: Instance) -> list[Instance]:
        order = self.execution.order[one.thread]
        return order[order.index(one) + 1 :]

    def _fence(self, one: Instance, half: str) -> _End | None:
        """``one`` as a memory fence that releases or acquires."""
        it = one.instruction
        if it.op == "membar":
            return _End(self.enter[one], one.thread, it.scope, bits("membar"))
        if it.op != "fence" or it.sem not in ("sc", "acq_rel", half):
            return None
        needs = {"sc": bits("fence_sc"), half: bits("fence_one_way")}.get(it.sem, 0)
        return _End(self.enter[one], one.thread, it.scope, needs)

    def _same(self, one: Instance, place: Location | tuple[int, str]) -> bool:
        """Whether ``one`` accesses the flag or uses the mbarrier at ``place``."""
        it = one.instruction
        operand = it.mbarrier if len(place) == 2 else it.to
        if operand is None or (len(place) == 2 and not it.op.startswith("mbarrier.")):
            return False
        return one.location(operand, self.program)[: len(place)] == place

    def _heads(self, write: Instance, place: Location | tuple[int, str]) -> list[_End]:
        """The first operations of the release patterns that end in ``write``."""
        heads: list[_End] = []
        sem, scope, needs = _semantics(write)
        if sem in ("release", "acq_rel"):
            heads.append(_End(self.enter[write], write.thread, scope, needs))
        for earlier in self._before(write):
            fence = self._fence(earlier, "release")
            if fence is not None:
                heads.append(
                    _End(fence.node, fence.thread, fence.scope, fence.needs | needs | bits("release_fence"))
                )
            elif self._same(earlier, place) and _semantics(earlier)[0] in ("release", "acq_rel"):
                scope = _semantics(earlier)[1]
                heads.append(
                    _End(self.enter[earlier], write.thread, scope, needs | bits("release_then_write"))
                )
        return heads

    def _tails(self, read: Instance, place: Location | tuple[int, str]) -> list[_End]:
        """The last operations of the acquire patterns that begin with ``read``."""
        tails: list[_End] = []
        sem, scope, needs = _semantics(read)
        if sem in ("acquire", "acq_rel"):
            tails.append(_End(self.leave[read], read.thread, scope, needs))
        for later in self._after(read):
            fence = self._fence(later, "acquire")
            if fence is not None:
                tails.append(
                    _End(fence.node, fence.thread, fence.scope, fence.needs | needs | bits("acquire_fence"))
                )
            elif self._same(later, place) and _semantics(later)[0] in ("acquire", "acq_rel"):
                scope = _semantics(later)[1]
                tails.append(_End(self.leave[later], read.thread, scope, needs | bits("acquire_after_read")))
        return tails

    def _synchronize(self, heads: list[_End], tails: list[_End], observed: bool, needs: int) -> None:
        """Edges from release patterns to acquire patterns.

        Args:
            observed: whether the write and the read in the middle are morally strong.
        """
        for head in heads:
            for tail in tails:
                fits = self.includes(head.scope, head.thread, tail.thread)
                fits = observed and fits and self.includes(tail.scope, tail.thread, head.thread)
                off = 0 if fits else bits("synchronization_scope")
                self.edge(head.node, tail.node, needs | head.needs | tail.needs, off)

    def _mbarriers(self) -> None:
        waits: dict[object, list[Instance]] = defaultdict(list)
        arrivals: dict[object, list[Instance]] = defaultdict(list)
        for one, phases in self.execution.phases.items():
            for barrier, phase in phases.items():
                if one.instruction.op == "mbarrier.wait":
                    waits[barrier, phase].append(one)
                elif one.instruction.op != "mbarrier.expect_tx":
                    arrivals[barrier, phase].append(one)
        for (barrier, phase), waiting in waits.items():  # type: ignore[misc]
            for wait in waiting:
                for arrival in arrivals[barrier, phase]:
                    self._phase(arrival, wait, barrier)

    def _phase(self, arrival: Instance, wait: Instance, barrier: tuple[int, str]) -> None:
        """An arrival or a signal, and a wait for its phase."""
        tails = self._tails(wait, barrier)
        scope = _semantics(wait)[1]
        signal = self._signals.get((arrival, barrier))
        if signal is not None:
            # The manual names no thread that performs the signal of a bulk copy. It is taken to be one of the
            # mbarrier's CTA.
            own = arrival.instruction.op == "cp.async.arrive"
            copied = own or arrival.instruction.op.startswith("bulk")
            agent = (barrier[0], arrival.thread[1], arrival.thread[2]) if copied else arrival.thread
            heads = [_End(signal, agent, "cta" if own else "cluster", 0)]
            observed = True
            remote = arrival.thread[0] != barrier[0] and not own
            needs = bits("complete_tx_remote") if remote and arrival.instruction.op.startswith("bulk") else 0
            node = signal
        else:
            heads = self._heads(arrival, barrier)
            observed = self.includes(scope, wait.thread, arrival.thread)
            observed = observed and self.includes(_semantics(arrival)[1], arrival.thread, wait.thread)
            remote = arrival.thread[0] != barrier[0]
            needs = bits("mbarrier_remote" if remote else "mbarrier_arrive")
            node = self.enter[arrival]
        self._synchronize(heads, tails, observed, needs)
        self.edge(node, self.leave[wait], bits("mbarrier_relaxed"), causal=False)
        self.edge(self._observed[arrival, barrier], self.leave[wait], bits("observation"))

    def _flags(self) -> None:
        for poll, writers in self.execution.observed.items():
            assert poll.instruction.to is not None
            place = poll.location(poll.instruction.to, self.program)
            again = [] if self.strong_pair(writers[-1], poll) else self._read_again(poll, place)
            for reader in (poll, *again):
                self._reads(reader, writers, place)

    def _read_again(self, poll: Instance, place: Location) -> list[Instance]:
        """The loads of the thread that get the value of the polling loop once more."""
        found: list[Instance] = []
        for later in self._after(poll):
            if self._same(later, place):
                if later.instruction.op != "ld":
                    break
                found.append(later)
        return found

    def _reads(self, reader: Instance, writers: list[Instance], place: Location) -> None:
        """A read that gets the value of the last of ``writers``, which is the end of a chain of atomics."""
        tails = self._tails(reader, place)
        chained = reader
        for write in reversed(writers):
            if not self.strong_pair(write, chained):
                if _is_strong(write) and _is_strong(reader):
                    self._too_narrow(write, reader, place, tails)
                break
            needs = bits("flag") if chained is reader else bits("flag", "rmw_chain")
            volatile = _semantics(write)[2] | _semantics(reader)[2]
            self._synchronize(self._heads(write, place), tails, True, needs | volatile)
            self.edge(
                self.enter[write], self.leave[reader], needs | volatile | bits("flag_relaxed"), causal=False
            )
            source = self._observed[write, "data"]
            self.edge(source, self.leave[reader], needs | volatile | bits("observation"))
            chained = write

    def strong_pair(self, first: Instance, second: Instance) -> bool:
        """Whether two accesses to the start of one flag are morally strong."""
        if (
            not (_is_strong(first) and _is_strong(second))
            or first.instruction.size != second.instruction.size
        ):
            return False
        fits = self.includes(_semantics(first)[1], first.thread, second.thread)
        return fits and self.includes(_semantics(second)[1], second.thread, first.thread)

    def _too_narrow(self, write: Instance, poll: Instance, place: Location, tails: list[_End]) -> None:
        """Strong accesses whose scopes do not include each other, or of different sizes."""
        if write.instruction.size != poll.instruction.size:
            return
        self._synchronize(self._heads(write, place), tails, False, bits("flag"))
        self.edge(self.enter[write], self.leave[poll], bits("flag", "flag_relaxed"), causal=False)


def _strength(sem: str, scope: str) -> tuple[str, int]:
    """The scope of a strong load or store, and what it needs; an empty scope if it is weak."""
    if sem == "volatile":
        return "sys", bits("volatile")
    return (scope, 0) if sem not in ("", "weak") else ("", 0)


def _semantics(one: Instance) -> tuple[str, str, int]:
    """Semantics and scope of an access to a flag or an mbarrier, with their defaults, and what they need."""
    it = one.instruction
    if it.op in ("mbarrier.arrive", "mbarrier.arrive.expect_tx"):
        return it.sem or "release", it.scope or "cta", 0
    if it.op == "mbarrier.wait":
        return it.sem or "acquire", it.scope or "cta", 0
    if it.op in ("atom", "red", "poll.atom"):
        return it.sem or "relaxed", it.scope or "gpu", 0 if it.sem or it.scope else bits("atomic_default")
    if it.op in ("ld", "st", "poll"):
        scope, needs = _strength(it.sem, it.scope)
        return ("relaxed" if it.sem == "volatile" else it.sem or "weak"), scope, needs
    return "", "", 0


def _is_strong(one: Instance) -> bool:
    return _semantics(one)[0] not in ("", "weak")
