"""reduce.ptx (PTX 9.5, sm_90a) as a program, written by ``pyptx transpile``."""

from pyptx import Program, Sym, b8, pred, ptx, reg, s32, s64, u32, u64

program = Program("sm_90a", version=(9, 5))


@program.entry(params=(u64, u64, u32))
def reduce(param_0: Sym, param_1: Sym, param_2: Sym) -> None:
    r64 = reg.scalar(s32)
    p9 = reg.scalar(pred)
    parts = ptx.variable("shared", b8, "_ZZ6reduceE5parts", shape=(128,), align=4)
    arg_0 = ptx.load(u64, param_0, space="param")
    arg_1 = ptx.load(u64, param_1, space="param")
    arg_2 = ptx.load(u32, param_2, space="param").view(s32)
    ntid_x = ptx.special.ntid.x().view(s32)
    ctaid_x = ptx.special.ctaid.x().view(s32)
    tid_x = ptx.special.tid.x().view(s32)
    r62 = ptx.mad(ctaid_x, ntid_x, tid_x)
    p1 = r62 >= arg_2
    ptx.inst.mov.u32(r64, 0)
    with ptx.if_(~p1):
        nctaid_x = ptx.special.nctaid.x().view(s32)
        r5 = nctaid_x * ntid_x
        rd1 = ptx.cvta_to(arg_0, "global").view(s64)
        ptx.inst.mov.u32(r64, 0)
        with ptx.do_while(lambda: r62 < arg_2):
            rd4 = ptx.mul(r62, 4, half="wide")
            r19 = ptx.load(u32, rd1 + rd4, space="global").view(s32)
            ptx.inst.add.s32(r64, r19, r64)
            r62 += r5
    r20 = reg.scalar(u32, init=31)
    r21 = reg.scalar(u32, init=16)
    r22 = reg.scalar(u32, init=-1)
    r23, p3 = ptx.warp.shfl_bfly(r64, r21, clamp=r20, mask=r22, with_pred=True)
    r24 = r23 + r64
    r25 = reg.scalar(u32, init=8)
    r26, p4 = ptx.warp.shfl_bfly(r24, r25, clamp=r20, mask=r22, with_pred=True)
    r27 = r26 + r24
    r28 = reg.scalar(u32, init=4)
    r29, p5 = ptx.warp.shfl_bfly(r27, r28, clamp=r20, mask=r22, with_pred=True)
    r30 = r29 + r27
    r31 = reg.scalar(u32, init=2)
    r32, p6 = ptx.warp.shfl_bfly(r30, r31, clamp=r20, mask=r22, with_pred=True)
    r33 = r32 + r30
    r34 = reg.scalar(u32, init=1)
    r35, p7 = ptx.warp.shfl_bfly(r33, r34, clamp=r20, mask=r22, with_pred=True)
    r11 = r35 + r33
    with ptx.if_(~((tid_x & 0x1f) != 0)):
        r37, r39 = reg.array(s32, 2)
        ptx.inst.shr.u32(r37, tid_x, 3)
        r38 = r37 & 0x1ffffffc
        ptx.inst.mov.u32(r39, parts)
        ptx.inst.st.shared.u32(ptx.addr(r39 + r38), r11)
    ptx.bar.sync(0)
    ptx.inst.setp.gt.u32(p9, tid_x, 31)
    with ptx.if_(~p9):
        r42 = reg.scalar(u32)
        p10 = reg.scalar(pred)
        r65 = reg.scalar(s32)
        ptx.inst.shr.u32(r42, ntid_x, 5)
        ptx.inst.setp.ge.u32(p10, tid_x, r42)
        ptx.inst.mov.u32(r65, 0)
        with ptx.if_(~p10):
            r44 = reg.scalar(s32)
            r43 = tid_x << 2
            ptx.inst.mov.u32(r44, parts)
            ptx.inst.ld.shared.u32(r65, ptx.addr(r44 + r43))
        r46 = reg.scalar(u32, init=31)
        r47 = reg.scalar(u32, init=16)
        r48 = reg.scalar(u32, init=-1)
        r49, p11 = ptx.warp.shfl_bfly(r65, r47, clamp=r46, mask=r48, with_pred=True)
        r50 = r49 + r65
        r51 = reg.scalar(u32, init=8)
        r52, p12 = ptx.warp.shfl_bfly(r50, r51, clamp=r46, mask=r48, with_pred=True)
        r53 = r52 + r50
        r54 = reg.scalar(u32, init=4)
        r55, p13 = ptx.warp.shfl_bfly(r53, r54, clamp=r46, mask=r48, with_pred=True)
        r56 = r55 + r53
        r57 = reg.scalar(u32, init=2)
        r58, p14 = ptx.warp.shfl_bfly(r56, r57, clamp=r46, mask=r48, with_pred=True)
        r59 = r58 + r56
        r60 = reg.scalar(u32, init=1)
        r61, p15 = ptx.warp.shfl_bfly(r59, r60, clamp=r46, mask=r48, with_pred=True)
        r14 = r61 + r59
        with ptx.if_(~(tid_x != 0)):
            rd7 = reg.scalar(s64)
            rd6 = ptx.cvta_to(arg_1, "global").view(s64)
            ptx.inst.mul.wide.u32(rd7, ctaid_x, 4)
            ptx.inst.st.global_.u32(ptx.addr(rd6 + rd7), r14)
    ptx.ret()


if __name__ == "__main__":
    print(program.ptx(), end="")
