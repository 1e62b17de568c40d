"""What units of a multiprocessor take, by arithmetic: rows, L2's answers, lines of L1, what a flush left."""

from __future__ import annotations

import math

import pytest

from pyptx.sim.clock.figures import Figures
from pyptx.sim.clock.starts import Start
from pyptx.sim.clock.units import Contention, Units
from pyptx.sim.engine.work import Copy
from pyptx.timing.constants import gpu

B200, H200 = gpu("b200"), gpu("h200")
MHZ = 1500.0
FIGURES = Figures(H200, MHZ)
MIB = 1 << 20


#: Of a CTA that started at the begin of the launch.
FIRST = Start(0.0, wave=0)


def load(nbytes: int, place: int = 0) -> Copy:
    return Copy(nbytes, 1, (0, place), (0,), loads=True)


def test_equal_requests_of_a_gpc_are_read_from_l2_once_and_those_of_a_tpc_pass_its_link_once() -> None:
    shares = ((0.0, 0.0), (0.5, 0.75))
    alone, together = (
        Units(FIGURES, Contention(sharers=132, merged=merged, coalesced=coalesced))
        for merged, coalesced in shares
    )
    for units in (alone, together):
        units.load(0.0, load(MIB))
    assert together.busy()["L2"] == pytest.approx(alone.busy()["L2"] / 4)
    assert together.busy()["link"] == pytest.approx(alone.busy()["link"] / 2)
    # Of those that do not come at the same time, L2 reads each.
    apart = Units(FIGURES, Contention(sharers=132, coalesced=0.75, met=0.4))
    apart.load(0.0, load(MIB))
    assert apart.busy()["L2"] == pytest.approx(alone.busy()["L2"] * 0.7)
    rate = H200.value("l2.bytes_per_ns") / 132  # B/ns of one multiprocessor
    assert alone.busy()["L2"] == pytest.approx(MIB / rate * MHZ / 1000)
    # The fabric of an H200 carries them to both multiprocessors.
    assert together.busy()["fabric"] == alone.busy()["fabric"]


def test_equal_loads_of_threads_come_apart_where_multiprocessors_have_several_ctas() -> None:
    apart = H200.value("l2.apart_ns") * MHZ / 1000
    for drifts, age, left in ((False, 0.0, 0.25), (False, 9 * apart, 0.25), (True, 0.0, 0.25)):
        units = Units(FIGURES, Contention(sharers=132, coalesced=0.75, drifts=drifts))
        units.access_global(age, MIB, loads=True, start=FIRST)
        rate = H200.value("l2.bytes_per_ns") / 132 / MHZ * 1000
        assert units.busy()["L2"] == pytest.approx(left * MIB / rate)
    # After that time 1/e of them still come together, and in the end none.
    for age, together in ((apart, math.exp(-1)), (50 * apart, 0.0)):
        units = Units(FIGURES, Contention(sharers=132, coalesced=0.75, drifts=True))
        units.access_global(age, MIB, loads=True, start=FIRST)
        assert units.busy()["L2"] == pytest.approx((1 - 0.75 * together) * MIB / rate)


def test_ctas_that_take_the_place_of_others_find_in_l2_what_others_of_their_wave_have_loaded() -> None:
    first, later = (
        Units(FIGURES, Contention(sharers=132, missing=0.1, later=0.25)).access_global(
            0.0, 128, loads=True, start=Start(0.0, wave)
        )
        for wave in (0, 1)
    )
    more = FIGURES.load_memory_latency - FIGURES.load_l2_latency
    assert first - later == pytest.approx(0.75 * more)


