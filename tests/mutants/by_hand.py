"""Bugs that no operator plants: what authors of loops by launch control and of kernels with ``cp.async`` get wrong.

Each changes the body of one kernel at a place that its instructions name: the n-th wait, the n-th commit. The
expectations come from the PTX ISA, as those of the operators do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyptx.ir import Address, Immediate, Instruction, Module, Operand, Register

from .edits import Body, constant, delete, edit_operand, find, is_a, move, put
from .expected import CONTENTS, EARLY, MEMORY, WAIT, Expectation, error
from .kernels import subject

__all__ = ["BUGS", "Bug"]

_COMMIT = "tcgen05-instructions-tcgen05-commit"
_CANCEL = "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel"
_GROUP = "data-movement-and-conversion-instructions-cp-async-wait-group"
_MAPA = "data-movement-and-conversion-instructions-mapa"
_STUCK = ("deadlock", "mbarrier-misuse")
_WAITS, _ARRIVES, _COMMITS = "mbarrier.try_wait", "mbarrier.arrive", "tcgen05.commit"

_Edit = Callable[[Body], Body]


@dataclass(frozen=True)
class Bug:
    """One bug in one kernel.

    Attributes:
        name: what the author did.
        kernel: name of the right kernel.
        edit: returns the changed body.
        expected: what the sanitizer must say.
    """

    name: str
    kernel: str
    edit: _Edit
    expected: Expectation

    @property
    def module(self) -> Module:
        """The kernel with the bug."""
        original = subject(self.kernel)
        function = replace(original.function, body=self.edit(original.function.body))
        functions = tuple(function if f is original.function else f for f in original.module.functions)
        return replace(original.module, functions=functions)


# --- places -----------------------------------------------------------------------------------


def _nth(body: Body, name: str, number: int, *modifiers: str) -> tuple[int, Instruction]:
    return list(find(body, name, *modifiers))[number]


def _write(body: Body, register: Operand, before: int) -> tuple[int, Instruction]:
    """The last instruction in front of an index that writes a register."""
    for index in range(before - 1, -1, -1):
        statement = body[index]
        if isinstance(statement, Instruction) and statement.operands[:1] == (register,):
            return index, statement
    raise AssertionError(f"nothing writes {register}")


def _first_write(body: Body, register: Operand) -> tuple[int, Instruction]:
    """The first instruction that writes a register."""
    return next((i, s) for i, s in find(body, "mov") if s.operands[0] == register)


# --- changes ----------------------------------------------------------------------------------


def _begins_flipped(wait: int) -> _Edit:
    """The parity for which a wait asks first."""

    def edit(body: Body) -> Body:
        _, asked = _nth(body, _WAITS, wait)
        index, begin = _first_write(body, asked.operands[2])
        first = constant(body, index + 1, asked.operands[2])
        assert first is not None
        return put(body, index, edit_operand(begin, 1, Immediate(1 - first))).body

    return edit


def _begins_at_stage(wait: int, stage: int) -> _Edit:
    """The first stage of the side that asks in a wait: the address is ``stage * 8 + barriers``."""

    def edit(body: Body) -> Body:
        at, asked = _nth(body, _WAITS, wait)
        place = asked.operands[1]
        assert isinstance(place, Address)
        _, address = _write(body, place.base, at)
        index, begin = _first_write(body, address.operands[1])
        return put(body, index, edit_operand(begin, 1, Immediate(stage))).body

    return edit


def _elsewhere(name: str, number: int, operand: int, distance: int) -> _Edit:
    """The barrier of an operation: so many bytes further."""

    def edit(body: Body) -> Body:
        index, signal = _nth(body, name, number)
        place = signal.operands[operand]
        assert isinstance(place, Address)
        moved = replace(place, offset=place.offset + distance)
        return put(body, index, edit_operand(signal, operand, moved)).body

    return edit


def _counts(old: int, new: int) -> _Edit:
    """The arrivals of all barriers that count so many."""

    def edit(body: Body) -> Body:
        counted = [i for i, init in find(body, "mbarrier.init") if constant(body, i, init.operands[1]) == old]
        assert counted
        for index in counted:
            body = put(body, index, edit_operand(body[index], 1, Immediate(new))).body  # type: ignore[arg-type]
        return body

    return edit


def _expects(number: int, nbytes: Callable[[int], int]) -> _Edit:
    def edit(body: Body) -> Body:
        index, expect = _nth(body, "mbarrier.arrive.expect_tx", number)
        count = constant(body, index, expect.operands[2])
        assert count is not None
        return put(body, index, edit_operand(expect, 2, Immediate(nbytes(count)))).body

    return edit


def _no_end_of_requests(body: Body) -> Body:
    """The scheduler's branch out of its loop goes: it is the one that a refusal takes."""
    tests = {test.operands[0] for _, test in find(body, "clusterlaunchcontrol.query_cancel.is_canceled")}
    refused = [
        index
        for index, branch in find(body, "bra")
        if branch.guard is not None and branch.guard.negated and branch.guard.register in tests
    ]
    (index,) = refused
    return delete(body, index).body


