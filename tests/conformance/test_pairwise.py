"""Simulator, GPU and reference agree pairwise on what the engines do: ``python -m tests.conformance pairwise``."""

from __future__ import annotations

import numpy as np
import pytest

from .collect import kernel_cases, kernel_chapters
from .compare import Difference, recorded
from .pairwise import CHAPTERS, against_reference, agreement
from .reference import Expected
from .reference.barrier import Phases
from .reference.reductions import combined
from .reference.tensor import TensorBox

#: Cases of each chapter that are compared every time.
SAMPLE = 16


def _sample(chapter: str) -> list[int]:
    short = [number for number, case in enumerate(kernel_cases(chapter)) if not case.long]
    return short[:: max(1, len(short) // SAMPLE)]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_gpu_and_reference(chapter: str) -> None:
    """The simulator gives the GPU's words of these cases (test_conformance): so do all three agree."""
    cases = kernel_cases(chapter)
    for number in _sample(chapter):
        case = cases[number]
        words = recorded(chapter, case)
        assert not isinstance(words, Difference), words
        assert case.reference is not None
        wrong = list(against_reference(case, case.reference(), words))
        assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.parametrize("chapter", kernel_chapters())
def test_all_pairs(chapter: str) -> None:
    found = agreement(chapter)
    assert found.whole, found.wrong


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_case_has_a_reference(chapter: str) -> None:
    assert not [case.name for case in kernel_cases(chapter) if case.reference is None]


# --- the references themselves ------------------------------------------------------------------


def test_expected_numbers() -> None:
    output = np.array([1.0, 2.0, np.nan, np.inf, 70000.0], np.float32)
    radius = np.array([0.5, 0.5, 0.5, 0.5, 0.5])
    unknown = np.array([False, False, False, False, True])
    near = Expected(np.array([1.25, 2.75, np.nan, np.inf, np.inf]), "f32", radius, unknown)
    assert near.agrees(output).tolist() == [True, False, True, True, True]
    assert Expected(np.array([np.nan, 1.0, 1.0, -np.inf, 1.0]), "f32").agrees(output).tolist() == [False] * 5


def test_expected_words() -> None:
    output = np.array([[1, 2], [3, 4]], np.int16)
    assert Expected(np.array([1, 2, 0xFFFF, 4], np.uint16)).agrees(output).tolist() == [
        True,
        True,
        False,
        True,
    ]


def test_phases() -> None:
    """The manual's example of a drop: two fewer are expected from the next phase on."""
    one = Phases(3)
    one.arrive(2, drop=True)
    one.expect(-16)
    one.arrive(1)
    assert (one.phase, one.pending, one.completed(0)) == (0, 0, False)
    one.expect(16)
    assert (one.phase, one.pending, one.completed(0), one.completed(1)) == (1, 1, True, False)


def test_boxes() -> None:
    """A box over the corner of a 4 x 8 matrix of bytes in units of 16, through the narrowest swizzle."""
    tensor = np.arange(4 * 48, dtype=np.uint8).reshape(4, 48)
    room = np.full(256, 0xEE, np.uint8)
    box = TensorBox((4, 48), 1, {"box": (6, 32), "swizzle": "32B"}, (32, 2))
    box.loaded(tensor, room)
    # Rows of 32 bytes: the second half lies outside. Bytes 128 and on have the halves exchanged.
    assert room[:16].tolist() == list(range(128, 144)) and not room[16:32].any()
    assert room[32:48].tolist() == list(range(176, 192))
    assert not room[48:192].any() and (room[192:] == 0xEE).all()


@pytest.mark.parametrize(
    ("op", "kind", "old", "new", "expected"),
    [
        ("inc", "u32", [3, 4, 9], [4, 4, 4], [4, 0, 0]),
        ("dec", "u32", [0, 3, 9], [4, 4, 4], [4, 2, 4]),
        ("min", "s32", [0xFFFFFFFF], [1], [0xFFFFFFFF]),
        ("max", "u32", [0xFFFFFFFF], [1], [0xFFFFFFFF]),
        ("add", "s32", [0xFFFFFFFF], [1], [0]),
    ],
)
def test_reductions(op: str, kind: str, old: list[int], new: list[int], expected: list[int]) -> None:
    found = combined(op, kind)(np.array(old, np.uint32), np.array(new, np.uint32))
    assert found.tolist() == expected


def test_sums_of_halves_round_to_even() -> None:
    """2049 lies between 2048 and 2050, of which the first has the even fraction; 65520 is infinite."""
    a = np.array([2048, 2050, 65504], np.float16).view(np.uint16)
    b = np.array([1, 1, 16], np.float16).view(np.uint16)
    assert combined("add", "f16")(a, b).tolist() == [2048.0, 2052.0, np.inf]
