"""Pieces of synchronization from which random programs are made, right or with flaws.

A template appends its statements to a :class:`~.building.Builder`.  Its flaws never change how often a barrier is
arrived at, so that every program ends under every schedule.
"""

from __future__ import annotations

from collections.abc import Callable

from .building import Builder
from .handover import handover, lane_of, two_threads
from .program import Operand, Thread

__all__ = ["RARE", "TEMPLATES"]


def _proxy_fence(b: Builder, thread: Thread, space: str) -> None:
    """fence.proxy.async for a buffer in ``space``, or with a flaw none or one of another space."""
    if b.flaw(0.4):
        return
    right = ("", "global") if space == "global" else ("", "shared::cta", "shared::cta", "shared::cluster")
    wrong = ("shared::cta",) if space == "global" else ("global",)
    b.emit(thread, "fence.proxy.async", qualifier=b.pick(*(wrong if b.flaw(0.6) else right)))


def _load(b: Builder, thread: Thread, buffer: str, bar: str, *, rank: int | None = None) -> None:
    """A bulk copy of 16 bytes of a new global buffer, with the announcement of its bytes."""
    at = Operand(bar, rank=rank)
    split = rank is None and b.maybe(0.3)
    if split:
        b.emit(thread, "mbarrier.expect_tx", mbarrier=at, bytes=16)
    elif rank is None:
        b.emit(thread, "mbarrier.arrive.expect_tx", mbarrier=at, bytes=16)
    else:
        b.emit(thread, "mbarrier.arrive.expect_tx", mbarrier=at, bytes=16, sem="release", scope="cluster")
    to, source = Operand(buffer, rank=rank), Operand(b.global_(16))
    b.emit(thread, "bulk.load", to=to, source=source, mbarrier=at, size=16, qualifier=_tensor(b))
    if split:
        b.emit(thread, "mbarrier.arrive", mbarrier=at)


def _wait(b: Builder, thread: Thread, bar: str, parity: int = 0, *, far: bool = False) -> None:
    """Wait for the bytes of a copy."""
    scope = "cluster" if far and not b.flaw(0.5) else ""
    sem = "acquire" if scope else ""
    if b.flaw(0.3):
        sem, scope = "relaxed", scope or "cta"
    b.emit(thread, "mbarrier.wait", mbarrier=Operand(bar), number=parity, sem=sem, scope=scope)


def _at(b: Builder, buffer: str, owner: int, thread: Thread, offset: int = 0) -> Operand:
    """An address in the shared memory of CTA ``owner``, as ``thread`` names it."""
    return Operand(buffer, offset, rank=None if owner == thread[0] and b.maybe(0.9) else _rank(b, owner))


def _rank(b: Builder, cta: int) -> int | None:
    """The rank of a CTA in its cluster; None for the own CTA if each is in a cluster of its own."""
    return cta if b.linked or b.ctas == 1 else None


def _tensor(b: Builder) -> str:
    """Whether a bulk copy goes through a tensor map, as a qualifier."""
    return "tensor" if b.maybe(0.25) else ""


def _read(b: Builder, thread: Thread, operand: Operand) -> None:
    size, vector = b.pick((4, 1), (4, 1), (8, 1), (4, 4), (2, 1), (1, 1))
    b.emit(thread, "ld", to=operand, size=size, vector=vector)


def _write(b: Builder, thread: Thread, operand: Operand) -> None:
    size, vector = b.pick((4, 1), (4, 1), (8, 1), (4, 4), (2, 1), (1, 1))
    b.emit(thread, "st", to=operand, size=size, vector=vector, value=1)


def generic_to_generic(b: Builder) -> None:
    """Ordinary stores, then ordinary loads or stores by another thread, in shared, remote or global memory."""
    producer, consumer = two_threads(b, anywhere=b.maybe(0.3))
    if (producer[0] != consumer[0] and not b.linked) or b.maybe(0.2):
        data = Operand(b.global_(16))
        _write(b, producer, data)
        handover(b, [producer], [consumer])
        _read(b, consumer, data)
        return
    buffer, owner = b.shared(16, clear=True), b.pick(producer[0], consumer[0])
    first, second = (_write, _read) if b.maybe(0.6) else (_read, _write) if b.maybe(0.6) else (_write, _write)
    first(b, producer, _at(b, buffer, owner, producer))
    if b.maybe(0.1):
        b.together(producer[0], producer[1], b.pick("shfl", "vote"))
    handover(b, [producer], [consumer])
    second(b, consumer, _at(b, buffer, owner, consumer))


