"""Ways for some threads to hand data to others, right or with a flaw: the middle of most templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .building import Builder
from .program import Operand, Thread

__all__ = ["handover", "lane_of", "two_threads"]

Threads = Sequence[Thread]


def two_threads(b: Builder, *, far: float = 0.5, anywhere: bool = False) -> tuple[Thread, Thread]:
    """Two threads, mostly of different warps.

    Args:
        far: the probability that they are of different CTAs, where there are two.
        anywhere: whether the CTAs may be of different clusters.
    """
    if (b.linked or (anywhere and b.ctas > 1)) and b.maybe(far):
        first = b.chance.randrange(2)
        return lane_of(b, first), lane_of(b, 1 - first)
    cta = b.chance.randrange(b.ctas)
    if b.warps == 1 or b.maybe(0.2):
        warp = b.chance.randrange(b.warps)
        return (cta, warp, 0), (cta, warp, 1)
    first, second = b.chance.sample(range(b.warps), 2)
    return (cta, first, 0), (cta, second, 0)


def lane_of(b: Builder, cta: int) -> Thread:
    """A thread of a CTA."""
    return cta, b.chance.randrange(b.warps), 0


def handover(b: Builder, producers: Threads, consumers: Threads) -> None:
    """Order what the producers did before what the consumers do next, or forget it."""
    if b.flaw(0.25):
        return
    ctas = {thread[0] for thread in (*producers, *consumers)}
    warps = {thread[:2] for thread in (*producers, *consumers)}
    choices: list[Callable[[Builder, Threads, Threads], None]] = [_flag]
    if len(ctas) == 1 or not b.alone:
        choices += [_mbarrier]
    if len(ctas) > 1:
        choices += [*choices[1:], *[_cluster_barrier] * (2 if b.linked else 0)]
    elif len(warps) > 1:
        choices += [_barrier, _barrier, _named_barrier, _named_barrier]
    else:
        choices += [_warp_barrier] * 3
    b.chance.choice(choices)(b, producers, consumers)


def _scope(b: Builder, threads: Threads) -> str:
    """A scope that includes all threads; with a flaw, one that may not."""
    if b.flaw(0.5):
        return str(b.pick("cta", "cluster", "gpu"))
    if len({thread[0] for thread in threads}) == 1:
        return str(b.pick("cta", "cluster", "gpu", "sys"))
    return "cluster" if b.linked and b.maybe(0.4) else "gpu"


def _fence(b: Builder, thread: Thread, half: str, threads: Threads) -> None:
    """A memory fence that can serve as one half of a pattern."""
    scope = _scope(b, threads)
    kind = b.pick("acq_rel", "acq_rel", "sc", "sc", half, half, "membar", "membar")
    if b.flaw(0.2):
        kind = {"acquire": "release", "release": "acquire"}[half]
    if kind == "membar":
        b.emit(thread, "membar", scope={"cluster": "gl", "gpu": "gl"}.get(scope, scope))
    else:
        b.emit(thread, "fence", sem=kind, scope=scope)


def _mbarrier(b: Builder, producers: Threads, consumers: Threads) -> None:
    """One phase of an mbarrier of the consumers' CTA."""
    home = consumers[0][0]
    consumers = [thread for thread in consumers if thread[0] == home]
    everyone = (*producers, *consumers)
    far = len({thread[0] for thread in everyone}) > 1
    twice = b.maybe(0.15)
    bar = b.mbarrier(len(producers) + twice)
    scope = "cluster" if far or b.maybe(0.2) else "cta"
    for producer in producers:
        at = Operand(bar, rank=home if producer[0] != home else None)
        _arrive(b, producer, at, scope, everyone, 2 if twice and producer is producers[0] else 1)
    for consumer in consumers:
        _wait(b, consumer, bar, scope, everyone)


def _arrive(b: Builder, thread: Thread, bar: Operand, scope: str, everyone: Threads, count: int) -> None:
    scope = "cta" if b.flaw(0.4) else scope
    if b.flaw(0.3):
        b.emit(thread, "mbarrier.arrive", mbarrier=bar, number=count, sem="relaxed", scope=scope)
    elif b.maybe(0.3):
        _fence(b, thread, "release", everyone)
        b.emit(thread, "mbarrier.arrive", mbarrier=bar, number=count, sem="relaxed", scope=scope)
    elif scope == "cta" and b.maybe(0.5):
        b.emit(thread, "mbarrier.arrive", mbarrier=bar, number=count)
    else:
        b.emit(thread, "mbarrier.arrive", mbarrier=bar, number=count, sem="release", scope=scope)


def _wait(b: Builder, thread: Thread, bar: str, scope: str, everyone: Threads, parity: int = 0) -> None:
    scope = "cta" if b.flaw(0.3) else scope
    fields: dict[str, Any] = {"mbarrier": Operand(bar), "number": parity}
    if b.flaw(0.3):
        b.emit(thread, "mbarrier.wait", sem="relaxed", scope=scope, **fields)
    elif b.maybe(0.3):
        b.emit(thread, "mbarrier.wait", sem="relaxed", scope=scope, **fields)
        _fence(b, thread, "acquire", everyone)
    elif scope == "cta" and b.maybe(0.5):
        b.emit(thread, "mbarrier.wait", **fields)
    else:
        b.emit(thread, "mbarrier.wait", sem="acquire", scope=scope, **fields)


