"""Loops over tiles: each tile once, in every role the same, and what they record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, kernel, kit, ptx, sim, u32
from pyptx.core.errors import OperandError
from pyptx.ir import Immediate, Instruction, Module
from pyptx.sim.threads.grid import Grid
from pyptx.toolchain import Tool
from tests.dsl.helpers import body_of, in_kernel


@pytest.mark.sample(4)
@pytest.mark.parametrize("snake", [False, True])
@pytest.mark.parametrize(("count", "ctas"), [(1, 1), (7, 3), (3, 5), (8, 4), (31, 4)])
def test_every_tile_once(count: int, ctas: int, snake: bool) -> None:
    @kernel(out_specs=(Tile(count, u32),), grid=ctas, block=1, arch="sm_90a")
    def mark(out):  # type: ignore[no-untyped-def]
        tiles = kit.StaticTiles(count, first=ptx.special.ctaid.x(), step=ctas, snake=snake)
        with tiles.loop() as tile:
            ptx.inst.red.global_.add.u32(out.at(tile), 1)

    out = np.zeros(count, np.uint32)
    assert mark.simulate(out=out).verdict == "clean"
    assert (out == 1).all()


@pytest.mark.parametrize("registers", [False, True])
def test_a_snake_turns_round_after_round(registers: bool) -> None:
    count, ctas = 23, 4

    @kernel(out_specs=(Tile(count, u32),), grid=ctas, block=1, arch="sm_90a")
    def mark(out):  # type: ignore[no-untyped-def]
        me = ptx.special.ctaid.x()
        step = ptx.special.nctaid.x() if registers else ctas
        with kit.StaticTiles(count, first=me, step=step, snake=True).loop() as tile:
            ptx.store(out.at(tile), me)

    rounds = [range(ctas) if n % 2 == 0 else range(ctas - 1, -1, -1) for n in range(-(-count // ctas))]
    report = mark.simulate()
    assert report.verdict == "clean"
    assert list(report.outputs[0]) == [cta for each in rounds for cta in each][:count]


def test_the_numbers_may_be_registers() -> None:
    @kernel(out_specs=(Tile(9, u32),), grid=2, block=1, arch="sm_90a")
    def mark(out):  # type: ignore[no-untyped-def]
        count = ptx.special.nctaid.x() * 4 + 1
        tiles = kit.StaticTiles(count, first=ptx.special.ctaid.x(), step=ptx.special.nctaid.x())
        with tiles.loop() as tile:
            ptx.inst.red.global_.add.u32(out.at(tile), 1)

    out = np.zeros(9, np.uint32)
    assert mark.simulate(out=out).verdict == "clean"
    assert (out == 1).all()


def test_records_a_loop() -> None:
    def body() -> None:
        tiles = kit.StaticTiles(100, first=ptx.special.ctaid.x(), step=10)
        with tiles.loop():
            pass

    lines = [line for line in body_of(body) if not line.endswith(":")]
    assert [line.split()[0] for line in lines] == [
        "mov.u32",
        "mov.u32",
        "setp.ge.u32",
        "@%done",
        "add.u32",
        "bra",
    ]


@pytest.mark.parametrize(("count", "step"), [(0, 1), (1, 0), (-1, 1), (True, 1)])
def test_refuses_numbers_below_one(count: int, step: int) -> None:
    def body() -> None:
        with pytest.raises(SpecError, match="expected a positive number"):
            kit.StaticTiles(count, first=ptx.special.ctaid.x(), step=step)

    in_kernel(body)


# --- cluster launch control -----------------------------------------------------------------------

#: Memory of the host for which two to four CTAs run at once: the others wait, and can be canceled.
LITTLE = 96_000


def taken(tiles: int, cluster: int, answers: int, ahead: int = 1, arch: str = "sm_100a") -> Kernel:
    """Every CTA counts its tiles: one thread in ``out[0]``, a warp in ``out[1]``; ``out[2]`` has who did it."""

    @kernel(
        out_specs=(Tile(3, tiles * cluster, u32),), grid=tiles * cluster, block=96, cluster=cluster, arch=arch
    )
    def count(out):  # type: ignore[no-untyped-def]
        warp = ptx.special.tid.x() >> 5
        rank = ptx.cluster.rank()
        first = ptx.special.clusterid.x()
        work = kit.LaunchControlTiles(
            first=first, readers=2 * cluster, answers=answers, ahead=ahead, cluster=cluster
        )
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            work.init()
            ptx.fence.mbarrier_init()
        ptx.cluster.sync()
        with ptx.if_(warp == 0), ptx.if_(rank == 0), ptx.if_(ptx.warp.elect()):
            work.schedule()
        with ptx.if_(warp == 1), ptx.if_(ptx.warp.elect()), work.loop() as tile:
            ptx.inst.red.global_.add.u32(out.at(0, tile * cluster + rank), 1)
        with ptx.if_(warp == 2):
            leader = ptx.warp.elect()
            with work.loop(leader) as tile:
                ptx.inst.red.global_.add.u32(out.at(1, tile * cluster + rank), 1)
                ptx.inst.st.global_.u32(out.at(2, tile * cluster + rank), first, pred=leader)
        ptx.cluster.sync()

    return count


def run(
    module: Module, tiles: int, cluster: int, schedule: str, seed: int, *, memory: int = LITTLE
) -> tuple[sim.Report, np.ndarray]:
    out = np.zeros((3, tiles * cluster), np.uint32)
    report = sim.load(module).launch(
        grid=tiles * cluster,
        block=96,
        cluster=cluster,
        args=[out],
        schedule=schedule,
        seed=seed,
        memory=memory,
        sanitize="strict",
        max_steps=200_000,
    )
    return report, out


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("schedule", "seed"), [("eager", 0), ("late", 0), ("starve:tma", 0), *(("random", n) for n in range(4))]
)
@pytest.mark.parametrize(
    ("cluster", "answers", "ahead"),
    [
        (1, 1, 1),
        (1, 3, 1),
        (2, 1, 1),
        (2, 3, 1),
        (4, 2, 1),
        (1, 3, 2),
        (1, 3, 3),
        (2, 3, 3),
        (2, 4, 2),
        (4, 2, 2),
    ],
)
def test_every_canceled_cluster_is_done_once(
    cluster: int, answers: int, ahead: int, schedule: str, seed: int
) -> None:
    tiles = 13
    report, out = run(taken(tiles, cluster, answers, ahead).module(), tiles, cluster, schedule, seed)
    assert report.verdict == "clean", str(report)
    assert (out[0] == 1).all() and (out[1] == 32).all()
    started = np.unique(out[2])
    assert len(started) < tiles, "no cluster was canceled"
    assert (out[2][started * cluster] == started).all()


@pytest.mark.parametrize("ahead", [1, 2, 3])
@pytest.mark.parametrize("cluster", [1, 2])
def test_a_request_that_is_granted_after_a_refusal(
    cluster: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third request is refused though clusters wait; those in flight are granted, and their tiles computed."""
    tiles, answers = 13, []
    steal = Grid.steal

    def refuse_the_third(grid: Grid, asking: tuple[int, int]) -> tuple[int, int, int] | None:
        answers.append(None if len(answers) == 2 else steal(grid, asking))
        return answers[-1]

    monkeypatch.setattr(Grid, "steal", refuse_the_third)
    module = taken(tiles, cluster, 3, ahead).module()
    report, out = run(module, tiles, cluster, "eager", 0, memory=24_000 * cluster)
    assert report.verdict == "clean", str(report)
    assert (out[0] == 1).all() and (out[1] == 32).all()
    # One cluster runs at a time: the first one had its own tile, two, and those that were in flight.
    assert np.count_nonzero(out[2] == 0) == cluster * (1 + 2 + ahead - 1)
    assert answers[2] is None and None not in answers[3 : 2 + ahead]