def several_producers(b: Builder) -> None:
    """Two producers, one consumer that reads both halves."""
    producer, consumer = two_threads(b)
    other = (producer[0], producer[1], 2)
    buffer, owner = b.shared(16, clear=True), consumer[0]
    for offset, thread in ((0, producer), (8, other)):
        b.emit(thread, "st", to=_at(b, buffer, owner, thread, offset), size=8, value=1)
    handover(b, [producer, other], [consumer])
    b.emit(consumer, "ld", to=Operand(buffer), vector=4)


def chain(b: Builder) -> None:
    """Three threads, the second of which only passes the data on."""
    first, second = two_threads(b)
    third = (*b.pick(first, second)[:2], 3)
    buffer = b.shared(16, clear=True)
    b.emit(first, "st", to=_at(b, buffer, third[0], first), value=1)
    handover(b, [first], [second])
    handover(b, [second], [third])
    b.emit(third, "ld", to=Operand(buffer))


def generic_to_async(b: Builder) -> None:
    """Ordinary stores, a proxy fence, and a bulk store or reduction of what they wrote."""
    producer, consumer = two_threads(b, far=0.3)
    buffer = b.shared(16, clear=True)
    before = b.maybe(0.5 if producer[0] == consumer[0] else 0.3)
    b.emit(producer, "st", to=_at(b, buffer, consumer[0], producer), vector=4)
    if before:
        _proxy_fence(b, producer, "shared")
    handover(b, [producer], [consumer])
    if not before:
        _proxy_fence(b, consumer, "shared")
    op = b.pick("bulk.store", "bulk.store", "bulk.reduce")
    b.emit(consumer, op, to=Operand(b.global_(16)), source=Operand(buffer), size=16, qualifier=_tensor(b))
    if b.flaw(0.2):
        _proxy_fence(b, consumer, "shared")


def warp_to_async(b: Builder) -> None:
    """All lanes of a warp store, one of them issues a bulk store."""
    thread = lane_of(b, b.chance.randrange(b.ctas))
    buffer = b.shared(16, clear=True)
    stride = 0 if b.flaw(0.4) else 4
    b.emit(thread, "st", lanes=(0, 1, 2, 3), to=Operand(buffer, stride=stride), value=1)
    right = ("", "shared::cta")
    if not b.flaw(0.4):
        b.emit(thread, "fence.proxy.async", lanes=(0, 1, 2, 3), qualifier=b.pick(*right))
    if not b.flaw(0.5):
        b.emit(thread, "bar.warp.sync", lanes=(0, 1, 2, 3))
    b.emit(
        thread, "bulk.store", to=Operand(b.global_(16)), source=Operand(buffer), size=16, qualifier=_tensor(b)
    )


def far_to_async(b: Builder) -> None:
    """Ordinary stores into the other CTA, which copies them away; the proxy fence is in one CTA or the other."""
    if not b.linked:
        return warp_to_async(b)
    producer, consumer = two_threads(b, far=1.0)
    buffer, before = b.shared(16, clear=True), b.maybe(0.5)
    b.emit(producer, "st", to=_at(b, buffer, consumer[0], producer), vector=4)
    if before:
        _proxy_fence(b, producer, "shared")
    handover(b, [producer], [consumer])
    if not before:
        _proxy_fence(b, consumer, "shared")
    b.emit(consumer, "bulk.store", to=Operand(b.global_(16)), source=Operand(buffer), size=16)
    return None


def narrow(b: Builder) -> None:
    """Message passing through a flag of which one side names a scope that is too small for two CTAs."""
    if not b.flaws:
        return generic_to_generic(b)
    producer, consumer = two_threads(b, far=0.8, anywhere=True)
    data, flag = Operand(b.global_(16)), Operand(b.global_(4))
    scopes = ["cta" if b.linked else b.pick("cta", "cluster"), b.pick("gpu", "sys")]
    b.chance.shuffle(scopes)
    b.emit(producer, "st", to=data, value=1)
    b.emit(producer, "st", to=flag, value=1, sem="release", scope=scopes[0])
    b.emit(consumer, "poll", to=flag, value=1, sem="acquire", scope=scopes[1])
    b.emit(consumer, "ld", to=data)
    return None