@pytest.mark.parametrize(
    ("coalesced", "drifts", "saves"), [(0.0, False, True), (0.5, False, False), (0.5, True, True)]
)
def test_multiprocessors_that_load_the_same_ask_l2_at_the_same_time(
    coalesced: float, drifts: bool, saves: bool
) -> None:
    """They do not where each has several CTAs, which drift apart."""
    units = Units(FIGURES, Contention(sharers=132, coalesced=coalesced, drifts=drifts))
    rate = H200.value("l2.bytes_per_ns") / 132 / MHZ * 1000  # B/clk of one multiprocessor
    time, nbytes = 20_000.0, 8192
    units.load(time, load(nbytes))
    end, unit = units.served
    asked = time + nbytes * (1 - coalesced) / rate
    assert (unit == "L2" and end == pytest.approx(asked)) is not saves
    assert end < asked or not saves


def test_a_load_of_memory_takes_longer_where_memory_is_busy() -> None:
    units, start = Units(FIGURES, Contention(sharers=132, missing=1.0)), FIGURES.start
    alone = units.load(start, load(128)) - start
    ghz = MHZ / 1000
    latency = H200.value("tma.latency_hbm_ns") * ghz - FIGURES.wake
    assert alone == pytest.approx(latency, abs=10)
    # L2 has the line now.
    near = units.load(start + 1e6, load(128)) - start - 1e6
    assert near == pytest.approx(FIGURES.l2_latency - FIGURES.wake, abs=10)
    # Memory works for half of the time, and has enough bandwidth for each load when it comes.
    for n in range(40):
        units.load(start + 2e6 + 2000 * n, load(int(units.memory.rate * 1000), 1 + n))
    time = start + 2e6 + 80_000
    busy = units.load(time, load(128, 99)) - time
    assert busy == pytest.approx(latency + H200.value("hbm.queue_ns") * ghz / 2, rel=0.1)


@pytest.mark.parametrize(("spanned", "share"), [(0.0, 0.0), (1.0, 0.0), (2.0, 0.5), (4.0, 0.75)])
def test_loads_miss_the_tlbs_by_what_a_launch_spans_beyond_their_reach(spanned: float, share: float) -> None:
    within = Units(FIGURES, Contention(sharers=1, missing=1.0))
    beyond = Units(
        FIGURES, Contention(sharers=1, missing=1.0, spanned=spanned * H200.value("tlb.reach_bytes"))
    )
    start, added = FIGURES.start, share * H200.value("tlb.miss_ns") * MHZ / 1000
    assert beyond.load(start, load(128)) - within.load(start, load(128)) == pytest.approx(added)
    for fresh in (True, False):
        there, here = (
            units.access_global(start + 5000, 32, loads=True, fresh=fresh, start=FIRST)
            for units in (beyond, within)
        )
        assert there - here == pytest.approx(added)


def test_the_last_of_many_lines_counts() -> None:
    units, start = Units(FIGURES, Contention(sharers=1, missing=1.0)), FIGURES.start
    one = units.load(start, load(128)) - start
    nbytes = 256 * 128
    many = units.load(start + 1e5, load(nbytes, 1)) - start - 1e5
    spread = 8 * H200.value("hbm.spread_ns") * MHZ / 1000
    assert many - one == pytest.approx(spread + (nbytes - 128) / FIGURES.link, rel=0.05)


def test_all_multiprocessors_ask_l2_at_once() -> None:
    """A lone one gets its bytes as fast as its link carries them."""
    nbytes, time = 32768, 50_000.0
    alone, together = (Units(FIGURES, Contention(sharers=count)) for count in (1, 132))
    latency = FIGURES.l2_latency - FIGURES.wake
    assert alone.load(time, load(nbytes)) == pytest.approx(time + nbytes / FIGURES.link + latency)
    rate = H200.value("l2.burst_share") * FIGURES.l2 / 132
    assert together.load(time, load(nbytes)) == pytest.approx(time + nbytes / rate + latency)


