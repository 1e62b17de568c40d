"""A prediction as text: for a terminal, and as Markdown for a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..core.findings import Verdict
from ..core.source import SourceLocation
from ..sim.clock.stalls import Place, Stall

if TYPE_CHECKING:
    from .prediction import Prediction

__all__ = ["described", "markdown", "times", "where_it_went"]

#: Shares of the time below which units, waits and parts of waits are left out.
_BUSY, _WAIT, _PART = 0.01, 0.05, 0.1
#: Most waits that are listed for a group of warps.
_ROWS = 4


def times(prediction: Prediction) -> str:
    """Return the time and its interval: ``20.1 us (17.5 to 22.8)``."""
    low, high = prediction.interval
    return f"{prediction.microseconds:.1f} us ({low:.1f} to {high:.1f})"


def described(prediction: Prediction) -> Iterator[str]:
    """Yield the lines of the text."""
    if prediction.verdict is not Verdict.CLEAN:
        yield f"{prediction.entry} on {prediction.gpu}: {prediction.verdict}"
        yield from map(str, prediction.findings)
        return
    without = f" without a limit of {prediction.lifted}" if prediction.lifted else ""
    yield f"{_head(prediction)}{without}: {times(prediction)}, {_figures(prediction)}"
    yield f"bound by: {prediction.bound}"
    yield "busy: " + _shares(prediction.busy.items(), _BUSY)
    if prediction.schedule == "default":
        yield f"code costs a default expansion, not ptxas's schedule: {prediction.schedule_reason}"
    placement, sms = prediction.timing.placement, int(prediction.constants.value("sm.count"))
    used = placement.positions * placement.size
    if used < sms or placement.waves > 1:
        yield f"uses {used} of {sms} multiprocessors, {placement.waves:.2f} waves of clusters"
    yield "of each warp's time, waits take:"
    for group in prediction.warps:
        rows = [each for each in group.stalls if each.share >= _WAIT][:_ROWS]
        yield f"{_warps(group.warps)}: runs {group.running:.0%} of its time"
        for each in rows:
            where = f"{_line(each.location)} {_mnemonic(each.name)}"
            yield f"  {each.share:4.0%} {where}: {_what(each)}{_ender(each)}"


def markdown(prediction: Prediction) -> str:
    """Return a short form for a notebook: the figures, and the longest wait of each group of warps."""
    if prediction.verdict is not Verdict.CLEAN:
        return "\n\n".join(described(prediction))
    lines = [
        f"**{_head(prediction)}**: {times(prediction)}, bound by **{prediction.bound}**. "
        f"{_figures(prediction)}.",
        "",
        "| warps | run | wait most for | share | line |",
        "|---|--:|---|--:|---|",
    ]
    for group in prediction.warps:
        most = next(iter(group.stalls), None)
        cells = ["", "", ""] if most is None else [_what(most), f"{most.share:.0%}", _line(most.location)]
        lines.append(f"| {_warps(group.warps)} | {group.running:.0%} | {' | '.join(cells)} |")
    return "\n".join(lines)


def where_it_went(stall: Stall) -> str:
    """Return where the awaited operation was during a wait: ``link 60%, latency 40%``; may be empty."""
    if not stall.cycles:
        return ""
    return _shares(((part, cycles / stall.cycles) for part, cycles in stall.within.items()), _PART)


def _head(prediction: Prediction) -> str:
    return f"{prediction.entry} on {prediction.gpu} at {prediction.mhz:.0f} MHz"


def _figures(prediction: Prediction) -> str:
    return (
        f"{prediction.cycles:,.0f} cycles, {prediction.tflops:.0f} TFLOP/s, "
        f"{prediction.gbps:.0f} GB/s from memory"
    )


def _shares(shares: object, least: float) -> str:
    rows = sorted(shares, key=lambda each: -each[1])  # type: ignore[call-overload]
    return ", ".join(f"{name} {share:.0%}" for name, share in rows if share >= least)


def _what(stall: Stall) -> str:
    """Return for what a warp waits: ``full, as consumer: bytes of copies [link 60%, latency 40%]``."""
    role = f", as {stall.role}" if stall.role else ""
    name = f"{stall.barrier}{role}: " if stall.barrier else ""
    part = where_it_went(stall)
    return f"{name}{stall.cause.value}" + (f" [{part}]" if part else "")


def _ender(stall: Stall) -> str:
    name, location = stall.ended_by
    return f", by {_mnemonic(name)} of {_line(location)}" if name else ""


def _mnemonic(name: str) -> str:
    """Return the first words of an instruction: ``mbarrier.try_wait``, ``cp.async.bulk``."""
    words = name.split("::")[0].split(".")
    return ".".join(words[: 3 if words[:2] == ["cp", "async"] or words[0] == "barrier" else 2])


def _line(location: SourceLocation | None) -> str:
    """Return the line, and the one that called its function: ``gemm.py:322 via gemm.py:388``."""
    if location is None:
        return "an unknown line"
    return location.short if location.caller is None else f"{location.short} via {location.caller.short}"


def _warps(places: Sequence[Place]) -> str:
    """Return the names of warps: ``warps 0 to 3``, ``rank 1 warp 4``; ranks if they differ."""
    by_rank: dict[int, list[int]] = {}
    for rank, warp in places:
        by_rank.setdefault(rank, []).append(warp)
    texts = {rank: _numbers("warp", warps) for rank, warps in by_rank.items()}
    if len(set(texts.values())) == 1:
        ranks = sorted(texts)
        text = texts[ranks[0]]
        return text if ranks == [0] else f"{text} of {_numbers('rank', ranks)}"
    return ", ".join(f"{text} of rank {rank}" for rank, text in texts.items())


def _numbers(noun: str, numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(a) if a == b else f"{a} to {b}" for a, b in runs]
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"