def acquired_late(b: Builder) -> None:
    """A flag that is polled by a relaxed load, then acquired by a second load or a fence, then reset."""
    producer, consumer = two_threads(b, anywhere=True)
    data, flag = Operand(b.global_(16)), Operand(b.global_(4))
    scope = "gpu" if not b.flaw(0.2) else "cta"
    b.emit(producer, "st", to=data, value=1)
    b.emit(producer, "st", to=flag, value=1, sem="release", scope="gpu")
    b.emit(consumer, "poll", to=flag, value=1, sem="relaxed", scope=scope)
    way = b.chance.random()
    if way < 0.4:
        b.emit(consumer, "ld", to=flag, sem="acquire", scope="gpu")
        b.emit(consumer, "ld", to=data)
    elif way < 0.5:
        b.emit(consumer, "fence", sem="acq_rel", scope="gpu")
        b.emit(consumer, "ld", to=data)
    b.emit(consumer, "st", to=flag, value=0)


def global_to_async(b: Builder) -> None:
    """Ordinary stores to global memory that a bulk copy then loads."""
    producer, consumer = two_threads(b, anywhere=True)
    data, buffer, bar = b.global_(16), b.shared(16), b.mbarrier(1)
    b.emit(producer, "st", to=Operand(data), vector=4)
    before = b.maybe(0.5 if producer[0] == consumer[0] else 0.2)
    if before:
        _proxy_fence(b, producer, "global")
    handover(b, [producer], [consumer])
    if not before:
        _proxy_fence(b, consumer, "global")
    b.emit(consumer, "mbarrier.arrive.expect_tx", mbarrier=Operand(bar), bytes=16)
    b.emit(
        consumer,
        "bulk.load",
        to=Operand(buffer),
        source=Operand(data),
        mbarrier=Operand(bar),
        size=16,
        qualifier=_tensor(b),
    )
    _wait(b, consumer, bar)
    _read(b, consumer, Operand(buffer))


def async_to_generic(b: Builder) -> None:
    """A bulk load, its wait by its issuer or by the reader, and loads."""
    producer, consumer = two_threads(b, far=0.2)
    buffer, bar = b.shared(16), b.mbarrier(1)
    if producer[0] != consumer[0]:
        _load(b, producer, buffer, bar, rank=consumer[0])
        _wait(b, consumer, bar, far=True)
    else:
        _load(b, producer, buffer, bar)
        if b.maybe(0.5):
            if not b.flaw(0.3):
                _wait(b, consumer, bar)
        else:
            if not b.flaw(0.3):
                _wait(b, producer, bar)
            handover(b, [producer], [consumer])
    b.pick(_read, _read, _write)(b, consumer, Operand(buffer))


def ring(b: Builder) -> None:
    """A slot that is filled by bulk loads twice, read, and handed back in between."""
    producer, consumer = two_threads(b, far=0.0)
    buffer, full, empty = b.shared(16), b.mbarrier(1), b.mbarrier(1)
    for turn in range(2):
        if turn:
            b.emit(producer, "mbarrier.wait", mbarrier=Operand(empty), number=0)
            if b.maybe(0.3):
                _proxy_fence(b, producer, "shared")
        _load(b, producer, buffer, full)
        _wait(b, consumer, full, turn)
        early = b.flaw(0.4) and not turn
        if early:
            b.emit(consumer, "mbarrier.arrive", mbarrier=Operand(empty))
        b.pick(_read, _read, _write)(b, consumer, Operand(buffer))
        if b.maybe(0.6):
            _proxy_fence(b, consumer, "shared")
        if not turn and not early:
            fields = {"sem": "relaxed", "scope": "cta"} if b.flaw(0.3) else {}
            b.emit(consumer, "mbarrier.arrive", mbarrier=Operand(empty), **fields)


