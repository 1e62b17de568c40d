"""Stores whose lanes write the same bytes: which of them are found, and what the finding says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.sim.engine.stream import Observer
from pyptx.sim.memory.access import Access, AccessKind, Footprint, MemoryOrder, Proxy, Scope, StateSpace
from pyptx.sim.memory.access_findings import store_collision
from pyptx.sim.memory.collisions import Collision, colliding
from pyptx.sim.threads.loads import stored_values
from tests.sim.build import Kernel


def access(starts: list[int], size: int = 4, **changes: Any) -> Access:
    given: dict[str, Any] = {
        "kind": AccessKind.WRITE,
        "threads": np.arange(len(starts)),
        "proxy": Proxy.GENERIC,
        **changes,
    }
    return Access(
        space=StateSpace.SHARED,
        segment=None,
        footprint=Footprint(np.array(starts, np.int64), size),
        actor=None,  # type: ignore[arg-type]
        semantics=MemoryOrder.WEAK,
        scope=Scope.NONE,
        **given,
    )


@pytest.mark.parametrize(("starts", "size", "expected"), [
    ([8], 4, None),
    ([0, 4, 8, 12], 4, None),
    ([12, 8, 4, 0], 4, None),
    ([12, 0, 8, 4], 4, None),
    ([0, 64, 4, 68], 4, None),
    ([0, 0], 4, (0, (0, 1))),
    ([8, 0, 4, 8], 4, (8, (0, 3))),
    ([16, 0, 0, 16], 16, (0, (1, 2))),
    ([0, 8, 12], 8, (12, (1, 2))),
    ([5, 5, 5, 9], 1, (5, (0, 1, 2))),
])  # fmt: skip
def test_lanes_that_write_the_same_bytes(starts: list[int], size: int, expected: Any) -> None:
    found = colliding(access(starts, size))
    assert found == (None if expected is None else Collision(*expected, None))


def test_random_stores_against_sets_of_bytes() -> None:
    rng = np.random.default_rng(7)
    seen = [0, 0]
    for _ in range(400):
        size = int(rng.choice([1, 2, 4, 16]))
        threads = np.sort(rng.choice(96, rng.integers(2, 40), replace=False))
        starts = size * rng.integers(0, 200, len(threads))
        values = rng.integers(0, 2, (len(threads), size)).astype(np.uint8)
        written: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for thread, start, row in zip(threads.tolist(), starts.tolist(), values.tolist(), strict=True):
            for byte, value in enumerate(row):
                written.setdefault((thread // 32, start + byte), []).append((thread, value))
        several = {place: those for place, those in written.items() if len(those) > 1}
        found = colliding(access(starts.tolist(), size, threads=threads), values)
        seen[found is not None] += 1
        assert (found is not None) == bool(several)
        if found is None:
            continue
        assert [thread for thread, _ in several[found.threads[0] // 32, found.offset]] == list(found.threads)
        assert found.same == all(len({value for _, value in those}) == 1 for those in several.values())
    assert min(seen) > 50


@pytest.mark.parametrize("changes", [
    {"kind": AccessKind.READ},
    {"kind": AccessKind.RMW},
    {"threads": None},
    {"proxy": Proxy.ASYNC},
    {"threads": np.array([0, 32])},
])  # fmt: skip
def test_what_cannot_collide(changes: dict[str, Any]) -> None:
    assert colliding(access([0, 0], **changes)) is None
    assert colliding(access([0, 0])) is not None


class Watch(Observer):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def access(self, access: Access) -> None:
        actor: Any = access.actor
        if access.threads is not None and (found := colliding(access, stored_values(actor))) is not None:
            self.messages.append(str(store_collision(access, found)))


@pytest.mark.parametrize(("store", "says"), [
    ("st.shared.u32 [a], t", "32 lanes of warp 0, 0 and 1 first, store to the same address"),
    ("st.shared.u32 [a], t", "different values"),
    ("st.shared.u32 [a], 7", "all the same value"),
    ("st.shared.u32 [a], z", "all the same value"),
    ("st.shared.v2.u32 [a], {z, t}", "different values"),
    ("st.shared.v2.u32 [a], {z, 5}", "all the same value"),
    ("st.shared.u8 [a], y", "all the same value"),
    ("st.shared.u16 [a], y", "different values"),
    ("st.volatile.shared.u32 [a], t", "different values"),
    ("@p st.shared.u32 [a], t", "2 lanes of warp 0, 3 and 4 first"),
    ("st.shared.u32 [x], t", None),
])  # fmt: skip
@pytest.mark.parametrize("block", [32, 128])
def test_a_store_of_a_kernel(store: str, says: str | None, block: int) -> None:
    kernel = Kernel(f"""
.shared b8 area[1024] 128
.reg u32 t a x y z
.reg pred p q
mov.u32 t, %tid.x
mov.u32 a, area
mov.u32 z, 3
shl.b32 x, t, 2
add.u32 x, x, a
shl.b32 y, t, 8
add.u32 y, y, 1
sub.u32 z, t, 3
setp.lt.u32 p, z, 2
mov.u32 z, 3
{store} // here
ret
""")  # fmt: skip
    watch = Watch()
    kernel.run(block=block, observers=[watch])
    if says is None:
        assert not watch.messages
    else:
        assert watch.messages and says in watch.messages[0], watch.messages
        assert f":{kernel.line('here')}" in watch.messages[0]
