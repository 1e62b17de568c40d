"""warpgroup.ptx (PTX 9.4, sm_90a) as a program, written by ``pyptx transpile``."""

from pyptx import Program, Sym, b8, b32, b64, f32, pred, ptx, reg, s32, s64, u32, u64

program = Program("sm_90a", version=(9, 4))
global_smem = program.shared(b8, shape=(0,), align=16, external=True)
pointer = ptx.param(u64, pointer="global", align=1)


@program.entry(params=(pointer, pointer, pointer, u32, pointer, pointer), reqntid=128)
def warpgroup(param_0: Sym, param_1: Sym, param_2: Sym, param_3: Sym, param_4: Sym, param_5: Sym) -> None:
    p2, p1, p4, p5 = reg.array(pred, 4)
    r10 = reg.scalar(s32)
    rd12, rd98 = reg.array(u64, 2)
    r18, r32, r61, r62, r63 = reg.array(b32, 5)
    rd34 = reg.scalar(s64)
    acc = reg.array(f32, 64)
    address = reg.array(s64, 7)
    address_1 = reg.array(s64, 7)
    address_2 = reg.array(s64, 7)
    address_3 = reg.array(s64, 7)
    address_4 = reg.array(s64, 8)
    address_5 = reg.array(s64, 8)
    address_6 = reg.array(s64, 8)
    address_7 = reg.array(s64, 8)
    loaded = reg.array(b32, 7)
    loaded_3 = reg.array(b32, 7)
    loaded_4 = reg.array(b32, 8)
    loaded_5 = reg.array(b32, 8)
    loaded_1 = reg.array(b32, 7)
    loaded_2 = reg.array(b32, 7)
    loaded_6 = reg.array(b32, 8)
    loaded_7 = reg.array(b32, 8)
    arg_3 = ptx.load(b32, param_3, space="param").view(s32)
    ctaid_x = ptx.special.ctaid.x()
    ctaid_y = ptx.special.ctaid.y()
    arg_4 = ptx.load(b64, param_4, space="param").view(s64)
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
    tid_x = ptx.special.tid.x().view(s32)
    r2 = tid_x & 0x7f
    ptx.inst.setp.lt.u32(p2, r2, 32)
    r9 = r2 << 2
    ptx.inst.mov.b32(r10, global_smem)
    r13 = r10 + r9
    r3 = reg.scalar(b32, init=0)
    ptx.inst["st.shared::cta.b32"](ptx.addr(r13), r3, pred=p2)
    ptx.inst.bar.warp.sync(-1)
    ptx.inst.setp.ne.b32(p1, r2, 0)
    with ptx.if_(~p1):
        rd9 = reg.scalar(u64)
        arg_0 = ptx.load(b64, param_0, space="param")
        ptx.inst.cvt.u64.u32(rd9, r10)
        ptx.inst["tensormap.replace.tile.global_address.shared::cta.b1024.b64"](ptx.addr(rd9), arg_0)
        ptx.inst["tensormap.replace.tile.rank.shared::cta.b1024.b32"](ptx.addr(rd9), 1)
        r11 = reg.scalar(b32, init=64)
        ptx.inst["tensormap.replace.tile.box_dim.shared::cta.b1024.b32"](ptx.addr(rd9), 0, r11)
        ptx.inst["tensormap.replace.tile.box_dim.shared::cta.b1024.b32"](ptx.addr(rd9), 1, r11)
        ptx.inst["tensormap.replace.tile.global_dim.shared::cta.b1024.b32"](ptx.addr(rd9), 0, arg_3)
        ptx.inst["tensormap.replace.tile.global_dim.shared::cta.b1024.b32"](ptx.addr(rd9), 1, r11)
        ptx.inst["tensormap.replace.tile.global_stride.shared::cta.b1024.b64"](ptx.addr(rd9), 0, rd14)
        r12 = reg.scalar(b32, init=1)
        ptx.inst["tensormap.replace.tile.element_stride.shared::cta.b1024.b32"](ptx.addr(rd9), 0, r12)
        ptx.inst["tensormap.replace.tile.element_stride.shared::cta.b1024.b32"](ptx.addr(rd9), 1, r12)
        ptx.inst["tensormap.replace.tile.elemtype.shared::cta.b1024.b32"](ptx.addr(rd9), 6)
        ptx.inst["tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32"](ptx.addr(rd9), 3)
    ptx.inst.bar.warp.sync(-1)
    ptx.inst.cvt.u64.u32(rd12, r10)
    ptx.inst["tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"](
        ptx.addr(rd11),
        ptx.addr(rd12),
        128,
        pred=p2,
    )
    ptx.inst["fence.proxy.tensormap::generic.acquire.gpu"](ptx.addr(rd11), 128, pred=p2)
    ptx.cp.async_.bulk.commit_group(pred=p2)
    ptx.cp.async_.bulk.wait_group(0, read=True, pred=p2)
    ptx.bar.sync(0)
    rd15 = rd11 + 128
    ptx.inst["st.shared::cta.b32"](ptx.addr(r13), r3, pred=p2)
    ptx.inst.bar.warp.sync(-1)
    with ptx.if_(~p1):
        arg_1 = ptx.load(b64, param_1, space="param")
        ptx.inst["tensormap.replace.tile.global_address.shared::cta.b1024.b64"](ptx.addr(rd12), arg_1)
        ptx.inst["tensormap.replace.tile.rank.shared::cta.b1024.b32"](ptx.addr(rd12), 1)
        r14 = reg.scalar(b32, init=64)
        ptx.inst["tensormap.replace.tile.box_dim.shared::cta.b1024.b32"](ptx.addr(rd12), 0, r14)
        r15 = reg.scalar(b32, init=128)
        ptx.inst["tensormap.replace.tile.box_dim.shared::cta.b1024.b32"](ptx.addr(rd12), 1, r15)
        ptx.inst["tensormap.replace.tile.global_dim.shared::cta.b1024.b32"](ptx.addr(rd12), 0, arg_3)
        ptx.inst["tensormap.replace.tile.global_dim.shared::cta.b1024.b32"](ptx.addr(rd12), 1, r15)
        ptx.inst["tensormap.replace.tile.global_stride.shared::cta.b1024.b64"](ptx.addr(rd12), 0, rd14)
        r17 = reg.scalar(b32, init=1)
        ptx.inst["tensormap.replace.tile.element_stride.shared::cta.b1024.b32"](ptx.addr(rd12), 0, r17)
        ptx.inst["tensormap.replace.tile.element_stride.shared::cta.b1024.b32"](ptx.addr(rd12), 1, r17)
        ptx.inst["tensormap.replace.tile.elemtype.shared::cta.b1024.b32"](ptx.addr(rd12), 6)
        ptx.inst["tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32"](ptx.addr(rd12), 3)
    arg_2 = ptx.load(b64, param_2, space="param").view(u64)
    ptx.inst.bar.warp.sync(-1)
    ptx.inst["tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"](
        ptx.addr(rd15),
        ptx.addr(rd12),
        128,
        pred=p2,
    )
    ptx.inst["fence.proxy.tensormap::generic.acquire.gpu"](ptx.addr(rd15), 128, pred=p2)
    ptx.cp.async_.bulk.commit_group(pred=p2)
    ptx.cp.async_.bulk.wait_group(0, read=True, pred=p2)
    ptx.bar.sync(0)
    ptx.inst.setp.lt.u32(p4, tid_x, 32)
    ptx.inst.elect.sync(ptx.pair(r18, p5), -1)
    p3 = p4 & p5
    r28 = r10 + 24576
    ptx.mbarrier.init(ptx.addr(r28), 1, pred=p3)
    p6 = arg_3 < 1
    ptx.inst.mov.b32(acc[0], 0.0)
    for i in range(63):
        ptx.inst.mov.b32(acc[i + 1], acc[0])
    with ptx.if_(~p6):
        r20, r21, r29, r121, r186 = reg.array(s32, 5)
        rd16, rd17, rd18, rd19, rd20, rd21, rd22, rd23 = reg.array(u64, 8)
        rd24 = ptx.cvta(rd11, "global")
        rd25 = ptx.cvta(rd15, "global")
        r19 = r10 + 16384
        ptx.inst.bfe.u32(r20, r19, 4, 0xf)
        ptx.inst.bfe.u32(r21, r10, 4, 0xf)
        ptx.inst.cvt.u64.u32(rd16, r20)
        rd26 = rd16 | 0x4000004000000000
        ptx.inst.cvt.u64.u32(rd17, r21)
        rd27 = rd17 | 0x4000004000000000
        ptx.inst.cvt.u64.u32(rd18, r20 + 2)
        rd28 = rd18 | 0x4000004000000000
        ptx.inst.cvt.u64.u32(rd19, r21 + 2)
        rd29 = rd19 | 0x4000004000000000
        ptx.inst.cvt.u64.u32(rd20, r20 + 4)
        rd30 = rd20 | 0x4000004000000000
        ptx.inst.cvt.u64.u32(rd21, r21 + 4)
        rd31 = rd21 | 0x4000004000000000
        ptx.inst.cvt.u64.u32(rd22, r20 + 6)
        rd32 = rd22 | 0x4000004000000000
        ptx.inst.cvt.u64.u32(rd23, r21 + 6)
        rd33 = rd23 | 0x4000004000000000
        ptx.inst.mov.b32(acc[0], 0.0)
        ptx.inst.mov.b32(r29, 0)
        ptx.inst.mov.b32(r121, r29)
        for i in range(63):
            ptx.inst.mov.b32(acc[i + 1], acc[0])
        ptx.inst.mov.b32(r186, r29)
        with ptx.do_while(lambda: r186 < arg_3):
            p7, p11, p12 = reg.array(pred, 3)
            r30, r31 = reg.array(b32, 2)
            ptx.inst.setp.eq.b32(p7, r2, 0)
            ptx.bar.sync(0)
            ptx.mbarrier.arrive_expect_tx(ptx.addr(r28), 24576, pred=p7)
            ptx.bar.sync(0)
            ptx.inst.elect.sync(ptx.pair(r30, p11), -1)
            ptx.inst["cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"](
                ptx.addr(r19),
                ptx.addr(rd24, coord=[r186, r29]),
                ptx.addr(r28),
                pred=p2 & p11,
            )
            ptx.fence.proxy_async(space="shared::cta")
            ptx.bar.sync(0)
            ptx.inst.elect.sync(ptx.pair(r31, p12), -1)
            ptx.inst["cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"](
                ptx.addr(r10),
                ptx.addr(rd25, coord=[r186, r29]),
                ptx.addr(r28),
                pred=p2 & p12,
            )
            ptx.mbarrier.wait(ptx.addr(r28), r121, uni=True)
            r121 ^= 1
            ptx.bar.sync(0)
            ptx.wgmma.fence()
            p10 = reg.scalar(pred, init=1)
            ptx.inst.wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16(acc, rd26, rd27, p10, 1, 1, 0, 0)
            ptx.inst.wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16(acc, rd28, rd29, p10, 1, 1, 0, 0)
            ptx.inst.wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16(acc, rd30, rd31, p10, 1, 1, 0, 0)
            ptx.inst.wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16(acc, rd32, rd33, p10, 1, 1, 0, 0)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            r186 += 64
    r96 = tid_x & 3
    r97 = r96 << 2
    ptx.bar.sync(0)
    r100 = (-(tid_x & 1)) & 0x1040
    r101 = tid_x << 2
    r102 = tid_x << 4
    r103 = tid_x << 5
    ptx.inst.mad.wide.u32(rd98, r103 & 0xf80, 4, arg_2)
    ptx.inst.mad.wide.u32(rd34, r97, 4, rd98)
    for i in range(7):
        ptx.inst.add.s64(address[i], rd34, 64 * i + 4)
        ptx.inst.add.s64(address_1[i], rd34, 64 * i + 8)
        ptx.inst.add.s64(address_2[i], rd34, 64 * i + 12)
        ptx.inst.add.s64(address_3[i], rd34, 64 * i + 64)
    rd63 = rd34 + 452
    rd64 = rd34 + 456
    rd65 = rd34 + 460
    for i in range(8):
        ptx.inst.add.s64(address_4[i], rd34, 64 * i + 16384)
        ptx.inst.add.s64(address_5[i], rd34, 64 * i + 16388)
        ptx.inst.add.s64(address_6[i], rd34, 64 * i + 16392)
        ptx.inst.add.s64(address_7[i], rd34, 64 * i + 16396)
    r105 = r102 & 0x1a0
    r106 = r101 & 0x10
    r108 = (r103 & 0xc00) | r106
    r110 = r108 | (r105 | r100)
    r111 = r10 + r110
    ptx.inst.st.shared.v4.b32(ptx.addr(r111), [acc[0], acc[1], acc[8], acc[9]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r111, 512), [acc[2], acc[3], acc[10], acc[11]])
    r113 = r10 + (r110 ^ 0x40)
    ptx.inst.st.shared.v4.b32(ptx.addr(r113), [acc[4], acc[5], acc[12], acc[13]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r113, 512), [acc[6], acc[7], acc[14], acc[15]])
    ptx.bar.sync(0)
    r114 = r96 << 5
    r117 = ((r102 & 0x780) | r114) | r106
    r118 = r10 + r117
    ptx.inst.ld.shared.v4.b32([r32, loaded[0], loaded_3[0], loaded[1]], ptx.addr(r118))
    ptx.inst.ld.shared.v4.b32([loaded_4[0], loaded_5[0], loaded_4[1], loaded_5[1]], ptx.addr(r118, 2048))
    r120 = r10 + (r117 ^ 0x40)
    ptx.inst.ld.shared.v4.b32([loaded_1[0], loaded_2[0], loaded_1[1], loaded_2[1]], ptx.addr(r120, 4096))
    ptx.inst.ld.shared.v4.b32([loaded_6[0], loaded_7[0], loaded_6[1], loaded_7[1]], ptx.addr(r120, 6144))
    ptx.bar.sync(0)
    ptx.inst.st.shared.v4.b32(ptx.addr(r111), [acc[16], acc[17], acc[24], acc[25]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r111, 512), [acc[18], acc[19], acc[26], acc[27]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r113), [acc[20], acc[21], acc[28], acc[29]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r113, 512), [acc[22], acc[23], acc[30], acc[31]])
    ptx.bar.sync(0)
    ptx.inst.ld.shared.v4.b32([loaded_3[1], loaded[2], loaded_3[2], loaded[3]], ptx.addr(r118))
    ptx.inst.ld.shared.v4.b32([loaded_4[2], loaded_5[2], loaded_4[3], loaded_5[3]], ptx.addr(r118, 2048))
    ptx.inst.ld.shared.v4.b32([loaded_1[2], loaded_2[2], loaded_1[3], loaded_2[3]], ptx.addr(r120, 4096))
    ptx.inst.ld.shared.v4.b32([loaded_6[2], loaded_7[2], loaded_6[3], loaded_7[3]], ptx.addr(r120, 6144))
    ptx.bar.sync(0)
    ptx.inst.st.shared.v4.b32(ptx.addr(r111), [acc[32], acc[33], acc[40], acc[41]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r111, 512), [acc[34], acc[35], acc[42], acc[43]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r113), [acc[36], acc[37], acc[44], acc[45]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r113, 512), [acc[38], acc[39], acc[46], acc[47]])
    ptx.bar.sync(0)
    ptx.inst.ld.shared.v4.b32([loaded_3[3], loaded[4], loaded_3[4], loaded[5]], ptx.addr(r118))
    ptx.inst.ld.shared.v4.b32([loaded_4[4], loaded_5[4], loaded_4[5], loaded_5[5]], ptx.addr(r118, 2048))
    ptx.inst.ld.shared.v4.b32([loaded_1[4], loaded_2[4], loaded_1[5], loaded_2[5]], ptx.addr(r120, 4096))
    ptx.inst.ld.shared.v4.b32([loaded_6[4], loaded_7[4], loaded_6[5], loaded_7[5]], ptx.addr(r120, 6144))
    ptx.bar.sync(0)
    ptx.inst.st.shared.v4.b32(ptx.addr(r111), [acc[48], acc[49], acc[56], acc[57]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r111, 512), [acc[50], acc[51], acc[58], acc[59]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r113), [acc[52], acc[53], acc[60], acc[61]])
    ptx.inst.st.shared.v4.b32(ptx.addr(r113, 512), [acc[54], acc[55], acc[62], acc[63]])
    ptx.bar.sync(0)
    ptx.inst.ld.shared.v4.b32([loaded_3[5], loaded[6], loaded_3[6], r61], ptx.addr(r118))
    ptx.inst.ld.shared.v4.b32([loaded_4[6], loaded_5[6], loaded_4[7], loaded_5[7]], ptx.addr(r118, 2048))
    ptx.inst.ld.shared.v4.b32([loaded_1[6], loaded_2[6], r62, r63], ptx.addr(r120, 4096))
    ptx.inst.ld.shared.v4.b32([loaded_6[6], loaded_7[6], loaded_6[7], loaded_7[7]], ptx.addr(r120, 6144))
    ptx.inst.st.global_.b32(ptx.addr(rd34), r32)
    for i in range(7):
        ptx.inst.st.global_.b32(ptx.addr(address[i]), loaded[i])
        ptx.inst.st.global_.b32(ptx.addr(address_1[i]), loaded_1[i])
        ptx.inst.st.global_.b32(ptx.addr(address_2[i]), loaded_2[i])
        ptx.inst.st.global_.b32(ptx.addr(address_3[i]), loaded_3[i])
    ptx.inst.st.global_.b32(ptx.addr(rd63), r61)
    ptx.inst.st.global_.b32(ptx.addr(rd64), r62)
    ptx.inst.st.global_.b32(ptx.addr(rd65), r63)
    for i in range(8):
        ptx.inst.st.global_.b32(ptx.addr(address_4[i]), loaded_4[i])
        ptx.inst.st.global_.b32(ptx.addr(address_5[i]), loaded_5[i])
        ptx.inst.st.global_.b32(ptx.addr(address_6[i]), loaded_6[i])
        ptx.inst.st.global_.b32(ptx.addr(address_7[i]), loaded_7[i])
    ptx.ret()


if __name__ == "__main__":
    print(program.ptx(), end="")
