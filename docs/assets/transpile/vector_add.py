"""vector_add.ptx (PTX 9.5, sm_90a) as a program, written by ``pyptx transpile``."""

from pyptx import Program, Sym, f32, ptx, reg, s32, s64, u32, u64

program = Program("sm_90a", version=(9, 5))


@program.entry(params=(u64, u64, u64, u32))
def vector_add(param_0: Sym, param_1: Sym, param_2: Sym, param_3: Sym) -> None:
    arg_0 = ptx.load(u64, param_0, space="param")
    arg_1 = ptx.load(u64, param_1, space="param")
    arg_2 = ptx.load(u64, param_2, space="param")
    arg_3 = ptx.load(u32, param_3, space="param").view(s32)
    ntid_x = ptx.special.ntid.x().view(s32)
    ctaid_x = ptx.special.ctaid.x().view(s32)
    tid_x = ptx.special.tid.x().view(s32)
    r10 = ptx.mad(ctaid_x, ntid_x, tid_x)
    with ptx.if_(~(r10 >= arg_3)):
        nctaid_x = ptx.special.nctaid.x().view(s32)
        r3 = nctaid_x * ntid_x
        rd1 = ptx.cvta_to(arg_0, "global").view(s64)
        rd2 = ptx.cvta_to(arg_1, "global").view(s64)
        rd3 = ptx.cvta_to(arg_2, "global").view(s64)
        with ptx.do_while(lambda: r10 < arg_3):
            f3 = reg.scalar(f32)
            rd7 = ptx.mul(r10, 4, half="wide")
            rd8 = rd1 + rd7
            f1 = ptx.load(f32, rd2 + rd7, space="global")
            f2 = ptx.load(f32, rd8, space="global")
            ptx.inst.add.f32(f3, f2, f1)
            ptx.inst.st.global_.f32(ptx.addr(rd3 + rd7), f3)
            r10 += r3
    ptx.ret()


if __name__ == "__main__":
    print(program.ptx(), end="")