def handed_back(b: Builder) -> None:
    """A slot that is copied away, handed back by an arrival or a flag, and filled again."""
    reader, writer = two_threads(b, far=0.0)
    buffer, back, full = b.shared(16, clear=True), b.mbarrier(1), b.mbarrier(1)
    b.emit(reader, "bulk.store", to=Operand(b.global_(16)), source=Operand(buffer), size=16)
    b.emit(reader, "bulk.commit")
    b.emit(reader, "bulk.wait", qualifier="read")
    relaxed = {"sem": "relaxed", "scope": "cta"}
    if b.maybe(0.5):
        b.emit(reader, "mbarrier.arrive", mbarrier=Operand(back), **(relaxed if b.flaw(1.2) else {}))
        b.emit(writer, "mbarrier.wait", mbarrier=Operand(back), number=0, **(relaxed if b.flaw(0.5) else {}))
    else:
        flag = Operand(b.global_(4))
        b.emit(reader, "st", to=flag, value=1, scope="gpu", sem="relaxed" if b.flaw(1.2) else "release")
        b.emit(writer, "poll", to=flag, value=1, scope="gpu", sem="relaxed" if b.flaw(0.5) else "acquire")
    _load(b, writer, buffer, full)
    _wait(b, writer, full)


def looped_ring(b: Builder) -> None:
    """A slot that goes round several times, by loops of its two warps."""
    producer, consumer = two_threads(b, far=0.0)
    if producer[1] == consumer[1]:
        return ring(b)
    buffer, full, empty = b.shared(16), b.mbarrier(1), b.mbarrier(1)
    count = b.pick(2, 3, 4)
    bulk, fence = b.maybe(0.6), b.pick("consumer", "producer", "")
    relaxed = {"sem": "relaxed", "scope": "cta"}
    wait, arrive = (relaxed if b.flaw(0.3) else {}), (relaxed if b.flaw(0.3) else {})
    early, source = b.flaw(0.5), Operand(b.global_(16))
    for turn in b.turns(count):
        b.emit(producer, "mbarrier.wait", mbarrier=Operand(empty), number=1 - turn % 2)
        if fence == "producer":
            b.emit(producer, "fence.proxy.async", qualifier="shared::cta")
        if bulk:
            b.emit(producer, "mbarrier.arrive.expect_tx", mbarrier=Operand(full), bytes=16)
            b.emit(producer, "bulk.load", to=Operand(buffer), source=source, mbarrier=Operand(full), size=16)
        else:
            b.emit(producer, "st", to=Operand(buffer), vector=4)
            b.emit(producer, "mbarrier.arrive", mbarrier=Operand(full))
    for turn in b.turns(count):
        b.emit(consumer, "mbarrier.wait", mbarrier=Operand(full), number=turn % 2, **wait)
        if early:
            b.emit(consumer, "mbarrier.arrive", mbarrier=Operand(empty), **arrive)
        b.emit(consumer, "ld", to=Operand(buffer))
        if fence == "consumer":
            b.emit(consumer, "fence.proxy.async", qualifier="shared::cta")
        if not early:
            b.emit(consumer, "mbarrier.arrive", mbarrier=Operand(empty), **arrive)
    return None


def warp_arrives(b: Builder) -> None:
    """All lanes of a warp store and one of them arrives, or all arrive."""
    producer, consumer = two_threads(b, far=0.2)
    lanes, home = (0, 1, 2, 3), consumer[0]
    if producer[:2] == consumer[:2]:
        return warp_to_async(b)
    scope = {"sem": "release", "scope": "cluster"} if producer[0] != home else {}
    buffer, each = b.shared(16, clear=True), b.maybe(0.4)
    bar = b.mbarrier(4 if each else 1)
    to = Operand(buffer, stride=4, rank=home if producer[0] != home else None)
    at = Operand(bar, rank=home if producer[0] != home else None)
    b.emit(producer, "st", lanes=lanes, to=to)
    if not each and not b.flaw():
        b.emit(producer, "bar.warp.sync", lanes=lanes)
    b.emit(producer, "mbarrier.arrive", lanes=lanes if each else (), mbarrier=at, **scope)
    _wait(b, consumer, bar, far=producer[0] != home)
    b.emit(consumer, "ld", to=Operand(buffer), vector=4)
    return None


def warp_waits(b: Builder) -> None:
    """A bulk load that all lanes of a warp read: all wait for it, or one waits for the others."""
    thread = lane_of(b, b.chance.randrange(b.ctas))
    buffer, bar, lanes = b.shared(16), b.mbarrier(1), (0, 1, 2, 3)
    _load(b, thread, buffer, bar)
    each = b.maybe(0.4)
    b.emit(thread, "mbarrier.wait", lanes=lanes if each else (), mbarrier=Operand(bar))
    if not each and not b.flaw():
        b.emit(thread, "bar.warp.sync", lanes=lanes)
    b.emit(thread, "ld", lanes=lanes, to=Operand(buffer, stride=4))


