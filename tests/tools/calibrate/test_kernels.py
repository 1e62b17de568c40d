"""The kernels of all microbenchmarks: ptxas takes them, and keeps each section between its two clocks."""

from __future__ import annotations

import itertools
import re

import pytest

from pyptx.timing.constants import Gpu, gpu
from pyptx.tools.calibrate.bench import Bench
from pyptx.tools.calibrate.calibration import families_of
from pyptx.tools.calibrate.families import (
    accesses,
    atomics,
    blackwell_tensor,
    code,
    copies,
    hopper_tensor,
    pipes,
    tensor_memory,
)
from pyptx.tools.calibrate.families import synchronization as sync

from .recording_device import RecordingDevice

GPUS = ("h200", "b200")


def kernels_of(constants: Gpu, family: str) -> dict[str, object]:
    """Return the kernels that a family's microbenchmarks run on a GPU with these constants."""
    device = RecordingDevice(constants)
    values = {each: constant.value for each, constant in constants.constants.items()}
    numbers = {each: value for each, value in values.items() if isinstance(value, (int, float))}
    for benchmark in families_of(constants.target)[family]:
        benchmark.measure(Bench(device, {**numbers, "mhz": numbers["sm.clock_max_mhz"]}))
    return device.kernels


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "family"), [(name, family) for name in GPUS for family in families_of(gpu(name).target)]
)
def test_kernels_assemble_without_warnings_or_spills(name: str, family: str) -> None:
    found = kernels_of(gpu(name), family)
    assert found
    for entry, each in found.items():
        assembly = each.assemble()
        assert not (assembly.warnings or assembly.spills), entry


FORM = {form.name: form for form in blackwell_tensor.FORMS}
#: A kernel, the machine instruction of its operation, and how often the section has it.
SECTIONS = [
    (hopper_tensor.products("sm_90a", 3, 256, 6), "HGMMA", 6),
    (blackwell_tensor.products("sm_100a", 3, FORM["g1_m128_ss"], 128, 6), "UTCHMMA", 6),
    (copies.loads("sm_90a", 3, 8, 32, 6), "UTMALDG", 6),
    (copies.stores("sm_90a", 3, 8, 32, 6), "UTMASTG", 6),
    (sync.repeated("bar_sync", "sm_90a", 3, 128, 1, 6), "BAR.SYNC", 6),
    (sync.repeated("cluster", "sm_90a", 3, 32, 2, 6), "UCGABAR_WAIT", 6),
    (sync.arrivals("sm_100a", 3, 6), "SYNCS.ARRIVE", 6),
    (sync.repeated("fence_gpu", "sm_90a", 3, 32, 1, 6), "MEMBAR", 6),
    (accesses.shared_chain("sm_90a", 3, 6), "LDS", 6),
    (accesses.chain("sm_90a", 3, "l2", 6), "LDG", 6),
    (accesses.cold_chain("sm_100a", 3, 6), "LDG", 6),
    (accesses.many_loads("sm_90a", 3, "l2", 8), "LDG.E.128", 4),
    (accesses.many_loads("sm_90a", 3, "shared", 8), "LDS.128", 4),
    (tensor_memory.moves("sm_100a", 3, 1, True, 3), "LDTM", 3),
    (tensor_memory.moves("sm_100a", 3, 1, False, 3), "STTM", 3),
    (tensor_memory.copies("sm_100a", 3, False, 6), "UTCCP", 6),
    (tensor_memory.copies("sm_100a", 3, True, 6), "UTCSHIFT", 6),
    (atomics.chain("sm_90a", 3, 6), "ATOMG", 6),
    (code.straight("sm_90a", 3, 8), "FFMA", 64),
    (pipes.chains("sm_90a", 3, "shfl", 32, 1, 8), "SHFL", 16),
    (pipes.chains("sm_90a", 3, "cvt", 32, 1, 8), "F2FP", 16),
    (pipes.chains("sm_100a", 3, "fp64", 32, 1, 8), "DFMA", 16),
]


@pytest.mark.one_in(6)
@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "mnemonic", "count"), SECTIONS, ids=[f"{each[0].options.entry}" for each in SECTIONS]
)
def test_ptxas_keeps_the_section_between_the_clocks(kernel: object, mnemonic: str, count: int) -> None:
    sass = kernel.sass()
    clocks = [match.start() for match in re.finditer(r"\bCS2R\S* .*SR_CLOCKLO", sass)]
    assert len(clocks) == 2
    inside = len(re.findall(rf"\b{re.escape(mnemonic)}", sass[clocks[0] : clocks[1]]))
    assert inside >= count
    outside = len(re.findall(rf"\b{re.escape(mnemonic)}", sass)) - inside
    # Setup and the barrier of a round lie outside, no part of the section.
    assert mnemonic in ("BAR.SYNC", "UCGABAR_WAIT", "MEMBAR", "STTM") or not outside


def test_each_branch_of_cold_code_lies_in_one_line_with_its_comparison() -> None:
    """A second line at each branch would be counted as a part of the jump."""
    sass = code.branches("sm_90a", 3, 4).sass()
    steps = r"/\*([0-9a-f]{4})\*/ +ISETP.*\n\s*/\*([0-9a-f]{4})\*/ +@P\d BRA"
    found = [(int(first, 16), int(then, 16)) for first, then in re.findall(steps, sass)][:4]
    assert len(found) == 4 and all(first // 128 == then // 128 for first, then in found)
    assert {later[0] - earlier[0] for earlier, later in itertools.pairwise(found)} == {1024}
