"""``ptx.inst``: spelling, operands, and what the table refuses."""

from __future__ import annotations

import copy

import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError, TraceError
from pyptx.core.types import b32, b64, f32, pred, s32, u32, u64
from pyptx.dsl import Label, ptx, reg, smem
from pyptx.toolchain import Tool, check_text

from .helpers import body_of, in_kernel, recorded, rejected, says, text_of


def test_both_spellings() -> None:
    def body() -> None:
        p = reg.scalar(u64)
        a, b, c, d = reg.scalar(b32), reg.scalar(b32), reg.scalar(b32), reg.scalar(b32)
        ptx.inst.st.global_.v4.b32(ptx.addr(p, 16), [a, b, c, d])
        ptx.inst["st.global.v4.b32"](ptx.addr(p, 16), (a, b, c, d))
        ptx.inst.st["global.v4"].b32(ptx.addr(p, 16), [a, b, c, d])

    assert body_of(body) == ["st.global.v4.b32 [%p+16], {%a, %b, %c, %d};"] * 3


def test_escapes(ptxas: Tool) -> None:
    def body() -> None:
        x = reg.scalar(b32, init=1)
        ready = reg.scalar(pred)
        ptx.inst.and_.b32(x, x, 1)
        ptx.inst.or_.b32(x, x, 1)
        ptx.inst.not_.b32(x, x)
        ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(ready, ptx.addr(x), 0)
        ptx.inst.tcgen05.ld.sync.aligned._32x32b.x1.b32([x], ptx.addr(x))
        ptx.inst.tcgen05.wait__ld.sync.aligned()
        ptx.inst.tcgen05.fence__after_thread_sync()

    assert body_of(body)[1:] == [
        "and.b32 %x, %x, 1;",
        "or.b32 %x, %x, 1;",
        "not.b32 %x, %x;",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%x], 0;",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%x}, [%x];",
        "tcgen05.wait::ld.sync.aligned;",
        "tcgen05.fence::after_thread_sync;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_operands_of_every_kind(ptxas: Tool) -> None:
    def body() -> None:
        buffer = smem.alloc(64)
        x = reg.scalar(u32, init=0)
        p = reg.scalar(pred, init=False)
        f = reg.scalar(f32)
        ptx.inst.mov.f32(f, 1)
        ptx.inst.mov.u32(x, ptx.special.tid.y)
        ptx.inst.st.shared.u32(buffer, x, pred=p)
        ptx.inst.st.shared.u32(ptx.addr(buffer, 4), True, pred=~p)
        ptx.inst.ld.shared.u32(x, ptx.addr(ptx.addr(buffer, 4), 8))
        ptx.inst.elect.sync(ptx.pair(None, p), 0xFFFFFFFF)
        ptx.inst.elect.sync(ptx.pair(x, p), -1)
        ptx.inst.mbarrier.arrive.shared.b64(ptx.sink, buffer)
        ptx.inst.mbarrier.arrive.shared.b64(None, buffer)

    assert body_of(body)[3:] == [
        "mov.f32 %f, 0f3F800000;",
        "mov.u32 %x, %tid.y;",
        "@%p st.shared.u32 [%smem_base], %x;",
        "@!%p st.shared.u32 [%smem_base+4], 1;",
        "ld.shared.u32 %x, [%smem_base+12];",
        "elect.sync _|%p, 4294967295;",
        "elect.sync %x|%p, -1;",
        "mbarrier.arrive.shared.b64 _, [%smem_base];",
        "mbarrier.arrive.shared.b64 _, [%smem_base];",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_a_negated_predicate_as_a_value_adds_a_not() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        x = reg.scalar(u32)
        ptx.inst.selp.u32(x, 1, 2, ~p)
        ptx.inst.mov.pred(p, ~p, pred=p)

    assert body_of(body) == [
        "not.pred %not_p, %p;",
        "selp.u32 %x, 1, 2, %not_p;",
        "not.pred %not_p_1, %p;",
        "@%p mov.pred %p, %not_p_1;",
    ]


def test_unknown_spellings_name_the_nearest() -> None:
    def check() -> None:
        x = reg.scalar(u32)
        with rejected(InstructionError, "unknown instruction 'addd'", "did you mean add"):
            ptx.inst.addd.u32(x, x, x)  # rejected
        with rejected(InstructionError, "try_wayt", "try_wait"):
            ptx.inst.mbarrier.try_wayt.parity.shared__cta.b64(x, ptx.addr(x), 0)  # rejected
        with rejected(InstructionError, ".f33", "nearest legal spelling"):
            ptx.inst["add.rn.f33"](x, x, x)  # rejected
        with rejected(InstructionError, "does not spell an instruction"):
            ptx.inst["add..u32"](x, x, x)  # rejected

    in_kernel(check)


def test_operands_of_the_wrong_type_or_count() -> None:
    def check() -> None:
        x, y, q = reg.scalar(u32), reg.scalar(f32), reg.scalar(b64)
        with rejected(OperandError, "%y", "f32", "u32"):
            ptx.inst.add.u32(x, x, y)  # rejected
        with rejected(OperandError, "%q", "b64", "u32"):
            ptx.inst.add.u32(q, x, x)  # rejected
        with rejected(OperandError, "2 operands given"):
            ptx.inst.add.u32(x, x)  # rejected
        with rejected(OperandError, "4 operands given, expected 3"):
            ptx.inst.add.u32(x, x, x, x)  # rejected
        with rejected(OperandError, "4294967296", "u32"):
            ptx.inst.add.u32(x, x, 1 << 32)  # rejected
        with rejected(OperandError, "1.5", "u32"):
            ptx.inst.add.u32(x, x, 1.5)  # rejected
        with rejected(OperandError, "1e+39", "f32"):
            ptx.inst.add.rn.f32(y, y, 1e39)  # rejected
        with rejected(OperandError, "address", "ptx.addr"):
            ptx.inst.ld.shared.u32(x, x)  # rejected
        with rejected(OperandError, "vector of 4", "got 3"):
            ptx.inst.ld.shared.v4.u32([x, x, x], ptx.addr(x))  # rejected
        with rejected(OperandError, "element 1", "f32"):
            ptx.inst.st.shared.v2.u32(ptx.addr(x), [x, y])  # rejected
        with rejected(OperandError, "'text'", "only a branch"):
            ptx.inst.add.u32(x, x, "text")  # rejected
        with rejected(OperandError, "object"):
            ptx.inst.add.u32(x, x, object())  # rejected
        with rejected(OperandError, "{}", "cannot be an operand"):
            ptx.inst.st.shared.v2.u32(ptx.addr(x), [x, {}])  # rejected

    in_kernel(check)


def test_guards() -> None:
    def check() -> None:
        x, y = reg.scalar(u32), reg.scalar(u32)
        with rejected(OperandError, "%x", ".u32", "x != 0"):
            ptx.inst.add.u32(x, x, y, pred=x)  # rejected
        with rejected(OperandError, "True", "plain `if`"):
            ptx.inst.add.u32(x, x, y, pred=True)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "'p'"):
            ptx.bar.sync(pred="p")  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def test_addresses() -> None:
    def check() -> None:
        x, f = reg.scalar(u32), reg.scalar(f32)
        with rejected(OperandError, "base of ptx.addr is 16: expected a register or ptx.a"):
            ptx.addr(16)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "offset of ptx.addr is the register %x (.u32): expected an integer"):
            ptx.addr(x, x)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "2147483648", "signed 32-bit"):
            ptx.addr(x, 1 << 31)  # rejected
        with rejected(OperandError, "%f", "f32"):
            ptx.inst.ld.shared.u32(x, ptx.addr(f))  # rejected
        with rejected(OperandError, "64 bits", "%x"):
            ptx.inst.ld.global_.u32(x, ptx.addr(x))  # rejected
        with rejected(OperandError, "first of ptx.pair is 1: expected a register or a Sin"):
            ptx.pair(1, x)  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def test_an_architecture_that_lacks_it() -> None:
    def check() -> None:
        x = reg.scalar(b32)
        with rejected(TargetError, "tcgen05.wait::ld", "sm_90a", "sm_100a"):
            ptx.tcgen05.wait_ld()  # rejected
        with rejected(TargetError, "tcgen05.alloc", "sm_90a"):
            ptx.inst.tcgen05.alloc.cta_group__1.sync.aligned.shared__cta.b32(ptx.addr(x), 32)  # rejected

    in_kernel(check, arch="sm_90a")


