"""``ptx.ldmatrix``, ``ptx.stmatrix``, ``ptx.movmatrix``: every variant through ptxas, spelling, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pyptx.core.errors import OperandError, SpecError, TargetError
from pyptx.core.types import ScalarType, b32, b64, bf16, f16, f16x2, f32, u8, u16, u32
from pyptx.dsl import current, ptx, reg, smem
from pyptx.dsl.units import matrix
from pyptx.toolchain import Tool
from tests.dsl.helpers import body_of, in_kernel, rejected
from tests.dsl.units.reach import TARGETS, Call, assemble_calls, public_functions, unreached

#: Shape of ldmatrix, source, numbers of matrices, transposed or not.
LOADS = [
    ("m8n8", None, (1, 2, 4), (False, True)),
    *(("m16n16", source, (1, 2), (True,)) for source in (None, "b6x16_p32", "b4x16_p64")),
    *(("m8n16", source, (1, 2, 4), (False,)) for source in ("b6x16_p32", "b4x16_p64", "s4")),
]


def address(space: str | None) -> Any:
    """A place in that space."""
    return reg.scalar(b64) if space is None else smem.alloc((32, 16), u8)


def load(
    shape: str, source: str | None, num: int, trans: bool | None, space: str | None, counted: bool
) -> Call:
    def body() -> None:
        count = num * (2 if shape == "m16n16" else 1)
        regs = reg.scalar(b32) if count == 1 else reg.array(b32, count)
        options = {"num": num} if counted else {}
        ptx.ldmatrix(regs, address(space), shape=shape, source=source, trans=trans, space=space, **options)

    return Call("ldmatrix", body)


def store(shape: str, num: int, trans: bool | None, space: str | None) -> Call:
    def body() -> None:
        ptx.stmatrix(address(space), reg.array(b32, num), shape=shape, trans=trans, space=space)

    return Call("stmatrix", body)


def transpose(kind: ScalarType, given: bool) -> Call:
    def body() -> None:
        register = reg.scalar(kind)
        ptx.movmatrix(register, out=register if given else None)

    return Call("movmatrix", body)


@pytest.mark.full
def test_every_variant(ptxas: Tool) -> None:
    spaces = ("shared", "cta", None)
    calls = [
        *(
            load(shape, source, num, trans, space, counted)
            for shape, source, nums, turned in LOADS
            for num, trans, space, counted in itertools.product(nums, turned, spaces, (False, True))
        ),
        *(load(shape, source, 1, None, "shared", False) for shape, source, _, _ in LOADS),
        *(store("m8n8", *rest) for rest in itertools.product((1, 2, 4), (None, False, True), spaces)),
        *(store("m16n8", *rest) for rest in itertools.product((1, 2, 4), (None, True), spaces)),
        *(transpose(kind, given) for kind in (b32, f16x2, u32) for given in (False, True)),
    ]
    reached = assemble_calls(calls, ptxas)
    for opcode in ("ldmatrix", "stmatrix", "movmatrix"):
        assert unreached(reached, opcode) == []
    assert reached.wrappers == {name.partition(".")[2] for name in public_functions(matrix, "ptx")}
    first = reached.targets[0]
    assert first == TARGETS  # ldmatrix.m8n8 is everywhere
    with_bytes = {t for t in TARGETS if t.startswith(("sm_10", "sm_11", "sm_12"))}
    extended = next(n for n, (shape, source, *_) in enumerate(LOADS) if source == "s4")
    offset = sum(len(nums) * len(turned) * 6 for _, _, nums, turned in LOADS)
    assert set(reached.targets[offset + 1]) == with_bytes
    assert set(reached.targets[offset + extended]) == {*with_bytes, "sm_90a"}


def test_spelling() -> None:
    def body() -> None:
        tile = smem.alloc((32, 8), bf16)
        a = ptx.mma.fragment("a", "m16n8k16", bf16)
        ptx.ldmatrix(a, tile)
        ptx.ldmatrix(a[:2], ptx.addr(tile, 256), trans=True, space="cta", num=2)
        ptx.ldmatrix(reg.scalar(b32, name="w"), tile, shape="m8n16", source="b4x16_p64")
        ptx.ldmatrix(reg.array(b32, 2, name="v"), tile, shape="m16n16", source="b6x16_p32")
        ptx.ldmatrix(reg.array(b32, 4, name="u"), tile, shape="m16n16")
        ptx.ldmatrix(reg.scalar(b32, name="s"), tile, shape="m8n16", source="s4")
        generic = reg.scalar(b64)
        ptx.stmatrix(generic, a, space=None)
        ptx.stmatrix(tile.at(4, 0), a[0], trans=True)
        ptx.stmatrix(tile, a[2:], shape="m16n8")
        turned = ptx.movmatrix(a[0])
        ptx.movmatrix(turned, out=a[1])
        assert turned.type is a.type

    a = "{%a0, %a1, %a2, %a3}"
    assert body_of(body)[1:] == [
        f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {a}, [%smem_base];",
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%a0, %a1}, [%smem_base+256];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%w}, [%smem_base];",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b6x16_p32 {%v0, %v1}, [%smem_base];",
        "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%u0, %u1, %u2, %u3}, [%smem_base];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.s8.s4 {%s}, [%smem_base];",
        f"stmatrix.sync.aligned.m8n8.x4.b16 [%generic], {a};",
        "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%smem_base+64], {%a0};",
        "stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [%smem_base], {%a2, %a3};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %turned, %a0;",
        "movmatrix.sync.aligned.m8n8.trans.b16 %a1, %turned;",
    ]


def test_refusals() -> None:
    def body() -> None:
        tile, one, four = smem.alloc((32, 8), bf16), reg.scalar(b32), reg.array(b32, 4)
        half, wide, eight = reg.scalar(u16), reg.array(f32, 3), reg.array(b32, 8)
        ptx.ldmatrix(four, tile)
        with rejected(OperandError, "shape is 'm16n8'", "'m8n8', 'm16n16', 'm8n16'"):
            ptx.ldmatrix(four, tile, shape="m16n8")  # rejected
        with rejected(OperandError, "shape is 'm16n16'", "'m8n8', 'm16n8'"):
            ptx.stmatrix(tile, four, shape="m16n16")  # rejected
        with rejected(OperandError, "3 registers for 4 matrices of shape m8n8", "expected 4"):
            ptx.ldmatrix(wide, tile, num=4)  # rejected
        with rejected(SpecError, ".x3 of m8n8", "1 or 2, or 4"):
            ptx.ldmatrix(wide, tile)  # rejected
        with rejected(OperandError, "3 registers for 1 matrices of shape m16n16", "expected 2"):
            ptx.ldmatrix(wide, tile, shape="m16n16")  # rejected
        with rejected(SpecError, ".x4 of m16n16", "1 or 2"):
            ptx.ldmatrix(eight, tile, shape="m16n16")  # rejected
        with rejected(OperandError, "trans is False", "'m16n16'", "expected True"):
            ptx.ldmatrix(four, tile, shape="m16n16", trans=False)  # rejected
        with rejected(OperandError, "trans is True", "'m8n16'", "expected False"):
            ptx.ldmatrix(four, tile, shape="m8n16", source="s4", trans=True)  # rejected
        with rejected(OperandError, "source with shape 'm8n16' is None", "'b6x16_p32', 'b4x16_p64', 's4'"):
            ptx.ldmatrix(four, tile, shape="m8n16")  # rejected
        with rejected(OperandError, "source with shape 'm8n8' is 's4'", "None"):
            ptx.ldmatrix(four, tile, source="s4")  # rejected
        with rejected(OperandError, "space of", "is 'global'", "'shared'"):
            ptx.ldmatrix(four, tile, space="global")  # rejected
        with rejected(OperandError, "the matrix in 'tile'", "offset 2", "multiple of 16"):
            ptx.ldmatrix(one, tile.at(0, 1))  # rejected
        with rejected(OperandError, "movmatrix", "32-bit"):
            ptx.movmatrix(half)  # rejected
        with rejected(OperandError, "a of ptx.movmatrix is 3: expected a register"):
            ptx.movmatrix(3)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError):
            ptx.stmatrix(tile, half)  # rejected

    in_kernel(body)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_targets(arch: str) -> None:
    def body() -> None:
        tile, four = smem.alloc((32, 8), f16), reg.array(b32, 4)
        ptx.ldmatrix(four, tile)
        if current().target.name == "sm_80":
            with rejected(TargetError, "sm_80", "sm_90"):
                ptx.stmatrix(tile, four)  # rejected
        with rejected(TargetError, arch, "sm_100f"):
            ptx.ldmatrix(four, tile, shape="m16n16")  # rejected

    in_kernel(body, arch=arch)
