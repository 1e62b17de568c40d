"""Remedies with an edit, applied to twins: the wrong kernel becomes a right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from pyptx.core.findings import Finding
from pyptx.ir import Module, parse_module
from pyptx.sim import Stream, load
from tests.sanitizer.twins.corpus import TWINS
from tests.sanitizer.twins.twin import Twin

from .mending import mend_mutant, mended, remedies
from .mutants import mutants
from .running import run_original

#: Twins that one edit mends, one for each kind of edit.
MENDED = [
    "barrier-between-warps",
    "barrier-before-overwrite",
    "lanes-without-a-barrier",
    "one-lane-arrives-for-all",
    "arrival-relaxed",
    "arrival-before-the-store",
    "flag-stored-relaxed",
    "flag-released-at-cta-scope",
    "store-behind-the-fence",
    "dependent-reads-too-early",
    "published-after-read-alone",
    "fence-after-the-wait",
    "accumulator-handed-over-by-use-alone",
    "copy-to-tensor-memory-not-committed",
    "exit-before-the-copy-has-read",
    "count-of-one-more",
    "bytes-expected-too-few",
    "bytes-expected-too-many",
]


def outcome(twin: Twin, module: Module) -> tuple[Sequence[Finding], bool]:
    """The findings of a changed twin, and whether its output is right."""
    out = np.zeros_like(twin.expect)
    arguments = [out, *twin.arrays(out).values()]
    loaded, stream = load(module), Stream()
    for number, launch in enumerate(twin.launches):
        stream.launch(
            loaded,
            f"kernel{number}",
            grid=launch.grid,
            block=launch.block,
            cluster=launch.cluster,
            args=arguments,
            dependent=launch.dependent,
        )
    reports = stream.run(timeout=20.0)
    findings = [finding for report in reports for finding in report.findings]
    return findings, bool(np.array_equal(out, twin.expect))


@pytest.mark.parametrize("name", MENDED)
def test_the_edits_mend_a_twin(name: str) -> None:
    twin = TWINS[name]
    result = mended(parse_module(twin.text("wrong")), lambda module: outcome(twin, module))
    assert result.how == "mended" and len(result.edits) <= 2, result


@pytest.mark.full
def test_most_edits_mend_their_twin() -> None:
    """127 of the 143 twins whose findings have an edit, when this test was written."""
    ways = Counter(
        mended(parse_module(twin.text("wrong")), lambda module, twin=twin: outcome(twin, module)).how
        for twin in TWINS.values()
        if twin.severity != "none"
    )
    assert ways["mended"] >= 120 and ways["wrong"] <= 2, ways


def test_a_finding_without_an_edit_is_left() -> None:
    twin = TWINS["copy-not-waited-for"]
    result = mended(parse_module(twin.text("wrong")), lambda module: outcome(twin, module))
    assert result.how == "no edit" and result.left == ("data-race",)


def test_the_edits_mend_a_mutant() -> None:
    (mutant,) = (m for m in mutants(["tma-store"], ["proxy-fence-deleted"]) if m.number == 0)
    report, right = run_original("tma-store")
    result = mend_mutant(mutant, "eager", report)
    assert right and result.how == "mended" and result.edits[0].ptx.startswith("fence.proxy.async"), result
    assert "| proxy-fence-deleted | 1 | 1 | 0 | 0 | 0 |" in remedies([(mutant, result)])