def _bulk_wait(b: Builder, thread: Thread, *, read: bool) -> None:
    """Wait for one of the thread's bulk stores; with a flaw for less than that."""
    if not b.flaw(0.2):
        b.emit(thread, "bulk.commit")
    if not b.flaw(0.2):
        qualifier = "read" if read or b.flaw(0.4) else ""
        b.emit(thread, "bulk.wait", number=1 if b.flaw(0.3) else 0, qualifier=qualifier)


def async_reads_then_generic(b: Builder) -> None:
    """A bulk store whose source is overwritten after wait_group.read."""
    thread, writer = two_threads(b, far=0.2)
    buffer = b.shared(32, clear=True)
    b.emit(
        thread, "bulk.store", to=Operand(b.global_(16)), source=Operand(buffer), size=16, qualifier=_tensor(b)
    )
    if b.maybe(0.3):
        b.emit(thread, "bulk.commit")
        b.emit(thread, "bulk.store", to=Operand(b.global_(16)), source=Operand(buffer, 16), size=16)
        b.emit(thread, "bulk.commit")
        b.emit(thread, "bulk.wait", number=1, qualifier="read")
    else:
        _bulk_wait(b, thread, read=b.maybe(0.7))
    if b.maybe(0.5):
        writer = thread
    else:
        handover(b, [thread], [writer])
    b.emit(writer, "st", to=_at(b, buffer, thread[0], writer, 16 if b.flaw(0.1) else 0), value=1)


def async_writes_then_read(b: Builder) -> None:
    """A bulk store or reduction to global memory, then a read of it: ordinary, non-coherent or by another copy."""
    thread, reader = two_threads(b, anywhere=True)
    source, data = b.shared(16, clear=True), b.global_(16)
    op = b.pick("bulk.store", "bulk.reduce")
    b.emit(thread, op, to=Operand(data), source=Operand(source), size=16, qualifier=_tensor(b))
    _bulk_wait(b, thread, read=False)
    if b.maybe(0.4):
        reader = thread
    else:
        handover(b, [thread], [reader])
    way = b.chance.random()
    if way < 0.45:
        _read(b, reader, Operand(data))
    elif way < 0.55:
        b.emit(reader, "ld.nc", to=Operand(data))
    else:
        if b.maybe(0.5):
            _proxy_fence(b, reader, "global")
        back, bar = b.shared(16), b.mbarrier(1)
        b.emit(reader, "mbarrier.arrive.expect_tx", mbarrier=Operand(bar), bytes=16)
        b.emit(reader, "bulk.load", to=Operand(back), source=Operand(data), mbarrier=Operand(bar), size=16)
        _wait(b, reader, bar)


def async_to_async(b: Builder) -> None:
    """A bulk load and then a bulk store of the same bytes, of one CTA or of two."""
    cta = b.chance.randrange(b.ctas)
    thread = lane_of(b, cta)
    buffer, bar = b.shared(16), b.mbarrier(1)
    far = b.linked and b.maybe(0.7)
    if far:
        _load(b, lane_of(b, 1 - cta), buffer, bar, rank=cta)
    else:
        _load(b, thread, buffer, bar)
    _wait(b, thread, bar, far=far)
    if far and b.maybe(0.5):
        _proxy_fence(b, thread, "shared")
    b.emit(
        thread, "bulk.store", to=Operand(b.global_(16)), source=Operand(buffer), size=16, qualifier=_tensor(b)
    )


def cp_async(b: Builder) -> None:
    """cp.async, its groups or its mbarrier, then a reader of either proxy."""
    thread, reader = two_threads(b, far=0.15)
    buffer, source = b.shared(32, clear=True), b.global_(32)
    b.emit(thread, "cp.async", to=Operand(buffer), source=Operand(source), size=16)
    if b.maybe(0.4):
        if b.maybe(0.5) and not b.flaw(0.5):
            b.emit(thread, "cp.async.commit")
            b.emit(thread, "cp.async", to=Operand(buffer, 16), source=Operand(source, 16), size=16)
            b.emit(thread, "cp.async.commit")
            b.emit(thread, "cp.async.wait", number=1)
        else:
            if not b.flaw(0.2):
                b.emit(thread, "cp.async.commit")
            b.emit(thread, "cp.async.wait", number=1 if b.flaw(0.4) else 0)
    elif not b.flaw(0.3):
        b.emit(thread, "cp.async.wait_all")
    if b.maybe(0.4):
        reader = thread
    before = b.maybe(0.5)
    to_async = reader[0] == thread[0] and b.maybe(0.5)
    if to_async and before:
        _proxy_fence(b, thread, "shared")
    if reader != thread:
        handover(b, [thread], [reader])
    if to_async:
        if not before:
            _proxy_fence(b, reader, "shared")
        b.emit(
            reader,
            "bulk.store",
            to=Operand(b.global_(16)),
            source=Operand(buffer),
            size=16,
            qualifier=_tensor(b),
        )
    else:
        _read(b, reader, _at(b, buffer, thread[0], reader, 16 if b.flaw(0.1) else 0))


