"""Initial values of variables: the words that ptxas stores, and the lists that it refuses."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import SpecError

HEAD = ".version 8.3\n.target sm_90\n.address_size 64\n"
ENTRY = "\n.visible .entry k() { ret; }\n"


def bytes_of(declaration: str) -> bytes:
    return sim.load(HEAD + f".visible .global {declaration};" + ENTRY).variable("x").tobytes()


@pytest.mark.parametrize(("declaration", "expected"), [
    # Words that ptxas 13 stores.
    (".b32 x = 1.5", struct.pack("<f", 1.5)),
    (".b32 x = 0f3fc01234", bytes.fromhex("3412c03f")),
    (".b32 x = 0d3ff8123456789abc", bytes.fromhex("a391c03f")),
    (".b32 x[2] = {1.3, 0d7ff1234567890abc}", bytes.fromhex("6666a63f2b1ac97f")),
    (".b64 x = 1.3", struct.pack("<d", 1.3)),
    (".b64 x = 0f3fc01234", bytes.fromhex("3412c03f00000000")),
    (".b16 x = 1.3", bytes.fromhex("cdcc")),
    (".b16 x = 0d3ff8123456789abc", bytes.fromhex("bc9a")),
    (".b16 x = 0f3fc01234", bytes.fromhex("3412")),
    (".b8 x[2] = {1, 0d7ff1234567890abc}", bytes.fromhex("01bc")),
    (".f32 x = 0d3ff8123456789abc", bytes.fromhex("a391c03f")),
    (".f32 x = 0f7fc01234", bytes.fromhex("3412c07f")),
    (".f64 x = 0f3fc00000", struct.pack("<d", 1.5)),
    (".u16 x[2][3] = {{1, 2}, {3}}", np.array([1, 2, 0, 3, 0, 0], np.uint16).tobytes()),
    (".v2 .b8 x = {1, 2}", bytes([1, 2])),
    (".u8 x[4] = {300, -1}", bytes([44, 255, 0, 0])),
])  # fmt: skip
def test_initial_values(declaration: str, expected: bytes) -> None:
    assert bytes_of(declaration) == expected


@pytest.mark.parametrize(("declaration", "said"), [
    (".u32 x = 1.5", r"initial value of x: the float 1.5 was given for an integer, .u32"),
    (".s8 x[2] = {1, 0d7ff0000000000000}", "the float inf was given for an integer, .s8"),
    (".b32 x[2] = {1, 2, 3}", "3 values were given for 2 elements"),
    (".b32 x[2][2] = {{1, 2, 3}, {1}}", "3 values were given for 2 elements"),
    (".b32 x[2][2] = {{1, 2}, {3, 4}, {5}}", "3 values were given for 2 elements"),
    (".b32 x[2][2] = {1, 2, 3, 4}", "4 values were given for 2 elements"),
    (".b32 x[2][2] = {1, {2, 3}}", "1 was given, but a list of 2 in braces is needed"),
    (".b32 x[2] = {{1}, {2}}", "the list .1. was given, but one value is needed"),
    (".b32 x[2] = 3", "3 was given, but a list of 2"),
    (".b32 x = {1, 2}", "the list .1, 2. was given, but one value is needed"),
    (".v2 .b32 x = {1, 2, 3}", "3 values were given for 2 elements"),
])  # fmt: skip
def test_initial_values_that_ptxas_refuses(declaration: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        bytes_of(declaration)
    assert caught.value.location is not None and caught.value.location.line == 4
