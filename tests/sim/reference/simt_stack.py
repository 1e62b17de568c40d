"""How many warp-instructions a warp with a reconvergence stack needs for the paths that its threads took.

The classical picture: threads that part at a branch wait at its immediate post-dominator, or where the function
returns; whoever ends is not waited for.  Post-dominators come from sets here, not from :mod:`pyptx.flow`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyptx.ir import Instruction
from tests.sim.reference.code import Code
from tests.sim.reference.machine import Thread

__all__ = ["stack_steps"]

#: Depth of calls, function, statement.
Position = tuple[int, Code, int]


def _post_dominators(code: Code) -> dict[int, int | None]:
    """The statement where all ways from each instruction come together first; None is the end."""
    body = code.function.body
    places = [i for i, s in enumerate(body) if isinstance(s, Instruction)]

    def following(start: int) -> int:
        return next((i for i in places if i >= start), len(body))

    edges: dict[int, set[int]] = {}
    for i in places:
        s = body[i]
        assert isinstance(s, Instruction)
        targets: list[int] = []
        if s.opcode == "bra":
            targets = [code.labels[s.operands[0].name]]  # type: ignore[union-attr]
        elif s.opcode == "brx":
            targets = [code.labels[name] for name in code.lists[s.operands[1].name]]  # type: ignore[union-attr]
        elif s.opcode in ("ret", "exit"):
            targets = [len(body)]
        else:
            targets = [i + 1]
        if s.guard is not None:
            targets.append(i + 1)
        edges[i] = {following(t) for t in targets}
    everything = (1 << len(body) + 1) - 1
    behind = dict.fromkeys(places, everything)
    behind[len(body)] = 1 << len(body)
    changed = True
    while changed:
        changed = False
        for i in reversed(places):
            common = everything
            for target in edges[i]:
                common &= behind[target]
            common |= 1 << i
            changed = changed or common != behind[i]
            behind[i] = common
    found: dict[int, int | None] = {}
    for i in places:
        rest = behind[i] & ~(1 << i)
        # The nearest has all the others behind it.
        nearest = max((n for n in [*places, len(body)] if rest >> n & 1), key=lambda n: behind[n].bit_count())
        found[i] = None if nearest == len(body) else nearest
    return found


class _Warp:
    def __init__(self, threads: Sequence[Thread], meets: dict[int, dict[int, int | None]]) -> None:
        self.paths = [t.path for t in threads]
        self.at = [0] * len(threads)
        self.meets = meets

    def place(self, lane: int) -> Position | None:
        path, at = self.paths[lane], self.at[lane]
        return path[at] if at < len(path) else None

    def run(self, lanes: list[int], depth: int, stop: int | None) -> int:
        """Steps of ``lanes``, which are together, until they are at ``stop`` of this depth, or have left it."""
        steps = 0
        last: Position | None = None
        while True:
            groups: dict[tuple[int, int, int], list[int]] = {}
            for lane in lanes:
                place = self.place(lane)
                if place is not None and place[0] >= depth and place[::2] != (depth, stop):
                    groups.setdefault((place[0], id(place[1]), place[2]), []).append(lane)
            if not groups:
                return steps
            if len(groups) == 1:
                (together,) = groups.values()
                last = self.place(together[0])
                steps += 1
                for lane in together:
                    self.at[lane] += 1
                continue
            assert last is not None
            meets = self.meets.get(id(last[1]))
            if meets is None:
                meets = self.meets[id(last[1])] = _post_dominators(last[1])
            for together in groups.values():
                steps += self.run(together, last[0], meets[last[2]])


def stack_steps(threads: Sequence[Thread]) -> int:
    """Warp-instructions of all warps, whose threads have recorded their paths."""
    meets: dict[int, dict[int, int | None]] = {}
    steps = 0
    warps: dict[tuple[int, int], list[Thread]] = {}
    for t in threads:
        warps.setdefault((id(t.cta), t.number // 32), []).append(t)
    for warp in warps.values():
        steps += _Warp(warp, meets).run(list(range(len(warp))), 1, None)
    return steps
