"""wgmma: products of a warpgroup as events.

Each warp computes its own 16 rows of D; a check compares the operands of the four warps. One step reads A and
B from shared memory (async proxy), and a later step writes D. Registers of A, the metadata and scale-d are
read when the instruction is issued. The writes to one accumulator happen in order. ``wait_group`` waits for
the writes of the groups that it covers, in all four warps. PTX ISA
#asynchronous-warpgroup-level-matrix-instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import PyptxError
from ...ir import Immediate, Register, leaves
from ...layout.fragments import (
    FragmentLayout,
    SelectedLayout,
    product_extents,
    wgmma_fragment,
    wgmma_metadata,
)
from ...layout.tcgen05_smem_descriptor import Major, Tcgen05SmemDescriptor
from ...layout.wgmma_descriptor import WgmmaDescriptor
from ..code.function import FunctionCode
from ..code.idle import Values
from ..code.semantic import Op, executes
from ..engine.events import Engine, Step, StepKind
from ..engine.stream import FenceKind, GroupKind, SyncKind
from ..engine.work import Product
from ..matrices.kept_elements import KeptElements
from ..matrices.register_matrices import Gather, Scatter
from ..matrices.shared_operand import Extents, read_codes
from ..numbers.multiply import Kinds, multiply_bits, multiply_floats, multiply_integers, multiply_short
from ..threads.events import announce_fence, announce_sync
from ..threads.warp import Split
from ..wgmma.warpgroup import OperandRegisters, PendingWgmma, WgmmaGroupsDone, WgmmaState, check_warpgroup

Array = NDArray[Any]

_SIGNS = {"f16": 0x8000, "bf16": 0x8000, "tf32": 0x80000000, "e4m3": 0x80, "e5m2": 0x80}


def _part(layout: FragmentLayout) -> FragmentLayout:
    """Return the part of a 64-row fragment that one warp holds: the layout without its digit for the warp."""
    return replace(layout, rows=layout.rows // 4, threads=layout.threads[:-1])


def _multiplier(kinds: Kinds, op: Op) -> Any:
    if kinds.a == "b1":
        return partial(multiply_bits, "and")
    if kinds.d == "s32":
        return partial(multiply_integers, kinds, "satfinite" in op.chosen)
    return partial(multiply_short if kinds.a in ("e4m3", "e5m2") else multiply_floats, kinds)


class _Operand:
    """Operand A or B of a wgmma in shared memory."""

    def __init__(self, rows: int, k: int, kind: str, bits: int, major: Major) -> None:
        self.rows, self.kind, self.major = rows, kind, major
        # The addresses of single-bit matrices are those of bytes, each of which has eight elements.
        self.k, self.nbytes = (k // 8, 1) if bits == 1 else (k, bits // 8)

    def read(self, s: Split, word: int, actor: Any, first: int, end: int) -> Array:
        """Return the raw bits of the elements ``[k, row]`` of the rows from ``first`` to ``end``."""
        extents = Extents(self.rows, self.k, self.nbytes, self.major, first, end)
        cta = s.warp.cta
        try:
            codes = read_codes(cta, _descriptor(word), extents, actor)
        except PyptxError as error:
            raise cta.machine.fault("bad-descriptor", error.message, actor) from None
        return np.unpackbits(codes, axis=0, bitorder="little") if self.kind == "b1" else codes


@lru_cache(maxsize=4096)
def _descriptor(word: int) -> Tcgen05SmemDescriptor:
    return WgmmaDescriptor.decode(word).operand()


class _Product:
    """The plan of one ``wgmma.mma_async``: layouts, operands, registers and the multiplication."""

    def __init__(self, op: Op, code: FunctionCode) -> None:
        specs = list(op.binding.match.form.specs())
        d, a, b = (op.chosen[name] for name in ("dtype", "atype", "btype"))
        shape = op.chosen["shape"]
        _, n, k = product_extents(shape)
        self.kinds = Kinds(a, b, d, d)
        #: Operations on one accumulator are ordered if they have the same shape.
        self.shape = shape
        self.names = [spec.name for spec in specs]
        sparse = "sp-meta" in self.names
        fragment = wgmma_fragment("a", a)
        accumulator = _part(wgmma_fragment("d", d, n))
        self.gather, self.scatter = Gather(accumulator), Scatter(accumulator)
        self.gather_a = Gather(_part(fragment), turned=True) if "a" in self.names else None
        stored = k // 2 if sparse else k
        majors: list[Major] = ["MN" if self._constant(op, f"imm-trans-{x}") == 1 else "K" for x in "ab"]
        self.a = _Operand(64, stored, a, fragment.bits, majors[0])
        self.b = _Operand(n, k, b, fragment.bits, majors[1])
        self.signs = [
            _SIGNS[kind] if self._constant(op, f"imm-scale-{x}") == -1 else 0
            for x, kind in (("a", a), ("b", b))
        ]
        self.kept = None
        if sparse:
            whole = wgmma_metadata(a)
            metadata = SelectedLayout(_part(whole.layout), whole.suppliers)
            self.kept = KeptElements(metadata, k, fragment.bits, self._constant(op, "sp-sel") or 0)
        self.multiply = _multiplier(self.kinds, op)
        #: True if the product is that of zeros, whatever A and B are.
        self.zeros = code.program.values is Values.ZEROS
        #: What the instruction asks of the hardware, by whether it adds to D.
        self.work = {
            adds: Product(
                rows=16,
                columns=n,
                columns_read=n,
                depth=32,
                ctas=1,
                a_in_shared=self.gather_a is None,
                elements=k,
                accumulates=adds,
            )
            for adds in (False, True)
        }
        self.rows = tuple(place.row for place in op.dests["d"])
        rows_of_a = tuple(code.held_rows[r.name] for r in _registers(op, "a"))
        self.registers = OperandRegisters(self.rows, rows_of_a, frozenset(self.rows + rows_of_a))
        #: Numbers and names of accumulator registers that may be undefined on some path.
        tracked = code.tracked
        self.undefined = tuple((tracked[r.name], r.name) for r in _registers(op, "d") if r.name in tracked)
        self.undefined_rows = _index(sorted(row for row, _ in self.undefined))
        self.where = _index(self.rows)

    @staticmethod
    def _constant(op: Op, name: str) -> int | None:
        operand = op.binding.operands.get(name)
        return int(operand.value) if isinstance(operand, Immediate) else None

    def negated(self, codes: Array, which: int) -> Array:
        return codes ^ codes.dtype.type(self.signs[which]) if self.signs[which] else codes


def _index(rows: Sequence[int]) -> slice | NDArray[np.intp]:
    """Return an index with which numpy selects ``rows``: a slice if they are consecutive."""
    if rows and list(rows) == list(range(rows[0], rows[-1] + 1)):
        return slice(rows[0], rows[-1] + 1)
    return np.array(rows, np.intp)


def _uniform(s: Split, op: Op, name: str, value: Any) -> int:
    """Return the value of an operand that must be equal in all lanes; raise a fault if it is not."""
    values = np.ravel(value).tolist()
    if values.count(values[0]) < len(values):
        raise s.warp.cta.machine.fault(
            "divergent-collective", f"{op.name}: {name} is not the same in all lanes", s
        )
    return int(values[0])


def _registers(op: Op, name: str) -> list[Register]:
    operand = op.binding.operands.get(name)
    return [leaf for leaf in leaves(operand) if isinstance(leaf, Register)] if operand is not None else []


def _note_accumulator(s: Split, op: Op, plan: _Product, accumulates: bool) -> None:
    if plan.undefined:
        if accumulates and not s.wrote(plan.undefined_rows):
            s.check_written(op.location, plan.undefined)
        s.note_written(plan.undefined_rows)


_FORMS = [
    f"wgmma.mma_async.{form}.{a}"
    for form in ("f16", "tf32", "fp8", "int", "b1", "sp.f16", "sp.tf32", "sp.fp8", "sp.int")
    for a in ("ss", "rs")
]


@executes(*_FORMS, per="warp", collective="warp", deferred=True, held=("d", "a"), checks_registers=True)
def mma_async(s: Split, op: Op, lanes: Array, *operands: Any) -> None:
    warp, frame = s.warp, s.frame
    plan: _Product | None = op.cache.get(_Product)
    if plan is None:
        plan = op.cache[_Product] = _Product(op, frame.code)
    machine = warp.cta.machine
    given = dict(zip(plan.names, operands, strict=True))
    shared = {
        name: _uniform(s, op, name, given[name]) for name in ("a-desc", "b-desc", "scale-d") if name in given
    }
    check_warpgroup(s, op, lanes, tuple(shared.values()))
    accumulates = bool(shared["scale-d"])
    _note_accumulator(s, op, plan, accumulates)

    registers = None
    if plan.gather_a is not None and not plan.zeros:
        registers = plan.gather_a(np.array(given["a"], np.uint32))
    metadata = np.array(given["sp-meta"], np.uint32)[None] if plan.kept is not None else np.empty((0, 32))
    state = warp.unit(WgmmaState)
    earlier = state.before(s, plan.registers, plan.shape)

    operation = machine.operation(s, Engine.MMA, group=GroupKind.WGMMA)
    operation.work = plan.work[accumulates]
    first = warp.index % 4 * 16
    tiles: list[Array] = []

    def read() -> None:
        if registers is not None:
            tiles.append(registers)
        elif plan.gather_a is None:
            tiles.append(plan.a.read(s, shared["a-desc"], operation, first, first + 16))
        tiles.append(plan.b.read(s, shared["b-desc"], operation, 0, plan.b.rows))

    def write() -> None:
        if plan.zeros:
            if not accumulates:
                frame.u32[plan.where] = 0
            return
        a, b = (plan.negated(codes, which) for which, codes in enumerate(tiles))
        tiles.clear()
        if plan.kept is not None:
            b = plan.kept(metadata, b)
        old = frame.u32[plan.where]
        total = plan.gather(np.ascontiguousarray(old) if accumulates else np.zeros_like(old))
        frame.u32[plan.where] = plan.scatter(plan.multiply(a, b, total))

    reading = Step(operation, StepKind.READ, read, [])
    writing = Step(operation, StepKind.WRITE, write, [reading, *earlier])
    state.issue(PendingWgmma(frame.code, plan.registers, plan.shape, writing))
    state.own(writing)
    machine.issue(warp.cta, [reading, writing])


@executes("wgmma.fence", fidelity="ordering", per="warp", collective="warp")
def fence(s: Split, op: Op, lanes: Array) -> None:
    check_warpgroup(s, op, lanes)
    announce_fence(s, op, lanes, FenceKind.WGMMA)
    s.warp.unit(WgmmaState).fence()


@executes("wgmma.commit_group", fidelity="ordering", per="warp", collective="warp")
def commit_group(s: Split, op: Op, lanes: Array) -> None:
    check_warpgroup(s, op, lanes)
    announce_sync(s, SyncKind.GROUP_COMMIT, GroupKind.WGMMA, lanes=lanes)
    s.warp.unit(WgmmaState).commit()


@executes("wgmma.wait_group", fidelity="ordering", per="warp", yields=True, collective="warp")
def wait_group(s: Split, op: Op, lanes: Array, pending: Any) -> WgmmaGroupsDone | None:
    check_warpgroup(s, op, lanes)
    first = s.warp.index // 4 * 4
    keep, frozen = int(np.ravel(pending)[0]), lanes.copy()

    def leave() -> None:
        s.op = op
        announce_sync(s, SyncKind.GROUP_WAIT, GroupKind.WGMMA, lanes=frozen, amount=keep)

    groups = s.warp.unit(WgmmaState).wait(keep)
    wait = WgmmaGroupsDone(s.warp.cta.warps[first : first + 4], groups, leave)
    if wait.over():
        leave()
        return None
    return wait