def test_a_special_register_that_the_architecture_lacks() -> None:
    def check() -> None:
        with rejected(TargetError, "cluster_ctarank", "sm_80"):
            ptx.special.cluster_ctarank()  # rejected
        with rejected(InstructionError, "%landid", "laneid"):
            ptx.special.landid()  # rejected

    in_kernel(check, arch="sm_80")


def test_branches() -> None:
    def body() -> None:
        p = reg.scalar(pred)
        end = ptx.new_label("end")
        ptx.inst.bra("again", pred=p)
        ptx.inst.bra.uni(end)
        ptx.label("again")
        ptx.label(end)

    assert body_of(body) == ["@%p bra again;", "bra.uni end;", "again:", "end:"]

    def check() -> None:
        with rejected(OperandError, "one label"):
            ptx.inst.bra(1)  # rejected
        with rejected(TraceError, "'1x'", "letter"):
            ptx.bra("1x")  # rejected
        with rejected(OperandError, "target of ptx.bra is None"):
            ptx.bra(None)  # type: ignore[arg-type]  # rejected

    in_kernel(check)


def test_a_label_of_another_recording() -> None:
    kept: list[Label] = []
    recorded(lambda: kept.append(ptx.new_label()))

    def check() -> None:
        with rejected(TraceError, "another recording"):
            ptx.bra(kept[0])  # rejected
        with rejected(TraceError, "another recording"):
            ptx.label(kept[0])  # rejected
        with rejected(TraceError, "another recording"):
            ptx.inst.bra(kept[0])  # rejected

    in_kernel(check)