def cp_async_arrives(b: Builder) -> None:
    """cp.async whose completion arrives at an mbarrier."""
    thread, reader = two_threads(b, far=0.0)
    buffer, noinc = b.shared(16), b.maybe(0.5)
    bar = b.mbarrier(1)
    arrive = {"mbarrier": Operand(bar), "qualifier": "noinc" if noinc else ""}
    late = b.flaw(0.3)
    if late:
        b.emit(thread, "cp.async.arrive", **arrive)
    b.emit(thread, "cp.async", to=Operand(buffer), source=Operand(b.global_(16)), size=16)
    if not late:
        b.emit(thread, "cp.async.arrive", **arrive)
    if not noinc:
        b.emit(thread, "mbarrier.arrive", mbarrier=Operand(bar))
    _wait(b, reader, bar)
    _read(b, reader, Operand(buffer))


def remote_async_stores(b: Builder) -> None:
    """st.async, red.async or a bulk copy into a CTA's shared memory, waited for there."""
    cta = b.chance.randrange(b.ctas)
    sender, receiver = lane_of(b, cta), lane_of(b, b.ctas - 1 - cta if b.linked else cta)
    home, bar = receiver[0], b.mbarrier(1)
    op = b.pick("st.async", "st.async", "red.async", "bulk.copy")
    buffer = b.shared(16, clear=op == "red.async" or b.maybe(0.2))
    size = 16 if op == "bulk.copy" else 4
    b.emit(receiver, "mbarrier.arrive.expect_tx", mbarrier=Operand(bar), bytes=size)
    to = {"to": Operand(buffer, rank=_rank(b, home)), "mbarrier": Operand(bar, rank=_rank(b, home))}
    if op == "bulk.copy":
        source = b.shared(16, clear=True)
        b.emit(sender, op, source=Operand(source), size=16, **to)
    else:
        b.emit(sender, op, value=1, **to)
    far = sender[0] != receiver[0]
    _wait(b, receiver, bar, far=far)
    if op != "bulk.copy" and b.maybe(0.25):
        if b.maybe(0.5):
            _proxy_fence(b, receiver, "shared")
        b.emit(
            receiver,
            "bulk.store",
            to=Operand(b.global_(16)),
            source=Operand(buffer),
            size=16,
            qualifier=_tensor(b),
        )
    else:
        b.emit(receiver, "ld", to=Operand(buffer))


def multicast(b: Builder) -> None:
    """One bulk load into both CTAs, read in both."""
    if not b.linked:
        return ring(b)
    buffer, bar = b.shared(16), b.mbarrier(1)
    for cta in range(2):
        b.emit(lane_of(b, cta), "mbarrier.arrive.expect_tx", mbarrier=Operand(bar), bytes=16)
    source = Operand(b.global_(16))
    issuer = lane_of(b, b.chance.randrange(2))
    b.emit(
        issuer,
        "bulk.load",
        to=Operand(buffer),
        source=source,
        mbarrier=Operand(bar),
        size=16,
        number=3,
        qualifier=_tensor(b),
    )
    for cta in range(2):
        reader = lane_of(b, cta)
        _wait(b, reader, bar, far=True)
        _read(b, reader, Operand(buffer))
    return None


