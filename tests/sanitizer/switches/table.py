"""The switches: every edge, proxy rule, scope comparison and object of the sanitizer, one by one."""

from __future__ import annotations

from .switching import Switch

__all__ = ["SWITCHES"]

_S, _O, _I = "synchronization.Synchronization", "order", "issuing.Issuing"
_ARRIVES = "        cta = self._world.ctas[sync.cta]\n    for warp"


def _no_family(family: str, method: str) -> tuple[str, str]:
    """Text that lets one kind of object do nothing."""
    old = (
        "phases = self._phases(family, sync.object)"
        if method == "arrive"
        else "if not board:\n        return"
    )
    return old, f'if family == "{family}":\n        return\n    {old}'


_SWITCHES = (
    # Edges: what releases, what acquires.
    *(
        Switch(f"{family} releases", f"{_S}.arrive", *_no_family(family, "arrive"))
        for family in ("bar", "bar.warp", "barrier.cluster", "mbarrier")
    ),
    *(
        Switch(f"{family} acquires", f"{_S}.wait", *_no_family(family, "wait"))
        for family in ("bar", "bar.warp", "barrier.cluster", "mbarrier")
    ),
    Switch("the signal of an operation releases", f"{_S}.arrive", "release_levels(board, source", "0 and release_levels(board, source"),
    Switch("each life of an mbarrier has its own phases", f"{_S}._phases", 'self._world.barrier_key(key) if family == "mbarrier" else 0', "0"),
    Switch("arrivals are observed by relaxed waits", f"{_S}.wait", "if arrivals:", "if 0:"),
    Switch("a relaxed operation releases nothing", "release.releases", "order in (", "True or order in ("),
    Switch("a relaxed operation acquires nothing", "release.acquires", "order in (", "True or order in ("),
    Switch("a fence before a relaxed operation releases", "release.release", "() if releases(order) else group.fences", "()"),
    Switch("a fence behind a relaxed operation acquires", f"{_S}._memory_fence", "if acquires(fence.semantics) and group.seen:", "if 0:"),
    Switch("only a fence that acquires does", f"{_S}._memory_fence", "acquires(fence.semantics) and group.seen", "group.seen"),
    Switch("only a fence that releases does", f"{_S}._memory_fence", "if releases(fence.semantics):", "if 1:"),
    Switch("a fence of a wider scope stays", f"{_S}._memory_fence", "narrower(one.scope, fence.scope) is not one.scope or (shared and not one.shared)", "False"),
    Switch("an operation acquires what a relaxed one has seen", "release.acquire", "if synchronizes and group.seen:", "if 0:"),
    Switch("match.sync orders execution", f"{_S}.match", "group.learn({Level.MATCHED: known})", "pass"),
    Switch("a restricted fence releases shared memory alone", "release.release", "if fence.shared:", "if 0:"),
    Switch("a restricted fence releases shared memory", "clocks.SharedOnly.serves", "return space", "return False and space"),
    Switch("a restricted fence acquires shared memory alone", f"{_S}._acquire_seen", "if fence.spaces:", "if 0:"),
    Switch("a relaxed order of execution is one", "release.weaker", "(Level.EXECUTION, True)", "(Level.EXECUTION, False)"),
    Switch("too narrow a scope is not relaxed", "release.weaker", "(Level.WIDE, wide)", "(Level.WIDE, False)"),
    Switch("fence.mbarrier_init releases initializations", f"{_S}._fence", "group.pass_fence(Level.INITIALIZED)", "pass"),
    Switch("what it releases must be acquired", "release.observed", "initialized=synchronizes", "initialized=True"),
    # Flags.
    Switch("a strong write releases", "flags.Flags._write_place", "release(own, mine", "0 and release(own, mine"),
    Switch("a strong read acquires", "flags.Flags.read", "acquire(group, key", "0 and acquire(group, key"),
    Switch("an atomic acquires", "flags.Flags._write_place", "if _returns(access) and not self.learns_nothing:", "if 0:"),
    Switch("red acquires nothing", "flags.Flags._write_place", "if _returns(access) and not self.learns_nothing:", "if 1:"),
    Switch("a chain of atomics carries a release on", "flags.Flags._write_place", "if strong:", "if 0:"),
    Switch("a chain needs scopes that fit", "flags.Flags._write_place", "if strong:", "if 1:"),
    Switch("a thread's own release goes on", "flags.Flags._write_place", "for source, levels in own.items():", "for source, levels in own.items() if releases(order) or mine.fences else ():"),
    Switch("a flag may be an element of a vector", "flags.places_of", "range(0, nbytes, size)", "range(0, 1)"),
    Switch("a weak write ends a flag", "flags.Flags.written", "if not (shadow.flags or shadow.own_releases):", "if 1:"),
    Switch("a strong read observes the write", "flags.Flags.observe", "self._observe(group", "0 and self._observe(group"),
    Switch("it observes through a chain of atomics", "flags.Flags._observe", "if not strong or record.kind is not AccessKind.RMW:", "if 1:"),
    Switch("a read of too narrow a scope observes nothing", "flags.Flags._learn", "if not strong:", "if 0:"),
    Switch("what a relaxed writer knew is executed", "flags.Flags._learn", "for mask, levels in record.before:", "for mask, levels in ():"),
    # Scopes and moral strength.
    Switch("scopes of release and acquire", "release.observed", "fits = includes(source.scope, there, cta) and includes(scope, cta, there)", "fits = True"),
    Switch("scope of a fence behind a relaxed operation", f"{_S}._acquire_seen", "includes(scope, there, cta)", "True"),
    Switch("scope of a relaxed operation behind a fence", "release.release", "fence.scope if flag else narrower(fence.scope, scope)", "fence.scope"),
    Switch("the scope of the CTA", "agents.includes", "return scope in (Scope.GPU, Scope.SYS)", "return True"),
    Switch("the scope of the cluster", "agents.includes", "return one.cluster == other.cluster", "return True"),
    Switch("moral strength: scopes", f"{_O}.may_conflict", "not (includes(record.scope, other, view.cta) and includes(current.scope, view.cta, other))", "False"),
    Switch("moral strength: sizes", f"{_O}.may_conflict", "if record.size != current.size:", "if 0:"),
    Switch("moral strength: weak first", f"{_O}.may_conflict", "record.semantics is MemoryOrder.WEAK or ", ""),
    Switch("moral strength: weak last", f"{_O}.may_conflict", " or not current.strong", ""),
    Switch("strong accesses do not race", f"{_O}.may_conflict", "return not (includes", "return True or not (includes"),
    Switch("reductions of engines do not race", f"{_O}.may_conflict", "return not (record.kind is AccessKind.RMW and current.kind is AccessKind.RMW)", "return True"),
    Switch("launches end", f"{_O}.may_conflict", "if record.launch in view.levels.get(Level.SYNC, NO_CLOCK):", "if 0:"),
    Switch("CTAs of a pair free tensor memory together", f"{_O}.may_conflict", "record.kind is AccessKind.INVAL and current.kind is AccessKind.INVAL and current.proxy is Proxy.TENSOR", "0"),
    Switch("packed atomics are their elements", "access_records.element_size", "count *= TYPES[kind].lanes", "pass"),
    Switch("vectors are their elements", "access_records.element_size", "1 if vector is None else int(vector[1:])", "1"),
    # Proxies.
    Switch("ordinary accesses before the async proxy", f"{_O}.broken_rule", "return _fence_rule(record, lane, current, my_lane, view, causal)", 'return ""'),
    Switch("a proxy fence orders", f"{_S}._fence", "group.pass_fence(Fenced(space, warp.cta.key, fence.own_memory))", "pass"),
    Switch("a proxy fence has spaces", "clocks.Fenced.serves", "self.space is space and ", ""),
    Switch("shared::cta is the CTA's own memory", "clocks.Fenced.serves", "(not self.own or self.cta == owner)", "True"),
    Switch("the fence in the CTA of the copy", f"{_O}._fence_rule", "if level.cta in here:", "if 1:"),
    Switch("a fence in the CTA of the memory is enough", f"{_O}._fence_rule", "here = {view.cta.key, owner}", "here = {view.cta.key}"),
    Switch("a copy that overwrites is for review", f"{_O}._fence_rule", "reads or current.kind is AccessKind.WRITE", "False"),
    Switch("a copy that reads must be fenced", f"{_O}._fence_rule", "reads or current.kind is AccessKind.WRITE", "True"),
    Switch("reads handed over too narrowly are for review", f"{_O}._fence_rule", "reads and wide", "False"),
    Switch("copies of two CTAs in global memory", f"{_O}._between_ctas", 'return "" if _contains', 'return "" if 1 or _contains'),
    Switch("the read-only proxy", f"{_O}.broken_rule", 'if Proxy.READONLY in (record.proxy, current.proxy):\n        return "data-race"', "pass"),
    Switch("tensor maps: a fence must name the bytes", "clocks.MapFenced.holds", "return self.address", "return True or self.address"),
    Switch("tensor maps: an acquire fence orders", f"{_S}._fence", "self._acquire_map(fence, warp, group)", "pass"),
    Switch("tensor maps: scope of the fences", f"{_S}._acquire_map", "includes(released.scope, there, warp.cta) and includes(fence.scope, warp.cta, there)", "True"),
    Switch("tensor maps: a fence is owed", f"{_O}._map_rule", 'return "proxy-fence-missing"', 'return ""'),
    Switch("tensor maps: copies with a fence release", "thread_accesses.ThreadAccesses._begin_lives", "access.proxy is Proxy.TENSORMAP and releases(access.semantics)", "0"),
    Switch("data of copies by relaxed operations", f"{_O}._handover_rule", "if executed and both and", "if 0 and both and"),
    Switch("data of copies by too narrow a scope", f"{_O}._handover_rule", 'return "" if both else "relaxed-handover"', 'return ""'),
    Switch("stages of copies by too narrow a scope", f"{_O}._handover_rule", 'return "" if both else "relaxed-handover"', 'return "relaxed-handover"'),
    Switch("a copy's data are not those of its reader", f"{_O}._handover_rule", "record.kind is AccessKind.READ or current.kind is not AccessKind.READ", "True"),
    Switch("data of st.async by too narrow a scope", f"{_O}.broken_rule", "if not record.mask and in_level(Level.WIDE):", "if 0:"),
    # Operations and their completion.
    Switch("a signal publishes operations alone", "issuing._published", "for key, time in clock.items() if key < 0", "for key, time in clock.items()"),
    Switch("a signal comes after the steps before it", f"{_I}._signal", "_add(own, token.own())", "pass"),
    Switch("a signal comes after cp.async", f"{_I}._signal", "if isinstance(token, Copies):", "if 0:"),
    Switch("wait_group covers all but the newest groups", f"{_I}._completed", "len(counted.groups) - keep", "len(counted.groups)"),
    Switch("only committed operations are waited for", f"{_I}._completed", "time = stream.groups[count - 1] if count > 0 else 0", "pass"),
    Switch("wait_group.read covers the reads", f"{_I}.wait", "READ_KEY if reads else 0", "0"),
    Switch("wait_group orders", f"{_I}.wait", "if own:", "if 0:"),
    Switch("groups of bulk copies belong to a thread", f"{_I}._stream_of", "int(threads[0]) if kind in _OF_A_THREAD else int(threads[0]) >> 5", "0"),
    Switch("cp.async.wait_group orders", f"{_I}._wait_for_copies", "part.number[lane] < committed[lane] - keep", "False"),
    Switch("cp.async of newer groups", f"{_I}._wait_for_copies", "committed[lane] - keep", "99"),
    Switch("a thread's tensor operations: edges", f"{_O}._stream_rule", "token.follows(record.time, assumed=False)", "True"),
    Switch("a thread's tensor operations: assumed edges", "operations.Token.follows", "(assumed and time in self.assumed)", "False"),
    Switch("tensor memory: order of execution", f"{_O}._tensor_rule", 'else "data-race"', 'else ""'),
    Switch("tensor memory: fences", f"{_O}._tensor_rule", 'return "tcgen05-fence-missing" if record.waited', 'return "" if record.waited'),
    Switch("tensor memory: waits for loads", f"{_O}._tensor_rule", 'else "tcgen05-wait-missing"', 'else ""'),
    Switch("tensor memory: dealloc needs no fence", f"{_O}._tensor_rule", "if fenced or (current.kind is AccessKind.INVAL and record.waited):", "if fenced:"),
    Switch("tensor memory: a warp's own use", f"{_O}._tensor_rule", "if not record.waited and token is not None and record.issuer == token.issuer:", "if 0:"),
    Switch("fence::before_thread_sync sends", f"{_S}._fence", "self._before_synchronization(warp, group)", "pass"),
    Switch("fence::after_thread_sync receives", f"{_S}._fence", "group.levels = {**group.levels, Level.TENSOR: tensor}", "pass"),
    Switch("a commit sends", f"{_I}._signal", "levels = sent(levels)", "pass"),
    Switch("wait::ld waits", f"{_I}._mark_waited", "record.waited = True", "pass"),
    Switch("used registers have been loaded", f"{_I}.registers_used", "if time > 0:", "if 0:"),
    # Objects.
    Switch("mbarrier.init comes before uses", f"{_O}.may_conflict", "if record.kind in _LIVES or current.kind in _LIVES:\n        return True", "if record.kind in _LIVES or current.kind in _LIVES:\n        return False"),
    Switch("operations on mbarriers are accesses", "mbarrier_accesses.MbarrierAccesses._use", "self._examiner.access(", "0 and self._examiner.access("),
    Switch("signals come after mbarrier.init", "mbarrier_accesses.MbarrierAccesses._signal", "self._examiner.compare(", "0 and self._examiner.compare("),
    Switch("remote accesses after the start of a CTA", "remote.RemoteAccesses.reach", "if clock.get(owner.start, 0) < 1:", "if 0:"),
    Switch("remote accesses before the end of a CTA", "remote.RemoteAccesses.end_cta", "if record.mask & ~lanes:", "if 0:"),
    Switch("relaxed operations keep no CTA alive for data", "remote.RemoteAccesses.end_cta", "Level.EXECUTION if relaxed else Level.SYNC", "Level.EXECUTION"),
    Switch("relaxed operations keep a CTA alive for mbarriers", "remote.RemoteAccesses.end_cta", "record.barrier or record.kind is AccessKind.READ", "record.kind is AccessKind.READ"),
    Switch("a load is complete before a relaxed barrier", "remote.RemoteAccesses.end_cta", "record.barrier or record.kind is AccessKind.READ", "record.barrier"),
    Switch("lanes of one store collide", "thread_accesses.ThreadAccesses._collisions", "collision is not None and collision.same is not True", "False"),
    Switch("lanes are threads", f"{_O}._own", "if my_lane < 0 or (lane != my_lane and record.mask != 1 << my_lane):", "if my_lane < 0:"),
    Switch("griddepcontrol.wait ends a launch", "sanitizer.Sanitizer._grid_wait", "learn_own(group, own)", "pass"),
    Switch("an mbarrier may be invalidated behind match.sync", f"{_O}.broken_rule", " or in_level(Level.MATCHED)", ""),
    Switch("an mbarrier may be invalidated behind relaxed order", f"{_O}.broken_rule", "in_level(Level.EXECUTION) or in_level(Level.MATCHED)", "in_level(Level.MATCHED)"),
    Switch("a guess may race with a swap", "speculation.is_speculative", "strong and code.is_guess(read.location, thread)", "0"),
    Switch("a load may race if its thread does not use it", "speculation.is_speculative", "all(code.unused(read.location, thread, writer) for writer in writing)", "False"),
    Switch("accesses that race are kept", "examine.Check.breaks", 'self.raced or rule == "data-race"', "False"),
)  # fmt: skip

SWITCHES: dict[str, Switch] = {switch.name: switch for switch in _SWITCHES}
