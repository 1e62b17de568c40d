"""matmul.ptx (PTX 8.8, sm_80) as a program, written by ``pyptx transpile``."""

from pyptx import Program, Sym, b8, b32, b64, f32, pred, ptx, reg, s32, s64, u32, u64

program = Program("sm_80", version=(8, 8))
global_smem = program.shared(b8, shape=(0,), align=16, external=True)
pointer = ptx.param(u64, pointer="global", align=1)


@program.entry(params=(pointer, pointer, pointer, u32, u32, u32, pointer, pointer), reqntid=128)
def matmul(
    param_0: Sym,
    param_1: Sym,
    param_2: Sym,
    param_3: Sym,
    param_4: Sym,
    param_5: Sym,
    param_6: Sym,
    param_7: Sym,
) -> None:
    r77, r4, r117, r119, r372, r450 = reg.array(s32, 6)
    rd54, rd17, rd18 = reg.array(s64, 3)
    r58, r151, r152 = reg.array(b32, 3)
    p71 = reg.scalar(pred)
    address = reg.array(s64, 15)
    total = reg.array(s32, 7)
    total_1 = reg.array(s32, 8)
    product_1 = reg.array(s32, 9)
    acc_1 = reg.array(s32, 7)
    address_2 = reg.array(s64, 9)
    address_3 = reg.array(s64, 7)
    total_2 = reg.array(s32, 6)
    v_2 = reg.array(b32, 6)
    total_3 = reg.array(s32, 4)
    total_4 = reg.array(s32, 4)
    frag = reg.array(b32, 4)
    frag_1 = reg.array(b32, 4)
    acc = reg.array(f32, 32)
    address_6 = reg.array(s64, 15)
    address_7 = reg.array(s64, 16)
    loaded_4 = reg.array(b32, 32)
    arg_5 = ptx.load(b32, param_5, space="param").view(s32)
    arg_4 = ptx.load(b32, param_4, space="param").view(s32)
    arg_3 = ptx.load(b32, param_3, space="param").view(s32)
    arg_2 = ptx.load(b64, param_2, space="param").view(s64)
    arg_0 = ptx.load(b64, param_0, space="param").view(s64)
    arg_1 = ptx.load(b64, param_1, space="param").view(u64)
    ctaid_x = ptx.special.ctaid.x().view(s32)
    r1 = ctaid_x << 6
    tid_x = ptx.special.tid.x().view(s32)
    r76 = tid_x & 0x60
    ptx.inst.bfe.u32(r77, tid_x, 5, 2)
    r3 = tid_x & 0x40
    r78 = ptx.bfe(tid_x, 6, 1)
    ptx.inst.bfe.u32(r4, tid_x, 6, 1)
    v = [r4 | (2 * i + 2) for i in range(15)]
    r79 = tid_x & 0x3f
    r80 = r77 | r1
    v_1 = [r80 | (4 * i + 4) for i in range(15)]
    ctaid_y = ptx.special.ctaid.y().view(s32)
    r98 = (ctaid_y << 6) | r79
    r20 = tid_x & 0x1f
    r99 = arg_5 * r80
    product = [arg_5 * v_1[i] for i in range(15)]
    rd1 = ptx.mad(r99, 4, arg_0, half="wide")
    for i in range(15):
        ptx.inst.mad.wide.s32(address[i], product[i], 4, arg_0)
    p1 = arg_5 < 1
    p2 = arg_5 > 0
    p3 = r20 < arg_5
    ptx.inst.mul.wide.u32(rd54, r20, 4)
    rd20 = rd1 + rd54
    address_1 = [address[i] + rd54 for i in range(15)]
    r116 = (tid_x << 2) & 0x1fc
    ptx.inst.shr.u32(r117, r76, 1)
    r118 = r116 ^ r117
    ptx.inst.mov.b32(r119, global_smem)
    r224 = r119 + r118
    ptx.inst.selp.b32(r58, 4, 0, p3)
    ptx.inst.cp.async_.ca.shared.global_(ptx.addr(r224), ptx.addr(rd20), 4, r58)
    for i in range(7):
        ptx.inst.add.s32(total[i], r224, 1024 * i + 1024)
        ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total[i]), ptx.addr(address_1[2 * i + 1]), 4, r58)
    r121 = r119 + (r118 ^ 0x40)
    for i in range(8):
        ptx.inst.add.s32(total_1[i], r121, 1024 * i + 512)
        ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_1[i]), ptx.addr(address_1[2 * i]), 4, r58)
    ptx.cp.async_.commit_group()
    p4 = r4 < arg_5
    p = [v[i] < arg_5 for i in range(15)]
    ptx.inst.mul.lo.s32(product_1[0], arg_4, r4)
    ptx.inst.add.s32(product_1[1], product_1[0], arg_4 << 1)
    ptx.inst.add.s32(product_1[2], product_1[0], arg_4 << 2)
    ptx.inst.mad.lo.s32(product_1[3], arg_4, 6, product_1[0])
    ptx.inst.add.s32(product_1[4], product_1[0], arg_4 << 3)
    ptx.inst.mad.lo.s32(product_1[5], arg_4, 10, product_1[0])
    ptx.inst.mad.lo.s32(product_1[6], arg_4, 12, product_1[0])
    ptx.inst.mad.lo.s32(product_1[7], arg_4, 14, product_1[0])
    ptx.inst.add.s32(product_1[8], product_1[0], arg_4 << 4)
    for i in range(7):
        ptx.inst.mad.lo.s32(acc_1[i], arg_4, 2 * i + 18, product_1[0])
    ptx.inst.cvt.u64.u32(rd17, r98)
    ptx.inst.mad.wide.u32(rd18, r98, 4, arg_1)
    for i in range(9):
        ptx.inst.mad.wide.s32(address_2[i], product_1[i], 4, rd18)
    for i in range(7):
        ptx.inst.mad.wide.s32(address_3[i], acc_1[i], 4, rd18)
    r142 = r79 << 2
    r144 = (r78 & 0x120) ^ r142
    r145 = r119 + r144
    ptx.inst.add.s32(total_2[0], r145, 8192)
    ptx.inst.selp.b32(v_2[0], 4, 0, p4)
    for i in range(5):
        r146 = reg.scalar(b32)
        ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_2[i]), ptx.addr(address_2[2 * i]), 4, v_2[i])
        ptx.inst.add.s32(total_2[i + 1], r145, 1024 * i + 9216)
        ptx.inst.selp.b32(r146, 4, 0, p[2 * i + 1])
        ptx.inst.selp.b32(v_2[i + 1], r146, 0, p2)
    ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_2[5]), ptx.addr(address_3[1]), 4, v_2[5])
    r253 = r145 + 14336
    ptx.inst.selp.b32(r151, 4, 0, p[11])
    r65 = ptx.selp(r151, 0, p2)
    ptx.inst.cp.async_.ca.shared.global_(ptx.addr(r253), ptx.addr(address_3[3]), 4, r65)
    r255 = r145 + 15360
    ptx.inst.selp.b32(r152, 4, 0, p[13])
    r66 = ptx.selp(r152, 0, p2)
    ptx.inst.cp.async_.ca.shared.global_(ptx.addr(r255), ptx.addr(address_3[5]), 4, r66)
    r154 = r119 + (r144 ^ 0x40)
    for i in range(4):
        r155 = reg.scalar(b32)
        ptx.inst.add.s32(total_3[i], r154, 1024 * i + 8704)
        ptx.inst.selp.b32(r155, 4, 0, p[2 * i])
        r67 = ptx.selp(r155, 0, p2)
        ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_3[i]), ptx.addr(address_2[2 * i + 1]), 4, r67)
    for i in range(4):
        r159 = reg.scalar(b32)
        ptx.inst.add.s32(total_4[i], r154, 1024 * i + 12800)
        ptx.inst.selp.b32(r159, 4, 0, p[2 * i + 8])
        r71 = ptx.selp(r159, 0, p2)
        ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_4[i]), ptx.addr(address_3[2 * i]), 4, r71)
    ptx.cp.async_.commit_group()
    ptx.cp.async_.wait_group(0)
    ptx.bar.sync(0)
    r21 = tid_x << 7
    r163 = r21 & 0x780
    r22 = tid_x << 4
    r23 = r22 & 0x70
    r164 = tid_x & 0x10
    r165 = r3 << 5
    r24 = ((r163 | r23) ^ r164) | r165
    r25 = r119 + r24
    ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag, ptx.addr(r25))
    ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_1, ptx.addr(r25, 4096))
    ptx.inst.mov.b32(acc[0], 0.0)
    for i in range(31):
        ptx.inst.mov.b32(acc[i + 1], acc[0])
    with ptx.if_(~p1):
        r503, r454 = reg.array(s32, 2)
        loaded = reg.array(b32, 8)
        product_2 = reg.array(s32, 15)
        r26 = r25 + 4096
        r169 = (tid_x & 3) * 288
        r171 = r169 ^ (tid_x & 0x3c)
        r27 = r119 + (r171 ^ 0x40)
        ptx.inst.ld.shared.b32(loaded[7], ptx.addr(r27, 9344))
        ptx.inst.ld.shared.b32(loaded[6], ptx.addr(r27, 8320))
        ptx.inst.ld.shared.b32(loaded[3], ptx.addr(r27, 9216))
        ptx.inst.ld.shared.b32(loaded[2], ptx.addr(r27, 8192))
        r28 = r119 + r171
        ptx.inst.ld.shared.b32(loaded[5], ptx.addr(r28, 9344))
        ptx.inst.ld.shared.b32(loaded[4], ptx.addr(r28, 8320))
        ptx.inst.ld.shared.b32(loaded[1], ptx.addr(r28, 9216))
        ptx.inst.ld.shared.b32(loaded[0], ptx.addr(r28, 8192))
        r29 = arg_5 + -32
        r173 = r24 ^ 0x20
        r174 = r24 ^ 0x40
        r175 = r24 ^ 0x60
        r30 = r119 + r173
        r31 = r30 + 4096
        r32 = r119 + r174
        r33 = r32 + 4096
        r34 = r119 + r175
        r35 = r34 + 4096
        r36 = r20 | 0x20
        r37 = arg_4 * (r4 | 0x3e)
        r38 = arg_4 << 5
        for i in range(15):
            ptx.inst.mul.lo.s32(product_2[i], arg_4, r4 | (-2 * i + 60))
        ptx.inst.mov.b32(acc[0], 0.0)
        ptx.inst.mov.b32(r503, 0)
        ptx.inst.mov.b32(r454, r503)
        for i in range(31):
            ptx.inst.mov.b32(acc[i + 1], acc[0])
        with ptx.do_while(lambda: p38):
            r307, r330, r331, r336, r337, r338, r339 = reg.array(b32, 7)
            frag_2 = reg.array(b32, 4)
            frag_3 = reg.array(b32, 4)
            loaded_1 = reg.array(b32, 8)
            frag_4 = reg.array(b32, 4)
            frag_5 = reg.array(b32, 4)
            loaded_2 = reg.array(b32, 8)
            frag_6 = reg.array(b32, 4)
            frag_7 = reg.array(b32, 4)
            loaded_3 = reg.array(b32, 8)
            address_5 = reg.array(s64, 15)
            p20 = r503 < r29
            ptx.cp.async_.wait_group(0)
            ptx.bar.sync(0)
            ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_2, ptx.addr(r30))
            ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_3, ptx.addr(r31))
            ptx.inst.ld.shared.b32(loaded_1[0], ptx.addr(r28, 10240))
            ptx.inst.ld.shared.b32(loaded_1[1], ptx.addr(r28, 11264))
            ptx.inst.ld.shared.b32(loaded_1[4], ptx.addr(r28, 10368))
            ptx.inst.ld.shared.b32(loaded_1[5], ptx.addr(r28, 11392))
            ptx.inst.ld.shared.b32(loaded_1[2], ptx.addr(r27, 10240))
            ptx.inst.ld.shared.b32(loaded_1[3], ptx.addr(r27, 11264))
            ptx.inst.ld.shared.b32(loaded_1[6], ptx.addr(r27, 10368))
            ptx.inst.ld.shared.b32(loaded_1[7], ptx.addr(r27, 11392))
            for i in range(4):
                ptx.inst.mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32(
                    acc[4 * i : 4 * i + 4],
                    frag,
                    loaded[2 * i : 2 * i + 2],
                    acc[4 * i : 4 * i + 4],
                )
            for i in range(4):
                ptx.inst.mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32(
                    acc[4 * i + 16 : 4 * i + 20],
                    frag_1,
                    loaded[2 * i : 2 * i + 2],
                    acc[4 * i + 16 : 4 * i + 20],
                )
            ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_4, ptx.addr(r32))
            ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_5, ptx.addr(r33))
            ptx.inst.ld.shared.b32(loaded_2[0], ptx.addr(r28, 12288))
            ptx.inst.ld.shared.b32(loaded_2[1], ptx.addr(r28, 13312))
            ptx.inst.ld.shared.b32(loaded_2[4], ptx.addr(r28, 12416))
            ptx.inst.ld.shared.b32(loaded_2[5], ptx.addr(r28, 13440))
            ptx.inst.ld.shared.b32(loaded_2[2], ptx.addr(r27, 12288))
            ptx.inst.ld.shared.b32(loaded_2[3], ptx.addr(r27, 13312))
            ptx.inst.ld.shared.b32(loaded_2[6], ptx.addr(r27, 12416))
            ptx.inst.ld.shared.b32(loaded_2[7], ptx.addr(r27, 13440))
            for i in range(4):
                ptx.inst.mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32(
                    acc[4 * i : 4 * i + 4],
                    frag_2,
                    loaded_1[2 * i : 2 * i + 2],
                    acc[4 * i : 4 * i + 4],
                )
            for i in range(4):
                ptx.inst.mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32(
                    acc[4 * i + 16 : 4 * i + 20],
                    frag_3,
                    loaded_1[2 * i : 2 * i + 2],
                    acc[4 * i + 16 : 4 * i + 20],
                )
            ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_6, ptx.addr(r34))
            ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_7, ptx.addr(r35))
            ptx.inst.ld.shared.b32(loaded_3[0], ptx.addr(r28, 14336))
            ptx.inst.ld.shared.b32(loaded_3[1], ptx.addr(r28, 15360))
            ptx.inst.ld.shared.b32(loaded_3[4], ptx.addr(r28, 14464))
            ptx.inst.ld.shared.b32(loaded_3[5], ptx.addr(r28, 15488))
            ptx.inst.ld.shared.b32(loaded_3[2], ptx.addr(r27, 14336))
            ptx.inst.ld.shared.b32(loaded_3[3], ptx.addr(r27, 15360))
            ptx.inst.ld.shared.b32(loaded_3[6], ptx.addr(r27, 14464))
            ptx.inst.ld.shared.b32(loaded_3[7], ptx.addr(r27, 15488))
            for i in range(4):
                ptx.inst.mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32(
                    acc[4 * i : 4 * i + 4],
                    frag_4,
                    loaded_2[2 * i : 2 * i + 2],
                    acc[4 * i : 4 * i + 4],
                )
            for i in range(4):
                ptx.inst.mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32(
                    acc[4 * i + 16 : 4 * i + 20],
                    frag_5,
                    loaded_2[2 * i : 2 * i + 2],
                    acc[4 * i + 16 : 4 * i + 20],
                )
            r54 = r503 + 32
            r289 = r4 + r503
            total_5 = [r289 + (2 * i + 32) for i in range(16)]
            r306 = r36 + r503
            p21 = r306 < arg_5
            rd87 = ptx.mul(r306, 4, half="wide")
            rd55 = rd1 + rd87
            address_4 = [address[i] + rd87 for i in range(15)]
            ptx.bar.sync(0)
            ptx.inst.selp.b32(r307, 4, 0, p21)
            r226 = ptx.selp(r307, 0, p20)
            ptx.inst.cp.async_.ca.shared.global_(ptx.addr(r224), ptx.addr(rd55), 4, r226)
            for i in range(7):
                ptx.inst.cp.async_.ca.shared.global_(
                    ptx.addr(total[i]),
                    ptx.addr(address_4[2 * i + 1]),
                    4,
                    r226,
                )
            for i in range(8):
                ptx.inst.cp.async_.ca.shared.global_(
                    ptx.addr(total_1[i]),
                    ptx.addr(address_4[2 * i]),
                    4,
                    r226,
                )
            ptx.cp.async_.commit_group()
            p_1 = [total_5[i] < arg_5 for i in range(16)]
            total_6 = [product_2[14 - i] + r454 for i in range(15)]
            r323 = r37 + r454
            for i in range(15):
                ptx.inst.mad.wide.s32(address_5[i], total_6[i], 4, rd18)
            rd86 = ptx.mad(r323, 4, rd18, half="wide")
            for i in range(6):
                r324 = reg.scalar(b32)
                ptx.inst.selp.b32(r324, 4, 0, p_1[2 * i])
                r242 = ptx.selp(r324, 0, p20)
                ptx.inst.cp.async_.ca.shared.global_(
                    ptx.addr(total_2[i]),
                    ptx.addr(address_5[2 * i]),
                    4,
                    r242,
                )
            ptx.inst.selp.b32(r330, 4, 0, p_1[12])
            r254 = ptx.selp(r330, 0, p20)
            ptx.inst.cp.async_.ca.shared.global_(ptx.addr(r253), ptx.addr(address_5[12]), 4, r254)
            ptx.inst.selp.b32(r331, 4, 0, p_1[14])
            r256 = ptx.selp(r331, 0, p20)
            ptx.inst.cp.async_.ca.shared.global_(ptx.addr(r255), ptx.addr(address_5[14]), 4, r256)
            for i in range(4):
                r332 = reg.scalar(b32)
                ptx.inst.selp.b32(r332, 4, 0, p_1[2 * i + 1])
                r258 = ptx.selp(r332, 0, p20)
                ptx.inst.cp.async_.ca.shared.global_(
                    ptx.addr(total_3[i]),
                    ptx.addr(address_5[2 * i + 1]),
                    4,
                    r258,
                )
            ptx.inst.selp.b32(r336, 4, 0, p_1[9])
            r266 = ptx.selp(r336, 0, p20)
            ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_4[0]), ptx.addr(address_5[9]), 4, r266)
            ptx.inst.selp.b32(r337, 4, 0, p_1[11])
            r268 = ptx.selp(r337, 0, p20)
            ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_4[1]), ptx.addr(address_5[11]), 4, r268)
            ptx.inst.selp.b32(r338, 4, 0, p_1[13])
            r270 = ptx.selp(r338, 0, p20)
            ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_4[2]), ptx.addr(address_5[13]), 4, r270)
            ptx.inst.selp.b32(r339, 4, 0, p_1[15])
            r272 = ptx.selp(r339, 0, p20)
            ptx.inst.cp.async_.ca.shared.global_(ptx.addr(total_4[3]), ptx.addr(rd86), 4, r272)
            ptx.cp.async_.commit_group()
            ptx.cp.async_.wait_group(0)
            ptx.cp.async_.wait_group(0)
            ptx.bar.sync(0)
            ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag, ptx.addr(r25))
            ptx.inst.ldmatrix.sync.aligned.m8n8.x4.shared.b16(frag_1, ptx.addr(r26))
            ptx.inst.ld.shared.b32(loaded[0], ptx.addr(r28, 8192))
            ptx.inst.ld.shared.b32(loaded[1], ptx.addr(r28, 9216))
            ptx.inst.ld.shared.b32(loaded[4], ptx.addr(r28, 8320))
            ptx.inst.ld.shared.b32(loaded[5], ptx.addr(r28, 9344))
            ptx.inst.ld.shared.b32(loaded[2], ptx.addr(r27, 8192))
            ptx.inst.ld.shared.b32(loaded[3], ptx.addr(r27, 9216))
            ptx.inst.ld.shared.b32(loaded[6], ptx.addr(r27, 8320))
            ptx.inst.ld.shared.b32(loaded[7], ptx.addr(r27, 9344))
            for i in range(4):
                ptx.inst.mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32(
                    acc[4 * i : 4 * i + 4],
                    frag_6,
                    loaded_3[2 * i : 2 * i + 2],
                    acc[4 * i : 4 * i + 4],
                )
            for i in range(4):
                ptx.inst.mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32(
                    acc[4 * i + 16 : 4 * i + 20],
                    frag_7,
                    loaded_3[2 * i : 2 * i + 2],
                    acc[4 * i + 16 : 4 * i + 20],
                )
            r454 += r38
            p38 = r54 < arg_5
            ptx.inst.mov.b32(r503, r54)
    ptx.inst.setp.eq.b32(p71, r3, 0)
    ptx.inst.cvt.u32.u64(r372, rd17)
    r373 = r4 | r1
    v_3 = [r373 | (-2 * i + 62) for i in range(16)]
    v_4 = [v[14 - i] | r1 for i in range(15)]
    ptx.cp.async_.wait_group(0)
    ptx.bar.sync(0)
    p72 = r373 < arg_3
    p_2 = [v_4[14 - i] < arg_3 for i in range(15)]
    p_3 = [v_3[15 - i] < arg_3 for i in range(16)]
    p104 = r372 < arg_4
    p39 = p72 & p104
    p_4 = [p_2[i] & p104 for i in range(15)]
    p_5 = [p_3[i] & p104 for i in range(16)]
    r405 = arg_4 * r373
    product_3 = [arg_4 * v_4[14 - i] for i in range(15)]
    product_4 = [arg_4 * v_3[15 - i] for i in range(16)]
    rd120 = ptx.mad(r405, 4, arg_2, half="wide")
    for i in range(15):
        ptx.inst.mad.wide.s32(address_6[i], product_3[i], 4, arg_2)
    for i in range(16):
        ptx.inst.mad.wide.s32(address_7[i], product_4[i], 4, arg_2)
    rd152 = rd17 << 2
    rd88 = rd120 + rd152
    address_8 = [address_6[i] + rd152 for i in range(15)]
    address_9 = [address_7[i] + rd152 for i in range(16)]
    r438 = (tid_x << 5) & 0x460
    r439 = r22 & 0x180
    r440 = ptx.bfe(tid_x, 2, 1)
    r441 = r440 & 0x2010
    r442 = r3 << 3
    r445 = ((r439 | r441) | r442) | r438
    r446 = r119 + r445
    for i in range(4):
        ptx.inst.st.shared.v4.b32(
            ptx.addr(r446, 2048 * i),
            [acc[4 * i], acc[4 * i + 2], acc[4 * i + 16], acc[4 * i + 18]],
        )
    r448 = r119 + (r445 ^ 0x10)
    for i in range(4):
        ptx.inst.st.shared.v4.b32(
            ptx.addr(r448, 2048 * i),
            [acc[4 * i + 1], acc[4 * i + 3], acc[4 * i + 17], acc[4 * i + 19]],
        )
    ptx.bar.sync(0)
    r449 = r21 & 0x1c00
    ptx.inst.selp.b32(r450, 0, 8208, p71)
    r453 = r119 + ((r449 | r23) ^ r450)
    for i in range(8):
        ptx.inst.ld.shared.v4.b32(loaded_4[4 * i : 4 * i + 4], ptx.addr(r453, 128 * i))
    ptx.inst.st.global_.b32(ptx.addr(rd88), loaded_4[0], pred=p39)
    ptx.inst.st.global_.b32(ptx.addr(address_8[0]), loaded_4[4], pred=p_4[0])
    ptx.inst.st.global_.b32(ptx.addr(address_8[1]), loaded_4[8], pred=p_4[1])
    ptx.inst.st.global_.b32(ptx.addr(address_8[2]), loaded_4[12], pred=p_4[2])
    for i in range(4):
        ptx.inst.st.global_.b32(ptx.addr(address_8[i + 3]), loaded_4[4 * i + 1], pred=p_4[i + 3])
    for i in range(4):
        ptx.inst.st.global_.b32(ptx.addr(address_8[i + 7]), loaded_4[4 * i + 16], pred=p_4[i + 7])
    for i in range(4):
        ptx.inst.st.global_.b32(ptx.addr(address_8[i + 11]), loaded_4[4 * i + 17], pred=p_4[i + 11])
    for i in range(4):
        ptx.inst.st.global_.b32(ptx.addr(address_9[i]), loaded_4[4 * i + 2], pred=p_5[i])
    for i in range(4):
        ptx.inst.st.global_.b32(ptx.addr(address_9[i + 4]), loaded_4[4 * i + 3], pred=p_5[i + 4])
    for i in range(4):
        ptx.inst.st.global_.b32(ptx.addr(address_9[i + 8]), loaded_4[4 * i + 18], pred=p_5[i + 8])
    for i in range(4):
        ptx.inst.st.global_.b32(ptx.addr(address_9[i + 12]), loaded_4[4 * i + 19], pred=p_5[i + 12])
    ptx.ret()


if __name__ == "__main__":
    print(program.ptx(), end="")
