"""The tensor core of Blackwell: ``tcgen05.mma`` by shape and place of A, on zeros of bf16.

A section issues ``count`` products on one accumulator, commits, and waits for the signal. The time of one is
its latency; what one more adds in a full pipe is the interval; what several take beyond both is the burst.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

import numpy as np

from ....core.records import dataclass
from ....core.types import b32, bf16
from ....dsl import TileParam, ptx, reg, smem
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import cleared, each_round, initialized, now, one_lane, read, readings, wait

__all__ = ["BENCHMARKS", "FORMS", "Form", "latency", "products"]

_TARGETS = ("sm_100a",)
_THREADS, _SPAN, _COLUMNS, _A_COLUMN = 128, 64, 512, 256
#: Columns of 32 bits that 32 bytes of a row of A take in tensor memory.
_A_COLUMNS = 8
_FEW, _MANY = 8, 24
_BURST = 4


@dataclass(frozen=True)
class Form:
    """A shape of the instruction.

    Attributes:
        group: CTAs that execute it.
        m: rows, of both CTAs together.
        in_tensor_memory: A is in tensor memory.
    """

    group: int
    m: int
    in_tensor_memory: bool

    @property
    def shape(self) -> str:
        """The name of its constants, without the place of A."""
        return f"g{self.group}_m{self.m}"

    @property
    def name(self) -> str:
        """The name of its constants."""
        return f"{self.shape}_{'ts' if self.in_tensor_memory else 'ss'}"

    @property
    def rows(self) -> int:
        """Rows of A that one CTA has."""
        return self.m // self.group


FORMS = tuple(
    Form(group, m, place) for group, m in ((1, 64), (1, 128), (2, 128), (2, 256)) for place in (False, True)
)


@cache
def products(target: str, rounds: int, form: Form, n: int, count: int, waits: bool = True) -> Kernel:
    """Build a kernel whose section is ``count`` products with ``n`` columns, issued by one thread.

    With ``waits`` the section ends with the wait for all; otherwise with the issue of the last.
    """

    @kernel(
        out_specs=(readings(rounds),),
        grid=form.group,
        block=_THREADS,
        cluster=form.group,
        arch=target,
        extern_smem=True,
        name=f"mma_{form.name}_n{n}_{count}{'' if waits else '_issue'}",
    )
    def section(Out: TileParam) -> None:
        slot = smem.alloc(1, b32)
        tile_a = cleared((form.rows, _SPAN), bf16, _THREADS)
        tile_b = cleared((max(n // form.group, 16), _SPAN), bf16, _THREADS)
        (done,) = initialized()
        warp = ptx.special.tid.x() >> 5
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot, _COLUMNS, cta_group=form.group)
            ptx.tcgen05.relinquish_alloc_permit(cta_group=form.group)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, slot)
        zeros = reg.array(b32, _A_COLUMNS)
        for register in zeros:
            ptx.inst.mov.b32(register, 0)
        ptx.tcgen05.st(tmem + (warp << 21) + _A_COLUMN, zeros)
        ptx.tcgen05.wait_st()
        ptx.tcgen05.fence_before_thread_sync()
        if form.group == 2:
            ptx.cluster.sync(aligned=True)
        else:
            ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        with one_lane(), ptx.if_(ptx.special.ctaid.x() == 0):
            b = ptx.tcgen05.smem_descriptor(tile_b)
            a = ptx.addr(tmem + _A_COLUMN) if form.in_tensor_memory else ptx.tcgen05.smem_descriptor(tile_a)
            idesc = reg.scalar(
                b32,
                init=ptx.tcgen05.instruction_descriptor(
                    m=form.m, n=n, a_type=bf16, b_type=bf16, cta_group=form.group,
                    a_in_tensor_memory=form.in_tensor_memory,
                ),
            )  # fmt: skip
            with each_round(rounds) as turn:
                begin = now()
                for number in range(count):
                    ptx.tcgen05.mma(tmem, a, b, idesc, pred_operand=number > 0, cta_group=form.group)
                ptx.tcgen05.commit(done, cta_group=form.group)
                if waits:
                    wait(done, turn & 1)
                read(Out, turn, begin)
                wait(done, turn & 1)
        if form.group == 2:
            ptx.cluster.sync(aligned=True)
        else:
            ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(tmem, _COLUMNS, cta_group=form.group)

    return section


def latency(bench: Bench, form: Form, n: int, count: int = 1) -> Readings:
    """Return the cycles from the issue of the first of ``count`` products to the end of the wait."""
    return bench.latency(products(bench.device.target, bench.device.rounds, form, n, count))


def _interval(bench: Bench, form: Form, n: int) -> Readings:
    build = partial(products, bench.device.target, bench.device.rounds, form, n)
    return bench.slope(build, _FEW, _MANY)


def _form(name: str) -> Form:
    return next(form for form in FORMS if form.name == name)


def _compute(bench: Bench) -> dict[str, Readings]:
    """What a column adds where no operand read binds: with A in tensor memory, for wide N."""
    return {
        f"mma.interval.{form.shape}.per_n_clk": (_interval(bench, form, 256) - _interval(bench, form, 128))
        / 128
        for form in FORMS
        if form.in_tensor_memory
    }


def _floor(bench: Bench) -> dict[str, Readings]:
    """The least interval: the narrowest product that computes at full rate and reads least."""
    return {"mma.interval.floor_clk": _interval(bench, _form("g2_m128_ts"), 32)}


def _port(bench: Bench) -> dict[str, Readings]:
    """The rate at which operands are read: a narrow product whose reads take longer than it computes.

    A pair needs more than this rule for narrow products: the rest is a constant of its own.
    """
    k_bytes, narrow = bench.value("mma.k_bytes"), 64
    rate = (128 + narrow) * k_bytes / _interval(bench, _form("g1_m128_ss"), narrow)
    pair = (128 + narrow // 2) * k_bytes / float(np.median(rate))
    return {
        "mma.port_bytes_per_clk": rate,
        "mma.interval.g2_m256_ss.extra_clk": np.maximum(
            _interval(bench, _form("g2_m256_ss"), narrow) - pair, 0.0
        ),
    }


#: Columns of the lines of latencies; the form with two lines has a bend at 128.
_WIDE, _NARROW = (160, 256), (64, 96)


def _latencies(bench: Bench) -> dict[str, Readings]:
    found: dict[str, Readings] = {}
    for form in FORMS:
        found.update(_line(bench, form, _WIDE, f"mma.latency.{form.name}.%s"))
    found.update(_line(bench, _form("g2_m128_ss"), _NARROW, "mma.latency.g2_m128_ss.narrow_%s"))
    return found


def _line(bench: Bench, form: Form, columns: tuple[int, int], name: str) -> dict[str, Readings]:
    first, last = (latency(bench, form, n) for n in columns)
    slope = (last - first) / (columns[1] - columns[0])
    return {name % "base_clk": first - slope * columns[0], name % "per_n_clk": slope}


def _burst(bench: Bench) -> dict[str, Readings]:
    form, n = _form("g1_m128_ss"), 256
    alone, several = latency(bench, form, n), latency(bench, form, n, _BURST)
    return {"mma.burst_clk": several - alone - (_BURST - 1) * _interval(bench, form, n)}


def _issue(bench: Bench) -> dict[str, Readings]:
    """Products of the least N, as many as fit into the pipe's queue: the clock is read before they end."""
    build = partial(products, bench.device.target, bench.device.rounds, _form("g2_m128_ts"), 32, waits=False)
    return {"mma.issue_clk": bench.slope(build, 1, 3)}


