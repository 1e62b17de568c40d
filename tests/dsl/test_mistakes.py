"""What authors new to the DSL write by mistake: each is refused at its line, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import OperandError, PyptxError, TraceError
from pyptx.core.types import b64, b128, f16, f16x2, f32, pred, s32, u16, u32
from pyptx.dsl import Reg, Tile, current, ptx, reg, smem
from pyptx.ir import print_module
from pyptx.toolchain import Tool, check_text

from .helpers import in_kernel, recorded, snapshot

pytestmark = pytest.mark.smoke

special: Any = ptx.special


def _x() -> Reg:
    return reg.scalar(f32, name="x")


def _n() -> Reg:
    return reg.scalar(u32, name="n")


MISTAKES: dict[str, tuple[type[PyptxError], tuple[str, ...], Callable[[], object]]] = {
    "a special register that was not read": (
        OperandError, ("%tid.x", "ptx.special.tid.x()"), lambda: special.tid.x + 1),
    "the same, compared": (OperandError, ("%laneid", "ptx.special.laneid()"), lambda: special.laneid == 0),
    "the same, asked for truth": (OperandError, ("%laneid", "call it"), lambda: bool(special.laneid)),
    "the same, as a value": (
        OperandError, ("%ctaid.x", "ptx.special.ctaid.x()"), lambda: reg.scalar(u32, init=special.ctaid.x)),
    "all components of one": (OperandError, ("%tid", "ptx.special.tid.x()"), lambda: special.tid()),
    "an array for a number": (
        OperandError, ("array([0., 0.])", "parameters"), lambda: reg.scalar(f32, init=np.zeros(2))),
    "a number past its type": (OperandError, ("1000000.0", ".f16", "65504"), lambda: reg.scalar(f16, init=1e6)),
    "Python's abs": (OperandError, ("ptx.abs",), lambda: abs(reg.scalar(f32, init=1.0, name="x"))),
    "a power": (OperandError, ("** 2", "ptx.lg2"), lambda: reg.scalar(f32, name="x") ** 2),
    "Python's range": (TraceError, ("%n", "ptx.for_"), lambda: range(reg.scalar(u32, name="n"))),
    "a flag that is no flag": (
        OperandError, ("sat of ptx.add is 'no'", "True or False"), lambda: ptx.add(_x(), _x(), sat="no")),
    "None for a register": (OperandError, ("b of ptx.add_cc is None", "a register"), lambda: ptx.add_cc(_n(), None)),
    "an option that is a register": (
        OperandError, ("cta_group of ptx.tcgen05.dealloc", "(.u32)", "an integer"),
        lambda: ptx.tcgen05.dealloc(_n(), 64, _n())),
    "a register of a type that the instruction lacks": (
        PyptxError, (".u16", "ptx.abs was given the register"), lambda: ptx.abs(reg.scalar(u16))),
    "a symbol for several registers": (
        OperandError, ("v", "cannot be iterated", "s[0]"), lambda: list(ptx.symbol("v"))),
    "more registers than there are": (OperandError, ("1180591620717411303424",), lambda: reg.array(u32, 1 << 70)),
    "random bits without stochastic rounding": (
        OperandError, ("rounding is 'rn'", "rbits"),
        lambda: ptx.cvt_x2(_x(), _x(), f16x2, rbits=_n())),
    "bits below two halves": (
        OperandError, ("below is 3", ".u16"), lambda: ptx.cvt_pack(_n().view(s32), 1, "u16", below=3)),
    "bits of a predicate": (OperandError, (".pred", "selp"), lambda: ptx.brev(reg.scalar(pred))),
    "a function of the wrong arguments": (
        OperandError, ("logic", "three integers"), lambda: ptx.lop3(_n(), _n(), _n(), lambda a: a)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake(mistake: str) -> None:
    error, fragments, make = MISTAKES[mistake]

    def check() -> None:
        with pytest.raises(error) as caught:
            make()
        message = str(caught.value)
        assert all(fragment in message for fragment in fragments), message
        assert caught.value.location is not None
        assert caught.value.location.file == __file__

    in_kernel(check)


def test_a_tile_is_no_value() -> None:
    def body(a: Any) -> None:
        before = snapshot(current())
        for wrong in (lambda: a[0], lambda: a + 1, lambda: a == 1, lambda: ptx.store(a, 1.0, f32)):
            with pytest.raises(OperandError, match=r"a\.at\(i\)"):
                wrong()
        assert snapshot(current()) == before

    recorded(body, Tile(64, f32))


def test_a_refused_argument_leaves_nothing() -> None:
    """Not the comparison that Python makes of a register, nor the address of a buffer used here first."""

    def check() -> None:
        n, buffer = reg.scalar(u32), smem.alloc(16)
        before = snapshot(current())
        for wrong in (
            lambda: ptx.tcgen05.alloc(buffer, 64, n),
            lambda: ptx.ldu(u32, buffer),
            lambda: ptx.warp.reduce(n, lambda a: a),
            lambda: smem.alloc(16, name=3),
        ):
            with pytest.raises(PyptxError):
                wrong()
            assert snapshot(current()) == before

    in_kernel(check)


def test_numbers_of_numpy_are_numbers(ptxas: Tool) -> None:
    def body() -> None:
        stages = smem.alloc(np.int32(4), f32, stages=np.int64(2))
        assert [stage.offset for stage in stages] == [0, 16]
        ptx.setmaxnreg.dec(np.int32(40))
        ptx.cp.async_.bulk.tensor_1d(
            dst=stages[0], src=reg.scalar(b64, init=0), coord=np.int32(3), mbar=smem.alloc(1, b64)
        )
        assert ptx.tcgen05.zero_column_mask(used=np.int32(4)) == ptx.tcgen05.zero_column_mask(used=4)

    assert check_text(print_module(recorded(body, arch="sm_90a").module).text, ptxas=ptxas).ok


def test_a_register_that_nothing_uses_has_its_version(ptxas: Tool) -> None:
    def wide() -> None:
        reg.scalar(b128)

    module = recorded(wide, arch="sm_90a").module
    assert module.version == (8, 3)
    assert check_text(print_module(module).text, ptxas=ptxas).ok


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda p: ptx.if_(p), "if_"),
        (lambda p: ptx.loop(), "loop"),
        (lambda p: ptx.for_(0, 4), "for_"),
        (lambda p: ptx.while_(lambda: p), "while_"),
    ],
    ids=["if_", "loop", "for_", "while_"],
)
def test_a_block_without_with(make: Callable[[Reg], object], kind: str) -> None:
    """Forgotten, it would record nothing and its body would run for all threads."""

    def body() -> None:
        make(reg.scalar(pred))

    with pytest.raises(TraceError, match=f"this {kind} was never entered") as caught:
        recorded(body)
    assert f"with ptx.{kind}(" in str(caught.value)
    assert caught.value.location is not None and "lambda" in caught.value.location.text


def test_a_block_that_is_refused_is_not_missed() -> None:
    def body() -> None:
        with pytest.raises(OperandError):
            ptx.if_(7)  # type: ignore[arg-type]

    recorded(body)
