"""docs/fidelity.md: what it says of forms. test_generated.py holds it up to date."""

from __future__ import annotations

from pyptx.tools.fidelity import fidelity_page


def test_it_lists_what_is_not_modeled() -> None:
    rows = [line.split("|") for line in fidelity_page().splitlines() if line.startswith("| `")]
    fidelity = {row[1].strip(" `"): row[2].strip() for row in rows}
    assert fidelity["add.int"] == "exact"
    assert fidelity["tcgen05.mma.ss"].startswith("bounded: an element of D")
    assert fidelity["sin.f32"].startswith("bounded: absolute error 6.7e-07; ")
    assert fidelity["sured.add"] == "not modeled: needs graphics hardware"
    assert fidelity["multimem.red"] == "not modeled: needs several GPUs"
    assert fidelity["cp.async.bulk.tensor.load.override"] == "not modeled: not built (PTX 9.4, sm_107f)"
    assert fidelity["tensormap.replace.address"] == "exact"
    assert {fidelity[form] for form in ("bra", "brx.idx", "call", "ret", "exit")} == {"exact"}
    # What is not modeled has a reason: its needs, or the targets that have it.
    reasons = {told.partition(": ")[2].partition(" (")[0] for told in fidelity.values() if "not mod" in told}
    assert reasons == {"needs graphics hardware", "needs several GPUs", "not built"}
