"""The tables of docs/clock-constants.md are those of the files: ``python -m tests.docs.test_clock_constants`` writes them."""

from __future__ import annotations

from pathlib import Path

from pyptx.timing.constants import CONFIDENCES, Constant, gpu, gpus
from pyptx.timing.names import required

PAGE = Path(__file__).resolve().parents[2] / "docs/clock-constants.md"
START = "<!-- tables: python -m tests.docs.test_clock_constants -->\n"


def number(value: float | tuple[float, ...]) -> str:
    """Return a number as a page shows it, in full up to seven digits."""
    if isinstance(value, tuple):
        return ", ".join(map(number, value))
    return f"{value:.7g}" if abs(value) < 1e7 else f"{value / 1e6:,.6g}e6"


def interval(constant: Constant) -> str:
    if constant.low == constant.high:
        return "exact"
    if isinstance(constant.low, tuple):
        return f"{number(min(constant.low))} to {number(max(constant.high))}"
    return f"{number(constant.low)} to {number(constant.high)}"


def tables() -> str:
    """Return a section with a table for each GPU."""
    text = []
    for name in gpus():
        described = gpu(name)
        text += [
            f"## {described.title}",
            "",
            f"`gpu({name!r})`, target {described.target}, {described.date}.",
            "",
        ]
        text += [
            "| constant | meaning | value | interval | unit | | source |",
            "|---|---|--:|---|---|---|---|",
        ]
        for key, (unit, meaning) in required(described.target).items():
            constant = described.constant(key)
            cells = (
                f"`{key}`",
                meaning,
                number(constant.value),
                interval(constant),
                unit,
                constant.confidence,
            )
            text.append(f"| {' | '.join((*cells, constant.source))} |")
        text.append("")
    return "\n".join(text)


def test_the_tables_are_those_of_the_files() -> None:
    _, found, shown = PAGE.read_text("utf-8").partition(START)
    assert found
    assert shown == tables(), "python -m tests.docs.test_clock_constants writes them anew"


def test_the_page_explains_every_letter() -> None:
    text = PAGE.read_text("utf-8")
    for letter, meaning in CONFIDENCES.items():
        assert f"| {letter} | {meaning} |" in text


if __name__ == "__main__":
    before = PAGE.read_text("utf-8").partition(START)[0]
    PAGE.write_text(before + START + tables(), "utf-8")
