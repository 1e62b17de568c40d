"""``pyptx isa``: what a name means, and what is shown of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyptx.isa import all_forms, form, forms_of, opcodes, target
from pyptx.tools.cli import cli
from pyptx.tools.cuda_names import CUDA_NAMES
from pyptx.tools.describe import call_text, describe_form, survey
from pyptx.tools.lookup import has_modifiers, look_up, narrowed, search_forms
from pyptx.tools.wrappers import recorded, wrappers_of

pytestmark = pytest.mark.smoke


def run(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["isa", *arguments], catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result


def rows(*arguments: str, status: int = 0) -> dict[str, str]:
    """The labels and values that are printed; the first of each label."""
    found: dict[str, str] = {}
    for line in run(*arguments, status=status).stdout.splitlines():
        label, _, value = line.strip().partition("  ")
        found.setdefault(label, value.strip())
    return found


def load(*arguments: str, status: int = 0) -> dict[str, Any]:
    found = json.loads(run(*arguments, "--json", status=status).stdout)
    assert isinstance(found, dict)
    return found


# --- what a name means --------------------------------------------------------------------------


def test_a_complete_spelling() -> None:
    verdict = look_up("ld.shared::cluster.v4.f32").verdict
    assert verdict is not None and verdict.legal
    assert verdict.needs == "PTX 7.8; sm_90+"
    assert rows("ld.shared::cluster.v4.f32")["legal"] == "yes: PTX 7.8; sm_90+"


@pytest.mark.parametrize(
    "name", ["st.shared::cta.u32", "st.shared__cta.u32", "ptx.inst.st.shared__cta.u32", "st.shared::cta.u32;"]
)
def test_every_way_to_write_it(name: str) -> None:
    found = look_up(name)
    assert found.verdict is not None and found.verdict.spelling == "st.shared::cta.u32"
    assert [form.id for form in found.forms] == ["st"]


def test_versions_of_form_and_modifiers_are_combined() -> None:
    relaxed = look_up("mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64").verdict
    assert relaxed is not None and relaxed.needs == "PTX 8.6; sm_90+"
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    plain, grouped = look_up(copy).verdict, look_up(f"{copy}.cta_group::1").verdict
    assert plain is not None and plain.needs == "PTX 8.0; sm_90+"
    assert grouped is not None and grouped.needs.startswith("PTX 8.6; ")
    assert "sm_100a" in grouped.needs and "sm_90a" not in grouped.needs


def test_the_beginning_of_a_spelling() -> None:
    found = look_up("mbarrier.try_wait")
    assert found.verdict is not None and found.verdict.legal is None
    assert found.verdict.hint == "mbarrier.try_wait.b64"
    assert found.verdict.why == "missing .b64, for example"
    assert {"mbarrier.try_wait", "mbarrier.try_wait.parity"} <= {form.id for form in found.forms}
    assert "mbarrier.test_wait" not in {form.id for form in found.forms}
    # A form that has the words, and no legal choice with all of them, is none of it.
    assert "setp.bool" in {form.id for form in look_up("setp.lt.and.ftz").forms}
    assert not look_up("setp.lo.and.ftz").forms
    # The words stand in the manual's order: f16 from f32, and f32 from f16.
    assert rows("cvt.rn.f16.f32")["Python"] == "ptx.inst.cvt.rn.f16.f32(d, a)"
    assert rows("cvt.f32.f16")["Python"] == "ptx.inst.cvt.f32.f16(d, a)"


def test_the_beginning_of_several_instructions() -> None:
    """What begins so comes first, and gives the example: not a prefetch, which has words between."""
    found = look_up("cp.async.bulk.tensor")
    assert found.verdict is not None and found.verdict.legal is None
    assert found.verdict.hint == "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group"
    assert found.verdict.why == "missing .1d .global .shared::cta .bulk_group, for example"
    ids = [form.id for form in found.forms]
    assert ids[0] == "cp.async.bulk.tensor.load"
    assert ids.index("cp.async.bulk.tensor.store") < ids.index("cp.async.bulk.prefetch.tensor")
    copy = look_up("cp.async").verdict
    assert copy is not None and copy.hint == "cp.async.ca.shared.global"


def test_a_wait_is_shown_in_full() -> None:
    """What the README promises of it: forms, operands, versions, targets, and how the simulator executes it."""
    printed = run("mbarrier.try_wait").stdout
    forms = look_up("mbarrier.try_wait").forms
    assert len(forms) > 5
    for entry in forms:
        text = describe_form(entry)
        assert f"[{entry.id}] {text.summary}" in printed and text.syntax in printed
    for label in ("waitComplete", "needs", "simulator", "wrapper"):
        assert f"\n  {label} " in printed


def test_forms_that_are_listed_say_what_they_need() -> None:
    printed = " ".join(run("cp.async.bulk.tensor").stdout.split())
    assert "signals bytes on an mbarrier. PTX 8.0; sm_90+; simulator: exact" in printed


@pytest.mark.parametrize(
    "name, full, form_id",
    [
        ("ptx.mbarrier.arrive_expect_tx", "ptx.mbarrier.arrive_expect_tx", "mbarrier.arrive.expect_tx"),
        ("mbarrier.arrive_expect_tx", "ptx.mbarrier.arrive_expect_tx", "mbarrier.arrive.expect_tx"),
        ("ptx.wgmma.mma_async", "ptx.wgmma.mma_async", "wgmma.mma_async.f16.ss"),
        ("ptx.cp.async_.bulk.load", "ptx.cp.async_.bulk.load", "cp.async.bulk.load"),
        ("smem.load", "smem.load", "ld"),
    ],
)
def test_functions_of_the_dsl_lead_to_their_instructions(name: str, full: str, form_id: str) -> None:
    found = look_up(name)
    assert found.about is not None and (found.about.name, found.about.kind) == (full, "function of the DSL")
    assert form_id in [form.id for form in found.forms]
    assert full in wrappers_of(form_id)
    assert load(name)["about"]["name"] == full


def test_functions_that_record_several_instructions_are_explained() -> None:
    assert rows("ptx.mbarrier.wait")["is"] == "Spin until the phase has completed."


@pytest.mark.parametrize(
    "name, form_ids",
    [
        ("exp2", {"ex2.f32"}),
        ("atomicAdd", {"atom", "red"}),
        ("atomicadd(p, 1)", {"atom", "red"}),
        ("__syncthreads()", {"bar.sync", "barrier.sync"}),
        ("__shfl_down_sync", {"shfl.sync"}),
        ("__ldg", {"ld.nc"}),
        ("cuda::barrier<cuda::thread_scope_block>", {"mbarrier.init", "mbarrier.try_wait"}),
        ("cuda::ptx::fence_proxy_async", {"fence.proxy.async"}),
        ("__popc", {"popc"}),
    ],
)
def test_names_of_cuda(name: str, form_ids: set[str]) -> None:
    found = look_up(name)
    assert found.about is not None and found.about.kind == "CUDA C++"
    assert form_ids <= {form.id for form in found.forms}
    assert {form.id for form in found.forms} <= {form.id for form in search_forms(name)}
    assert run(name).stdout.startswith(f"{found.about.name}: CUDA C++\n")


def test_names_of_cuda_that_are_no_instruction() -> None:
    assert rows("threadIdx.x")["is"] == "the special register %tid: ptx.special.tid.x()"


def test_the_modifier_that_a_name_of_cuda_means_is_in_the_example() -> None:
    assert rows("__shfl_xor_sync")["Python"].startswith("ptx.inst.shfl.sync.bfly.b32(")


def test_a_part_of_a_name_of_cuda_is_searched_for() -> None:
    assert "vote.sync.ballot" in {form.id for form in search_forms("ballot_sync")}


def test_every_name_of_cuda_leads_somewhere() -> None:
    assert len(CUDA_NAMES) > 200
    for cuda in CUDA_NAMES.values():
        assert cuda.spellings or cuda.note
        assert cuda.name not in opcodes(), "the instruction is found first"
        for spelling in cuda.spellings:
            opcode, *words = spelling.split(".")
            assert any(has_modifiers(entry, words) for entry in forms_of(opcode)), spelling


def test_an_opcode_a_form_and_a_chapter() -> None:
    assert look_up("popc").verdict is None
    assert [form.id for form in look_up("add.int").forms] == ["add.int"]
    assert {form.opcode for form in look_up("logic").forms} >= {"and", "lop3", "prmt"}
    assert look_up("data movement").forms == look_up("data_movement").forms != ()
    assert look_up("ret").verdict is not None


def test_misspellings_name_the_nearest_and_fail() -> None:
    assert "mbarrier" in rows("mbarier", status=2)["nearest"]
    wrong = rows("mbarrier.try_wayt.parity", status=2)
    assert "unknown modifier .try_wayt (did you mean .try_wait?)" in wrong["legal"]
    assert "mbarrier.try_wait.parity.b64" in wrong["hint"]
    assert "lists every opcode" in rows("qqqqqq", status=2)["hint"]


@pytest.mark.parametrize("name", ["", ".", "ptx.inst.", "add..u32", ";", "%laneid", "ld.", "[ld]"])
def test_odd_names_are_answered(name: str) -> None:
    result = CliRunner().invoke(cli, ["isa", name], catch_exceptions=False)
    assert result.exit_code in (0, 2) and result.output


def test_what_a_rule_forbids_is_not_legal() -> None:
    wrong = rows("setp.lo.f32", status=2)
    assert wrong["legal"].startswith("no: .lo does not exist for .f32") and "setp" in wrong["hint"]


# --- one target ---------------------------------------------------------------------------------


def test_a_target_that_lacks_the_spelling() -> None:
    wrong = rows("st.shared::cluster.u32", "--target", "sm_80", status=2)
    assert wrong["legal"] == "no: it does not exist on sm_80"
    assert wrong["hint"] == "it needs PTX 7.8; sm_90+"


def test_a_target_leaves_out_what_it_lacks() -> None:
    assert ".shared::cluster" in rows("st.shared.u32")[".ss"]
    assert ".shared::cluster" not in rows("st.shared.u32", "--target", "sm_80")[".ss"]
    assert "tcgen05" not in run("--target", "sm_90a").stdout
    assert "tcgen05" in run("--target", "sm_100a").stdout
    assert not look_up("tcgen05", target("sm_90a")).forms


def test_narrowing_drops_groups_and_forms() -> None:
    load_form = form("ld")
    kept = narrowed(load_form, target("sm_75"))
    assert kept is not None
    assert "L2::cache_hint" in {a.text for slot in load_form.slots() for a in slot.alternatives}
    assert "L2::cache_hint" not in {a.text for slot in kept.slots() for a in slot.alternatives}
    assert survey(kept).count < survey(load_form).count
    assert narrowed(form("tcgen05.alloc"), target("sm_90a")) is None


def test_an_unknown_target() -> None:
    assert "known targets" in run("add", "--target", "sm_1", status=2).output


# --- what is shown ------------------------------------------------------------------------------


def test_a_form_in_full() -> None:
    shown = rows("setp.eq.and.f32")
    assert shown["syntax"] == "setp.cmp.bool{.ftz}.type p{|q}, a, b, {!}c;"
    assert shown["Python"] == "ptx.inst.setp.eq.and_.f32(p, a, b, c)"
    assert shown[".bool"] == ".and, .or, .xor"
    assert shown[".ftz"] == "optional"
    assert shown["p{|q}"] == "written: register or pair; pred"
    assert shown["c"] == "read: register, immediate or negated predicate; pred"
    assert shown["simulator"] and shown["needs"] == "any PTX version; all targets"
    assert shown["manual"].endswith("#comparison-and-selection-instructions-setp")


def test_operands_say_what_they_need() -> None:
    shown = rows("tcgen05.mma.cta_group::1.kind::f16")
    assert shown["scale-input-d"].startswith("read: immediate; optional; immediate: 0 to 15")
    assert shown["disable-output-lane"] == "read: register or immediate; b32 x .cta_group*4; optional"
    assert "of which" in shown["variants"]
    copy = rows("cp.async.bulk.tensor.load")
    assert copy["rule"] == ".multicast if and only if ctaMask"
    assert copy["tensorMap"] == "address: global memory; coords: register or immediate, s32 x .dim"


def test_many_forms_are_listed_and_full_shows_them() -> None:
    short, full = run("mbarrier").stdout, run("mbarrier", "--full").stdout
    assert "mbarrier.arrive.noComplete" in short and "syntax" not in short
    assert full.count("  syntax ") == len(look_up("mbarrier").forms)


def test_without_a_name_every_opcode_has_a_line() -> None:
    printed = run().stdout
    labels = {line.split()[0] for line in printed.splitlines() if line.startswith("  ")}
    assert labels == set(opcodes())
    assert printed.isascii() and "\x1b" not in printed
    listed = load()["chapters"]
    assert {i for chapter in listed for ids in chapter["opcodes"].values() for i in ids} == {
        form.id for form in all_forms()
    }


def test_search() -> None:
    found = {form.id for form in search_forms("tensor memory load")}
    assert "tcgen05.ld.32x32b" in found and "ld" not in found
    assert "tcgen05.ld.32x32b" in run("--search", "Tensor MEMORY load").stdout
    assert "tcgen05.ld.32x32b" not in {
        form.id for form in search_forms("tensor memory load", target("sm_90a"))
    }
    assert run("--search", "no such words", status=2).output
    assert "not both" in run("add", "--search", "x", status=2).output


def test_json() -> None:
    found = load("ld.global.v4.f32")
    assert found["verdict"]["legal"] is True
    shown = found["forms"][0]
    assert shown["id"] == "ld" and shown["chapter"] == "data_movement"
    assert shown["python"] == "ptx.inst.ld.global_.v4.f32([d0, d1, d2, d3], ptx.addr(a))"
    assert shown["variants"] == survey(form("ld")).count
    space = next(m for m in shown["modifiers"] if m["name"] == ".ss")
    assert {"text": "shared::cta", "python": "shared__cta", "needs": "PTX 7.8"} in space["members"]
    assert load("mbarier", status=2)["near"]


def test_every_form_can_be_described() -> None:
    for entry in all_forms():
        text = describe_form(entry)
        assert text.manual.startswith("https://docs.nvidia.com/"), entry.id
        assert text.syntax.startswith(entry.opcode) and text.syntax.endswith(";")
        assert len(text.operands) == len(list(entry.specs()))


def test_python_calls_name_every_required_operand() -> None:
    def call(form_id: str) -> str:
        match = survey(form(form_id)).shortest
        assert match is not None
        return call_text(match)

    assert call("elect.sync") == "ptx.inst.elect.sync(ptx.pair(d, p), membermask)"
    assert call("bra") == 'ptx.inst.bra("target")'
    assert call("tcgen05.ld.16x256b").endswith("([r0, r1, r2, r3], ptx.addr(taddr))")
    assert "coord=[coords0]" in call("cp.async.bulk.tensor.load")
    # No value of Python is the list of a call's arguments.
    assert call("call") == ""


def test_types_that_depend_on_modifiers() -> None:
    text = describe_form(form("tex"))
    result, address = text.operands[:2]
    assert result.type == "by .vec.dtype"
    assert ("b32 x 2", (".v2.f16x2",)) in result.cases
    (coordinates,) = address.depending
    assert ".ctype x 2" in {kind for kind, keys in coordinates.cases if ".2d.f32" in keys}
    assert "c: .ctype x 2 with .2d.s32, .2d.f32" in run("tex.2d.v4.f32.f32").stdout


# --- wrappers -----------------------------------------------------------------------------------


def test_wrappers_of_a_form() -> None:
    assert wrappers_of("mbarrier.arrive") == ("ptx.mbarrier.arrive",)
    assert wrappers_of("mbarrier.arrive.expect_tx") == ("ptx.mbarrier.arrive_expect_tx",)
    assert wrappers_of("ld") == ("ptx.load", "smem.load")
    assert "ptx.tcgen05.ld" in wrappers_of("tcgen05.ld.32x32b")
    assert wrappers_of("cp.async.bulk.load") == ("ptx.cp.async_.bulk.load",)
    # Objects that are called are wrappers as well.
    assert wrappers_of("cp.async") == ("ptx.cp.async_",)
    assert "ptx.cp.async_.bulk.tensor_3d" in wrappers_of("cp.async.bulk.tensor.store")
    assert "ptx.cp.async_.bulk.tensor_1d" not in wrappers_of("cp.async.bulk.tensor.load.im2col")
    # What one wrapper packs, another unpacks.
    assert wrappers_of("mov.pack.b32") == ("ptx.pack",)
    assert wrappers_of("membar") == ()


def test_every_wrapper_is_found_by_its_forms() -> None:
    found = {name for entry in all_forms() for name in wrappers_of(entry.id)}
    assert found == set(recorded())


@pytest.mark.full
def test_the_command_line_as_a_module() -> None:
    command = [sys.executable, "-m", "pyptx", "isa", "add.int"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[add.int]")