def test_memory_writes_alone_faster_than_between_reads() -> None:
    start, nbytes = FIGURES.start, 1 << 16
    read, written, mixed = (H200.value(f"hbm.{each}_bytes_per_ns") for each in ("read", "write", "mixed"))
    stores = Units(FIGURES, Contention(sharers=132))
    stores.write(start, nbytes)
    assert stores.busy()["HBM"] == pytest.approx(nbytes / (written / 132 * 1000 / MHZ))
    both = Units(FIGURES, Contention(sharers=132, missing=1.0))
    both.load(start, load(nbytes))
    both.write(start, nbytes)
    assert both.busy()["HBM"] == pytest.approx(2 * nbytes / (mixed / 132 * 1000 / MHZ))
    assert read > mixed


def test_reductions_take_the_copy_engine_and_l2_longer_than_stores() -> None:
    rows, start = 16, FIGURES.start
    box = Copy(rows * 128, rows, (0, 0), (), loads=False)
    for sharers, rates in ((1, "tma.{}_bytes_per_clk"), (132, "l2.{}_bytes_per_ns")):
        names = ("store", "reduce") if sharers == 1 else ("write", "reduce")
        clk = 1.0 if sharers == 1 else 1000 / MHZ / sharers
        taken = [rows * 128 / (H200.value(rates.format(name)) * clk) for name in names]
        more = H200.value("tma.store_issue_clk") + H200.value("tma.store_read_clk")
        found = [
            Units(FIGURES, Contention(sharers)).read_source(start, box, adds=adds) - start
            for adds in (False, True)
        ]
        assert found == pytest.approx([each + more for each in taken])


def test_atomics_of_all_multiprocessors_on_one_word_follow_each_other() -> None:
    units = Units(FIGURES, Contention(sharers=132))
    clk = MHZ / H200.value("sm.clock_max_mhz")
    apart = 132 / H200.value("atom.sectors_per_clk") * clk
    assert units.add(0.0, 1, word=7, lanes=1) == pytest.approx(apart)
    same = 132 * H200.value("atom.same_address_clk") * clk
    assert units.add(0.0, 1, word=7, lanes=1) == pytest.approx(apart + same)
    assert units.add(1e6, 32, word=7, lanes=1) == pytest.approx(1e6 + 32 * apart)


def test_a_warp_goes_on_behind_accesses_as_far_as_the_queue_has_room() -> None:
    units = Units(FIGURES, Contention(sharers=1))
    # Warps 0 and 4 have one scheduler, warp 1 another one.
    assert [units.queue(warp, 100.0 + warp, depth=2) for warp in (0, 4, 1)] == [0.0, 0.0, 0.0]
    assert units.queue(0, 110.0, depth=2) == 100.0 and units.queue(4, 120.0, depth=2) == 104.0


def test_what_memory_fills_into_l2_and_what_is_stored_takes_of_the_fabric() -> None:
    clean, missing = (
        Units(Figures(B200, MHZ), Contention(sharers=148, missing=share)) for share in (0.0, 0.5)
    )
    for units in (clean, missing):
        units.load(0.0, load(MIB))
    more = missing.busy()["fabric"] / clean.busy()["fabric"] - 1
    assert more == pytest.approx(0.5 * B200.value("l2.fill_share"))
    before = clean.busy()["fabric"]
    clean.write(0.0, MIB)
    assert clean.busy()["fabric"] / before - 1 == pytest.approx(B200.value("l2.store_share"))


def test_a_row_in_two_lines_takes_the_copy_engine_longer() -> None:
    whole, split = (Copy(64 * 128, 64, (0, 0), (0,), loads=True, lines=lines) for lines in (64, 128))
    times = []
    for copy in (whole, split):
        units = Units(Figures(B200, MHZ), Contention(sharers=148))
        units.load(0.0, copy)
        times.append(units.busy()["copy engine"])
    assert times[1] / times[0] == pytest.approx(B200.value("tma.split_row"))


