"""Small kernels that compete for something, for the tests of an exploration."""

from __future__ import annotations

import math

from tests.sim.build import Kernel

__all__ = [
    "COUNTED",
    "FLAG",
    "GATHERED",
    "LOCK",
    "LOST_UPDATE",
    "ONE_OF_MANY",
    "REDUCED",
    "SEPARATE",
    "TICKETS",
    "WRITERS",
    "binomial",
    "ring",
]


def binomial(n: int, k: int) -> int:
    return math.comb(n, k)


def _racy(text: str, params: str = "out:u64") -> Kernel:
    return Kernel(text, params, racy=True)


#: Each CTA writes its number to one word: n! orders, n results.
WRITERS = _racy("""
.reg u32 c
mov.u32 c, %ctaid.x
add.u32 c, c, 1
st.relaxed.gpu.global.u32 [out], c
ret
""")  # fmt: skip

#: Each CTA takes a ticket: n! orders, n! results.
TICKETS = _racy("""
.reg u32 c y
.reg u64 a offset
mov.u32 c, %ctaid.x
atom.relaxed.gpu.global.add.u32 y, [out], 1
mul.wide.u32 offset, c, 4
add.u64 a, out, offset
st.global.u32 [a+4], y
ret
""")  # fmt: skip

#: Each CTA adds to one word, and does not look at it: one order.
REDUCED = _racy("""
red.relaxed.gpu.global.add.u32 [out], 1
ret
""")  # fmt: skip

#: Each warp writes words of its own, twice.
SEPARATE = Kernel("""
.reg u32 t y
.reg u64 a offset
mov.u32 t, %tid.x
mul.wide.u32 offset, t, 4
add.u64 a, out, offset
st.global.u32 [a], t
ld.global.u32 y, [a]
add.u32 y, y, 1
st.global.u32 [a], y
ret
""", "out:u64")  # fmt: skip

#: A message behind a flag for which the other CTA polls.
FLAG = Kernel("""
.reg u32 c y
.reg pred p
mov.u32 c, %ctaid.x
setp.eq.u32 p, c, 0
@p bra SEND
POLL:
ld.acquire.gpu.global.u32 y, [out]
setp.eq.u32 p, y, 0
@p bra POLL
ld.global.u32 y, [out+4]
st.global.u32 [out+8], y
ret
SEND:
st.global.u32 [out+4], 7
st.release.gpu.global.u32 [out], 1
ret
""", "out:u64")  # fmt: skip

#: CTA 0 polls until the four others have added to a counter.
GATHERED = Kernel("""
.reg u32 c y
.reg pred p
mov.u32 c, %ctaid.x
setp.eq.u32 p, c, 0
@p bra POLL
red.release.gpu.global.add.u32 [out], 1
ret
POLL:
ld.acquire.gpu.global.u32 y, [out]
setp.lt.u32 p, y, 4
@p bra POLL
st.global.u32 [out+4], y
ret
""", "out:u64")  # fmt: skip

#: A spin lock around y = 3 * y + c + 1: n! orders, all with another result.
LOCK = Kernel("""
.reg u32 c y
.reg pred p
mov.u32 c, %ctaid.x
AGAIN:
atom.acquire.gpu.global.cas.b32 y, [out], 0, 1
setp.ne.u32 p, y, 0
@p bra AGAIN
ld.global.u32 y, [out+4]
mul.lo.u32 y, y, 3
add.u32 y, y, c
add.u32 y, y, 1
st.global.u32 [out+4], y
st.release.gpu.global.u32 [out], 0
ret
""", "out:u64")  # fmt: skip

#: A counter that each CTA reads and then writes, without an atomic operation.
LOST_UPDATE = _racy("""
.reg u32 y
ld.relaxed.gpu.global.u32 y, [out]
add.u32 y, y, 1
st.relaxed.gpu.global.u32 [out], y
ret
""")  # fmt: skip

#: CTA 0 writes ``steps`` values to one word; CTA 1 reads it once, and traps at one of them.
ONE_OF_MANY = _racy("""
.reg u32 c y
.reg pred p
mov.u32 c, %ctaid.x
setp.eq.u32 p, c, 0
@p bra WRITE
ld.relaxed.gpu.global.u32 y, [out]
setp.eq.u32 p, y, 3
@p trap               // bad
ret
WRITE:
st.relaxed.gpu.global.u32 [out], 1
st.relaxed.gpu.global.u32 [out], 2
st.relaxed.gpu.global.u32 [out], 3
st.relaxed.gpu.global.u32 [out], 4
st.relaxed.gpu.global.u32 [out], 5
ret
""")  # fmt: skip

#: Each CTA exchanges one word twice.
COUNTED = _racy("""
.reg u32 y z
atom.relaxed.gpu.global.exch.b32 y, [out], 1
atom.relaxed.gpu.global.exch.b32 z, [out], 2
add.u32 y, y, z
ret
""")  # fmt: skip


def ring(*, waits: bool = True, early: bool = False) -> Kernel:
    """A ring of one place through which warp 0 hands three numbers to warp 1.

    Without ``waits``, warp 0 does not wait for the place to be free. With ``early``, warp 1 gives the place
    back before it reads.
    """
    wait = "mbarrier.try_wait.parity.shared::cta.b64 q, [empty], parity\n@!q bra FREE" if waits else ""
    read, back = "ld.shared.u32 x, [slot]", "mbarrier.arrive.shared::cta.b64 _, [empty]"
    return _racy(f"""
.shared b64 bars[2] 8
.shared u32 place[1] 4
.reg u32 t full empty slot x i parity sum
.reg pred p q
mov.u32 t, %tid.x
mov.u32 full, bars
add.u32 empty, full, 8
mov.u32 slot, place
setp.ne.u32 p, t, 0
@p bra READY
mbarrier.init.shared::cta.b64 [full], 32
mbarrier.init.shared::cta.b64 [empty], 32
READY:
bar.sync 0
mov.u32 i, 0
mov.u32 sum, 0
setp.lt.u32 p, t, 32
@!p bra TAKE
GIVE:
and.b32 parity, i, 1
xor.b32 parity, parity, 1
FREE:
{wait}
add.u32 x, i, 5
st.shared.u32 [slot], x
mbarrier.arrive.shared::cta.b64 _, [full]
add.u32 i, i, 1
setp.lt.u32 p, i, 3
@p bra GIVE
ret
TAKE:
and.b32 parity, i, 1
FULL:
mbarrier.try_wait.parity.shared::cta.b64 q, [full], parity
@!q bra FULL
{back if early else read}
{read if early else back}
mad.lo.u32 sum, sum, 10, x
add.u32 i, i, 1
setp.lt.u32 p, i, 3
@p bra TAKE
st.global.u32 [out], sum
ret
""")
