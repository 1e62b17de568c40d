"""Files of constants: what is in them, what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pyptx.core.errors import SpecError
from pyptx.timing import constants
from pyptx.timing.constants import CONFIDENCES, gpu, gpu_for, gpus, read, write
from pyptx.timing.names import required


def test_the_package_has_files_of_two_gpus():
    assert gpus() == ("b200", "h200")


@pytest.mark.parametrize("name", gpus())
@pytest.mark.sample(2)
def test_every_constant_has_an_interval_a_source_and_a_unit(name):
    described = gpu(name)
    names = required(described.target)
    assert names is not None and set(described.constants) == set(names)
    for constant_name, constant in described.constants.items():
        assert constant.unit == names[constant_name][0]
        assert len(constant.source) > 3 and constant.confidence in CONFIDENCES
        # An estimate is never better than C, and what is exact is no estimate.
        if constant.source.startswith("estimate:"):
            assert constant.confidence in "CD" and constant.low < constant.high, constant_name
        if constant.confidence == "D":
            assert constant.low < constant.high, constant_name


@pytest.mark.parametrize("name", gpus())
@pytest.mark.sample(2)
def test_sizes_of_gpcs_sum_to_the_chip(name):
    assert sum(gpu(name).series("gpc.sizes")) == gpu(name).value("sm.count")


def test_gpcs_of_the_h200_fit_the_clusters_that_the_driver_reports():
    # cuOccupancyMaxActiveClusters on our H200, one CTA on an SM.
    sizes = gpu("h200").series("gpc.sizes")
    assert {n: sum(int(size) // n for size in sizes) for n in (2, 4, 8, 16)} == {2: 66, 4: 30, 8: 15, 16: 7}


def test_peaks_are_those_of_the_data_sheets():
    # Dense bf16: 989 TFLOP/s at 1.83 GHz (H100 and H200), 2250 TFLOP/s at 1.856 GHz (B200).
    for name, ghz, tflops in (("h200", 1.83, 989), ("b200", 1.856, 2250)):
        per_clk = gpu(name).value("sm.count") * gpu(name).value("tensor.flops_per_clk_16bit")
        assert per_clk * ghz / 1000 == pytest.approx(tflops, rel=0.002)


def test_a_name_that_is_no_gpu_names_a_close_one():
    with pytest.raises(SpecError, match="did you mean 'b200'"):
        gpu("B20")
    with pytest.raises(SpecError, match="known are b200, h200"):
        gpu("tpu-v5")


def test_the_gpu_of_a_target_has_its_number():
    assert gpu_for("sm_90") is gpu_for("sm_90a") is gpu("h200")
    assert gpu_for("sm_100a") is gpu("b200")
    assert gpu_for("sm_80") is None


def test_an_unknown_constant_names_close_ones():
    with pytest.raises(SpecError, match=r"did you mean .*tma\.issue_clk"):
        gpu("b200").value("tma.isue_clk")
    with pytest.raises(SpecError, match="H200 SXM has no constant"):
        gpu("h200").value("mma.interval.floor_clk")


def test_a_list_and_a_number_are_not_mixed_up():
    with pytest.raises(SpecError, match=r"Gpu\.series"):
        gpu("b200").value("gpc.sizes")
    with pytest.raises(SpecError, match=r"Gpu\.value"):
        gpu("b200").series("sm.count")
    with pytest.raises(SpecError, match="expected one number"):
        gpu("b200").with_values({"sm.count": (1.0,)})


def test_with_values_changes_a_copy():
    before = gpu("b200")
    after = before.with_values({"mma.port_bytes_per_clk": math.inf})
    assert after.value("mma.port_bytes_per_clk") == math.inf
    assert before.value("mma.port_bytes_per_clk") == 128
    assert after.constant("sm.count") is before.constant("sm.count")
    assert gpu(after) is after
    with pytest.raises(SpecError, match="has no constant"):
        before.with_values({"mma.port": 1})


def test_a_written_file_is_read_back(tmp_path):
    path = tmp_path / "mine.json"
    changed = gpu("b200").with_values({"tma.issue_clk": 50.0})
    write(changed, path)
    again = gpu(path)
    assert again.value("tma.issue_clk") == 50.0
    assert again.constants == changed.constants
    with pytest.raises(SpecError, match="finite"):
        write(changed.with_values({"tma.issue_clk": math.inf}), path)


def test_the_packaged_files_are_what_write_writes(tmp_path):
    for name in gpus():
        write(gpu(name), tmp_path / "again.json")
        packaged = Path(constants.__file__).parent / "gpus" / f"{name}.json"
        assert (tmp_path / "again.json").read_text("utf-8") == packaged.read_text("utf-8")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda c: c["constants"].pop("sm.count"), "sm.count is missing"),
        (lambda c: c["constants"].update({"sm.cuont": c["constants"]["sm.count"]}), "sm.count is one"),
        (lambda c: c["constants"]["sm.count"].update(low=149), "low <= value <= high"),
        (lambda c: c["constants"]["sm.count"].update(value="many"), "finite numbers"),
        (lambda c: c["constants"]["sm.count"].update(value=True), "finite numbers"),
        (lambda c: c["constants"]["gpc.sizes"].update(low=[1]), "lists of one length"),
        (lambda c: c["constants"]["sm.clock_max_mhz"].update(unit="GHz"), "unit 'GHz', expected 'MHz'"),
        (lambda c: c["constants"]["sm.count"].update(source=" "), "sm.count: no source"),
        (lambda c: c["constants"]["sm.count"].update(date="today"), "YYYY-MM-DD"),
        (lambda c: c["constants"]["sm.count"].update(confidence="E"), "expected A, B, C, D"),
        (lambda c: c["constants"]["sm.count"].pop("source"), "expected exactly"),
        (lambda c: c.update(target="sm_80"), "expected sm_90a or sm_100a"),
        (lambda c: c.pop("title"), "title is missing"),
        (lambda c: c.update(constants=[]), "expected an object"),
    ],
)
@pytest.mark.sample(14)
def test_a_file_with_a_fault_is_refused(tmp_path, change, fault):
    path = tmp_path / "bad.json"
    write(gpu("b200"), path)
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(SpecError, match=fault):
        read(path)


def test_text_that_is_no_json_is_refused(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text("{", "utf-8")
    with pytest.raises(SpecError, match="is no file of constants"):
        gpu(path)
