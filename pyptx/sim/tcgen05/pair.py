"""The CTAs that execute a tcgen05 instruction, and instructions that both CTAs of a pair execute together.

PTX ISA `#tcgen05-cta-pair`_: a pair is two CTAs of a cluster whose ranks differ only in the last bit.
``#tcgen05-issue-granularity``: with ``.cta_group::2`` one thread of either CTA issues an mma, cp, shift or
commit for both CTAs, which must be running. A warp of each CTA must execute alloc, dealloc and
relinquish_alloc_permit.

.. _#tcgen05-cta-pair: https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-cta-pair
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.records import dataclass
from ..engine.waits import Awaited, Condition
from .tensor_memory import TensorMemory

if TYPE_CHECKING:
    from ..code.semantic import Op
    from ..threads.cta import CTA
    from ..threads.warp import Split

__all__ = ["PairRequest", "group_of", "execute_as_pair"]


def group_of(s: Split, op: Op) -> tuple[CTA, ...]:
    """Return the CTAs that execute an instruction: the thread's CTA, or its CTA pair (even rank first).

    Raises a fault if there is no pair, or if the kernel mixes ``.cta_group::1`` and ``.cta_group::2``.
    """
    cta = s.warp.cta
    group = cta.unit(TensorMemory).group
    size = 2 if op.chosen.get("cta_group") == "cta_group::2" else 1
    if not group:
        group = (cta,) if size == 1 else _pair(s, op)
        tensors = [each.unit(TensorMemory) for each in group]
        for tensor in tensors:
            tensor.group = tensor.group or group
        group = min((tensor.group for tensor in tensors), key=len)
    if len(group) != size:
        raise _fault(
            s,
            f"{op.name} with cta_group::{size}, after cta_group::{len(group)}: "
            "all tcgen05 instructions of a kernel must name the same cta_group",
        )
    if size == 2:
        peer = group[1 - cta.rank % 2]
        if peer.rank not in cta.cluster_memory:
            raise _fault(
                s, f"{op.name}: CTA {peer.coordinates}, the peer of CTA {cta.coordinates}, has exited"
            )
    return group


def _pair(s: Split, op: Op) -> tuple[CTA, ...]:
    """Return the CTA pair of the thread; from now on both CTAs share the operations that fences release."""
    cta = s.warp.cta
    even = cta.rank & ~1
    pair = tuple(cta.cluster.ctas[even : even + 2])
    if len(pair) < 2:
        raise _fault(
            s,
            f"{op.name} with cta_group::2: CTA {cta.coordinates} of rank {cta.rank} has no peer "
            f"in a cluster of {len(cta.cluster.ctas)}",
        )
    first, second = (each.unit(TensorMemory) for each in pair)
    first.released.learn(second.released)
    second.released = first.released
    return pair


def _fault(s: Split, message: str) -> Exception:
    return s.warp.cta.machine.fault("cta-pair", message, s)


@dataclass(eq=False, slots=True)
class PairRequest:
    """The request of one warp to execute an instruction that both CTAs of a pair execute together.

    ``name`` is the instruction's name. ``text`` describes its arguments, which must be the same in both CTAs.
    ``perform`` does this CTA's part.
    """

    split: Split
    name: str
    text: str
    perform: Callable[[int], None]
    done: bool = False

    @property
    def what(self) -> str:
        """The instruction and its arguments as text, for messages."""
        return f"{self.name} {self.text}".rstrip()


def execute_as_pair(
    group: tuple[CTA, ...], mine: PairRequest, ready: Callable[[], int | None], need: Callable[[], str]
) -> Condition | None:
    """Execute an instruction once every CTA of the group executes it and ``ready`` returns a value.

    Returns the condition on which the warp must wait, or None if the instruction was executed. ``need``
    returns text that says what the warp waits for while ``ready`` returns None.
    """
    cta = mine.split.warp.cta
    if len(group) == 1:
        if (answer := ready()) is not None:
            mine.perform(answer)
            return None
    else:
        _request(cta, group, mine)

    def requests() -> list[PairRequest]:
        if len(group) == 1:
            return [mine]
        found = [each.unit(TensorMemory).requests.get(mine.name) for each in group]
        return [request for request in found if request is not None]

    def over() -> bool:
        return mine.done or (len(requests()) == len(group) and ready() is not None)

    def finish() -> None:
        if mine.done:
            return
        answer = ready()
        assert answer is not None
        for request in requests():
            request.done = True
            request.perform(answer)
            request.split.warp.cta.unit(TensorMemory).requests.pop(request.name, None)

    def describe() -> str:
        if len(requests()) == len(group):
            return f"waits for {need()}"
        peer = group[1 - cta.rank % 2]
        gone = "" if peer.rank in cta.cluster_memory else ", which has exited"
        return f"waits at {mine.what} for the peer CTA {peer.coordinates}{gone}"

    return Condition(over, describe, finish, awaited=Awaited.TENSOR_MEMORY, ends_elsewhere=True)


def _request(cta: CTA, group: tuple[CTA, ...], mine: PairRequest) -> None:
    """Store ``mine`` for the peer CTA. Raises a fault if the requests of the two CTAs differ."""
    requests = cta.unit(TensorMemory).requests
    other = requests.get(mine.name)
    if other is not None:
        raise _fault(
            mine.split,
            f"{mine.what} while {other.split.description()} waits at the same instruction: "
            "only one warp of each CTA of a pair may execute it at a time",
        )
    requests[mine.name] = mine
    peer = group[1 - cta.rank % 2]
    theirs = peer.unit(TensorMemory).requests.get(mine.name)
    if theirs is not None and theirs.text != mine.text:
        raise _fault(
            mine.split,
            f"CTA {cta.coordinates} executes {mine.what}, but its peer CTA {peer.coordinates} executes it "
            f"{theirs.text}: the arguments must be the same",
        )
