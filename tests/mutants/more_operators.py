"""Operators besides those of the baseline: reorderings, lost and doubled arrivals, tensor memory's permits."""

from __future__ import annotations

from collections.abc import Iterator

from pyptx.ir import Immediate, Instruction, Statement

from .edits import (
    Body,
    Site,
    constant,
    delete,
    edit_operand,
    find,
    first_before,
    insert,
    is_a,
    move,
    put,
    swap_modifier,
    with_modifiers,
)
from .operators import operator

__all__: list[str] = []


def _is_shared(statement: Statement, opcode: str) -> bool:
    if not isinstance(statement, Instruction) or statement.opcode != opcode:
        return False
    return any(m.startswith("shared") for m in statement.modifiers) and "async" not in statement.modifiers


@operator
def arrive_doubled(body: Body) -> Iterator[Site]:
    for index, arrive in find(body, "mbarrier.arrive"):
        if "expect_tx" not in arrive.modifiers:
            yield insert(body, index, arrive)


@operator
def arrive_deleted(body: Body) -> Iterator[Site]:
    for index, _ in (*find(body, "mbarrier.arrive"), *find(body, "bar.arrive")):
        yield delete(body, index)


@operator
def commit_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "tcgen05.commit"):
        yield delete(body, index)


@operator
def arrive_before_the_access(body: Body) -> Iterator[Site]:
    """The access moves, so that the arrival's address is computed before it is used."""
    for index, _ in (*find(body, "mbarrier.arrive"), *find(body, "bar.arrive")):
        first = first_before(body, index, lambda s: _is_shared(s, "ld") or _is_shared(s, "st"))
        if first is not None:
            yield move(body, first, index + 1)


@operator
def barrier_behind_the_load(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "bar.sync"):
        for at in range(index + 1, len(body)):
            if not isinstance(body[at], Instruction) or is_a(body[at], "bra") or is_a(body[at], "bar"):
                break
            if _is_shared(body[at], "ld"):
                yield move(body, index, at + 1)
                break


@operator
def barrier_before_the_store(body: Body) -> Iterator[Site]:
    for index, _ in (*find(body, "bar.sync"), *find(body, "bar.warp.sync")):
        first = first_before(body, index, lambda s: _is_shared(s, "st"))
        if first is not None:
            yield move(body, index, first)


@operator
def barrier_of_one_more_warp(body: Body) -> Iterator[Site]:
    for index, barrier in find(body, "bar"):
        if len(barrier.operands) == 2:
            count = constant(body, index, barrier.operands[1])
            if count is not None:
                yield put(body, index, edit_operand(barrier, 1, Immediate(count + 32)))


@operator
def warp_mask_halved(body: Body) -> Iterator[Site]:
    for index, barrier in find(body, "bar.warp.sync"):
        yield put(body, index, edit_operand(barrier, 0, Immediate(0xFFFF)))


@operator
def group_committed_before_the_operation(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "cp.async.bulk.commit_group"):
        first = first_before(body, index, lambda s: is_a(s, "cp.async.bulk"))
        if first is not None:
            yield move(body, index, first)
    for index, _ in find(body, "wgmma.commit_group"):
        first = first_before(body, index, lambda s: is_a(s, "wgmma.mma_async"))
        if first is not None:
            yield move(body, index, first)


@operator
def wgmma_fence_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "wgmma.fence"):
        yield delete(body, index)


@operator
def noinc_dropped(body: Body) -> Iterator[Site]:
    for index, arrive in find(body, "cp.async.mbarrier.arrive.noinc"):
        yield put(body, index, swap_modifier(arrive, "noinc"))


@operator
def read_through_the_read_only_cache(body: Body) -> Iterator[Site]:
    """Loads of what the launch itself writes: behind a flag, or volatile."""
    flagged = next((index for index, _ in find(body, "ld.acquire")), None)
    for index, load in find(body, "ld"):
        if "volatile" in load.modifiers and "global" in load.modifiers:
            yield put(body, index, with_modifiers(load, "global", "nc", load.modifiers[-1]))
        elif load.modifiers[:1] == ("global",) and flagged is not None and index > flagged:
            yield put(body, index, with_modifiers(load, "global", "nc", *load.modifiers[1:]))


@operator
def copy_doubled(body: Body) -> Iterator[Site]:
    for index, copy in (*find(body, "cp.async.bulk"), *find(body, "st.async")):
        if "mbarrier::complete_tx::bytes" in copy.modifiers:
            yield insert(body, index, copy)


@operator
def dealloc_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "tcgen05.dealloc"):
        yield delete(body, index)


@operator
def alloc_halved(body: Body) -> Iterator[Site]:
    for index, alloc in find(body, "tcgen05.alloc"):
        columns = constant(body, index, alloc.operands[1])
        if columns is not None and columns > 32:
            yield put(body, index, edit_operand(alloc, 1, Immediate(columns // 2)))


@operator
def permit_given_up_before_alloc(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "tcgen05.relinquish_alloc_permit"):
        first = first_before(body, index, lambda s: is_a(s, "tcgen05.alloc"))
        if first is not None:
            yield move(body, index, first)
