"""tensor_memory.ptx (PTX 9.4, sm_100a) as a program, written by ``pyptx transpile``."""

from pyptx import Program, Sym, b8, b32, b64, pred, ptx, reg, s32, s64, u32, u64

program = Program("sm_100a", version=(9, 4))
global_smem = program.shared(b8, shape=(0,), align=16, external=True)
pointer = ptx.param(u64, pointer="global", align=1)


@program.entry(params=(pointer, pointer, pointer, u32, pointer, pointer), reqntid=128)
def tensor_memory(param_0: Sym, param_1: Sym, param_2: Sym, param_3: Sym, param_4: Sym, param_5: Sym) -> None:
    p1, p3, p2, p6, p7, p8 = reg.array(pred, 6)
    r4, r306 = reg.array(s32, 2)
    rd12, rd154 = reg.array(u64, 2)
    r3 = reg.scalar(u32)
    r20, r21, r177 = reg.array(b32, 3)
    rd26 = reg.scalar(s64)
    acc = reg.array(b32, 128)
    frag = reg.array(b32, 28)
    frag_1 = reg.array(b32, 28)
    frag_2 = reg.array(b32, 28)
    frag_3 = reg.array(b32, 28)
    frag_4 = reg.array(b32, 4)
    frag_5 = reg.array(b32, 4)
    frag_6 = reg.array(b32, 4)
    frag_7 = reg.array(b32, 4)
    address = reg.array(s64, 7)
    address_1 = reg.array(s64, 7)
    address_2 = reg.array(s64, 7)
    address_3 = reg.array(s64, 7)
    address_4 = reg.array(s64, 8)
    address_5 = reg.array(s64, 8)
    address_6 = reg.array(s64, 8)
    address_7 = reg.array(s64, 8)
    address_8 = reg.array(s64, 8)
    address_9 = reg.array(s64, 8)
    address_10 = reg.array(s64, 8)
    address_11 = reg.array(s64, 8)
    address_12 = reg.array(s64, 8)
    address_13 = reg.array(s64, 8)
    address_14 = reg.array(s64, 8)
    address_15 = reg.array(s64, 8)
    arg_3 = ptx.load(b32, param_3, space="param").view(s32)
    tid_x = ptx.special.tid.x().view(s32)
    ptx.inst.setp.lt.u32(p1, tid_x, 32)
    ptx.inst.mov.b32(r4, global_smem)
    ptx.inst["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](ptx.addr(r4), 128, pred=p1)
    ptx.bar.sync(0)
    arg_4 = ptx.load(b64, param_4, space="param").view(s64)
    r37 = ptx.load(b32, global_smem, space="shared")
    ptx.bar.sync(0)
    ptx.tcgen05.relinquish_alloc_permit(pred=p1)
    ctaid_x = ptx.special.ctaid.x()
    ctaid_y = ptx.special.ctaid.y()
    ctaid_z = ptx.special.ctaid.z()
    nctaid_x = ptx.special.nctaid.x()
    nctaid_y = ptx.special.nctaid.y()
    rd3 = ptx.cvt(ctaid_y, u64)
    rd4 = ptx.mad(ctaid_z, nctaid_y, rd3, half="wide").view(s64)
    rd5 = ptx.cvt(ctaid_x, u64).view(s64)
    rd6 = ptx.cvt(nctaid_x, u64).view(s64)
    rd7 = ptx.mad(rd4, rd6, rd5)
    rd11 = arg_4 + (rd7 << 8)
    rd14 = ptx.mul(arg_3, 2, half="wide")
    r2 = tid_x & 0x7f
    ptx.inst.setp.lt.u32(p3, r2, 32)
    r15 = r4 + (r2 << 2)
    r5 = reg.scalar(b32, init=0)
    ptx.inst["st.shared::cta.b32"](ptx.addr(r15), r5, pred=p3)
    ptx.inst.bar.warp.sync(-1)
    ptx.inst.setp.ne.b32(p2, r2, 0)
    with ptx.if_(~p2):
        rd9 = reg.scalar(u64)
        arg_0 = ptx.load(b64, param_0, space="param")
        ptx.inst.cvt.u64.u32(rd9, r4)
        ptx.inst["tensormap.replace.tile.global_address.shared::cta.b1024.b64"](ptx.addr(rd9), arg_0)
        ptx.inst["tensormap.replace.tile.rank.shared::cta.b1024.b32"](ptx.addr(rd9), 1)
        r12 = reg.scalar(b32, init=64)
        ptx.inst["tensormap.replace.tile.box_dim.shared::cta.b1024.b32"](ptx.addr(rd9), 0, r12)
        r13 = reg.scalar(b32, init=128)
        ptx.inst["tensormap.replace.tile.box_dim.shared::cta.b1024.b32"](ptx.addr(rd9), 1, r13)
        ptx.inst["tensormap.replace.tile.global_dim.shared::cta.b1024.b32"](ptx.addr(rd9), 0, arg_3)
        ptx.inst["tensormap.replace.tile.global_dim.shared::cta.b1024.b32"](ptx.addr(rd9), 1, r13)
        ptx.inst["tensormap.replace.tile.global_stride.shared::cta.b1024.b64"](ptx.addr(rd9), 0, rd14)
        r14 = reg.scalar(b32, init=1)
        ptx.inst["tensormap.replace.tile.element_stride.shared::cta.b1024.b32"](ptx.addr(rd9), 0, r14)
        ptx.inst["tensormap.replace.tile.element_stride.shared::cta.b1024.b32"](ptx.addr(rd9), 1, r14)
        ptx.inst["tensormap.replace.tile.elemtype.shared::cta.b1024.b32"](ptx.addr(rd9), 6)
        ptx.inst["tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32"](ptx.addr(rd9), 3)
    ptx.inst.bar.warp.sync(-1)
    ptx.inst.cvt.u64.u32(rd12, r4)
    ptx.inst["tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"](
        ptx.addr(rd11),
        ptx.addr(rd12),
        128,
        pred=p3,
    )
    ptx.inst["fence.proxy.tensormap::generic.acquire.gpu"](ptx.addr(rd11), 128, pred=p3)
    ptx.cp.async_.bulk.commit_group(pred=p3)
    ptx.cp.async_.bulk.wait_group(0, read=True, pred=p3)
    ptx.bar.sync(0)
    rd15 = rd11 + 128
    ptx.inst["st.shared::cta.b32"](ptx.addr(r15), r5, pred=p3)
    ptx.inst.bar.warp.sync(-1)
    with ptx.if_(~p2):
        arg_1 = ptx.load(b64, param_1, space="param")
        ptx.inst["tensormap.replace.tile.global_address.shared::cta.b1024.b64"](ptx.addr(rd12), arg_1)
        ptx.inst["tensormap.replace.tile.rank.shared::cta.b1024.b32"](ptx.addr(rd12), 1)
        r16 = reg.scalar(b32, init=64)
        ptx.inst["tensormap.replace.tile.box_dim.shared::cta.b1024.b32"](ptx.addr(rd12), 0, r16)
        r17 = reg.scalar(b32, init=128)
        ptx.inst["tensormap.replace.tile.box_dim.shared::cta.b1024.b32"](ptx.addr(rd12), 1, r17)
        ptx.inst["tensormap.replace.tile.global_dim.shared::cta.b1024.b32"](ptx.addr(rd12), 0, arg_3)
        ptx.inst["tensormap.replace.tile.global_dim.shared::cta.b1024.b32"](ptx.addr(rd12), 1, r17)
        ptx.inst["tensormap.replace.tile.global_stride.shared::cta.b1024.b64"](ptx.addr(rd12), 0, rd14)
        r19 = reg.scalar(b32, init=1)
        ptx.inst["tensormap.replace.tile.element_stride.shared::cta.b1024.b32"](ptx.addr(rd12), 0, r19)
        ptx.inst["tensormap.replace.tile.element_stride.shared::cta.b1024.b32"](ptx.addr(rd12), 1, r19)
        ptx.inst["tensormap.replace.tile.elemtype.shared::cta.b1024.b32"](ptx.addr(rd12), 6)
        ptx.inst["tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32"](ptx.addr(rd12), 3)
    arg_2 = ptx.load(b64, param_2, space="param").view(u64)
    ptx.inst.bar.warp.sync(-1)
    ptx.inst["tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"](
        ptx.addr(rd15),
        ptx.addr(rd12),
        128,
        pred=p3,
    )
    ptx.inst["fence.proxy.tensormap::generic.acquire.gpu"](ptx.addr(rd15), 128, pred=p3)
    ptx.cp.async_.bulk.commit_group(pred=p3)
    ptx.cp.async_.bulk.wait_group(0, read=True, pred=p3)
    ptx.bar.sync(0)
    ptx.inst.shr.u32(r3, tid_x, 5)
    ptx.inst.setp.eq.b32(p6, r3, 0)
    ptx.inst.elect.sync(ptx.pair(r20, p7), -1)
    p4 = p6 & p7
    r22 = r4 + 32768
    ptx.mbarrier.init(ptx.addr(r22), 1, pred=p4)
    ptx.inst.elect.sync(ptx.pair(r21, p8), -1)
    p5 = p6 & p8
    r40 = r4 + 32784
    ptx.mbarrier.init(ptx.addr(r40), 1, pred=p5)
    with ptx.if_(~(arg_3 < 1)):
        p10, p13, p14, p20, p21 = reg.array(pred, 5)
        r25, r26 = reg.array(s32, 2)
        rd16, rd17, rd18, rd19, rd20, rd21, rd22, rd23 = reg.array(b64, 8)
        r34, r35, r36, r41 = reg.array(b32, 4)
        rd24 = ptx.cvta(rd11, "global")
        rd25 = ptx.cvta(rd15, "global")
        ptx.inst.setp.eq.b32(p10, r2, 0)
        ptx.inst.bfe.u32(r25, r4, 4, 0xf)
        r24 = r4 + 16384
        ptx.inst.bfe.u32(r26, r24, 4, 0xf)
        r27 = reg.scalar(b32, init=0x40004040)
        ptx.inst.mov.b64(rd16, [r25, r27])
        ptx.inst.mov.b64(rd17, [r26, r27])
        ptx.inst.mov.b64(rd18, [r25 + 2, r27])
        ptx.inst.mov.b64(rd19, [r26 + 2, r27])
        ptx.inst.mov.b64(rd20, [r25 + 4, r27])
        ptx.inst.mov.b64(rd21, [r26 + 4, r27])
        ptx.inst.mov.b64(rd22, [r25 + 6, r27])
        ptx.inst.mov.b64(rd23, [r26 + 6, r27])
        ptx.bar.sync(0)
        ptx.mbarrier.arrive_expect_tx(ptx.addr(r22), 32768, pred=p10)
        ptx.fence.proxy_async(space="shared::cta")
        ptx.bar.sync(0)
        ptx.inst.elect.sync(ptx.pair(r34, p13), -1)
        p11 = p3 & p13
        r23 = reg.scalar(b32, init=0)
        ptx.inst["cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"](
            ptx.addr(r4),
            ptx.addr(rd24, coord=[r23, r23]),
            ptx.addr(r22),
            pred=p11,
        )
        ptx.bar.sync(0)
        ptx.inst.elect.sync(ptx.pair(r35, p14), -1)
        ptx.inst["cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"](
            ptx.addr(r24),
            ptx.addr(rd25, coord=[r23, r23]),
            ptx.addr(r22),
            pred=p3 & p14,
        )
        ptx.mbarrier.wait(ptx.addr(r22), r23, uni=True)
        ptx.bar.sync(0)
        ptx.inst.shfl.sync.idx.b32(r36, r3, 0, 31, -1)
        with ptx.if_(~(r36 != 0)):
            r39 = reg.scalar(b32)
            p17 = reg.scalar(pred)
            ptx.inst.elect.sync(ptx.pair(r39, p17), -1)
            r38 = reg.scalar(b32, init=0x8200010)
            p16 = reg.scalar(pred, init=0)
            ptx.inst["tcgen05.mma.cta_group::1.kind::f16"](ptx.addr(r37), rd16, rd17, r38, p16, pred=p17)
            p18 = reg.scalar(pred, init=1)
            ptx.inst["tcgen05.mma.cta_group::1.kind::f16"](ptx.addr(r37), rd18, rd19, r38, p18, pred=p17)
            ptx.inst["tcgen05.mma.cta_group::1.kind::f16"](ptx.addr(r37), rd20, rd21, r38, p18, pred=p17)
            ptx.inst["tcgen05.mma.cta_group::1.kind::f16"](ptx.addr(r37), rd22, rd23, r38, p18, pred=p17)
        ptx.bar.sync(0)
        ptx.inst.elect.sync(ptx.pair(r41, p20), -1)
        ptx.inst["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
            ptx.addr(r40),
            pred=p6 & p20,
        )
        ptx.bar.sync(0)
        ptx.mbarrier.wait(ptx.addr(r40), r23, uni=True)
        ptx.inst.setp.lt.u32(p21, arg_3, 65)
        with ptx.if_(~p21):
            r324 = reg.scalar(s32)
            r48, r43, r44, r45, r47 = reg.array(b32, 5)
            p30, p24, p25, p28 = reg.array(pred, 4)
            ptx.inst.mov.b32(r324, 64)
            r323 = reg.scalar(b32, init=1)
            ptx.bra("BB0_9", uni=True)
            ptx.label("BB0_11")
            ptx.bar.sync(0)
            ptx.inst.elect.sync(ptx.pair(r48, p30), -1)
            ptx.inst["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"](
                ptx.addr(r40),
                pred=p6 & p30,
            )
            ptx.bar.sync(0)
            ptx.mbarrier.wait(ptx.addr(r40), r323, uni=True)
            r323 ^= 1
            r324 += 64
            ptx.bra("BB0_12", pred=~(r324 < arg_3))
            ptx.label("BB0_9")
            ptx.bar.sync(0)
            ptx.mbarrier.arrive_expect_tx(ptx.addr(r22), 32768, pred=p10)
            ptx.fence.proxy_async(space="shared::cta")
            ptx.bar.sync(0)
            ptx.inst.elect.sync(ptx.pair(r43, p24), -1)
            p22 = p3 & p24
            r42 = reg.scalar(b32, init=0)
            ptx.inst["cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"](
                ptx.addr(r4),
                ptx.addr(rd24, coord=[r324, r42]),
                ptx.addr(r22),
                pred=p22,
            )
            ptx.bar.sync(0)
            ptx.inst.elect.sync(ptx.pair(r44, p25), -1)
            ptx.inst["cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"](
                ptx.addr(r24),
                ptx.addr(rd25, coord=[r324, r42]),
                ptx.addr(r22),
                pred=p3 & p25,
            )
            ptx.mbarrier.wait(ptx.addr(r22), r323, uni=True)
            ptx.bar.sync(0)
            ptx.inst.shfl.sync.idx.b32(r45, r3, 0, 31, -1)
            ptx.bra("BB0_11", pred=r45 != 0)
            ptx.inst.elect.sync(ptx.pair(r47, p28), -1)
            r46 = reg.scalar(b32, init=0x8200010)
            p27 = reg.scalar(pred, init=1)
            ptx.inst["tcgen05.mma.cta_group::1.kind::f16"](ptx.addr(r37), rd16, rd17, r46, p27, pred=p28)
            ptx.inst["tcgen05.mma.cta_group::1.kind::f16"](ptx.addr(r37), rd18, rd19, r46, p27, pred=p28)
            ptx.inst["tcgen05.mma.cta_group::1.kind::f16"](ptx.addr(r37), rd20, rd21, r46, p27, pred=p28)
            ptx.inst["tcgen05.mma.cta_group::1.kind::f16"](ptx.addr(r37), rd22, rd23, r46, p27, pred=p28)
            ptx.bra("BB0_11", uni=True)
    ptx.label("BB0_12")
    ptx.inst.shfl.sync.idx.b32(r306, r3, 0, 31, -1)
    ptx.inst.add.s32(r177, (r306 << 21) & 0x600000, r37)
    ptx.inst.tcgen05.ld.sync.aligned._32x32b.x128.b32(acc, ptx.addr(r177))
    ptx.tcgen05.wait_ld()
    r309 = tid_x << 4
    r311 = r4 + (r309 & 0x7f0)
    ptx.inst.st.shared.v4.b32(ptx.addr(r311), [acc[0], acc[4], acc[8], acc[12]])
    ptx.bar.sync(0)
    r313 = (tid_x << 6) & 0x600
    r314 = r309 & 0x70
    r315 = tid_x << 2
    r316 = r315 & 0x180
    r319 = ((r4 + r313) + r314) + r316
    for i in range(7):
        ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag[4 * i : 4 * i + 4], ptx.addr(r319))
        ptx.bar.sync(0)
        ptx.inst.st.shared.v4.b32(
            ptx.addr(r311),
            [acc[16 * i + 1], acc[16 * i + 5], acc[16 * i + 9], acc[16 * i + 13]],
        )
        ptx.bar.sync(0)
        ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_1[4 * i : 4 * i + 4], ptx.addr(r319))
        ptx.bar.sync(0)
        ptx.inst.st.shared.v4.b32(
            ptx.addr(r311),
            [acc[16 * i + 2], acc[16 * i + 6], acc[16 * i + 10], acc[16 * i + 14]],
        )
        ptx.bar.sync(0)
        ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_2[4 * i : 4 * i + 4], ptx.addr(r319))
        ptx.bar.sync(0)
        ptx.inst.st.shared.v4.b32(
            ptx.addr(r311),
            [acc[16 * i + 3], acc[16 * i + 7], acc[16 * i + 11], acc[16 * i + 15]],
        )
        ptx.bar.sync(0)
        ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_3[4 * i : 4 * i + 4], ptx.addr(r319))
        ptx.bar.sync(0)
        ptx.inst.st.shared.v4.b32(
            ptx.addr(r311),
            [acc[16 * i + 16], acc[16 * i + 20], acc[16 * i + 24], acc[16 * i + 28]],
        )
        ptx.bar.sync(0)
    ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_4, ptx.addr(r319))
    ptx.bar.sync(0)
    ptx.inst.st.shared.v4.b32(ptx.addr(r311), [acc[113], acc[117], acc[121], acc[125]])
    ptx.bar.sync(0)
    ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_5, ptx.addr(r319))
    ptx.bar.sync(0)
    ptx.inst.st.shared.v4.b32(ptx.addr(r311), [acc[114], acc[118], acc[122], acc[126]])
    ptx.bar.sync(0)
    ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_6, ptx.addr(r319))
    ptx.bar.sync(0)
    ptx.inst.st.shared.v4.b32(ptx.addr(r311), [acc[115], acc[119], acc[123], acc[127]])
    ptx.bar.sync(0)
    ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_7, ptx.addr(r319))
    r320 = r315 & 0xc
    ptx.inst.mad.wide.u32(rd154, (tid_x << 5) & 0xf80, 4, arg_2)
    ptx.inst.mad.wide.u32(rd26, r320, 4, rd154)
    for i in range(7):
        ptx.inst.add.s64(address[i], rd26, 64 * i + 4)
        ptx.inst.add.s64(address_1[i], rd26, 64 * i + 8)
        ptx.inst.add.s64(address_2[i], rd26, 64 * i + 12)
        ptx.inst.add.s64(address_3[i], rd26, 64 * i + 64)
    rd55 = rd26 + 452
    rd56 = rd26 + 456
    rd57 = rd26 + 460
    for i in range(8):
        ptx.inst.add.s64(address_4[i], rd26, 64 * i + 16384)
        ptx.inst.add.s64(address_5[i], rd26, 64 * i + 16388)
        ptx.inst.add.s64(address_6[i], rd26, 64 * i + 16392)
        ptx.inst.add.s64(address_7[i], rd26, 64 * i + 16396)
    for i in range(8):
        ptx.inst.add.s64(address_8[i], rd26, 64 * i + 32768)
        ptx.inst.add.s64(address_9[i], rd26, 64 * i + 32772)
        ptx.inst.add.s64(address_10[i], rd26, 64 * i + 32776)
        ptx.inst.add.s64(address_11[i], rd26, 64 * i + 32780)
    for i in range(8):
        ptx.inst.add.s64(address_12[i], rd26, 64 * i + 49152)
        ptx.inst.add.s64(address_13[i], rd26, 64 * i + 49156)
        ptx.inst.add.s64(address_14[i], rd26, 64 * i + 49160)
        ptx.inst.add.s64(address_15[i], rd26, 64 * i + 49164)
    ptx.inst.st.global_.b32(ptx.addr(rd26), frag[0])
    for i in range(6):
        ptx.inst.st.global_.b32(ptx.addr(address[i]), frag_1[4 * i])
        ptx.inst.st.global_.b32(ptx.addr(address_1[i]), frag_2[4 * i])
        ptx.inst.st.global_.b32(ptx.addr(address_2[i]), frag_3[4 * i])
        ptx.inst.st.global_.b32(ptx.addr(address_3[i]), frag[4 * i + 4])
    ptx.inst.st.global_.b32(ptx.addr(address[6]), frag_1[24])
    ptx.inst.st.global_.b32(ptx.addr(address_1[6]), frag_2[24])
    ptx.inst.st.global_.b32(ptx.addr(address_2[6]), frag_3[24])
    ptx.inst.st.global_.b32(ptx.addr(address_3[6]), frag_4[0])
    ptx.inst.st.global_.b32(ptx.addr(rd55), frag_5[0])
    ptx.inst.st.global_.b32(ptx.addr(rd56), frag_6[0])
    ptx.inst.st.global_.b32(ptx.addr(rd57), frag_7[0])
    for i in range(7):
        ptx.inst.st.global_.b32(ptx.addr(address_4[i]), frag[4 * i + 1])
        ptx.inst.st.global_.b32(ptx.addr(address_5[i]), frag_1[4 * i + 1])
        ptx.inst.st.global_.b32(ptx.addr(address_6[i]), frag_2[4 * i + 1])
        ptx.inst.st.global_.b32(ptx.addr(address_7[i]), frag_3[4 * i + 1])
    ptx.inst.st.global_.b32(ptx.addr(address_4[7]), frag_4[1])
    ptx.inst.st.global_.b32(ptx.addr(address_5[7]), frag_5[1])
    ptx.inst.st.global_.b32(ptx.addr(address_6[7]), frag_6[1])
    ptx.inst.st.global_.b32(ptx.addr(address_7[7]), frag_7[1])
    for i in range(7):
        ptx.inst.st.global_.b32(ptx.addr(address_8[i]), frag[4 * i + 2])
        ptx.inst.st.global_.b32(ptx.addr(address_9[i]), frag_1[4 * i + 2])
        ptx.inst.st.global_.b32(ptx.addr(address_10[i]), frag_2[4 * i + 2])
        ptx.inst.st.global_.b32(ptx.addr(address_11[i]), frag_3[4 * i + 2])
    ptx.inst.st.global_.b32(ptx.addr(address_8[7]), frag_4[2])
    ptx.inst.st.global_.b32(ptx.addr(address_9[7]), frag_5[2])
    ptx.inst.st.global_.b32(ptx.addr(address_10[7]), frag_6[2])
    ptx.inst.st.global_.b32(ptx.addr(address_11[7]), frag_7[2])
    for i in range(7):
        ptx.inst.st.global_.b32(ptx.addr(address_12[i]), frag[4 * i + 3])
        ptx.inst.st.global_.b32(ptx.addr(address_13[i]), frag_1[4 * i + 3])
        ptx.inst.st.global_.b32(ptx.addr(address_14[i]), frag_2[4 * i + 3])
        ptx.inst.st.global_.b32(ptx.addr(address_15[i]), frag_3[4 * i + 3])
    ptx.inst.st.global_.b32(ptx.addr(address_12[7]), frag_4[3])
    ptx.inst.st.global_.b32(ptx.addr(address_13[7]), frag_5[3])
    ptx.inst.st.global_.b32(ptx.addr(address_14[7]), frag_6[3])
    ptx.inst.st.global_.b32(ptx.addr(address_15[7]), frag_7[3])
    ptx.inst.barrier.sync(0)
    ptx.inst["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](r37, 128, pred=p1)
    ptx.ret()


if __name__ == "__main__":
    print(program.ptx(), end="")
