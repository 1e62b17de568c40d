"""C++ names: read from their mangling, and found by a part of them."""

from __future__ import annotations

import pytest

from pyptx.ir import parse_module
from pyptx.ir.mangling import demangle, find_names, readable

FOUR, EIGHT = "_Z4axpyILi4EEvPfS0_fi", "_Z4axpyILi8EEvPfS0_fi"
NAMES = [
    FOUR,
    EIGHT,
    "_ZN1aIiE1bILi3EEEvPf",
    "_ZN1a1bEv",
    "_ZN12_GLOBAL__N_13fooEPf",
    "_Z1fILln3EEvv",
    "_Z4pickILb1EjLj3EEvv",
    "_Z5scalePf",
    "_Z5scalePd",
    "plain",
]


@pytest.mark.parametrize(
    "name, full",
    [
        (FOUR, "void axpy<(int)4>(float*, float*, float, int)"),
        ("_Z5scaleIfET_S0_6Params", "float scale<float>(float, Params)"),
        ("_ZN2nv4cuda4copyILm4EEEvPv", "void nv::cuda::copy<(unsigned long)4>(void*)"),
        ("_ZN6SquareC1Ef", "Square::{ctor}(float)"),
        ("_ZNK5AdderclEi", "Adder::operator() const(int)"),
        ("_ZN12_GLOBAL__N_13fooEPf", "(anonymous namespace)::foo(float*)"),
        ("_Z1fILln3EEvv", "void f<(long)-3>()"),
        ("_Z1fIJifEEvDpT_", "void f<int, float>(int, float)"),
        ("_ZZ6matmulIdLi8EEvPKT_S2_PS0_iE4left", "_ZZ6matmulIdLi8EEvPKT_S2_PS0_iE4left"),
        ("_Zqqq", "_Zqqq"),
        ("_Z4foldDFiii", "_Z4foldDFiii"),
        ("__assertfail", "__assertfail"),
    ],
)
def test_demangle(name: str, full: str) -> None:
    assert demangle(name) == full
    assert readable(name) == (name if full == name else f"{name} ({full})")


@pytest.mark.parametrize(
    "wanted",
    [
        FOUR,
        "void axpy<(int)4>(float*, float*, float, int)",
        "axpy<(int)4>(float*, float*, float, int)",
        "axpy< 4 >( float *,float *, float,int )",
        "axpy<(int)4>",
        "axpy<4>",
        " axpy < 4 > ",
    ],
)
def test_every_way_to_ask_for_one(wanted: str) -> None:
    assert find_names(wanted, NAMES) == [FOUR]


@pytest.mark.parametrize(
    "wanted, found",
    [
        ("axpy", [FOUR, EIGHT]),
        ("scale", ["_Z5scalePf", "_Z5scalePd"]),
        ("scale(double*)", ["_Z5scalePd"]),
        ("b", ["_ZN1a1bEv"]),  # exactly its name: the other b has template arguments
        ("a::b(void)", ["_ZN1a1bEv"]),
        ("a<int>::b<3>", ["_ZN1aIiE1bILi3EEEvPf"]),
        ("b<3>", ["_ZN1aIiE1bILi3EEEvPf"]),
        ("foo", ["_ZN12_GLOBAL__N_13fooEPf"]),
        ("(anonymous namespace)::foo", ["_ZN12_GLOBAL__N_13fooEPf"]),
        ("f<-3>", ["_Z1fILln3EEvv"]),
        ("f<(long)-3>", ["_Z1fILln3EEvv"]),
        ("pick<true, unsigned int, 3u>", ["_Z4pickILb1EjLj3EEvv"]),
        ("plain", ["plain"]),
        ("axpy<2>", []),
        ("axp", []),
        ("plain()", []),
        ("", []),
    ],
)
def test_names_that_are_asked_for(wanted: str, found: list[str]) -> None:
    assert find_names(wanted, NAMES) == found


def test_a_module_finds_its_entries() -> None:
    entries = "".join(f".visible .entry {name}() {{ ret; }}\n" for name in NAMES)
    module = parse_module(f".version 8.0\n.target sm_90\n.address_size 64\n{entries}")
    assert module.entry("axpy<8>").name == EIGHT
    with pytest.raises(KeyError) as several:
        module.entry("axpy")
    assert several.value.args == (f"several entries are called 'axpy': {readable(FOUR)}, {readable(EIGHT)}",)
    with pytest.raises(KeyError, match="no entry 'axpx'; the module has: .*scale"):
        module.entry("axpx")
