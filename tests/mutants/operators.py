"""The operators: each plants one bug in a body, at every site where it can. :mod:`.expected` says what must be found.

Operators of synchronization that the tree's baseline names stand here, and :mod:`.more_operators` has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyptx.ir import Immediate, Instruction, Register, Sink, Statement, registers_of

from .edits import (
    Body,
    Site,
    back_branch,
    constant,
    delete,
    edit_operand,
    find,
    first_before,
    is_a,
    move,
    put,
    swap_modifier,
    with_modifiers,
)

__all__ = ["OPERATORS", "barrier_of_dealloc", "cluster_barriers", "operator"]

Operator = Callable[[Body], Iterator[Site]]
#: Every operator by its name.
OPERATORS: dict[str, Operator] = {}
_SCOPES = ("gpu", "sys", "cluster")


def operator(function: Operator) -> Operator:
    """Register a generator of sites; its name is that of the function, with hyphens."""
    OPERATORS[function.__name__.replace("_", "-")] = function
    return function


def _is_store(statement: Statement) -> bool:
    """An ordinary store to shared memory."""
    if not isinstance(statement, Instruction):
        return False
    shared = any(m.startswith("shared") for m in statement.modifiers)
    return statement.opcode in ("st", "stmatrix") and shared and "async" not in statement.modifiers


# --- proxy fences -----------------------------------------------------------------------------


@operator
def proxy_fence_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "fence.proxy.async"):
        yield delete(body, index)


@operator
def proxy_fence_before_the_stores(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "fence.proxy.async"):
        first = first_before(body, index, _is_store)
        if first is not None:
            yield move(body, index, first)


@operator
def proxy_fence_of_another_space(body: Body) -> Iterator[Site]:
    for index, fence in find(body, "fence.proxy.async"):
        yield put(body, index, with_modifiers(fence, "proxy", "async", "global"))


@operator
def proxy_fence_behind_the_barrier(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "fence.proxy.async"):
        if is_a(body[index + 1], "bar"):
            yield move(body, index, index + 2)


# --- waits and arrivals -----------------------------------------------------------------------


@operator
def wait_asked_once(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "mbarrier.try_wait"):
        branch = back_branch(body, index)
        if branch is not None:
            yield delete(body, branch)


@operator
def wait_relaxed(body: Body) -> Iterator[Site]:
    for index, wait in find(body, "mbarrier.try_wait"):
        if "acquire" in wait.modifiers:
            yield put(body, index, swap_modifier(wait, "acquire", "relaxed"))
        else:
            yield put(body, index, swap_modifier(wait, "parity", "parity", "relaxed", "cta"))


@operator
def parity_flipped(body: Body) -> Iterator[Site]:
    for index, wait in find(body, "mbarrier.try_wait", "parity"):
        parity = constant(body, index, wait.operands[2])
        if parity is not None:
            yield put(body, index, edit_operand(wait, 2, Immediate(1 - parity)))


@operator
def phase_not_flipped(body: Body) -> Iterator[Site]:
    for index, flip in find(body, "xor.b32"):
        target, source, bit = flip.operands
        if target == source and bit == Immediate(1):
            yield delete(body, index)


@operator
def arrive_relaxed(body: Body) -> Iterator[Site]:
    for index, arrive in find(body, "mbarrier.arrive"):
        if "expect_tx" in arrive.modifiers:
            continue
        if "release" in arrive.modifiers:
            yield put(body, index, swap_modifier(arrive, "release", "relaxed"))
        else:
            yield put(body, index, swap_modifier(arrive, "arrive", "arrive", "relaxed", "cta"))


@operator
def expecting_arrive_relaxed(body: Body) -> Iterator[Site]:
    for index, arrive in find(body, "mbarrier.arrive.expect_tx"):
        yield put(body, index, swap_modifier(arrive, "expect_tx", "expect_tx", "relaxed", "cta"))


def _counts(body: Body, change: int) -> Iterator[Site]:
    for index, init in find(body, "mbarrier.init"):
        count = constant(body, index, init.operands[1])
        if count is not None and count + change > 0:
            yield put(body, index, edit_operand(init, 1, Immediate(count + change)))


@operator
def barrier_counts_one_fewer(body: Body) -> Iterator[Site]:
    yield from _counts(body, -1)


@operator
def barrier_counts_one_more(body: Body) -> Iterator[Site]:
    yield from _counts(body, 1)


def _bytes(body: Body, change: int) -> Iterator[Site]:
    for index, expect in find(body, "mbarrier.arrive.expect_tx"):
        count = constant(body, index, expect.operands[2])
        if count is not None and count + change > 0:
            yield put(body, index, edit_operand(expect, 2, Immediate(count + change)))


@operator
def bytes_expected_16_fewer(body: Body) -> Iterator[Site]:
    yield from _bytes(body, -16)


@operator
def bytes_expected_16_more(body: Body) -> Iterator[Site]:
    yield from _bytes(body, 16)


# --- groups and commits -----------------------------------------------------------------------


@operator
def commit_replaced_by_arrive(body: Body) -> Iterator[Site]:
    for index, commit in find(body, "tcgen05.commit"):
        if "multicast::cluster" not in commit.modifiers:
            arrive = Instruction(
                "mbarrier",
                ("arrive", "shared::cluster", "b64"),
                (Sink(), commit.operands[0]),
                commit.guard,
                commit.source,
            )
            yield put(body, index, arrive)


@operator
def commit_before_the_mma(body: Body) -> Iterator[Site]:
    """Where the commit's address is computed behind the first product, the last product moves behind the commit."""
    for index, commit in find(body, "tcgen05.commit"):
        first = first_before(body, index, lambda s: is_a(s, "tcgen05.mma"))
        if first is None:
            continue
        if _computes(body[first:index], commit):
            last = max(at for at, _ in find(body[:index], "tcgen05.mma"))
            yield move(body, last, index + 1)
        else:
            yield move(body, index, first)


