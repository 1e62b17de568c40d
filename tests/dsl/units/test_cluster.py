"""``ptx.cluster``, ``ptx.clusterlaunchcontrol``, ``ptx.griddepcontrol``, ``ptx.setmaxnreg``, and a thread alone."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import OperandError, TargetError
from pyptx.core.types import b64, b128, f32, pred, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import cluster, clusterlaunchcontrol, griddepcontrol, setmaxnreg
from pyptx.dsl.units import misc as alone
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import asked, body_of, in_kernel, recorded, rejected, text_of
from tests.dsl.units.places import ALL_TARGETS, calls, place
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

FLAGS = (False, True)


# --- clusters -------------------------------------------------------------------------------------


def _addresses() -> tuple[Any, ...]:
    """Makers of a 32-bit shared address, a generic one, and a shared one in 64 bits, with their space."""
    return (
        (lambda: place("cta"), "auto"),
        (lambda: place("cta"), "cluster"),
        (lambda: place(None), "auto"),
        (lambda: place(None), "cluster"),
        (lambda: place(None), None),
        (lambda: smem.alloc(16), "auto"),
    )


def test_every_variant_is_reached_and_assembles(ptxas: Tool) -> None:
    unit: Any = ptx.cluster
    reached = assemble_calls(
        [
            *calls("cluster.map", lambda a, r: unit.map(a[0](), r, space=a[1]), _addresses(), (0, 31)),
            *calls("cluster.map", lambda a: unit.map(a[0](), reg.scalar(u32), space=a[1]), _addresses()),
            *calls("cluster.getctarank", lambda a: unit.getctarank(a[0](), space=a[1]), _addresses()),
            Call("cluster.rank", lambda: _drop(unit.rank())),
            Call("cluster.size", lambda: _drop(unit.size())),
            *calls(
                "cluster.arrive",
                lambda sem, aligned: unit.arrive(sem=sem, aligned=aligned),
                (None, "release", "relaxed"),
                FLAGS,
            ),
            *calls(
                "cluster.wait",
                lambda sem, aligned: unit.wait(sem=sem, aligned=aligned),
                (None, "acquire"),
                FLAGS,
            ),
            *calls("cluster.sync", lambda aligned: unit.sync(aligned=aligned), FLAGS),
        ],
        ptxas,
    )
    assert reached.wrappers == public_functions(cluster, "cluster")
    assert unreached(reached, "mapa") == []
    assert unreached(reached, "getctarank") == []
    assert unreached(reached, "barrier", lambda words: words[0] == "cluster") == []


def _drop(_: object) -> None:
    """A body that records returns nothing."""


def test_spelling_of_clusters(ptxas: Tool) -> None:
    def body() -> None:
        tile = smem.alloc(64, stages=2)
        generic, n = reg.scalar(u64, init=0), reg.scalar(u32, init=1)
        p = reg.scalar(pred, init=True)
        mine = ptx.cluster.rank()
        many = ptx.cluster.size()
        a = ptx.cluster.map(tile[0], 1)
        b = ptx.cluster.map(generic, n)
        c = ptx.cluster.map(n, mine)
        d = ptx.cluster.getctarank(a)
        e = ptx.cluster.getctarank(b)
        assert [x.type for x in (mine, many, a, b, c, d, e)] == [u32, u32, u32, u64, u32, u32, u32]
        ptx.cluster.arrive(sem="relaxed", aligned=True)
        ptx.cluster.wait(sem="acquire")
        ptx.cluster.sync(pred=p)

    assert body_of(body)[4:] == [
        "mov.u32 %mine, %cluster_ctarank;",
        "mov.u32 %many, %cluster_nctarank;",
        "mapa.shared::cluster.u32 %a, %smem_base, 1;",
        "mapa.u64 %b, %generic, %n;",
        "mapa.shared::cluster.u32 %c, %n, %mine;",
        "getctarank.shared::cluster.u32 %d, %a;",
        "getctarank.u64 %e, %b;",
        "barrier.cluster.arrive.relaxed.aligned;",
        "barrier.cluster.wait.acquire;",
        "@%p barrier.cluster.arrive;",
        "@%p barrier.cluster.wait;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_clusters_refuse() -> None:
    def check() -> None:
        unit: Any = ptx.cluster
        s, f, p = reg.scalar(u32), reg.scalar(f32), reg.scalar(pred)
        for rank in (-1, 32, 1.5):
            with rejected(OperandError, *asked(rank, f"rank is {rank!r}", "0..31")):
                unit.map(s, rank)  # rejected
        with rejected(OperandError, "<%p pred>", "32- or 64-bit register"):
            unit.map(p, 0)  # rejected
        with rejected(
            OperandError, "address of ptx.cluster.getctarank is 4096: expected a register or a sha"
        ):
            unit.getctarank(4096)  # rejected
        with rejected(OperandError, "space is 'cta'", "'cluster', None"):
            unit.map(s, 0, space="cta")  # rejected
        with rejected(OperandError, "%f", "f32"):
            unit.getctarank(f)  # rejected
        with rejected(OperandError, "sem of", "is 'acquire'", "'release'"):
            unit.arrive(sem="acquire")  # rejected
        with rejected(OperandError, "sem of", "is 'relaxed'", "'acquire'"):
            unit.wait(sem="relaxed")  # rejected

    in_kernel(check)

    def older() -> None:
        s = reg.scalar(u32)
        with rejected(TargetError, "sm_90"):
            ptx.cluster.sync()  # rejected
        with rejected(TargetError, "sm_90"):
            ptx.cluster.map(s, 0)  # rejected

    in_kernel(older, arch="sm_80")


# --- work stealing --------------------------------------------------------------------------------


def test_every_variant_of_cluster_launch_control(ptxas: Tool) -> None:
    unit: Any = ptx.clusterlaunchcontrol

    def ask(multicast: bool, space: Any) -> None:
        unit.try_cancel(place("cta"), place("cta"), multicast=multicast, space=space)

    decoders = [name for name in clusterlaunchcontrol.__all__ if name != "try_cancel"]
    reached = assemble_calls(
        [
            *calls("clc.try_cancel", ask, FLAGS, ("cta", None)),
            *(
                call
                for name in decoders
                for call in calls(f"clc.{name}", lambda f: _drop(f(reg.scalar(b128))), (getattr(unit, name),))
            ),
        ],
        ptxas,
    )
    assert reached.wrappers == public_functions(clusterlaunchcontrol, "clc")
    assert unreached(reached, "clusterlaunchcontrol") == []


def test_spelling_of_cluster_launch_control(ptxas: Tool) -> None:
    def body() -> None:
        answer, bar = smem.alloc(16), smem.alloc(1, b64)
        ptx.clusterlaunchcontrol.try_cancel(answer, bar)
        response = smem.load(b128, answer)
        more = ptx.clusterlaunchcontrol.is_canceled(response)
        x = ptx.clusterlaunchcontrol.first_ctaid_x(response)
        tile = ptx.clusterlaunchcontrol.first_ctaid(response)
        assert (more.type, x.type, len(tile), tile.type) == (pred, u32, 3, u32)

    query = "clusterlaunchcontrol.query_cancel"
    assert body_of(body)[1:] == [
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
        "[%smem_base], [%smem_base+16];",
        "ld.shared.b128 %response, [%smem_base];",
        f"{query}.is_canceled.pred.b128 %more, %response;",
        f"{query}.get_first_ctaid::x.b32.b128 %x, %response;",
        f"{query}.get_first_ctaid.v4.b32.b128 {{%tile0, %tile1, %tile2, _}}, %response;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_cluster_launch_control_refuses() -> None:
    def check() -> None:
        unit: Any = ptx.clusterlaunchcontrol
        s, wide = reg.scalar(u32), reg.scalar(b64)
        answer, short = smem.alloc(32), smem.alloc(8)
        odd = answer.at(8)
        smem.base()
        with rejected(OperandError, "offset 8", "multiple of 16"):
            unit.try_cancel(odd, s)  # rejected
        with rejected(OperandError, "16 bytes", "'short'", "has 8"):
            unit.try_cancel(short, s)  # rejected
        with rejected(OperandError, "space of", "is 'cluster'", "'cta'"):
            unit.try_cancel(s, s, space="cluster")  # rejected
        for name in ("is_canceled", "first_ctaid", "first_ctaid_x", "first_ctaid_y", "first_ctaid_z"):
            for given in (wide, 7):
                with rejected(
                    OperandError,
                    "response",
                    "is 7: expected a register" if given is not wide else "b128 register",
                ):
                    getattr(unit, name)(given)  # rejected

    in_kernel(check)


# --- grids, registers -----------------------------------------------------------------------------


def test_grids_and_registers(ptxas: Tool) -> None:
    counts = range(24, 257, 8)
    reached = assemble_calls(
        [
            Call("griddepcontrol.wait", lambda: ptx.griddepcontrol.wait()),
            Call("griddepcontrol.launch_dependents", lambda: ptx.griddepcontrol.launch_dependents()),
            *calls("setmaxnreg.inc", ptx.setmaxnreg.inc, counts),
            *calls("setmaxnreg.dec", ptx.setmaxnreg.dec, counts),
        ],
        ptxas,
    )
    names = public_functions(griddepcontrol, "griddepcontrol") | public_functions(setmaxnreg, "setmaxnreg")
    assert reached.wrappers == names
    assert unreached(reached, "griddepcontrol") == []
    assert unreached(reached, "setmaxnreg") == []

    def body() -> None:
        ptx.setmaxnreg.dec(40)
        ptx.setmaxnreg.inc(232, pred=reg.scalar(pred))
        ptx.griddepcontrol.wait()

    assert body_of(body) == [
        "setmaxnreg.dec.sync.aligned.u32 40;",
        "@%r setmaxnreg.inc.sync.aligned.u32 232;",
        "griddepcontrol.wait;",
    ]


@pytest.mark.parametrize("count", [0, 16, 28, 264, 24.0, "40"])
def test_setmaxnreg_refuses(count: Any) -> None:
    def check() -> None:
        with rejected(OperandError, *asked(count, f"count is {count!r}", "multiple of 8 in 24..256")):
            ptx.setmaxnreg.inc(count)  # rejected
        with rejected(OperandError, *asked(count, f"count is {count!r}", "multiple of 8 in 24..256")):
            ptx.setmaxnreg.dec(count)  # rejected

    in_kernel(check)


# --- a thread alone -------------------------------------------------------------------------------


def test_a_thread_alone(ptxas: Tool) -> None:
    reached = assemble_calls(
        [
            Call("nanosleep", lambda: ptx.nanosleep(100)),
            Call("nanosleep", lambda: ptx.nanosleep(reg.scalar(u32))),
            Call("trap", lambda: ptx.trap(pred=reg.scalar(pred))),
            Call("brkpt", lambda: ptx.brkpt()),
            Call("pmevent", lambda: ptx.pmevent(15)),
            Call("pmevent", lambda: ptx.pmevent(mask=0x8001)),
        ],
        ptxas,
        ALL_TARGETS,
    )
    assert reached.wrappers == set(alone.__all__)
    for opcode in alone.__all__:
        assert unreached(reached, opcode) == []

    def check() -> None:
        wrong: Any = ptx.pmevent
        for time in (-1, 1 << 32, 1.5):
            with rejected(OperandError, *asked(time, f"nanoseconds is {time!r}", "0..4294967295")):
                ptx.nanosleep(time)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "event is 16", "0..15"):
            wrong(16)  # rejected
        with rejected(OperandError, "mask is 0", "1..65535"):
            wrong(mask=0)  # rejected
        with rejected(OperandError, "event is None and mask is None"):
            wrong()  # rejected
        with rejected(OperandError, "event is 1 and mask is 1"):
            wrong(1, mask=1)  # rejected

    in_kernel(check)


def test_a_kernel_may_end_with_a_trap() -> None:
    assert [str(i) for i in recorded(lambda: ptx.trap()).module.functions[0].body] == ["trap;"]


def test_answers_go_into_given_registers(ptxas: Tool) -> None:
    def body() -> None:
        p, n, far = reg.scalar(pred, init=True), reg.scalar(u32, init=0), reg.scalar(u32)
        ptx.cluster.rank(out=n, pred=p)
        ptx.cluster.size(out=n)
        assert ptx.cluster.map(n, 1, out=far, pred=p) is far
        ptx.cluster.getctarank(far, out=n)
        response = smem.load(b128, smem.alloc(16))
        ptx.clusterlaunchcontrol.is_canceled(response, out=p)
        ptx.clusterlaunchcontrol.first_ctaid_z(response, out=n, pred=p)
        tile = ptx.clusterlaunchcontrol.first_ctaid(response, out=[n, far, n], pred=p)
        assert len(tile) == 3 and tile[1] is far

    query = "clusterlaunchcontrol.query_cancel"
    assert body_of(body)[3:] == [
        "@%p mov.u32 %n, %cluster_ctarank;",
        "mov.u32 %n, %cluster_nctarank;",
        "@%p mapa.shared::cluster.u32 %far, %n, 1;",
        "getctarank.shared::cluster.u32 %n, %far;",
        "ld.shared.b128 %response, [%smem_base];",
        f"{query}.is_canceled.pred.b128 %p, %response;",
        f"@%p {query}.get_first_ctaid::z.b32.b128 %n, %response;",
        f"@%p {query}.get_first_ctaid.v4.b32.b128 {{%n, %far, %n, _}}, %response;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok

    def check() -> None:
        n, response = reg.scalar(u32), reg.scalar(b128)
        with rejected(OperandError, "three registers"):
            ptx.clusterlaunchcontrol.first_ctaid(response, out=[n, n])  # rejected

    in_kernel(check)
