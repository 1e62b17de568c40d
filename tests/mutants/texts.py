"""Two kernels of which the tree had none: a pipeline over named barriers, and messages between CTAs through flags."""

from __future__ import annotations

__all__ = ["EXCHANGE", "MESSAGE"]

#: Warp 0 fills two buffers in turn, warp 1 reads them. Barriers 1 and 2 say "full", 3 and 4 say "empty".
EXCHANGE = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry exchange(.param .u64 given, .param .u64 out) .reqntid 64
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;
.shared .align 16 .b8 room[256];
ld.param.u64 %d0, [given]; ld.param.u64 %d1, [out];
mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; mov.u32 %r2, room; mov.u32 %r3, 0;
setp.ge.u32 %p0, %r0, 32;
@%p0 bra CONSUMER;
PRODUCER:
and.b32 %r4, %r3, 1;
setp.lt.u32 %p1, %r3, 2;
@%p1 bra FILL;
add.u32 %r5, %r4, 3;
bar.sync %r5, 64;
FILL:
mad.lo.u32 %r6, %r3, 32, %r1; mad.wide.u32 %d2, %r6, 4, %d0;
ld.global.u32 %r7, [%d2];
mad.lo.u32 %r8, %r4, 32, %r1; mad.lo.u32 %r8, %r8, 4, %r2;
st.shared.u32 [%r8], %r7;
add.u32 %r5, %r4, 1;
bar.arrive %r5, 64;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, 6;
@%p2 bra PRODUCER;
ret;
CONSUMER:
and.b32 %r4, %r3, 1;
add.u32 %r5, %r4, 1;
bar.sync %r5, 64;
add.u32 %r9, %r1, 1; and.b32 %r9, %r9, 31; mad.lo.u32 %r8, %r4, 32, %r9; mad.lo.u32 %r8, %r8, 4, %r2;
ld.shared.u32 %r7, [%r8];
setp.ge.u32 %p1, %r3, 4;
@%p1 bra STORE;
add.u32 %r5, %r4, 3;
bar.arrive %r5, 64;
STORE:
mad.lo.u32 %r6, %r3, 32, %r1; mad.wide.u32 %d2, %r6, 4, %d1;
st.global.u32 [%d2], %r7;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, 6;
@%p2 bra CONSUMER;
ret;
}
"""

#: CTA 0 writes a row and raises a flag by st.release; CTA 1 waits by ld.acquire and reverses the row. All threads
#: of both also add to one sum.
MESSAGE = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry message(.param .u64 given, .param .u64 row, .param .u64 flag, .param .u64 out, .param .u64 sum)
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<12>;
ld.param.u64 %d0, [given]; ld.param.u64 %d1, [row]; ld.param.u64 %d2, [flag]; ld.param.u64 %d3, [out]; ld.param.u64 %d4, [sum];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
setp.eq.u32 %p0, %r0, 0; setp.ne.u32 %p1, %r1, 0;
mad.wide.u32 %d5, %r0, 4, %d0; mad.wide.u32 %d6, %r0, 4, %d1; mad.wide.u32 %d7, %r0, 4, %d3;
ld.global.u32 %r2, [%d5];
red.relaxed.gpu.global.add.u32 [%d4], %r2;
@%p1 bra RECEIVER;
st.global.u32 [%d6], %r2;
bar.sync 0;
@%p0 st.release.gpu.global.u32 [%d2], 1;
ret;
RECEIVER:
@!%p0 bra MEET;
POLL:
ld.acquire.gpu.global.u32 %r3, [%d2];
setp.eq.u32 %p2, %r3, 0;
@%p2 bra POLL;
MEET:
bar.sync 0;
sub.u32 %r4, 63, %r0; mad.wide.u32 %d8, %r4, 4, %d1;
ld.global.u32 %r5, [%d8];
st.global.u32 [%d7], %r5;
ret;
}
"""