def _computes(statements: Body, user: Instruction) -> bool:
    """Whether one of the statements writes a register that ``user`` reads."""
    read = {register for operand in user.operands for register in registers_of(operand)}
    written = [s.operands[0] for s in statements if isinstance(s, Instruction) and s.operands]
    return any(isinstance(operand, Register) and operand in read for operand in written)


@operator
def wait_group_of_one_more(body: Body) -> Iterator[Site]:
    for index, wait in (*find(body, "cp", "wait_group"), *find(body, "wgmma.wait_group")):
        count = constant(body, index, wait.operands[0])
        if count is not None:
            yield put(body, index, edit_operand(wait, 0, Immediate(count + 1)))


@operator
def wait_group_deleted(body: Body) -> Iterator[Site]:
    waits = (find(body, "cp", "wait_group"), find(body, "cp.async.wait_all"), find(body, "wgmma.wait_group"))
    for found in waits:
        for index, _ in found:
            yield delete(body, index)


@operator
def commit_group_deleted(body: Body) -> Iterator[Site]:
    for index, _ in (*find(body, "cp", "commit_group"), *find(body, "wgmma.commit_group")):
        yield delete(body, index)


# --- barriers ---------------------------------------------------------------------------------


def cluster_barriers(body: Body) -> Iterator[int]:
    """Index of every barrier.cluster.arrive that its wait follows."""
    for index, _ in find(body, "barrier.cluster.arrive"):
        if is_a(body[index + 1], "barrier.cluster.wait"):
            yield index


def barrier_of_dealloc(body: Body) -> int | None:
    """Index of the last barrier of the CTA in front of the first tcgen05.dealloc."""
    first = next((index for index, _ in find(body, "tcgen05.dealloc")), None)
    if first is None:
        return None
    return next((i for i in range(first, -1, -1) if is_a(body[i], "bar.sync")), None)


@operator
def barrier_deleted(body: Body) -> Iterator[Site]:
    kept = barrier_of_dealloc(body)
    for index, _ in find(body, "bar.sync"):
        if index != kept:
            yield delete(body, index)


@operator
def barrier_before_dealloc_deleted(body: Body) -> Iterator[Site]:
    index = barrier_of_dealloc(body)
    if index is not None:
        yield delete(body, index)


@operator
def warp_barrier_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "bar.warp.sync"):
        yield delete(body, index)


