"""``pyptx.bench`` without a GPU: what is refused, in which order things run, what is computed and printed.

The device is a fake whose functions take the time that they say; a real one is in ``test_bench_gpu.py``.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx.core.errors import LaunchError, SpecError, WrongResultError
from pyptx.tools.bench import BenchResult, Reading, Readings, Timing
from pyptx.tools.bench.readings import parse_smi, watch

FLUSH = 60.0


class FakeDevice:
    """numpy arrays as its memory. The GPU's clock advances by what functions say, the host's by one a look."""

    name = "Fake"
    l2_bytes = 1 << 20

    def __init__(self) -> None:
        self.time = 0.0
        self.host = 0.0
        self.log: list[str] = []
        self.foreign: Any = None
        self.captures = self.metered = True
        self.reached = 0.0

    def check(self, array: Any, what: str) -> None:
        if array is self.foreign:
            raise SpecError(f"{what} is elsewhere")

    def clone(self, array: Any) -> Any:
        return array.copy()

    def poison(self, array: Any) -> None:
        array.view(np.uint8)[...] = 0xFF

    def wide(self, array: Any) -> Any:
        return array.astype(np.float64)

    def mark(self) -> Any:
        return self.time

    def between(self, start: Any, end: Any) -> float:
        return float(end - start)

    def flush(self) -> None:
        self.log.append("flush")
        self.time += FLUSH

    def hold(self, us: float) -> None:
        self.log.append("hold")
        self.time += us

    def synchronize(self) -> None:
        self.log.append("wait")
        self.reached = self.time

    def now(self) -> float:
        self.host += 1.0
        return self.host

    def wait(self, event: Any) -> None:
        self.reached = event

    def graph(self, run: Callable[[], Any]) -> Callable[[], Any] | None:
        return run if self.captures else None

    def host_of(self, function: Callable[..., Any], arguments: Any) -> float:
        return 3.0

    def energy(self) -> Callable[[], float | None] | None:
        """A meter that 500 W go through, read when the GPU has reached what the host waited for."""
        return (lambda: self.reached * 1e-6 * 500) if self.metered else None

    def reader(self) -> Callable[[], Reading | None] | None:
        return lambda: Reading(1980.0, 3201.0, 400.0, 50.0)

    def takes(self, name: str, *us: float, host: float = 0.0, function: Any = None) -> Callable[..., Any]:
        """A function that doubles its input; its runs take ``us`` in turns."""
        calls = 0

        def run(x: Any, *rest: Any) -> Any:
            nonlocal calls
            self.time += us[calls % len(us)]
            self.host += host
            self.log.append(f"{name}@{x.ctypes.data:x}")
            calls += 1
            return (x * 2) if function is None else function(x, *rest)

        run.__name__ = name
        return run


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


X = np.arange(1.0, 1001.0, dtype=np.float32)


def double(x: Any) -> Any:
    return x * 2


def test_median_spread_and_rates(device: FakeDevice) -> None:
    times = (10.0, 20.0, 30.0, 40.0, 50.0)
    found = pyptx.bench(
        device.takes("f", *times),
        (X,),
        reference=double,
        flops=3e9,
        bytes=6e6,
        repeats=5,
        warmup=0,
        copies=1,
        device=device,
    )
    t = found["f"]
    assert sorted(t.times) == list(times) and t.count == 5
    assert (t.median, t.min) == (30.0, 10.0)
    assert (t.quantile(0.25), t.quantile(0.9)) == (20.0, 46.0)
    assert t.tflops == pytest.approx(100.0)  # 3e9 in 30 us
    assert t.gbps == pytest.approx(200.0)  # 6e6 in 30 us


def test_the_flush_is_not_timed(device: FakeDevice) -> None:
    found = pyptx.bench(device.takes("f", 7.0), (X,), reference=double, repeats=3, device=device)
    assert found["f"].times == (7.0, 7.0, 7.0) and found.flushed
    measured = device.log[-10:-1]
    assert [entry.partition("@")[0] for entry in measured] == ["flush", "hold", "f"] * 3
    device.log.clear()
    plain = pyptx.bench(device.takes("f", 7.0), (X,), reference=double, repeats=3, flush=False, device=device)
    assert "flush" not in device.log and not plain.flushed
    assert [entry.partition("@")[0] for entry in device.log[-7:-1]] == ["hold", "f"] * 3


def _measured(device: FakeDevice, runs: int) -> list[list[str]]:
    """Names and addresses of the inputs of the last ``runs`` runs, without the flushes."""
    calls = [entry for entry in device.log if "@" in entry][-runs:]
    return [entry.split("@") for entry in calls]


def test_functions_take_turns(device: FakeDevice) -> None:
    """Each round has each function once, in orders that differ; inputs take turns for each."""
    functions = {name: device.takes(name, 5.0) for name in "abc"}
    pyptx.bench(functions, (X,), reference=double, repeats=40, copies=2, device=device)
    runs = _measured(device, 120)
    rounds = [tuple(name for name, _ in runs[n : n + 3]) for n in range(0, 120, 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(set(rounds)) == 6, "all orders occur"
    for name in "abc":
        seen = [address for called, address in runs if called == name]
        assert len(set(seen)) == 2 and min(map(seen.count, set(seen))) > 8
    addresses = [address for _, address in runs]
    assert all(one != two for one, two in itertools.pairwise(addresses))


def test_roofs_are_timed_in_turns_and_not_verified(device: FakeDevice) -> None:
    copied = device.takes("copied", 4.0, function=lambda x: x.copy())
    found = pyptx.bench(
        device.takes("f", 5.0),
        (X,),
        reference=double,
        roofs={"copy": copied},
        bytes=8e6,
        repeats=20,
        device=device,
    )
    assert [t.name for t in found.timings] == ["f", "copy"]
    assert found["copy"].times == (4.0,) * 20 and found["copy"].gbps == pytest.approx(2000.0)
    runs = [name for name, _ in _measured(device, 40)]
    assert {tuple(sorted(runs[n : n + 2])) for n in range(0, 40, 2)} == {("copied", "f")}


@pytest.mark.parametrize(("nbytes", "copies"), [(1 << 22, 2), (1 << 19, 4), (4000, 8)])
def test_copies_fill_the_cache_twice(device: FakeDevice, nbytes: int, copies: int) -> None:
    x = np.ones(nbytes // 4, np.float32)
    found = pyptx.bench(device.takes("f", 5.0), (x,), reference=double, repeats=16, device=device)
    assert found.copies == copies
    assert len({address for _, address in _measured(device, 16)}) == copies


def test_inputs_made_by_a_function(device: FakeDevice) -> None:
    """Other contents for each copy, each held against its own reference."""
    asked: list[int] = []

    def make(n: int) -> tuple[Any, int]:
        asked.append(n)
        return X + n, 3

    add = device.takes("add", 5.0, function=lambda x, k: x + k)
    pyptx.bench(add, make, reference=lambda x, k: x + k, copies=3, repeats=2, device=device)
    assert asked == [0, 1, 2]

    def wrong_on_the_last(x: Any, k: int) -> Any:
        return x + k + (x[0] == 3)

    with pytest.raises(WrongResultError, match="wrong_on_the_last is wrong in 1000 of 1000 elements"):
        pyptx.bench(wrong_on_the_last, make, reference=lambda x, k: x + k, copies=3, device=device)


def test_wrong_outputs_are_not_timed(device: FakeDevice) -> None:
    def near(x: Any) -> Any:
        y = x * 2
        y[3] += 0.5
        return y

    functions = {"right": device.takes("right", 5.0), "near": device.takes("near", 1.0, function=near)}
    with pytest.raises(WrongResultError) as caught:
        pyptx.bench(functions, (X,), reference=double, device=device)
    said = caught.value.message
    assert "near is wrong in 1 of 1000 elements with rtol 0 and atol 0: the largest error is 0.5" in said
    assert "flush" not in device.log, "nothing was measured"
    assert pyptx.bench(functions, (X,), reference=double, atol=0.5, device=device)["near"].median == 1.0
    assert pyptx.bench(functions, (X,), reference=double, rtol=0.07, device=device)["near"].median == 1.0
    with pytest.raises(WrongResultError):
        pyptx.bench(functions, (X,), reference=double, rtol=0.06, device=device)  # 0.5 of 8


@pytest.mark.filterwarnings("ignore:invalid value")
def test_nan_and_infinity(device: FakeDevice) -> None:
    x = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    pyptx.bench(device.takes("f", 1.0), (x,), reference=double, device=device)
    with pytest.raises(WrongResultError, match="wrong in 1 of 4 .* 1 of them NaN"):
        pyptx.bench(
            lambda x: np.where(x == np.inf, np.nan, x * 2), (x,), reference=double, atol=1e9, device=device
        )


def test_all_zero(device: FakeDevice) -> None:
    """Within the tolerance or not: nothing was computed."""
    with pytest.raises(WrongResultError, match="nothing is all zero"):
        pyptx.bench({"nothing": np.zeros_like}, (X,), reference=double, atol=1e6, device=device)
    with pytest.raises(SpecError, match="the reference is all zero"):
        pyptx.bench(double, (np.zeros_like(X),), reference=double, device=device)


def test_what_another_function_left_behind_does_not_count(device: FakeDevice) -> None:
    """Both return the same memory, and one of them never writes it."""
    out = np.empty_like(X)

    def works(x: Any) -> Any:
        out[...] = x * 2
        return out

    def idle(x: Any) -> Any:
        return out

    with pytest.raises(WrongResultError, match="idle is wrong in 1000 of 1000 elements .* 1000 of them NaN"):
        pyptx.bench([works, idle], (X,), reference=double, device=device)


def test_functions_that_write_into_their_input(device: FakeDevice) -> None:
    """Each verification gets fresh inputs, and what is an input is not poisoned."""

    def in_place(x: Any) -> Any:
        x *= 2
        return x

    x = X.copy()
    found = pyptx.bench(in_place, (x,), reference=double, repeats=1, warmup=0, copies=2, device=device)
    assert found["in_place"].count == 1
    assert np.isfinite(x).all()


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda x: None, "returned NoneType: expected an array"),
        (lambda x: (x * 2, 3), "returned int: expected an array"),
    ],
)
def test_what_returns_no_arrays(device: FakeDevice, returned: Any, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        pyptx.bench({"f": returned}, (X,), reference=double, device=device)
    assert says in caught.value.message
    assert "must return it" in caught.value.hint


def test_shapes_and_counts(device: FakeDevice) -> None:
    with pytest.raises(WrongResultError, match=r"shape \(999,\), the reference \(1000,\)"):
        pyptx.bench(lambda x: x[1:] * 2, (X,), reference=double, device=device)
    with pytest.raises(WrongResultError, match="returned 1 arrays, the reference 2"):
        pyptx.bench(double, (X,), reference=lambda x: (x * 2, x), device=device)
    with pytest.raises(WrongResultError, match="output 1 of pair is wrong"):
        pyptx.bench({"pair": lambda x: (x * 2, x + 1)}, (X,), reference=lambda x: (x * 2, x), device=device)


def test_names(device: FakeDevice) -> None:
    scaled = functools.partial(lambda x, k: x * k, k=2)
    found = pyptx.bench([double, scaled], (X,), reference=double, repeats=1, device=device)
    assert [t.name for t in found.timings] == ["double", "<lambda>"]
    with pytest.raises(KeyError, match="no function 'triple'; measured were double"):
        found["triple"]


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"functions": [double, double]}, "two functions have the same name"),
        ({"functions": []}, "no function was given"),
        ({"functions": {"f": 3}}, "f is int: expected a function"),
        ({"repeats": 0}, "repeats is 0: expected at least 1"),
        ({"warmup": -1}, "warmup is -1"),
        ({"copies": 0}, "copies is 0"),
        ({"flops": {"g": 3}}, "flops names 'g'; the functions are double"),
        ({"roofs": {"double": double}}, "roofs has 'double', which is one of the functions"),
        ({"roofs": {"copy": 3}}, "copy is int: expected a function"),
    ],
)
def test_mistakes(device: FakeDevice, keywords: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError) as caught:
        pyptx.bench(
            **{"functions": double, "inputs": (X,), "reference": double, "device": device, **keywords}
        )
    assert says in caught.value.message


def test_inputs_of_another_device(device: FakeDevice) -> None:
    device.foreign = X
    with pytest.raises(SpecError, match="input 1 is elsewhere"):
        pyptx.bench(double, (X.copy(), X), reference=double, device=device)


def test_a_note_where_the_host_is_slower(device: FakeDevice) -> None:
    """The GPU is held while the host launches, for 1 ms at most; a flush hides 60 us more."""
    us = {"quick": 499.0, "slow": 1059.5}
    functions = {name: device.takes(name, 5.0, host=host) for name, host in us.items()}
    found = pyptx.bench(functions, (X,), reference=double, device=device)
    assert found["quick"].host == 500.0
    assert found.notes == (
        "slow: the host needs 1060.5 us for a launch, so the time may be that of the launch",
    )
    alone = {"quick": functions["quick"]}
    assert not pyptx.bench(alone, (X,), reference=double, flush=False, device=device).notes
    held = pyptx.bench(functions, (X,), reference=double, warmup=0, flush=False, device=device)
    assert len(held.notes) == 2, "without a warmup the host's part is not known"
    lasting = {"lasting": device.takes("lasting", 1100.0, host=1059.5)}
    assert not pyptx.bench(lasting, (X,), reference=double, device=device).notes


def _result(**keywords: Any) -> BenchResult:
    a = Timing("first", (10.0, 12.0, 11.0), 3.0, flops=2.2e9)
    b = Timing("second", (5.0, 5.5, 6.0), 3.0)
    readings = Readings([Reading(1900.0, 3201.0, 350.0, 40.0), Reading(1980.0, 3201.0, 400.0, None)])
    return BenchResult("Fake", (a, b), readings, 4, True, **keywords)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    found = _result(notes=("a note",))
    assert str(found).splitlines() == [
        "Fake",
        "function  median us    p10    p90    min  runs  TFLOP/s  speedup",
        "first         11.00  10.20  11.80  10.00     3    200.0    1.000",
        "second         5.50   5.10   5.90   5.00     3             2.000",
        "L2 flushed before each; 4 copies of the inputs",
        "SM clock 1900 to 1980 MHz, memory clock 3201 MHz, power 350 to 400 W, temperature 40 C",
        "a note",
    ]
    found.show()
    assert capsys.readouterr().out == f"{found}\n"


def test_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    _result().show()
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("Fake", "median us", "second", "2.000", "SM clock 1900 to 1980"))


def test_dict() -> None:
    found = json.loads(json.dumps(_result().to_dict()))
    first, second = found["functions"]
    assert (first["median_us"], first["min_us"], first["count"], first["host_us"]) == (11.0, 10.0, 3, 3.0)
    assert first["p10_us"] == pytest.approx(10.2) and first["p90_us"] == pytest.approx(11.8)
    assert first["times_us"] == [10.0, 12.0, 11.0]
    assert (first["tflops"], second["tflops"], second["gbps"]) == (pytest.approx(200.0), None, None)
    assert (first["speedup"], second["speedup"]) == (1.0, 2.0)
    assert found["readings"]["sm_mhz"] == {"min": 1900.0, "median": 1940.0, "max": 1980.0}
    assert found["readings"]["celsius"] == {"min": 40.0, "median": 40.0, "max": 40.0}


def test_readings_while_a_block_runs() -> None:
    values = iter(range(1, 10**9))
    with watch(lambda: Reading(watts=float(next(values)))) as found:
        pass
    assert found.taken[0] == Reading(watts=1.0), "one at least, however short the block"
    assert [r.watts for r in found.taken] == [float(n + 1) for n in range(len(found.taken))]
    with watch(None) as nothing:
        pass
    assert str(nothing) == "clocks and power: not read" and nothing.summary() == {}
    with watch(lambda: None) as failed:
        pass
    assert failed.taken == []


def test_readings_of_nvidia_smi() -> None:
    assert parse_smi("1980, 3201, 412.30, 45\n") == Reading(1980.0, 3201.0, 412.3, 45.0)
    assert parse_smi("1980, [N/A], 412.30, [N/A]") == Reading(1980.0, None, 412.3, None)
    assert parse_smi("No devices were found") is None


def test_result_of_a_measurement_has_its_readings(device: FakeDevice) -> None:
    found = pyptx.bench(double, (X,), reference=double, device=device)
    assert found.readings.summary()["watts"]["median"] == 400.0
    assert math.isfinite(found["double"].host)


def test_without_torch_or_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(LaunchError, match="torch is not installed"):
        pyptx.bench(double, (X,), reference=double)

    class Torch:
        class cuda:
            @staticmethod
            def is_available() -> bool:
                return False

    monkeypatch.setitem(sys.modules, "torch", Torch)
    with pytest.raises(LaunchError, match="needs a GPU, and torch sees none"):
        pyptx.bench(double, (X,), reference=double)


# --- the sustained protocol -----------------------------------------------------------------------


def _sustained(device: FakeDevice, *functions: Any, **keywords: Any) -> BenchResult:
    return pyptx.bench(
        {f.__name__: f for f in functions},
        (X,),
        reference=double,
        protocol="sustained",
        seconds=0.2,
        device=device,
        **keywords,
    )


def test_sustained_times_and_energy(device: FakeDevice) -> None:
    """500 W for launches of 100 us are 0.05 J a launch; with 1e9 operations 50 pJ each."""
    found = _sustained(device, device.takes("f", 100.0), flops=1e9, copies=2)
    t = found["f"]
    assert t.draw is not None and found.protocol == "sustained"
    assert (t.median, t.tflops) == (pytest.approx(100.0), pytest.approx(10.0))
    assert t.draw.watts == pytest.approx(500.0) and t.draw.joules == pytest.approx(0.05)
    assert t.pj_per_flop == pytest.approx(50.0) and t.draw.sm_mhz == 1980.0
    assert t.draw.windows == (pytest.approx(100.0), pytest.approx(100.0)) and t.host == 3.0
    text = str(found).splitlines()
    assert text[1].split()[-5:] == ["5%", "MHz", "W", "mJ", "pJ/FLOP"]
    assert text[2].split()[-5:] == ["100.00", "1980", "500", "50.000", "50.000"]
    assert "back to back" in text[3] and not found.notes
    json.dumps(found.to_dict())


def test_sustained_windows_are_in_opposite_orders(device: FakeDevice) -> None:
    """ABBA, and inputs take turns inside of a window."""
    _sustained(device, device.takes("a", 500.0), device.takes("b", 500.0), copies=2)
    calls = [entry.split("@") for entry in device.log if "@" in entry]
    runs = [(name, len(list(group))) for name, group in itertools.groupby(name for name, _ in calls)]
    (a, first), (b, middle), (c, last) = [(name, count) for name, count in runs if count > 100]
    assert (a, b, c) == ("a", "b", "a") and first == last == middle // 2
    addresses = [where for _, where in calls[-100:]]
    assert len(set(addresses)) == 2 and all(x != y for x, y in itertools.pairwise(addresses))


def test_the_second_half_counts(device: FakeDevice) -> None:
    """The GPU slows down from 100 to 150 us when it is warm, as at a power limit."""
    calls = 0
    plain = device.takes("f", 0.0)

    def f(x: Any) -> Any:
        nonlocal calls
        calls += 1
        device.time += 100.0 if calls < 1000 else 150.0
        return plain(x)

    found = _sustained(device, f, copies=2)
    t = found["f"]
    assert t.draw is not None and t.draw.beginning < 130.0 and t.median == pytest.approx(150.0)


def test_sustained_without_graphs_and_without_a_meter(device: FakeDevice) -> None:
    device.captures = device.metered = False
    found = _sustained(device, device.takes("f", 100.0), flops=1e9)
    t = found["f"]
    assert t.draw is not None and t.draw.joules is None and t.pj_per_flop is None
    assert t.draw.watts == 400.0, "the readings' median"
    assert [note.partition(":")[0] for note in found.notes] == [
        "f cannot be captured in a CUDA graph",
        "energy is not read",
    ]
    assert "mJ" not in str(found).splitlines()[1]


def test_protocols_that_are_refused(device: FakeDevice) -> None:
    for keywords, said in (
        ({"protocol": "fast"}, "'fast': expected 'burst'"),
        ({"seconds": 0}, "seconds is 0"),
    ):
        with pytest.raises(SpecError, match=said):
            pyptx.bench(device.takes("f", 1.0), (X,), reference=double, device=device, **keywords)  # type: ignore[arg-type]