def _flag(b: Builder, producers: Threads, consumers: Threads) -> None:
    """A flag that the consumers poll, in global or shared memory: counted up if there are several producers."""
    everyone = (*producers, *consumers)
    home = consumers[0][0]
    near = all(thread[0] == home for thread in consumers) and (
        b.linked or all(t[0] == home for t in producers)
    )
    if near and not b.alone and b.maybe(0.25):
        name = b.shared(16, clear=True)
        places = {t: Operand(name, rank=home if t[0] != home else None) for t in everyone}
    else:
        name = b.global_(16)
        places = {thread: Operand(name) for thread in everyone}
    counted = len(producers) > 1 or b.maybe(0.3)
    twice = not counted and b.maybe(0.4)
    last = len(producers) if counted else 2 if twice else 1
    for producer in producers:
        _raise(b, producer, places[producer], everyone, counted=counted, twice=twice)
    for consumer in consumers:
        _poll(b, consumer, places[consumer], everyone, last)
    if len(consumers) == 1 and b.maybe(0.25):
        b.emit(consumers[0], "st", to=places[consumers[0]], value=0)


def _raise(
    b: Builder, thread: Thread, flag: Operand, everyone: Threads, *, counted: bool, twice: bool
) -> None:
    scope = _scope(b, everyone)
    op = b.pick("atom", "red") if counted else "st"
    if b.flaw(0.4):
        sem = b.pick("relaxed", "weak" if op == "st" else "relaxed")
        b.emit(thread, op, to=flag, value=2 if twice else 1, sem=sem, scope="" if sem == "weak" else scope)
        return
    if twice:
        b.emit(thread, op, to=flag, value=1, sem="release", scope=scope)
        b.emit(thread, op, to=flag, value=2, sem="relaxed", scope=scope)
        return
    if b.maybe(0.5):
        sem = b.pick("release", "acq_rel") if op == "atom" else "release"
        b.emit(thread, op, to=flag, value=1, sem=sem, scope=scope)
        return
    _fence(b, thread, "release", everyone)
    if op == "st" and b.maybe(0.4):
        b.emit(thread, op, to=flag, value=1, sem="volatile")
    elif op != "st" and b.maybe(0.4):
        b.emit(thread, op, to=flag, value=1)
    else:
        b.emit(thread, op, to=flag, value=1, sem="relaxed", scope=scope)


def _poll(b: Builder, thread: Thread, flag: Operand, everyone: Threads, last: int) -> None:
    scope = _scope(b, everyone)
    if b.flaw(0.4):
        sem = b.pick("relaxed", "weak", "volatile")
        b.emit(thread, "poll", to=flag, value=last, sem=sem, scope=scope if sem == "relaxed" else "")
        return
    way = b.chance.random()
    if way < 0.1:
        b.emit(thread, "poll.atom", to=flag, value=last, sem=b.pick("acquire", "acq_rel"), scope=scope)
    elif way < 0.45:
        b.emit(thread, "poll", to=flag, value=last, sem="acquire", scope=scope)
    elif way < 0.65:
        b.emit(thread, "poll", to=flag, value=last, sem="relaxed", scope=scope)
        b.emit(thread, "ld", to=flag, sem="acquire", scope=scope)
    else:
        sem = b.pick("relaxed", "volatile")
        b.emit(thread, "poll", to=flag, value=last, sem=sem, scope=scope if sem == "relaxed" else "")
        _fence(b, thread, "acquire", everyone)


def _barrier(b: Builder, producers: Threads, consumers: Threads) -> None:
    """bar.sync or bar.red of the whole CTA."""
    number, op = b.named(), b.pick("bar.sync", "bar.sync", "bar.red")
    for warp in range(b.warps):
        b.together(producers[0][0], warp, op, number=number, threads=32 * b.warps)


def _named_barrier(b: Builder, producers: Threads, consumers: Threads) -> None:
    """The producers' warps arrive, the consumers' warps wait."""
    cta, number = producers[0][0], b.named()
    waiting = {thread[1] for thread in consumers}
    arriving = {thread[1] for thread in producers} - waiting
    if b.flaw(0.2):
        waiting, arriving = arriving or waiting, waiting if arriving else arriving
    for warp in sorted(waiting | arriving):
        op = "bar.arrive" if warp in arriving else "bar.sync"
        b.together(cta, warp, op, number=number, threads=32 * len(waiting | arriving))


def _warp_barrier(b: Builder, producers: Threads, consumers: Threads) -> None:
    """bar.warp.sync of the lanes; a shuffle or a vote in its place orders nothing."""
    thread = producers[0]
    lanes = sorted({t[2] for t in (*producers, *consumers)})
    mask = sum(1 << lane for lane in lanes)
    if b.flaw():
        b.together(thread[0], thread[1], b.pick("shfl", "vote"))
    elif b.maybe(0.4):
        b.together(thread[0], thread[1], "bar.warp.sync")
    elif b.maybe(0.4):
        for lane in lanes:
            b.emit((*thread[:2], lane), "bar.warp.sync", number=mask)
    else:
        b.emit(thread, "bar.warp.sync", lanes=lanes)


def _cluster_barrier(b: Builder, producers: Threads, consumers: Threads) -> None:
    """barrier.cluster, in one of its forms; a barrier of one CTA in its place does not reach the other."""
    if b.flaw(0.3):
        for cta in range(b.ctas):
            b.bar_sync(cta, b.named())
        return
    relaxed = b.flaw(0.5)
    fenced = not relaxed and b.maybe(0.4)
    if fenced:
        for producer in producers:
            _fence(b, producer, "release", (*producers, *consumers))
    b.everywhere("cluster.arrive", sem="relaxed" if relaxed or fenced else b.pick("", "release"))
    b.everywhere("cluster.wait", sem=b.pick("", "acquire"))