def atomics(b: Builder) -> None:
    """Two threads that access one place at once with strong or weak operations of some scope and size."""
    first, second = two_threads(b, anywhere=True)
    far = first[0] != second[0]
    name = b.global_(16) if far or b.maybe(0.5) else b.shared(16, clear=True)
    right = ("cta", "cluster", "gpu") if not far else ("cluster", "gpu") if b.linked else ("gpu",)
    for thread in (first, second):
        scope = b.pick("cta", "cluster") if b.flaw() else b.pick(*right)
        data = Operand(name, 4 if b.maybe(0.2) else 0)
        size = 8 if b.flaw(0.4) and not data.offset else 4
        way = b.chance.random()
        if way < 0.2:
            b.emit(thread, b.pick("atom", "red"), to=data, value=1, size=size)
        elif way < 0.5:
            b.emit(thread, b.pick("atom", "red"), to=data, value=1, size=size, sem="relaxed", scope=scope)
        elif way < 0.6:
            b.emit(thread, b.pick("st", "ld"), to=data, size=size, sem="volatile")
        elif way < 0.7 and name.startswith("g") and not data.offset:
            vector = {"op": "red.v2", "vector": 2} if not b.flaw() else {"op": "red.f16x2"}
            b.emit(thread, to=data, sem="relaxed", scope=scope, **vector)
        elif way < 0.95 or not b.flaw():
            vector = b.pick(1, 1, 2) if not data.offset else 1
            b.emit(thread, b.pick("st", "ld"), to=data, size=size, sem="relaxed", scope=scope, vector=vector)
        else:
            b.emit(thread, "st", to=data, size=size)


def reductions(b: Builder) -> None:
    """Bulk reductions into one place, and sometimes an ordinary atomic or a store with them."""
    first, second = two_threads(b, anywhere=True)
    data = b.global_(16)
    for thread in (first, second):
        if b.flaw(2.0) and thread is second:
            op = b.pick("red", "atom", "st")
            b.emit(thread, op, to=Operand(data), value=1)
        else:
            source = b.shared(16, clear=True)
            b.emit(
                thread, "bulk.reduce", to=Operand(data), source=Operand(source), size=16, qualifier=_tensor(b)
            )


def noncoherent(b: Builder) -> None:
    """ld.global.nc of bytes that nothing writes, or that a store has written."""
    writer, reader = two_threads(b, anywhere=True)
    data = b.global_(16)
    if b.maybe(0.8):
        b.emit(writer, "st", to=Operand(data), value=1)
        handover(b, [writer], [reader])
    b.emit(reader, "ld.nc", to=Operand(data, 8 if b.maybe(0.5) else 0))


def barrier_ends(b: Builder) -> None:
    """An mbarrier that is invalidated, and sometimes made anew, after its last wait."""
    first, second = two_threads(b, far=0.0)
    bar, done = b.mbarrier(1), b.mbarrier(1)
    b.emit(first, "mbarrier.arrive", mbarrier=Operand(bar))
    b.emit(second, "mbarrier.wait", mbarrier=Operand(bar), number=0)
    relaxed = b.flaw()
    fields = {"sem": "relaxed", "scope": "cta"} if relaxed else {}
    b.emit(second, "mbarrier.arrive", mbarrier=Operand(done), **fields)
    b.emit(first, "mbarrier.wait", mbarrier=Operand(done), number=0)
    b.emit(first, "mbarrier.inval", mbarrier=Operand(bar))
    if b.maybe(0.4):
        b.emit(first, "mbarrier.init", mbarrier=Operand(bar), number=1)


def relaxed_async(b: Builder) -> None:
    """The data of a bulk load, handed on by relaxed operations: for review, whatever the mechanism."""
    if not b.flaws:
        return async_to_generic(b)
    thread, reader = two_threads(b)
    buffer, bar = b.shared(16), b.mbarrier(1)
    _load(b, thread, buffer, bar)
    way = b.chance.random()
    if way < 0.3 and thread[0] == reader[0]:
        b.emit(reader, "mbarrier.wait", mbarrier=Operand(bar), sem="relaxed", scope=b.pick("cta", "cluster"))
        b.emit(reader, "ld", to=Operand(buffer))
        return None
    _wait(b, thread, bar)
    if thread[0] != reader[0] and way < 0.6:
        b.everywhere("cluster.arrive", sem="relaxed")
        b.everywhere("cluster.wait")
    elif way < 0.6:
        again = b.mbarrier(1)
        b.emit(thread, "mbarrier.arrive", mbarrier=Operand(again), sem="relaxed", scope="cta")
        b.emit(reader, "mbarrier.wait", mbarrier=Operand(again))
    else:
        flag = Operand(b.global_(4))
        b.emit(thread, "st", to=flag, value=1, sem=b.pick("relaxed", "release"), scope="gpu")
        b.emit(reader, "poll", to=flag, value=1, sem="relaxed", scope="gpu")
    b.emit(reader, "ld", to=_at(b, buffer, thread[0], reader))
    return None