def _of_latencies() -> Mapping[str, None]:
    names = [f"mma.latency.{form.name}" for form in FORMS]
    ends = [f"{name}.{end}" for name in names for end in ("base_clk", "per_n_clk")]
    narrow = [f"mma.latency.g2_m128_ss.narrow_{end}" for end in ("base_clk", "per_n_clk")]
    return dict.fromkeys([*ends, *narrow])


BENCHMARKS = (
    Microbenchmark(
        "compute of tcgen05.mma",
        tuple(f"mma.interval.{form.shape}.per_n_clk" for form in FORMS if form.in_tensor_memory),
        _compute,
        _TARGETS,
    ),
    Microbenchmark("least interval of tcgen05.mma", ("mma.interval.floor_clk",), _floor, _TARGETS),
    Microbenchmark(
        "operand reads of tcgen05.mma",
        ("mma.port_bytes_per_clk", "mma.interval.g2_m256_ss.extra_clk"),
        _port,
        _TARGETS,
    ),
    Microbenchmark("latency of tcgen05.mma", tuple(_of_latencies()), _latencies, _TARGETS),
    Microbenchmark("burst of tcgen05.mma", ("mma.burst_clk",), _burst, _TARGETS),
    Microbenchmark("issue of tcgen05.mma", ("mma.issue_clk",), _issue, _TARGETS),
)
