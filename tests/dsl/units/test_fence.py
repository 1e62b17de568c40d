"""``ptx.fence``: every variant assembles, the spelling is exact, and what is illegal is refused."""

from __future__ import annotations

from typing import Any

from pyptx.core.errors import OperandError
from pyptx.core.types import pred, u32, u64
from pyptx.dsl import ptx, reg
from pyptx.dsl.units import fence
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.places import ALL_TARGETS, SCOPES, calls, place
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

FABRIC = ("fabric::generic", "generic::fabric", "fabric::fabric")


def _calls() -> list[Call]:
    unit: Any = ptx.fence
    return [
        *(
            call
            for name in ("acq_rel", "sc", "acquire", "release", "proxy_tensormap_release")
            for call in calls(f"fence.{name}", getattr(unit, name), SCOPES)
        ),
        Call("fence.acquire", lambda: unit.acquire("cluster", sync_restrict="shared::cluster")),
        Call("fence.release", lambda: unit.release("cluster", sync_restrict="shared::cta")),
        Call("fence.mbarrier_init", lambda: unit.mbarrier_init()),
        *calls("fence.proxy_async", unit.proxy_async, (None, "global", "shared::cta", "shared::cluster")),
        Call("fence.proxy_async_acquire", lambda: unit.proxy_async_acquire()),
        Call("fence.proxy_async_release", lambda: unit.proxy_async_release()),
        *calls(
            "fence.proxy_async_release",
            lambda scope: unit.proxy_async_release(read=True, scope=scope),
            ("cta", "cluster"),
        ),
        *calls("fence.proxy_alias", unit.proxy_alias, (None, "acquire", "release")),
        *calls("fence.proxy_fabric", unit.proxy_fabric, FABRIC, ("acquire", "release")),
        *calls(
            "fence.proxy_tensormap_acquire",
            lambda scope: unit.proxy_tensormap_acquire(place(None), scope),
            SCOPES,
        ),
    ]


def test_every_variant_is_reached_and_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_calls(), ptxas, ALL_TARGETS)
    assert reached.wrappers == public_functions(fence, "fence")
    # fence.SCOPE without an order means fence.acq_rel.SCOPE, which acq_rel() spells.
    assert unreached(reached, "fence") == sorted(f"fence.{scope}" for scope in SCOPES)


def test_spelling(ptxas: Tool) -> None:
    def body() -> None:
        there = reg.scalar(u64)
        ptx.fence.proxy_async()
        ptx.fence.proxy_async("shared::cta")
        ptx.fence.proxy_async("global", pred=reg.scalar(pred, init=True))
        ptx.fence.mbarrier_init()
        ptx.fence.acq_rel("cta")
        ptx.fence.sc("gpu")
        ptx.fence.acquire("cluster", sync_restrict="shared::cluster")
        ptx.fence.release("cluster", sync_restrict="shared::cta")
        ptx.fence.proxy_async_acquire()
        ptx.fence.proxy_async_release()
        ptx.fence.proxy_alias()
        ptx.fence.proxy_tensormap_release("gpu")
        ptx.fence.proxy_tensormap_acquire(there, "gpu")

    lines = body_of(body)
    assert lines[:2] == ["fence.proxy.async;", "fence.proxy.async.shared::cta;"]
    assert lines[3:] == [
        "@%r fence.proxy.async.global;",
        "fence.mbarrier_init.release.cluster;",
        "fence.acq_rel.cta;",
        "fence.sc.gpu;",
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.release.sync_restrict::shared::cta.cluster;",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
        "fence.proxy.alias;",
        "fence.proxy.tensormap::generic.release.gpu;",
        "fence.proxy.tensormap::generic.acquire.gpu [%there], 128;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_refuses() -> None:
    def check() -> None:
        unit: Any = ptx.fence
        narrow = reg.scalar(u32)
        with rejected(OperandError, "space is 'shared'", "'shared::cta'"):
            unit.proxy_async("shared")  # rejected
        for function in (unit.acq_rel, unit.sc, unit.acquire, unit.release, unit.proxy_tensormap_release):
            with rejected(OperandError, "scope of", "is 'block'", "'cta'"):
                function("block")  # rejected
        with rejected(OperandError, "sync_restrict is 'shared::cta'", "'shared::cluster'"):
            unit.acquire("cluster", sync_restrict="shared::cta")  # rejected
        with rejected(OperandError, "scope is 'gpu'", "'cluster'"):
            unit.release("gpu", sync_restrict="shared::cta")  # rejected
        with rejected(OperandError, "scope is 'cta'", "'cluster'"):
            unit.proxy_async_release(scope="cta")  # rejected
        with rejected(OperandError, "scope of", "is 'gpu'", "'cta'"):
            unit.proxy_async_release(read=True, scope="gpu")  # rejected
        with rejected(OperandError, "sem of", "is 'sc'", "'acquire'"):
            unit.proxy_alias("sc")  # rejected
        with rejected(OperandError, "proxies of", "is 'fabric'", "'fabric::generic'"):
            unit.proxy_fabric("fabric", "acquire")  # rejected
        with rejected(OperandError, "sem of", "is 'sc'", "'acquire'"):
            unit.proxy_fabric("fabric::fabric", "sc")  # rejected
        with rejected(OperandError, "scope of", "is 'block'", "'cta'"):
            unit.proxy_tensormap_acquire(narrow, "block")  # rejected
        with rejected(OperandError, "%narrow", "u32"):
            unit.proxy_tensormap_acquire(narrow, "gpu")  # rejected

    in_kernel(check)
