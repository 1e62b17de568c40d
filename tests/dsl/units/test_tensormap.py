"""``ptx.tensormap``: every variant assembles, the spelling is exact, and what is illegal is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import OperandError, TargetError
from pyptx.core.types import b64, bf16, u32, u64
from pyptx.dsl import Layout, Tile, TileParam, ptx, reg, smem
from pyptx.dsl.units import tensormap
from pyptx.layout.tensor_map_image import FIELDS, pack
from pyptx.layout.tensor_map_rules import ELEMENTS
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.places import ALL_TARGETS, SCOPES, calls, place
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

CHOICES: dict[str, tuple[str, ...]] = {
    "elemtype": tensormap.ELEMENTS,
    "interleave_layout": ("none", "16B", "32B"),
    "swizzle_mode": ("none", "32B", "64B", "128B"),
    "swizzle_atomicity": tensormap.ATOMS,
    "fill_mode": ("zeros", "nan"),
}
#: A map in this CTA's shared memory, at a generic address, in global memory.
SPACES = (("cta", "auto"), ("cta", "cta"), (None, "auto"), (None, None), ("global", "global"))


def _calls() -> list[Call]:
    unit: Any = ptx.tensormap

    def replace(name: str, space: Any, *values: Any) -> None:
        where, word = space
        given = [reg.scalar(value) if value in (u32, u64) else value for value in values]
        getattr(unit, f"replace_{name}")(place(where), *given, space=word)

    found = [
        *calls("tensormap.replace_global_address", replace, ("global_address",), SPACES, (u64,)),
        *calls("tensormap.replace_rank", replace, ("rank",), SPACES, (1, 5, u32)),
        *calls("tensormap.replace_box_dim", replace, ("box_dim",), SPACES, (0, 4), (256, u32)),
        *calls("tensormap.replace_global_dim", replace, ("global_dim",), SPACES, (0, 4), (0xFFFFFFFF, u32)),
        *calls("tensormap.replace_element_stride", replace, ("element_stride",), SPACES, (0, 4), (8, u32)),
        *calls("tensormap.replace_global_stride", replace, ("global_stride",), SPACES, (0, 3), (4096, u64)),
        *calls(
            "tensormap.cp_fenceproxy",
            lambda scope: unit.cp_fenceproxy(place("global"), place("cta"), scope),
            SCOPES,
        ),
        *calls(
            "tensormap.prefetch",
            lambda space: unit.prefetch(place(None), space=space),
            (None, "param", "const"),
        ),
    ]
    for name, values in CHOICES.items():
        found += calls(f"tensormap.replace_{name}", replace, (name,), SPACES, values)
    return found


def test_every_variant_is_reached_and_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_calls(), ptxas, ALL_TARGETS)
    assert reached.wrappers == public_functions(tensormap, "tensormap")
    assert unreached(reached, "tensormap") == []
    assert unreached(reached, "prefetch", lambda words: "tensormap" in words) == []


def test_codes_are_those_of_a_map() -> None:
    """A replaced field holds what the map of such a tensor holds there."""

    def code(field: str, **choice: Any) -> int:
        options: dict[str, Any] = {
            "element": ELEMENTS["f32"],
            "swizzle": "none",
            "interleave": "none",
            "l2_promotion": "none",
            "oob_fill": "zeros",
        }
        options.update(choice)
        raw = pack(address=0, dims=(64,), strides=(), box=(8,), element_strides=(1,), **options)
        return FIELDS[field].read(raw)[0]

    for name in ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "tf32"):
        assert code("elemtype", element=ELEMENTS[name]) == CHOICES["elemtype"].index(name)
    for option, field in (
        ("swizzle", "swizzle_mode"),
        ("interleave", "interleave_layout"),
        ("oob_fill", "fill_mode"),
    ):
        for number, word in enumerate(CHOICES[field]):
            assert code(field, **{option: word}) == number


def test_spelling(ptxas: Tool) -> None:
    def body(A: TileParam) -> None:
        copy = smem.alloc(128, align=128)
        out, n, stride = reg.scalar(u64, init=0), reg.scalar(u32, init=1), reg.scalar(b64, init=0)
        ptx.tensormap.prefetch(A.tma_desc())
        ptx.tensormap.replace_global_address(copy, out)
        ptx.tensormap.replace_rank(copy, 2)
        ptx.tensormap.replace_rank(copy, n)
        ptx.tensormap.replace_box_dim(copy, 0, 64)
        ptx.tensormap.replace_global_dim(copy, 1, n)
        ptx.tensormap.replace_global_stride(copy, 0, stride)
        ptx.tensormap.replace_elemtype(copy, bf16)
        ptx.tensormap.replace_swizzle_mode(out, "128B")
        ptx.tensormap.replace_fill_mode(out, "nan", space="global")
        ptx.tensormap.cp_fenceproxy(out, copy, "gpu")

    replace = "tensormap.replace.tile"
    assert body_of(body, TILE)[6:] == [
        "prefetch.tensormap [%A_map];",
        f"{replace}.global_address.shared::cta.b1024.b64 [%smem_base], %out;",
        f"{replace}.rank.shared::cta.b1024.b32 [%smem_base], 1;",
        f"{replace}.rank.shared::cta.b1024.b32 [%smem_base], %n;",
        f"{replace}.box_dim.shared::cta.b1024.b32 [%smem_base], 0, 64;",
        f"{replace}.global_dim.shared::cta.b1024.b32 [%smem_base], 1, %n;",
        f"{replace}.global_stride.shared::cta.b1024.b64 [%smem_base], 0, %stride;",
        f"{replace}.elemtype.shared::cta.b1024.b32 [%smem_base], 10;",
        f"{replace}.swizzle_mode.b1024.b32 [%out], 3;",
        f"{replace}.fill_mode.global.b1024.b32 [%out], 1;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
        "[%out], [%smem_base], 128;",
    ]
    assert check_text(text_of(body, TILE), ptxas=ptxas).ok


TILE = Tile(64, 64, bf16, Layout.TMA_NONE, tma_box=(8, 64))


def test_refuses_numbers() -> None:
    def check() -> None:
        unit: Any = ptx.tensormap
        s, stride, n = reg.scalar(u32), reg.scalar(u64), reg.scalar(u32)
        for rank in (0, 6):
            with rejected(OperandError, f"rank is {rank}", "1..5"):
                unit.replace_rank(s, rank)  # rejected
        for axis in (-1, 5, n):
            with rejected(OperandError, "axis", "an integer" if axis is n else "0..4"):
                unit.replace_box_dim(s, axis, 1)  # rejected
        with rejected(OperandError, "axis is 4", "0..3"):
            unit.replace_global_stride(s, 4, stride)  # rejected
        for value in (0, 257):
            with rejected(OperandError, f"value is {value}", "1..256"):
                unit.replace_box_dim(s, 0, value)  # rejected
        for value in (0, 9):
            with rejected(OperandError, f"value is {value}", "1..8"):
                unit.replace_element_stride(s, 0, value)  # rejected
        for value in (0, 1 << 32):
            with rejected(OperandError, f"value is {value}", "1..4294967295"):
                unit.replace_global_dim(s, 0, value)  # rejected
        for value in (-16, 1 << 40):
            with rejected(OperandError, f"value is {value}", f"0..{(1 << 40) - 16}"):
                unit.replace_global_stride(s, 0, value)  # rejected
        with rejected(OperandError, "value is 8", "multiple of 16"):
            unit.replace_global_stride(s, 0, 8)  # rejected
        with rejected(OperandError, "%n", "u32"):
            unit.replace_global_stride(s, 0, n)  # rejected
        with rejected(OperandError, "%n", "u32"):
            unit.replace_global_address(s, n)  # rejected

    in_kernel(check)


@pytest.mark.parametrize("field", sorted(CHOICES))
def test_refuses_choices(field: str) -> None:
    def check() -> None:
        s = reg.scalar(u32)
        with rejected(OperandError, "is 'other'", *map(repr, CHOICES[field])):
            getattr(ptx.tensormap, f"replace_{field}")(s, "other")  # rejected

    in_kernel(check)


def test_refuses_places() -> None:
    def check() -> None:
        unit: Any = ptx.tensormap
        s, far = reg.scalar(u32), reg.scalar(u64)
        small, loose = smem.alloc(64, align=64), smem.alloc(512, align=64)
        odd = loose.at(16)
        smem.base()
        with rejected(OperandError, "128 bytes", "'small'", "has 64"):
            unit.replace_rank(small, 1)  # rejected
        with rejected(OperandError, "offset 80", "multiple of 64"):
            unit.replace_rank(odd, 1)  # rejected
        with rejected(OperandError, "128 bytes", "'small'", "has 64"):
            unit.cp_fenceproxy(far, small, "gpu")  # rejected
        with rejected(OperandError, "space is 'shared'", "'global', 'cta', None"):
            unit.replace_rank(s, 1, space="shared")  # rejected
        with rejected(OperandError, "%s", "u32"):
            unit.replace_rank(s, 1, space=None)  # rejected
        with rejected(OperandError, "scope of", "is 'block'", "'cta'"):
            unit.cp_fenceproxy(far, s, "block")  # rejected
        with rejected(OperandError, "space is 'global'", "None, 'param', 'const'"):
            unit.prefetch(far, space="global")  # rejected

    in_kernel(check)

    def older() -> None:
        s = reg.scalar(u32)
        with rejected(TargetError, "sm_90"):
            ptx.tensormap.replace_rank(s, 1)  # rejected

    in_kernel(older, arch="sm_90")