def _mapped_to_the_peer(body: Body) -> Body:
    index, mapped = _nth(body, "mapa", 0)
    return put(body, index, edit_operand(mapped, 2, Immediate(1))).body


def _multicast_to_one(body: Body) -> Body:
    _, commit = _nth(body, _COMMITS, 0, "multicast::cluster")
    index, mask = _first_write(body, commit.operands[1])
    return put(body, index, edit_operand(mask, 1, Immediate(1))).body


def _last_load(body: Body) -> tuple[int, int]:
    """Indices of the last tcgen05.ld and of the arrival behind it."""
    load = max(index for index, _ in find(body, "tcgen05.ld"))
    return load, min(index for index, _ in find(body, _ARRIVES) if index > load)


def _handed_back_before_the_load(body: Body) -> Body:
    load, arrive = _last_load(body)
    return move(body, arrive, load).body


def _handed_back_before_the_wait(body: Body) -> Body:
    load, arrive = _last_load(body)
    wait = min(index for index, _ in find(body, "tcgen05.wait::ld") if index > load)
    return move(body, wait, arrive + 1).body


def _one_place_of_staging(body: Body) -> Body:
    """The second strip is staged where the first one is."""
    stores = list(find(body, "cp.async.bulk", "bulk_group"))[:2]
    rows = []
    for index, store in stores:
        source = store.operands[1]
        assert isinstance(source, Address)
        rows.append(_write(body, source.base, index))
    (_, first), (second, row) = rows
    return put(body, second, edit_operand(row, 3, first.operands[3])).body


def _groups_behind_the_barrier(body: Body) -> Body:
    wait, _ = _nth(body, "cp.async.wait_group", 0)
    barrier = min(index for index, _ in find(body, "bar.sync") if index > wait)
    return move(body, wait, barrier + 1).body


def _fence_before_the_groups(body: Body) -> Body:
    wait, _ = _nth(body, "cp.async.wait_group", 0)
    fence = min(index for index, _ in find(body, "fence.proxy.async") if index > wait)
    return move(body, fence, wait).body


def _by_the_leader_alone(body: Body) -> Body:
    """A proxy fence by the lane that copies, in front of the barrier of the warp."""
    index = next(i for i, _ in find(body, "fence.proxy.async") if is_a(body[i + 1], "bar.warp.sync"))
    branch = body[index + 2]
    assert isinstance(branch, Instruction) and branch.guard is not None
    guard = replace(branch.guard, negated=not branch.guard.negated)
    return put(body, index, replace(body[index], guard=guard)).body  # type: ignore[type-var]


def _copied_whole(body: Body) -> Body:
    """Copies that fill with zeros what lies past the end copy all of their bytes."""
    for index, copy in find(body, "cp.async.cg"):
        if len(copy.operands) == 4 and isinstance(copy.operands[3], Register):
            body = put(body, index, edit_operand(copy, 3, Immediate(16))).body
    return body


