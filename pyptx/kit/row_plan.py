"""How rows stream through CTAs: sizes and designs of memory-bound kernels, checked before the recording.

Owns the choice of threads, teams, pieces and stages for rows of a given width, and the memory that they need.
:mod:`.row_stream` has the designs themselves.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.types import ScalarType, u32
from ..dsl import Workspace
from .row_team import check_team, paired
from .row_values import INPUTS, OUTPUTS, WIDEST, check_elements

__all__ = ["STAGED", "RowPlan"]

Design = Literal["registers", "ring"]
Store = Literal["direct", "bulk"]

#: Rows of results that wait in shared memory for the copy engine.
STAGED = 2
#: Pieces of a row that Python unrolls in a pass over a row that is not held; a loop takes longer rows.
UNROLLED = 8
#: Shared memory of a CTA that stages may fill: the most of sm_90 without barriers and partial sums.
_SHARED_LIMIT = 220 * 1024


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows of ``width`` elements stream through CTAs: sizes, and the options of ``@kernel``.

    Made by :meth:`make`, which checks everything; ``kit.RowStream(plan, ...)`` opens the stream.

    Attributes:
        width: elements of a row, or with ``parts`` of a part.
        inputs: types of the matrices that are read, row by row.
        outputs: types of the matrices that are written.
        threads: threads of a team.
        teams: teams of a CTA.
        cluster: CTAs that share a row.
        pool: CTAs of a cluster that have rows of their own, and add up their sums of columns.
        design: ``"registers"`` or ``"ring"``.
        stages: rows of the ring.
        store: ``"direct"`` or ``"bulk"``.
        ctas: number of CTAs (clusters) of a persistent kernel; None for one for each ``teams`` rows.
        ahead: whether the loads of the next row precede the arithmetic of this one.
        held: whether a thread keeps its pieces of a row in registers.
        vector: elements of a piece.
        steps: pieces of a thread.
        load_hint, store_hint: L2 priorities.
        unit: greatest common divisor of the width, the pitches and the first columns.
        at_once: pieces in a pass of a loop over a row.
        resident: number of CTAs for which an SM must have registers, or None.
        keep: whether a thread keeps its elements of vectors over the columns in registers.
        queue: whether CTAs take their rows from a queue.
        parts: parts of a row of the matrices that are worked on like rows.
        prefetch: rows from one that a stage is filled with to the one that L2 gets meanwhile, or 0.
        prefetch_from: the first row that L2 gets so, with one stage.
    """

    width: int
    inputs: tuple[ScalarType, ...]
    outputs: tuple[ScalarType, ...]
    threads: int
    teams: int
    cluster: int
    pool: int
    design: Design
    stages: int
    store: Store
    ctas: int | None
    ahead: bool
    held: bool
    vector: int
    steps: int
    load_hint: str | None
    store_hint: str | None
    unit: int
    at_once: int
    resident: int | None
    keep: bool
    queue: bool
    parts: int
    prefetch: int
    prefetch_from: int

    @staticmethod
    def make(
        width: int,
        inputs: Sequence[ScalarType],
        outputs: Sequence[ScalarType],
        *,
        held: int = 8,
        threads: int | None = None,
        teams: int | None = None,
        cluster: int = 1,
        pool: int = 1,
        design: Design | None = None,
        stages: int = 4,
        store: Store = "direct",
        ctas: int | None = None,
        ahead: bool = False,
        load_hint: str | None = None,
        store_hint: str | None = None,
        multiples: Sequence[int] = (),
        at_once: int = 4,
        resident: int | None = None,
        keep: bool = True,
        queue: bool = False,
        parts: int = 1,
        prefetch: int = 0,
        prefetch_from: int = 0,
        prefer: Mapping[str, Any] | None = None,
    ) -> RowPlan:
        """Check the numbers, choose those that are None, and return the plan. Records nothing.

        Args:
            width: elements of a row, any positive number.
            inputs: types of the matrices that are read: f32, f16 or bf16.
            outputs: types of the matrices that are written: those, e4m3 or e5m2.
            held: most registers, in fours (16 bytes), in which a thread keeps its pieces of one input.
            threads: threads of a team: 2, 4, 8, 16 or a multiple of 32; default: as few as hold at
                most 4 pieces each, if 1024 can.
            teams: teams of a CTA; default: as many as fill a warp, 1 for larger teams.
            cluster: CTAs that share a row: 1, 2, 4 or 8.
            pool: CTAs of a cluster, 1, 2, 4 or 8, that have rows of their own and add up their sums of
                columns (:func:`.weight_sums.store_column_parts`): a divisor of ``ctas``, for one team in each
                CTA and ``cluster=1``.
            design: ``"registers"`` or ``"ring"``; default: ``"registers"``.
            stages: rows of the ring for each team, at least 2; or 1 for a CTA that has only one row (for each
                team), in shared memory: then results that are stored with ``"bulk"`` overwrite inputs of the
                same type, if the rows are held, and several CTAs fit on an SM.
            store: ``"direct"``, or ``"bulk"`` in a ring: through two rows of shared memory for each team.
            ctas: number of CTAs (of clusters with ``cluster``) of a persistent kernel, such as 132 for
                one on each SM of an H200; a ring of two stages or more is always persistent (default 132).
            ahead: load the next row before the arithmetic of this one; for held rows of ``"registers"`` with
                ``ctas``.
            load_hint, store_hint: L2 priority of loads of rows and of stores: ``"evict_first"``,
                ``"evict_last"``, ``"evict_normal"``, or None.
            multiples: further numbers of elements that pieces must divide: the pitches and first columns of
                :class:`.row_stream.RowSlice`.
            at_once: pieces in a pass of a loop over a row that is not held and has more than 8 steps.
            resident: number of CTAs for which an SM must have registers (``min_ctas_per_sm``). With 1, ptxas
                keeps all loads of a row in flight; by default it may delay loads to save registers for more
                CTAs.
            keep: load vectors over the columns once, into registers, if the rows are held. Without, each
                piece loads its part where it is used, mostly from L1, and an SM has registers for more CTAs.
            queue: CTAs of a ring, with one team and no cluster, take the next row from a counter in a
                workspace (:mod:`.row_queue`): the kernel gets a last parameter for it,
                ``RowStream(..., queue=)``.
            parts: a power of two that divides the width: that many parts of each row are worked on like rows
                of their own, so that CTAs begin and end with less. For arithmetic in which no element depends
                on another one.
            prefetch: in a ring with one team, the copy engine also brings the row this many rows further on
                into L2, behind each row that it copies into a stage; not behind those that fill a ring of
                several stages when the kernel begins, since memory has enough to do then. Farther than half
                of the rows that are in flight is too far: on an H200 as many as all of them cost 6 to 10%.
            prefetch_from: with ``stages=1``, the first row that L2 gets so: those before are mostly loaded at
                once when the kernel begins.
            prefer: further options, such as those that were measured to be fastest, for rows that have two
                pieces or more for each thread, if they fit; else the plan is made without them.

        Raises:
            SpecError: numbers that do not fit each other, a CTA or its shared memory; rows whose pitch the
                copy engine cannot have (a multiple of 16 bytes).
        """
        if prefer:
            given = {"held": held, "multiples": multiples, "at_once": at_once, "resident": resident}
            with contextlib.suppress(SpecError):
                plan = RowPlan.make(width, inputs, outputs, **{**given, **prefer})
                if plan.steps > 1:
                    return plan
        if type(width) is not int or width < 1:
            raise SpecError(f"the width is {width!r}: expected a positive number of elements")
        for dtype in inputs:
            check_elements(dtype, INPUTS)
        for dtype in outputs:
            check_elements(dtype, OUTPUTS)
        if not inputs:
            raise SpecError("a plan needs at least one matrix that is read")
        every = (*inputs, *outputs)
        widest = max(dtype.nbytes for dtype in every)
        if width * widest >= 1 << 31:
            raise SpecError(f"a row of {width} elements has {width * widest} bytes: expected less than 2 GiB")
        if type(parts) is not int or parts < 1 or parts & (parts - 1) or width % parts:
            raise SpecError(f"parts is {parts!r}: expected a power of two that divides the width {width}")
        width //= parts
        unit = math.gcd(width, *multiples)
        vector = math.gcd(unit, WIDEST // max(dtype.nbytes for dtype in inputs))
        pieces = width // vector
        if threads is None:
            threads = _default_threads(-(-pieces // cluster), cluster)
        if teams is None:
            teams = max(1, 32 // threads)
        check_team(threads, teams, cluster)
        local = _slice(pieces, cluster, vector, every)
        if cluster > 1 and local * (cluster - 1) >= pieces:
            raise SpecError(
                f"a row of {pieces} pieces for {cluster} CTAs leaves a CTA without any",
                hint="use a smaller cluster",
            )
        steps = -(-local // threads)
        design = "registers" if design is None else design
        if design not in ("registers", "ring"):
            raise SpecError(f"design is {design!r}: expected 'registers' or 'ring'")
        if store not in ("direct", "bulk") or (store == "bulk" and design != "ring"):
            raise SpecError(f"store is {store!r}: expected 'direct', or 'bulk' with design='ring'")
        if ctas is not None and (type(ctas) is not int or ctas < 1):
            raise SpecError(f"ctas is {ctas!r}: expected a positive number, or None")
        for name, hint in (("load_hint", load_hint), ("store_hint", store_hint)):
            if hint not in (None, "evict_first", "evict_last", "evict_normal"):
                raise SpecError(
                    f"{name} is {hint!r}: expected an L2 priority, such as 'evict_first', or None"
                )
        plan = RowPlan(
            width,
            tuple(inputs),
            tuple(outputs),
            threads,
            teams,
            cluster,
            pool,
            design,
            stages,
            store,
            132 if ctas is None and design == "ring" and stages != 1 else ctas,
            bool(ahead),
            steps * max(1, vector * max(dtype.nbytes for dtype in inputs) // 4) <= 4 * held,
            vector,
            steps,
            load_hint,
            store_hint,
            unit,
            at_once,
            resident,
            bool(keep),
            bool(queue),
            parts,
            prefetch,
            prefetch_from,
        )
        plan._check()
        return plan

    def _check(self) -> None:
        if type(self.at_once) is not int or not 1 <= self.at_once <= UNROLLED:
            raise SpecError(f"at_once is {self.at_once!r}: expected 1 to {UNROLLED} pieces")
        if self.ahead and (self.design == "ring" or not self.held or self.ctas is None):
            raise SpecError(
                "ahead=True is for design='registers' with ctas= and rows that registers hold",
                hint=f"a thread has {self.steps} pieces; a ring loads ahead anyway",
            )
        if self.pool not in (1, 2, 4, 8):
            raise SpecError(f"pool is {self.pool!r}: expected 1, 2, 4 or 8 CTAs")
        if self.pool > 1 and (
            self.teams > 1 or self.cluster > 1 or self.ctas is None or self.ctas % self.pool
        ):
            raise SpecError(
                f"pool={self.pool} with {self.teams} teams, cluster={self.cluster} and ctas={self.ctas}: "
                "expected one team, no cluster, and a multiple of pool CTAs"
            )
        if self.queue and (self.design != "ring" or self.teams > 1 or self.cluster > 1):
            raise SpecError("queue=True is for design='ring' with one team in a CTA and no cluster")
        if type(self.prefetch) is not int or self.prefetch < 0:
            raise SpecError(f"prefetch is {self.prefetch!r}: expected a number of rows, or 0")
        if type(self.prefetch_from) is not int or self.prefetch_from < 0:
            raise SpecError(f"prefetch_from is {self.prefetch_from!r}: expected the number of a row")
        if self.prefetch_from and (not self.prefetch or self.stages != 1):
            raise SpecError("prefetch_from= is for prefetch= with stages=1")
        if self.prefetch and (self.design != "ring" or self.teams > 1):
            raise SpecError("prefetch= is for design='ring' with one team in a CTA")
        if self.design != "ring":
            return
        if type(self.stages) is not int or self.stages < 1:
            raise SpecError(f"stages is {self.stages!r}: expected at least 2, or 1")
        if self.stages == 1 and (self.ctas is not None or self.queue):
            raise SpecError(
                "stages=1 is for CTAs that have one row: a persistent kernel and its queue need at least 2",
                hint="leave ctas= and queue= out",
            )
        if self.threads < 32:
            raise SpecError(f"a ring for teams of {self.threads} threads: expected whole warps")
        copied = self.inputs if self.store == "direct" else (*self.inputs, *self.outputs)
        for dtype in copied:
            if self.unit * dtype.nbytes % WIDEST or self.vector * self.slice * dtype.nbytes % WIDEST:
                raise SpecError(
                    f"rows of {self.width} {dtype}, {self.width * dtype.nbytes} bytes each: the copy engine "
                    f"moves multiples of {WIDEST}",
                    hint="use design='registers'",
                )
        if self.shared_bytes > _SHARED_LIMIT:
            raise SpecError(
                f"{self.teams} teams with {self.stages} stages need {self.shared_bytes} bytes of shared "
                f"memory; a CTA has {_SHARED_LIMIT} for them",
                hint="use fewer stages or teams, or a larger cluster",
            )

    def additions(self) -> int:
        """Return the most additions that a term takes part in, if a team sums one number of each element.

        Those of its thread (one chain), the butterfly of the warp, and those of the warps' numbers.
        """
        lanes = min(32, self.threads).bit_length() - 1
        parts = max(1, self.threads // 32) * self.cluster
        return self.steps * self.vector + lanes + -(-parts // 4) + 3

    @property
    def slice(self) -> int:
        """Pieces of a row that a CTA of the cluster has; the last one may have fewer."""
        return _slice(self.width // self.vector, self.cluster, self.vector, (*self.inputs, *self.outputs))

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage of the ring: a row (or slice) of each input."""
        return sum(self.row_bytes(dtype) for dtype in self.inputs)

    @property
    def staged_bytes(self) -> int:
        """Bytes of a row of results that waits for the copy engine, and overwrites no input."""
        if self.store != "bulk":
            return 0
        return sum(self.row_bytes(dtype) for n, dtype in enumerate(self.outputs) if not self.overwrites(n))

    def overwrites(self, number: int) -> bool:
        """Return whether output ``number`` takes the place of the input of this number in shared memory."""
        inputs = self.inputs[number : number + 1]
        same = [each.nbytes for each in inputs] == [self.outputs[number].nbytes]
        return same and self.store == "bulk" and self.stages == 1 and self.held

    @property
    def shared_bytes(self) -> int:
        """Bytes of all stages of a CTA."""
        if self.design != "ring":
            return 0
        return self.teams * (self.stages * self.stage_bytes + self.staged_rows * self.staged_bytes)

    @property
    def staged_rows(self) -> int:
        """Rows of results that wait for the copy engine."""
        return min(STAGED, self.stages)

    def row_bytes(self, dtype: ScalarType) -> int:
        """Return the bytes of a row (or slice) of a type in shared memory."""
        return -(-self.slice * self.vector * dtype.nbytes // 128) * 128

    @property
    def looped(self) -> bool:
        """Whether a pass over a row is a loop of PTX."""
        return not self.held and self.steps > UNROLLED

    @property
    def paired(self) -> bool:
        """Whether rows are held, and :meth:`.RowTeam.moments` combines numbers of all their threads."""
        whole = self.steps * self.threads * self.vector * self.cluster == self.width
        return self.held and whole and paired(self.threads, self.cluster)

    @property
    def persistent(self) -> bool:
        """Whether a team works on several rows."""
        return self.ctas is not None

    @property
    def part_rows(self) -> int:
        """Rows of partial sums of columns that a persistent kernel of ``ctas`` CTAs stores."""
        return (self.ctas or 0) * self.teams // self.pool

    def blocks(self, rows: int) -> int:
        """Return the number of groups of ``teams`` rows (or parts of rows)."""
        return -(-rows * self.parts // self.teams)

    def grid(self, rows: int) -> int:
        """Return the number of CTAs for a number of rows, for ``@kernel(grid=...)``."""
        blocks = self.blocks(rows)
        if self.ctas is None:
            return self.cluster * blocks
        return self.cluster * min(-(-blocks // self.pool) * self.pool, self.ctas)

    def options(self) -> dict[str, Any]:
        """Return the options of ``@kernel`` that the plan decides, such as ``block`` and ``cluster``."""
        return {
            **({"workspaces": (Workspace(4, u32, zeroed=True),)} if self.queue else {}),
            "min_ctas_per_sm": self.resident,
            "block": (self.threads * self.teams,),
            "cluster": (self.cluster * self.pool, 1, 1),
            "extern_smem": self.design == "ring",
        }


def _slice(pieces: int, cluster: int, vector: int, types: Sequence[ScalarType]) -> int:
    """Return the pieces of a CTA: as equal as whole vectors of 16 bytes of every type allow."""
    if cluster == 1:
        return pieces
    unit = max(1, WIDEST // (vector * min(dtype.nbytes for dtype in types)))
    return -(-pieces // (cluster * unit)) * unit


def _default_threads(pieces: int, cluster: int) -> int:
    """Return a number of threads that gives each at most four pieces, if 1024 threads can."""
    wanted = -(-pieces // 4)
    if wanted < 32 and cluster == 1:
        return max(2, 1 << (wanted - 1).bit_length())
    return min(1024, 32 * -(-wanted // 32))
