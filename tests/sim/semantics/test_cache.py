"""Cache policies as 64-bit words, discarded lines, and hints that do nothing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.sim.build import Kernel

PRIMARY = {"unchanged": 0, "first": 1, "last": 2, "normal": 3}


def policies(instruction: str, params: str, *arguments: np.ndarray, block: int = 32) -> np.ndarray:
    """The policy that each thread makes; its parameters' elements are in registers of their names."""
    names = [part.split(":") for part in params.split()]
    loads = "".join(
        f"mul.wide.u32 i, t, {int(kind[1:]) // 8}\nadd.u64 i, i, at_{name}\nld.global.b{kind[1:]} {name}, [i]\n"
        for name, kind in names
    )
    text = f"""
        .reg u32 t
        .reg u64 i d
        {chr(10).join(f".reg {kind} {name}" for name, kind in names)}
        mov.u32 t, %tid.x
        {loads}
        {instruction}
        mul.wide.u32 i, t, 8
        add.u64 i, i, out
        st.global.u64 [i], d
    """
    out = np.zeros(block, np.uint64)
    Kernel(text, " ".join(f"at_{name}:u64" for name, _ in names) + " out:u64").clean(
        *arguments, out, block=block
    )
    return out


@pytest.mark.parametrize(
    ("priority", "word"),
    [
        # The constants that CUTLASS and compilers write into kernels.
        ("evict_first", 0x12F0000000000000),
        ("evict_last", 0x14F0000000000000),
        ("evict_normal", 0x16F0000000000000),
        ("evict_unchanged", 0x10F0000000000000),
    ],
)
@pytest.mark.parametrize("block", [1, 32])
@pytest.mark.parametrize("fraction", ["", ", 0f3F800000"])
def test_the_whole_of_the_accesses(priority: str, word: int, block: int, fraction: str) -> None:
    made = policies(f"createpolicy.fractional.L2::{priority}.b64 d{fraction}", "", block=block)
    assert set(made.tolist()) == {word}


@pytest.mark.parametrize(("primary", "secondary"), list(product(PRIMARY, ["", "first", "unchanged"])))
def test_fractions_are_counted_in_sixteenths(primary: str, secondary: str) -> None:
    """A fraction of n / 16 or a little more is n steps; 1 is 15. The kind is in the bits above."""
    fractions = np.arange(1, 33, dtype=np.float32) / np.float32(32)
    second = f".L2::evict_{secondary}" if secondary else ""
    made = policies(f"createpolicy.fractional.L2::evict_{primary}{second}.b64 d, f", "f:f32", fractions)
    kind = 0x100 | PRIMARY[primary] << 5 | (secondary == "first") << 4
    # Just n / 16 falls short of n steps: the hardware multiplies by 15.99.
    steps = [int(n / 32 * 15.99) for n in range(1, 33)]
    assert made.tolist() == [(kind | step) << 52 for step in steps]


def of_range(kind: int, base: int, primary: int, total: int) -> int:
    """Blocks of 2**shift bytes: as many as 128 cover ``total``, 4 KiB at least."""
    if total == 0:
        return 0x180 << 52
    shift = max((total - 1).bit_length() - 7, 12)
    first = base >> shift
    last = (base + primary + (1 << shift) - 1) >> shift
    fields = [(0x180 | kind | (shift - 12) & 15, 0), (first & 127, 8), (min(last - first, 127), 7)]
    word = 0
    for field, width in fields:
        word = word << width | field
    return word << 37


@pytest.mark.parametrize(("primary", "secondary"), list(product(PRIMARY, ["", "first", "unchanged"])))
def test_ranges(primary: str, secondary: str) -> None:
    random = np.random.default_rng(7)
    base = random.integers(1 << 34, 1 << 47, 64, np.uint64)
    total = (random.integers(1, 1 << 32, 64, np.uint64) >> random.integers(0, 24, 64, np.uint64)).astype(
        np.uint32
    )
    total[:3] = 0, 1 << 20, 1 << 31
    size = (total * random.random(64)).astype(np.uint32)
    second = f".L2::evict_{secondary}" if secondary else ""
    made = policies(
        f"createpolicy.range.global.L2::evict_{primary}{second}.b64 d, [base], size, total",
        "base:u64 size:u32 total:u32",
        *(base, size, total),
        block=64,
    )
    kind = PRIMARY[primary] << 5 | (secondary == "first") << 4
    wanted = [of_range(kind, *(int(x) for x in given)) for given in zip(base, size, total, strict=True)]
    assert made.tolist() == wanted


def test_a_range_just_above_a_power_of_two() -> None:
    """Measured on an H200: its logarithm tells 2**24 + 22 from 2**24, and not yet 2**24 + 20."""
    base, size = np.full(2, 1 << 40, np.uint64), np.full(2, 1 << 21, np.uint32)
    made = policies(
        "createpolicy.range.L2::evict_last.b64 d, [base], size, total",
        "base:u64 size:u32 total:u32",
        *(base, size, np.array([(1 << 24) + 20, (1 << 24) + 22], np.uint32)),
        block=2,
    )
    assert made.tolist() == [of_range(2 << 5, 1 << 40, 1 << 21, total) for total in (1 << 24, 1 << 25)]


def test_an_access_property_is_a_policy() -> None:
    given = np.random.default_rng(1).integers(0, 1 << 63, 32, np.uint64)
    np.testing.assert_array_equal(policies("createpolicy.cvt.L2.b64 d, a", "a:u64", given), given)


# --- lines ------------------------------------------------------------------------------------------

DISCARD = """
.reg u32 x
discard.global.L2 [line+128], 128
st.global.u32 [line+132], 9
ld.global.u32 x, [line+124]
ld.global.u32 x, [line+132]
ld.global.u32 x, [line+256]
"""


@pytest.mark.parametrize("block", [1, 32])
def test_a_discarded_line_has_no_values_until_written(block: int) -> None:
    # All threads do the same: a race.
    kernel = Kernel(DISCARD, "line:u64", racy=True)
    kernel.clean(np.ones(96, np.uint32), block=block)
    for offset in (128, 136, 252):
        kernel = Kernel(DISCARD + f"ld.global.u32 x, [line+{offset}] // gone", "line:u64", racy=True)
        (found,) = kernel.run(np.ones(96, np.uint32), block=block).findings
        assert found.rule.name == "undefined-load"
        assert found.location is not None and found.location.line == kernel.line("gone")


def test_a_line_is_aligned() -> None:
    (found,) = Kernel("discard.L2 [line+64], 128", "line:u64").run(np.ones(96, np.uint32)).findings
    assert found.rule.name == "misaligned"


def test_hints_change_nothing() -> None:
    text = """
        .reg u32 x
        .reg u64 own
        .shared b8 room[16] 16
        mov.u64 own, room
        cvta.shared.u64 own, own
        prefetch.global.L1 [line]
        prefetch.L2 [line+5]
        prefetch.L1 [own]
        prefetch.global.L2::evict_last [line]
        prefetchu.L1 [line]
        applypriority.global.L2::evict_normal [line], 128
        ld.global.u32 x, [line]
        add.u32 x, x, 1
        st.global.u32 [line], x
    """
    line = np.full(32, 4, np.uint32)
    Kernel(text, "line:u64").clean(line, block=1)
    assert line.tolist() == [5] + [4] * 31
