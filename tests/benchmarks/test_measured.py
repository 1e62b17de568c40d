"""Measured rows are read from the tables of a page: names, groups, protocols, times, clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyptx.tools.load import load_module

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
measured = load_module(BENCHMARKS / "_measured.py")

PAGE = """# A page

| rows | reached |
|---|---|
| not a result | 1 us |

### gemm, burst

| row | ours | rate |
|---|--:|--:|
| gemm 1x2x3 | 12.5 us | 1 |

### gemm, sustained

| row | ours | ours, then rivals: W, MHz, pJ/FLOP |
|---|--:|---|
| gemm 1x2x3 | 14.0 us | 650, 1455, 1.0; 700, 1500, 1.1 |

## After the tables

| row | ours |
|---|---|
| no result | 3 us |
"""


def test_rows_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    burst, sustained = measured.measured_times(page)
    assert (burst.row, burst.group, burst.protocol, burst.us) == ("gemm 1x2x3", "gemm", "burst", 12.5)
    assert burst.mhz is None
    assert (sustained.protocol, sustained.us, sustained.watts, sustained.mhz) == (
        "sustained",
        14.0,
        650,
        1455,
    )


def test_a_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("| row | ours | rate |", "| name | ours | rate |"))
    with pytest.raises(ValueError, match="begins with"):
        measured.measured_times(page)


def test_the_page_of_this_tree_has_rows_of_all_groups() -> None:
    groups = {each.group for each in measured.measured_times()}
    assert {"ladder", "gemm", "layers", "fp8", "memory", "decode", "attention-hd64"} <= groups


def test_counters_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    head = f"| {' | '.join(measured.COUNTED)} |\n|---|---|{'--:|' * 10}\n"
    row = (
        "| gemm 1x2x3 | gemm | 286484 | 1595 | 265907 | 90.1 | 9.5 | 53.7 | 20.0 | 145.1 | 28.1 | 1209.7 |\n"
    )
    page.write_text(f"{PAGE}\n## Counters\n\n{head}{row}\nno row\n")
    (found,) = measured.counted_launches(page)
    assert (found.row, found.kernel, found.cycles, found.mhz) == ("gemm 1x2x3", "gemm", 286484, 1595)
    assert (found.tensor, found.issue, found.l2, found.dram, found.moved) == (90.1, 9.5, 53.7, 20.0, 1209.7)
    assert len(measured.measured_times(page)) == 2


def test_every_measured_row_of_this_tree_was_counted() -> None:
    rows = {each.row for each in measured.measured_times()}
    assert {each.row for each in measured.counted_launches()} == rows