_ASKED = error(WAIT, *EARLY, *_STUCK)
_COUNTED = error(CONTENTS, *EARLY, *_STUCK)
_SIGNALED = error(_COMMIT, *EARLY, *_STUCK)

#: In Tilus' V5 and V6 the waits are, in turn: for an empty stage, an answer, the drain; for an accumulator, a full stage, an
#: answer, the drain; for room, an answer, the drain; for products, an answer.
BUGS = (
    Bug("the producer of slices begins with parity 0", "tilus-v5", _begins_flipped(0), _ASKED),
    Bug("the producer reads answers from parity 1 on", "tilus-v5", _begins_flipped(1), _ASKED),
    Bug("the products ask for accumulators from parity 0 on", "tilus-v6", _begins_flipped(3), _ASKED),
    Bug("the consumer of slices begins with parity 1", "tilus-v5", _begins_flipped(4), _ASKED),
    Bug("the scheduler begins to request with parity 0", "tilus-v6", _begins_flipped(7), _ASKED),
    Bug("the epilogue reads accumulators from parity 1 on", "tilus-v5", _begins_flipped(10), _ASKED),
    Bug("the epilogue reads answers from parity 1 on", "tilus-v5", _begins_flipped(11), _ASKED),
    Bug("the epilogue begins with the second answer", "tilus-v5", _begins_at_stage(11, 1), _ASKED),
    Bug("a request follows the refusal", "tilus-v5", _no_end_of_requests, error(_CANCEL, "launch-control")),
    Bug("an answer is handed back at the other CTA", "tilus-v6", _mapped_to_the_peer, error(_MAPA, *_STUCK)),
    Bug(
        "the peer's epilogue was forgotten in the count of the readers", "tilus-v6", _counts(11, 7), _COUNTED
    ),
    Bug("one reader too many was counted", "tilus-v5", _counts(6, 7), _COUNTED),
    Bug("an answer has 8 bytes", "tilus-v5", _expects(1, lambda count: count // 2), _COUNTED),
    Bug(
        "the leader expects its own bytes alone", "tilus-v6", _expects(0, lambda count: count // 2), _COUNTED
    ),
    Bug("the commit of a slice says that it is full", "tilus-v5", _elsewhere(_COMMITS, 0, 0, -16), _SIGNALED),
    Bug("the commit of a slice frees the next stage", "tilus-v5", _elsewhere(_COMMITS, 0, 0, 8), _SIGNALED),
    Bug("commits reach one CTA of the pair", "tilus-v6", _multicast_to_one, _SIGNALED),
    Bug(
        "the accumulator is handed back before its last load",
        "tilus-v5",
        _handed_back_before_the_load,
        error(MEMORY, "data-race"),
    ),
    Bug(
        "the accumulator is handed back before tcgen05.wait::ld",
        "tilus-v6",
        _handed_back_before_the_wait,
        error(MEMORY, "data-race"),
    ),
    Bug(
        "all strips are staged in one place",
        "tilus-v5",
        _one_place_of_staging,
        error("async-proxy", "data-race", "proxy-fence-missing"),
    ),
    Bug(
        "the leader alone executes the proxy fence",
        "tilus-v5",
        _by_the_leader_alone,
        error("async-proxy", "proxy-fence-missing"),
    ),
    Bug(
        "the groups are waited for behind the barrier",
        "cutile-tcgen05",
        _groups_behind_the_barrier,
        error(_GROUP, "data-race"),
    ),
    Bug(
        "the proxy fence stands before the wait for the groups",
        "cutile-tcgen05",
        _fence_before_the_groups,
        error("async-proxy", "proxy-fence-missing"),
    ),
    Bug("the copies begin at the second stage", "cutile-tcgen05", _begins_at_stage(0, 1), _ASKED),
    Bug(
        "a copy past the end copies all bytes",
        "cutile-tcgen05",
        _copied_whole,
        error(_GROUP, "out-of-bounds"),
    ),
    Bug(
        "one commit frees a stage of many arrivals",
        "cutile-tcgen05",
        _counts(1, 256),
        error(CONTENTS, *_STUCK),
    ),
)