def test_l1_looks_up_one_line_after_the_other() -> None:
    units = Units(FIGURES, Contention(sharers=132))
    clk = 4 / H200.value("ldg.sectors_per_clk")  # a line has four sectors
    # One scheduler's warps wait two cycles for each; those of all have a line in a cycle.
    assert [units.look_up(0, 0.0, 8), units.look_up(0, 0.0, 32)] == [15 * clk, 79 * clk]
    units = Units(FIGURES, Contention(sharers=132))
    assert [units.look_up(warp, 0.0, 32) for warp in range(4)] == [63 * clk, 64 * clk, 96 * clk, 128 * clk]


def test_stores_pass_by_sectors_and_parts_of_sectors_take_longer() -> None:
    units, start = Units(FIGURES, Contention(sharers=1)), FIGURES.start
    whole, part = (H200.value(f"stg.{name}sectors_per_clk") for name in ("", "partial_"))
    assert units.pass_on(start, 8, 16, 0) == pytest.approx(start + 16 / whole)
    assert units.pass_on(start + 1000.0, 8, 0, 8) == pytest.approx(start + 1000 + 8 / part)


def test_l2_takes_stores_of_all_and_what_memory_fills_at_one_rate() -> None:
    sharers, start = 132, FIGURES.start
    rate = H200.value("l2.write_bytes_per_ns") / sharers * 1000 / MHZ  # B/clk of one multiprocessor
    units = Units(FIGURES, Contention(sharers))
    assert units.pass_on(start, 8, 64, 0) == pytest.approx(start + 64 * 32 / rate)
    parts = Units(FIGURES, Contention(sharers)).pass_on(start, 8, 0, 64)
    assert parts == pytest.approx(start + H200.value("l2.partial_cost") * 64 * 32 / rate)
    filling = Units(FIGURES, Contention(sharers, missing=1.0, l2="cold"))
    filling.load(start, load(MIB))
    assert filling.busy()["L2"] == pytest.approx(MIB / rate)
    filling.write(start, MIB)
    box = Copy(16 * 128, 16, (0, 0), (), loads=False)
    assert filling.read_source(start, box) >= start + (MIB + 16 * 128) / rate


def test_a_store_reads_shared_memory_at_a_rate_and_its_wait_ends_behind_it() -> None:
    units, rows = Units(FIGURES, Contention(sharers=1)), 16
    each = rows * 128 / H200.value("tma.store_bytes_per_clk") + H200.value("tma.store_issue_clk")
    more, box = H200.value("tma.store_read_clk"), Copy(rows * 128, rows, (0, 0), (), loads=False)
    start = FIGURES.start
    assert [units.read_source(start, box) - start for _ in range(2)] == pytest.approx(
        [each + more, 2 * each + more]
    )
    # Neither wait is for memory.
    assert units.store(start + each, box) == pytest.approx(start + each + FIGURES.store_latency)


def test_operands_of_a_product_leave_threads_less_of_shared_memory() -> None:
    units, start = Units(FIGURES, Contention(sharers=1)), FIGURES.start
    assert units.access_shared(start, 8.0) == start + 8
    units.tensor.serve(start, 1000.0)
    units.read_operands(start, 64 * 128.0, 128.0)
    assert units.access_shared(start + 100, 3.0) == pytest.approx(start + 106)
    # They leave some of the cycles in any case.
    units.read_operands(start, 128 * 128.0, 128.0)
    assert units.access_shared(start + 200, 38.0) == pytest.approx(start + 300)
    assert units.access_shared(start + 2000, 3.0) == pytest.approx(start + 2003)


def test_what_cp_async_brings_waits_for_the_products_of_a_while() -> None:
    """Operands take 62% of the cycles of shared memory while products run, which they do half of the time."""
    units, now = Units(FIGURES, Contention(sharers=1)), FIGURES.start
    for _ in range(100):
        units.read_operands(now, 80 * 128.0, 128.0)
        now += 256.0
    served = units.access_shared(now, 100.0, copied=True) - now
    assert served == pytest.approx(100 / (1 - 0.62 * 0.5), rel=0.1)


