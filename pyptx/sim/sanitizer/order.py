"""Decides whether an earlier access is ordered before a later one, and if not, which rule is broken.

:class:`View` is what the later access's agent knows. :func:`level_of` and :func:`known_lanes` are the quick
comparison; :func:`broken_rule` is called only for two accesses that it did not find to be ordered.

Source: PTX ISA, `#memory-consistency-model`, `#async-proxy`, `#tcgen05-memory-consistency-model`.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...core.records import dataclass
from ..memory.access import Access, AccessKind, MemoryOrder, Proxy, Scope, StateSpace
from .agents import FULL_MASK, CtaAgent, bits_of, includes
from .clocks import LANES_KEY, NO_CLOCK, READ_KEY, Clock, Fenced, Level, Levels, MapFenced, SharedOnly
from .operations import Token
from .records import ALL_LANES, Record

__all__ = ["Current", "View", "broken_rule", "may_conflict", "known_lanes", "level_of"]


@dataclass(eq=False, slots=True)
class View:
    """What an agent knows when it accesses memory.

    Attributes:
        levels: its clocks.
        cta: its CTA.
        warp_key: key of its warp, or -1 for an engine that acts for no single lanes.
        limit: the latest time of its warp's own lanes that counts as its past.
        ordered: numbers of records that were found to be ordered before: 8 times the number, plus the class
            of the access.
        token: the token of an operation; None for threads.
        together: True if all lanes of the warp make one access.
    """

    levels: Levels
    cta: CtaAgent
    warp_key: int
    limit: int
    ordered: set[int]
    token: Token | None = None
    together: bool = False


@dataclass(eq=False, slots=True)
class Current:
    """The access that is checked now.

    Attributes:
        access: the event; None for an operation on an mbarrier, and for an access that has waited.
        space: the state space of the bytes.
        barrier: True for an operation on an mbarrier.
        owner: the CTA whose shared memory is accessed, or None.
        address: the first byte.
        pipelined: True for operations of tcgen05 that a thread's earlier ones come before without a wait.
    """

    access: Access | None
    space: StateSpace
    kind: AccessKind
    proxy: Proxy
    size: int
    strong: bool
    scope: Scope
    barrier: bool
    owner: CtaAgent | None
    address: int
    pipelined: bool = False

    @property
    def number(self) -> int:
        """A number below 8 for accesses that need the same order after the same record."""
        return (
            (self.proxy is Proxy.ASYNC)
            + 2 * (self.kind is AccessKind.READ)
            + 4 * (self.proxy is Proxy.TENSOR)
        )

    def needs_more(self, record: Record) -> bool:
        """True if being in the clock of :func:`level_of` is not enough to be ordered well."""
        if self.proxy is Proxy.ASYNC and record.proxy is Proxy.ASYNC:
            return self.space is StateSpace.GLOBAL
        return self.proxy in _SPECIAL or record.proxy is Proxy.READONLY


#: Accesses that begin or end the life of an mbarrier or of tensor memory.
_LIVES = (AccessKind.INIT, AccessKind.INVAL)
_SPECIAL = (Proxy.TENSOR, Proxy.TENSORMAP, Proxy.READONLY)


def may_conflict(
    record: Record, current: Current, view: View, agents: dict[tuple[int, int], CtaAgent]
) -> bool:
    """False if the two accesses may be simultaneous, or the earlier one's launch is complete.

    Accesses may be simultaneous that both read, or that are morally strong (``#morally-strong-operations``).
    """
    if record.kind is AccessKind.READ and current.kind is AccessKind.READ:
        return False
    if record.barrier and current.barrier:
        return False
    if record.kind is AccessKind.INVAL and current.kind is AccessKind.INVAL and current.proxy is Proxy.TENSOR:
        # Both CTAs of a pair free their tensor memory together.
        return False
    token = view.token
    if token is not None and record.key == token.key and record.time == token.time:
        return False
    if record.launch in view.levels.get(Level.SYNC, NO_CLOCK):
        return False
    if record.proxy is Proxy.ASYNC and current.proxy is Proxy.ASYNC:
        return not (record.kind is AccessKind.RMW and current.kind is AccessKind.RMW)
    if record.kind in _LIVES or current.kind in _LIVES:
        return True
    if record.proxy is not current.proxy or record.semantics is MemoryOrder.WEAK or not current.strong:
        return True
    if record.size != current.size:
        return True
    other = agents[record.cta]
    return not (includes(record.scope, other, view.cta) and includes(current.scope, view.cta, other))


def level_of(record: Record, current: Current, view: View) -> Clock:
    """Return the clock that must contain the record: for most pairs, that of causality order."""
    levels = view.levels
    if current.proxy is Proxy.TENSOR:
        return levels.get(Level.EXECUTION, NO_CLOCK)
    if current.proxy is Proxy.ASYNC and record.proxy is Proxy.GENERIC:
        own = None if current.owner is None else current.owner.key
        found = levels.get(Fenced(current.space, view.cta.key, own == view.cta.key))
        return found or NO_CLOCK
    return levels.get(Level.SYNC, NO_CLOCK)


def known_lanes(record: Record, clock: Clock, lanes: int) -> int:
    """Return those of ``lanes`` (a mask) of the record that ``clock`` contains."""
    get = clock.get
    key, time = record.key, record.time
    if get(key, 0) >= time or (record.reads_only and get(key + READ_KEY, 0) >= time):
        return FULL_MASK
    known = 0
    if get(key + LANES_KEY, 0) < time and not record.bound:
        return 0
    for lane in bits_of(lanes):
        if get(key + 1 + lane, 0) >= time:
            known |= 1 << lane
        elif record.bound and lane in record.bound:
            bound, when = record.bound[lane]
            if get(bound, 0) >= when or get(bound + 1 + lane, 0) >= when:
                known |= 1 << lane
    return known


def _contains(record: Record, lane: int, my_lane: int, clock: Clock, view: View) -> bool:
    """True if ``clock`` contains the record's access by ``lane``, or the agent itself made the access."""
    lanes = record.mask if lane == ALL_LANES else 1 << lane
    if _own(record, lane, my_lane, view):
        return True
    known = known_lanes(record, clock, lanes)
    if record.together and known & lanes:
        return True
    return known == FULL_MASK or (bool(lanes) and not lanes & ~known)


def _own(record: Record, lane: int, my_lane: int, view: View) -> bool:
    """True if the record is an earlier access of the same thread."""
    if record.together or view.together:
        return my_lane >= 0 and record.key == view.warp_key and record.time <= view.limit
    if my_lane < 0 or (lane != my_lane and record.mask != 1 << my_lane):
        return False
    if record.key == view.warp_key and record.time <= view.limit:
        return True
    return my_lane in record.bound and record.bound[my_lane][0] == view.warp_key


def broken_rule(record: Record, lane: int, current: Current, my_lane: int, view: View) -> str:
    """Return the rule that the two accesses break, or "" if they are ordered well enough.

    ``lane`` is the record's lane (:data:`ALL_LANES` for all of its lanes), ``my_lane`` the lane of the
    current access, or -1 for an engine.
    """
    levels = view.levels

    def in_level(level: Hashable) -> bool:
        return _contains(record, lane, my_lane, levels.get(level, NO_CLOCK), view)

    if Proxy.READONLY in (record.proxy, current.proxy):
        return "data-race"
    if current.proxy is Proxy.TENSOR and record.proxy is Proxy.TENSOR:
        return _tensor_rule(record, current, view, in_level(Level.EXECUTION), in_level(Level.TENSOR))
    if current.proxy is Proxy.TENSORMAP and current.kind is AccessKind.READ:
        return _map_rule(record, lane, current, my_lane, view, in_level(Level.SYNC))
    causal = in_level(Level.SYNC) or any(
        level.serves(current.space, None if current.owner is None else current.owner.key) and in_level(level)
        for level in levels
        if isinstance(level, SharedOnly)
    )
    if record.proxy is Proxy.GENERIC and current.proxy is Proxy.ASYNC:
        if causal or in_level(Level.EXECUTION):
            return _fence_rule(record, lane, current, my_lane, view, causal)
        return "data-race"
    if causal and record.proxy is Proxy.ASYNC and current.proxy is Proxy.ASYNC:
        return _between_ctas(record, lane, current, view)
    if causal:
        return ""
    if record.kind is AccessKind.INIT and in_level(Level.EXECUTION) and in_level(Level.INITIALIZED):
        return ""
    if record.proxy is Proxy.ASYNC:
        if record.stream is not None and view.token is not None and record.stream is view.token.stream:
            return _stream_rule(record, view.token)
        return _handover_rule(record, current, in_level(Level.WIDE), in_level(Level.EXECUTION))
    if not record.mask and in_level(Level.WIDE):
        # The data of st.async, whose completion releases at cluster scope.
        return "relaxed-handover"
    used = record.barrier and record.kind not in (AccessKind.INIT, AccessKind.INVAL)
    if used and current.kind is AccessKind.INVAL and (in_level(Level.EXECUTION) or in_level(Level.MATCHED)):
        # libcu++ counts by match.any the lanes that leave, and then invalidates the mbarriers; compilers
        # invalidate them when a commit behind the last wait has arrived, and arrive from peers at CTA scope.
        return "relaxed-handover"
    return "data-race"


def _between_ctas(record: Record, lane: int, current: Current, view: View) -> str:
    """The rule for two accesses of the async proxy by different CTAs, in global memory."""
    if current.space is not StateSpace.GLOBAL or record.cta == view.cta.key:
        return ""
    here = view.levels.get(Fenced(StateSpace.GLOBAL, view.cta.key), NO_CLOCK)
    return "" if _contains(record, lane, -1, here, view) else "proxy-fence-open"


def _handover_rule(record: Record, current: Current, wide: bool, executed: bool) -> str:
    """The rule for an access of the async proxy that no release and acquire of fitting scopes hands over.

    An arrival with the scope of a CTA is what compilers emit to hand stages over between CTAs of a cluster.
    """
    both = current.proxy is Proxy.ASYNC
    if wide:
        return "" if both else "relaxed-handover"
    if executed and both and (record.kind is AccessKind.READ or current.kind is not AccessKind.READ):
        return "relaxed-handover"
    return "data-race"


def _stream_rule(record: Record, token: Token) -> str:
    """The rule for two operations of one thread: only the edges of their steps order them."""
    if token.follows(record.time, assumed=False):
        return ""
    return "assumed-order" if token.follows(record.time, assumed=True) else "data-race"


def _tensor_rule(record: Record, current: Current, view: View, executed: bool, fenced: bool) -> str:
    token = view.token
    if token is not None and record.stream is not None and record.stream is token.stream:
        rule = _stream_rule(record, token)
        if not rule or not executed:
            return rule
    if not executed:
        return "" if fenced and current.pipelined and record.stream is not None else "data-race"
    if not record.waited and token is not None and record.issuer == token.issuer:
        # The warp itself used the loaded registers: the use waits for the load.
        return ""
    # A dealloc is synchronous: the manual asks that threads synchronize before it, and for no fence.
    if fenced or (current.kind is AccessKind.INVAL and record.waited):
        return ""
    return "tcgen05-fence-missing" if record.waited else "tcgen05-wait-missing"


def _fence_rule(record: Record, lane: int, current: Current, my_lane: int, view: View, causal: bool) -> str:
    """The rule for an ordinary access before one of the async proxy, if time orders the two."""
    reads = record.kind is AccessKind.READ
    if not causal:
        wide = _contains(record, lane, my_lane, view.levels.get(Level.WIDE, NO_CLOCK), view)
        return "proxy-fence-open" if reads and wide else "data-race"
    owner = None if current.owner is None else current.owner.key
    here = {view.cta.key, owner}
    elsewhere = False
    for level, clock in view.levels.items():
        if not isinstance(level, Fenced) or not level.serves(current.space, owner):
            continue
        if _contains(record, lane, -1, clock, view):
            if level.cta in here:
                return ""
            elsewhere = True
    # Compilers let copies overwrite ordinary accesses without a fence; what a copy reads must be fenced.
    overwrites = reads or current.kind is AccessKind.WRITE
    return "proxy-fence-open" if overwrites or elsewhere else "proxy-fence-missing"


def _map_rule(record: Record, lane: int, current: Current, my_lane: int, view: View, causal: bool) -> str:
    """The rule for a write before the tensor-map proxy reads a map."""
    if not causal:
        return "data-race"
    for level, clock in view.levels.items():
        named = isinstance(level, MapFenced) and level.holds(current.address, current.size)
        if named and _contains(record, lane, -1, clock, view):
            return ""
    return "proxy-fence-missing"
