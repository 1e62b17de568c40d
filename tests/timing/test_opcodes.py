"""Pipes and latencies of machine instructions, by the constants of a GPU, and default expansions."""

from __future__ import annotations

import pytest

from pyptx.isa import all_forms
from pyptx.timing.constants import gpu
from pyptx.timing.expansions import expansion
from pyptx.timing.opcodes import Pipes, class_of, is_known

H200, B200 = gpu("h200"), gpu("b200")


@pytest.mark.parametrize(
    ("opcode", "pipe", "lanes"),
    [
        ("FFMA.FTZ", "fma", 128),
        ("IADD3.X", "alu", 64),
        ("MUFU.EX2", "mufu", 16),
        ("F2FP.BF16.F32.PACK_AB", "alu", 64),
        ("F2F.BF16.F32", "mufu", 16),
        ("SHFL.BFLY", "shfl", 32),
        ("DFMA", "fp64", 64),
    ],
)
def test_a_warp_occupies_a_pipe_for_its_lanes(opcode: str, pipe: str, lanes: int) -> None:
    # An SM has four equal parts: 32 lanes of a warp, over a quarter of the lanes of the SM.
    assert Pipes(H200).occupied(opcode) == {pipe: pytest.approx(32 / (lanes / 4), rel=1e-3)}


def test_half_of_the_pipe_of_multiply_adds_takes_integers_and_halves() -> None:
    pipes = Pipes(H200)
    assert pipes.occupied("IMAD.MOV.U32") == {"fma": 1, "fmaheavy": 2}
    assert pipes.occupied("IMAD.WIDE.U32") == pipes.occupied("IMAD.HI.U32") == {"fma": 2, "fmaheavy": 4}
    assert pipes.occupied("HADD2.F32") == {"fma": 1, "fmaheavy": 2}
    assert pipes.occupied("HFMA2.MMA") == {}


def test_a_packed_instruction_takes_two_passes() -> None:
    pipes = Pipes(B200)
    assert pipes.occupied("FFMA2")["fma"] == 2 * pipes.occupied("FFMA")["fma"]


@pytest.mark.parametrize(
    ("opcode", "m", "n", "k", "bits"),
    [
        ("HMMA.16816.F32.BF16", 16, 8, 16, 16),
        ("HMMA.1688.F32.TF32", 16, 8, 8, 32),
        ("IMMA.16832.S8.S8", 16, 8, 32, 8),
        ("HMMA.SP.16832.F32", 16, 8, 16, 16),  # half of K is zero
    ],
)
def test_mma_occupies_the_tensor_core_by_its_shape(opcode: str, m: int, n: int, k: int, bits: int) -> None:
    rate = H200.value("hmma.flops_per_clk_16bit") / 4 * 16 / bits
    assert Pipes(H200).occupied(opcode) == {"hmma": pytest.approx(2 * m * n * k / rate)}


@pytest.mark.parametrize(
    ("opcode", "clk"),
    [
        # Measured on an H200: 1 to 4 warps of a scheduler with up to 8 accumulators each.
        ("HMMA.16816.F16", 6.0),
        ("HMMA.1688.F32.TF32", 6.0),
        ("IMMA.16832.S8.S8", 6.0),
        ("BMMA.168256.AND.POPC", 6.0),
        ("HMMA.1688.F32.BF16", 4.0),
        ("HMMA.1684.F32.TF32", 4.0),
        ("IMMA.16816.S8.S8", 4.0),
        ("IMMA.8816.S8.S8", 4.0),
        ("DMMA.16x8x16", 64.1),
        ("DMMA.8x8x4", 16.0),
    ],
)
def test_mma_takes_what_was_measured(opcode: str, clk: float) -> None:
    assert Pipes(H200).occupied(opcode)["hmma"] == pytest.approx(clk, rel=0.02)


def test_latencies() -> None:
    pipes = Pipes(H200)
    assert pipes.latency("MUFU.RCP") == H200.value("mufu.latency_clk")
    assert pipes.latency("LDG.E.128") == pipes.latency("LDS") == 0  # the timed machine has them
    assert pipes.held("USETMAXREG.DEALLOC.CTAPOOL") == H200.value("sm.setmaxnreg_clk")
    assert pipes.held("FFMA") == 0
    # The constant has the branch behind the try, whose stall is in the code.
    assert pipes.held("SYNCS.PHASECHK.TRANS64.TRYWAIT") == H200.value("mbarrier.test_clk") - 5
    assert pipes.held("SYNCS.ARRIVE.TRANS64.A1T0") == H200.value("mbarrier.arrive_clk")
    near, all_spaces, gpu_scope = (
        H200.value(f"fence.{each}_clk") for each in ("proxy_async", "proxy_async_all", "gpu")
    )
    assert pipes.held("MEMBAR.ALL.GPU") == all_spaces - near
    assert pipes.held("CCTL.IVALL") == gpu_scope - all_spaces


def test_a_fence_waits_for_what_its_warp_has_stored() -> None:
    pipes = Pipes(H200)
    assert pipes.reading("MEMBAR.ALL.CTA") == H200.value("fence.proxy_async_clk") - 1
    assert pipes.storing("STSM.16.M88.4") == H200.value("fence.behind_stmatrix_clk")
    assert pipes.storing("STS.128") > pipes.storing("LDS.128") == 0


def test_an_opcode_that_is_not_listed_occupies_the_alu() -> None:
    assert not is_known("NEWOP.X")
    assert class_of("NEWOP.X").pipe == "alu"
    assert Pipes(H200).latency("NEWOP.X") == H200.value("mufu.latency_clk")


def test_every_expansion_has_listed_opcodes() -> None:
    opcodes = {o for form in all_forms() for o in expansion(form.opcode, form.id.split(".")[1:])}
    assert len(opcodes) > 40
    assert [opcode for opcode in sorted(opcodes) if not is_known(opcode)] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fma.rn.f32", ("FFMA",)),
        ("fma.rn.f16x2", ("HFMA2",)),
        ("add.s64", ("IADD3", "IADD3")),
        ("mul.wide.u32", ("IMAD.WIDE",)),
        ("ex2.approx.ftz.f32", ("MUFU",)),
        ("cvt.rn.bf16x2.f32", ("F2FP",)),
        ("cvt.rzi.s32.f32", ("F2I",)),
        ("ld.shared.v4.b32", ("LDS",)),
        ("mbarrier.try_wait.parity.shared::cta.b64", ("SYNCS.PHASECHK",)),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", ("HMMA.16816",)),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", ("HMMA.16816",) * 2),
        ("wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32", ("HMMA.1684.TF32",) * 4),
    ],
)
def test_expansions(name: str, expected: tuple[str, ...]) -> None:
    opcode, *modifiers = name.split(".")
    assert expansion(opcode, modifiers) == expected