@pytest.mark.full
@pytest.mark.parametrize("cluster", [1, 2])
def test_readers_that_do_not_wait_for_the_scheduler(cluster: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role observes a refusal before the scheduler, which still requests: the CTA must not."""
    read = kit.LaunchControlTiles._read

    def at_once(tiles: kit.LaunchControlTiles, consumer: kit.Consumer, *, after_scheduler: bool = False):  # type: ignore[no-untyped-def]
        return read(tiles, consumer)

    monkeypatch.setattr(kit.LaunchControlTiles, "_read", at_once)
    module = taken(5, cluster, 3, 3).module()
    found = set()
    for seed in range(20):
        report, _ = run(module, 5, cluster, "random", seed)
        found |= {finding.rule.name for finding in report.findings}
    assert found == {"launch-control"}


def test_one_reader_too_many_expected_is_a_deadlock() -> None:
    tiles = 13

    def more(s: Instruction) -> Instruction:
        counts = s.opcode == "mbarrier" and s.modifiers[0] == "init" and s.operands[1] == Immediate(2)
        return replace(s, operands=(s.operands[0], Immediate(3))) if counts else s

    module = taken(tiles, 1, 1).module()
    function = module.functions[0]
    body = tuple(more(s) if isinstance(s, Instruction) else s for s in function.body)
    report, _ = run(replace(module, functions=(replace(function, body=body),)), tiles, 1, "eager", 0)
    assert [finding.rule.name for finding in report.findings] == ["deadlock"]
    assert "tiles_empty" in str(report)


def test_an_answer_handed_back_before_it_is_read() -> None:
    """The next request overwrites what a reader has not yet loaded."""
    module = taken(13, 1, 1).module()
    function = module.functions[0]

    def unfenced(s: object) -> bool:
        return isinstance(s, Instruction) and s.opcode == "fence" and "proxy" in s.modifiers

    body = tuple(s for s in function.body if not unfenced(s))
    assert len(body) == len(function.body) - 3  # of the scheduler and of two readers
    report, _ = run(replace(module, functions=(replace(function, body=body),)), 13, 1, "late", 0)
    assert {finding.rule.name for finding in report.findings} == {"proxy-fence-open"}


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize(("cluster", "ahead"), [(1, 1), (2, 1), (1, 2), (2, 3)])
def test_launch_control_assembles(cluster: int, ahead: int, arch: str, ptxas: Tool) -> None:
    assembly = taken(13, cluster, 3, ahead, arch).assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cluster": 0}, "cluster is 0"),
        ({"cluster": 17}, "1..16"),
        ({"answers": 0}, "stages"),
        ({"readers": 0}, "0"),
        ({"ahead": 0}, "ahead is 0: expected a number of requests, 1 to 3"),
        ({"ahead": 4}, "ahead is 4"),
        ({"answers": 2, "ahead": 3}, "1 to 2"),
    ],
)
def test_launch_control_refuses(options: dict[str, int], words: str) -> None:
    def body() -> None:
        with pytest.raises((SpecError, OperandError), match=words):
            kit.LaunchControlTiles(first=ptx.special.ctaid.x(), **{"readers": 1, **options})  # type: ignore[arg-type]

    in_kernel(body)