def counter(b: Builder) -> None:
    """Two producers count a flag up, and the last of three threads resets it or the data."""
    first, third = two_threads(b, anywhere=True)
    second = (*b.pick(first, third)[:2], 2)
    everyone = (first, second, third)
    data, flag = b.global_(16), Operand(b.global_(4))
    for offset, thread in ((0, first), (8, second)):
        b.emit(thread, "st", to=Operand(data, offset), value=1)
        sem = "relaxed" if b.flaw(0.4) else "release"
        scope = "cta" if b.flaw(0.3) or len({t[0] for t in everyone}) == 1 else "gpu"
        b.emit(thread, b.pick("atom", "red"), to=flag, value=1, sem=sem, scope=scope)
    b.emit(third, "poll", to=flag, value=2, sem="relaxed" if b.flaw(0.4) else "acquire", scope="gpu")
    b.emit(third, "ld", to=Operand(data), vector=4)
    if b.maybe(0.5):
        b.emit(third, "st", to=flag, value=0)


def neighbor(b: Builder) -> None:
    """An access to the other CTA's shared memory, sometimes after a flag that shows that it has started."""
    if not b.linked:
        return atomics(b)
    cta = b.chance.randrange(2)
    thread, other = lane_of(b, cta), lane_of(b, 1 - cta)
    if b.maybe(0.5):
        flag = Operand(b.global_(4))
        sem = "release" if b.maybe(0.5) else "relaxed"
        b.emit(other, "st", to=flag, value=1, sem=sem, scope="gpu")
        b.emit(thread, "poll", to=flag, value=1, sem="acquire", scope="gpu")
    to = Operand(b.shared(16, clear=b.maybe(0.3)), rank=1 - cta)
    op = b.pick("st", "st", "red")
    b.emit(thread, op, to=to, value=1)
    return None


def lanes_of_one_store(b: Builder) -> None:
    """Four lanes that store beside each other, or to one place."""
    thread = lane_of(b, b.chance.randrange(b.ctas))
    size, stride = 4, b.pick(4, 4, 8)
    if b.flaw(1.4):
        stride = 0
    sem, scope = b.pick(("", ""), ("", ""), ("relaxed", "cta"))
    buffer = b.shared(32)
    b.emit(
        thread, "st", lanes=(0, 1, 2, 3), to=Operand(buffer, stride=stride), size=size, sem=sem, scope=scope
    )


#: The templates and their weights.
TEMPLATES: dict[Callable[[Builder], None], float] = {
    generic_to_generic: 3,
    several_producers: 1.5,
    chain: 1,
    generic_to_async: 2,
    warp_to_async: 1,
    global_to_async: 1,
    async_to_generic: 2,
    ring: 1.5,
    looped_ring: 1.5,
    handed_back: 2,
    warp_arrives: 1,
    warp_waits: 0.8,
    async_reads_then_generic: 1.5,
    async_writes_then_read: 1.5,
    async_to_async: 2.5,
    cp_async: 2.5,
    cp_async_arrives: 1,
    remote_async_stores: 1.5,
    multicast: 1,
    atomics: 4,
    reductions: 2,
    noncoherent: 1,
    barrier_ends: 2,
    relaxed_async: 1.5,
    counter: 1,
    neighbor: 1.5,
    far_to_async: 2,
    narrow: 0.6,
    acquired_late: 0.6,
    lanes_of_one_store: 1.3,
}
#: Templates for programs of one template, whose entries of the table hardly decide a program beside others.
RARE: dict[Callable[[Builder], None], float] = {
    atomics: 5,
    reductions: 3,
    counter: 1,
    neighbor: 5,
    barrier_ends: 2.5,
    narrow: 1,
    noncoherent: 0.5,
    global_to_async: 0.7,
    far_to_async: 3,
    async_to_async: 2,
    cp_async: 3.5,
    remote_async_stores: 2,
    lanes_of_one_store: 2,
    relaxed_async: 4,
    acquired_late: 1,
    handed_back: 4,
    async_writes_then_read: 2,
}