def test_completion() -> None:
    assert {"add", "mbarrier", "tcgen05", "and_", "not_"} <= set(dir(ptx.inst))
    assert {"try_wait", "arrive", "init"} <= set(dir(ptx.inst.mbarrier))
    assert {"parity", "acquire", "b64"} <= set(dir(ptx.inst.mbarrier.try_wait))
    assert {"shared__cta", "b64", "acquire"} <= set(dir(ptx.inst.mbarrier.try_wait.parity))
    assert dir(ptx.inst.mbarrier.try_wait.parity.acquire) == ["cluster", "cta"]
    assert "_32x32b" in dir(ptx.inst.tcgen05.ld.sync.aligned)
    assert "global_" in dir(ptx.inst.ld)
    assert {"tid", "laneid", "clock64"} <= set(dir(ptx.special))


def test_nodes_are_no_python_objects_in_disguise() -> None:
    with pytest.raises(AttributeError):
        ptx.inst.add.__wrapped__  # noqa: B018
    with pytest.raises(AttributeError):
        ptx.special.__wrapped__  # noqa: B018
    assert ptx.inst.add.u32 is ptx.inst.add.u32
    assert "add.u32" in repr(copy.copy(ptx.inst).add.u32)


def test_raw() -> None:
    def body() -> None:
        x = reg.scalar(u32)
        ptx.raw(f"mov.u32 {x}, 7;")

    text = text_of(body)
    assert "mov.u32 %x, 7;" in text and "raw PTX" in text

    def check() -> None:
        with rejected(TraceError, "PTX text"):
            ptx.raw("  ")  # rejected

    in_kernel(check)


def test_errors_of_a_helper_are_at_the_line_in_the_helper() -> None:
    def helper(x: object) -> None:
        ptx.inst.add.s32(x, x, 1.5)  # rejected

    def check() -> None:
        helper(reg.scalar(s32))

    with pytest.raises(OperandError) as caught:
        recorded(check)
    says(caught.value, ["1.5"])


def test_special_registers() -> None:
    def body() -> None:
        a = ptx.special.tid.x()
        b = ptx.special.clock64()
        c = ptx.special.lanemask_lt() & ptx.special.is_explicit_cluster.name.__len__()
        assert (a.type, b.type, c.type) == (u32, u64, u32)
        assert repr(ptx.special.tid) == "%tid" and repr(ptx.special.laneid) == "%laneid"

    assert body_of(body)[:2] == ["mov.u32 %a, %tid.x;", "mov.u64 %b, %clock64;"]


def test_every_special_register_assembles(ptxas: Tool) -> None:
    from pyptx.isa.special import SPECIAL_REGISTERS

    # Those that need a directive are read in tests/isa/test_directives.py.
    names = [name for name, entry in SPECIAL_REGISTERS.items() if not entry.directive]

    def body() -> None:
        for name in names:
            node = ptx.special
            for part in name.split("."):
                node = getattr(node, part)
            node()  # type: ignore[operator]

    assert len(body_of(body)) == len(names)
    assert check_text(text_of(body), ptxas=ptxas).ok
