"""Bytes that stores are the first to store: boxes that overlap, and all others."""

from __future__ import annotations

from collections.abc import Hashable

from pyptx.sim.clock.stored import first_stored
from pyptx.sim.engine.work import Copy

ARRAY, OTHER = 4096, 1 << 20


def store(nbytes: int, where: Hashable, array: int = ARRAY) -> Copy:
    return Copy(nbytes, 1, (array, where), (), loads=False)


def box(*place: int, array: int = ARRAY) -> Copy:
    return store(64 * 16 * 2, ((64, 16), place), array)


def test_boxes_of_a_tile_that_overlap() -> None:
    """176 columns in three boxes of 64."""
    assert first_stored([box(0, 0), box(64, 0), box(112, 0), box(0, 16)]) == [2048, 2048, 1536, 2048]


def test_a_box_that_is_stored_again_stores_nothing() -> None:
    assert first_stored([box(0, 0), box(0, 0), box(0, 0, array=OTHER)]) == [2048, 0, 2048]


def test_boxes_that_begin_anywhere_and_bytes_without_a_box_count_whole() -> None:
    assert first_stored([box(0, 0), box(1, 1)]) == [2048, 2048]
    assert first_stored([store(512, 0), store(512, 0), store(32, (7, 32))]) == [512, 512, 32]