def test_accesses_of_threads_hold_up_products() -> None:
    units, start = Units(FIGURES, Contention(sharers=1)), FIGURES.start
    assert units.beside_accesses(start, 128.0, 80 * 128.0) == 128
    now = start
    for _ in range(4000):  # two of five cycles, for longer than the past counts
        units.access_shared(now, 2.0)
        now += 5
    assert units.beside_accesses(now, 128.0, 48 * 128.0) == pytest.approx(128 / (1 - 0.4**2), rel=0.01)
    # Where operands need most of the cycles, accesses take theirs from them.
    assert units.beside_accesses(now, 64.0, 48 * 128.0) == pytest.approx(48 / (1 - 0.4), rel=0.01)


def test_bytes_that_threads_copy_hold_up_no_products() -> None:
    units, now = Units(FIGURES, Contention(sharers=1)), FIGURES.start
    for _ in range(400):
        assert units.access_shared(now, 2.0, copied=True) == now + 2
        now += 5
    assert units.beside_accesses(now, 128.0, 80 * 128.0) == 128


def test_a_clean_l2_takes_stores_until_it_is_full() -> None:
    sharers = 132
    units = Units(FIGURES, Contention(sharers, l2="cold"))
    share = H200.value("l2.capacity_bytes") / sharers
    assert units.write(0.0, share / 2) == 0.0 and units.busy()["HBM"] == 0
    units.access_global(0.0, share / 2, loads=True, start=FIRST)  # hits L2 here, and brings nothing
    assert units.write(10.0, share / 2) == 10.0 and units.filled == 10.0
    units.write(20.0, share)
    assert units.busy()["HBM"] > 0


def test_stores_behind_a_flush_stay_in_l2_and_replace_what_it_left() -> None:
    sharers = 132
    units = Units(FIGURES, Contention(sharers, l2="flushed"))
    part = H200.value("l2.capacity_bytes") / sharers / 100
    left = H200.value("l2.dirty_share") * part * FIGURES.write_cost / (FIGURES.memory / sharers)
    units.write(0.0, part)
    assert units.busy()["HBM"] == pytest.approx(left)
    for _ in range(99):
        units.write(1.0, part)
    # What this launch stores itself is written once it is replaced.
    before = units.busy()["HBM"]
    units.write(2.0, part)
    assert units.busy()["HBM"] - before > left


def test_what_a_flush_left_is_written_once() -> None:
    sharers, parts = 132, 4000
    clean, dirty = (Units(FIGURES, Contention(sharers, missing=1.0, l2=l2)) for l2 in ("rotating", "flushed"))
    for units in (clean, dirty):
        for _ in range(parts):
            units.access_global(0.0, 1024, loads=True, start=FIRST)
    # Lines are replaced at random: 1 - exp(-x) of them after x times the size of L2.
    size = H200.value("l2.capacity_bytes")
    left = size * H200.value("l2.dirty_share") * -math.expm1(-parts * 1024 * sharers / size)
    extra = left / sharers * FIGURES.write_cost / (FIGURES.memory / sharers)
    assert dirty.busy()["HBM"] - clean.busy()["HBM"] == pytest.approx(extra, rel=0.01)


def test_a_scheduler_passes_a_store_to_shared_memory_word_by_word() -> None:
    """Measured on an H200: 39 cycles for four warps of one scheduler that store 16 bytes a lane."""
    units = Units(FIGURES, Contention(sharers=1))
    assert [units.pass_words(warp, 0.0, 4, 4.0, 1.0, stores=True) for warp in (0, 4, 8, 12)][
        -1
    ] == pytest.approx(39, abs=1)
    assert units.pass_words(1, 0.0, 1, 1.0, 1.0, stores=True) == 4
    assert units.pass_words(2, 0.0, 1, 1.0, 1.0, stores=False) == 2
    # Each further wavefront of a conflict takes two cycles.
    assert units.pass_words(3, 0.0, 1, 8.0, 1.0, stores=False) == 16