@operator
def cluster_barrier_of_the_cta(body: Body) -> Iterator[Site]:
    for index in cluster_barriers(body):
        source = body[index].source  # type: ignore[union-attr]
        barrier = Instruction("bar", ("sync",), (Immediate(0),), None, source)
        yield Site(index, (*body[:index], barrier, *body[index + 2 :]))


@operator
def cluster_barrier_deleted(body: Body) -> Iterator[Site]:
    for index in cluster_barriers(body):
        yield Site(index, body[:index] + body[index + 2 :])


@operator
def cluster_barrier_relaxed(body: Body) -> Iterator[Site]:
    for index, arrive in find(body, "barrier.cluster.arrive"):
        rest = [m for m in arrive.modifiers[2:] if m not in ("release", "relaxed")]
        yield put(body, index, with_modifiers(arrive, "cluster", "arrive", "relaxed", *rest))


# --- tensor memory and registers --------------------------------------------------------------


@operator
def tcgen05_fence_before_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "tcgen05.fence::before_thread_sync"):
        yield delete(body, index)


@operator
def tcgen05_fence_after_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "tcgen05.fence::after_thread_sync"):
        yield delete(body, index)


@operator
def wait_ld_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "tcgen05.wait::ld"):
        yield delete(body, index)


@operator
def wait_st_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "tcgen05.wait::st"):
        yield delete(body, index)


def _registers(body: Body, direction: str) -> Iterator[Site]:
    for index, change in find(body, f"setmaxnreg.{direction}"):
        count = constant(body, index, change.operands[0])
        if count is not None:
            yield put(body, index, edit_operand(change, 0, Immediate(count + 8)))


@operator
def setmaxnreg_inc_by_more(body: Body) -> Iterator[Site]:
    yield from _registers(body, "inc")


@operator
def setmaxnreg_dec_by_less(body: Body) -> Iterator[Site]:
    yield from _registers(body, "dec")


@operator
def setmaxnreg_dec_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "setmaxnreg.dec"):
        yield delete(body, index)


# --- scopes and semantics of memory -----------------------------------------------------------


@operator
def scope_narrowed(body: Body) -> Iterator[Site]:
    for index, statement in enumerate(body):
        if not isinstance(statement, Instruction) or is_a(statement, "fence.mbarrier_init"):
            continue
        memory = statement.opcode in ("ld", "st", "atom", "red", "fence", "mbarrier")
        scope = next((m for m in statement.modifiers if m in _SCOPES), None)
        if memory and scope and "async" not in statement.modifiers:
            yield put(body, index, swap_modifier(statement, scope, "cta"))
        elif is_a(statement, "membar.gl"):
            yield put(body, index, with_modifiers(statement, "cta"))
        elif is_a(statement, "atom.global") or is_a(statement, "red.global"):
            yield put(body, index, with_modifiers(statement, "relaxed", "cta", *statement.modifiers))


@operator
def order_relaxed(body: Body) -> Iterator[Site]:
    for index, statement in enumerate(body):
        for order in ("acquire", "release", "acq_rel"):
            if any(is_a(statement, opcode, order) for opcode in ("ld", "st", "atom", "red")):
                assert isinstance(statement, Instruction)
                yield put(body, index, swap_modifier(statement, order, "relaxed"))


@operator
def access_weakened(body: Body) -> Iterator[Site]:
    for index, statement in enumerate(body):
        if not isinstance(statement, Instruction) or statement.opcode not in ("ld", "st"):
            continue
        strong = {"volatile", "relaxed", "acquire", "release"} & set(statement.modifiers)
        if strong:
            kept = [m for m in statement.modifiers if m not in strong and m not in (*_SCOPES, "cta")]
            yield put(body, index, with_modifiers(statement, *kept))


@operator
def memory_fence_deleted(body: Body) -> Iterator[Site]:
    for name in ("membar", "fence.acq_rel", "fence.sc"):
        for index, _ in find(body, name):
            yield delete(body, index)


@operator
def init_fence_deleted(body: Body) -> Iterator[Site]:
    for index, _ in find(body, "fence.mbarrier_init"):
        yield delete(body, index)
