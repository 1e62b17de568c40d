"""Registers of threads: storage for the activations of one function, and views of some warps of it.

Registers are numpy arrays ``[register, thread]``, one array for each width. So a view can show one warp or
several neighboring warps of a CTA, which then execute together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import CLASSES
from .undefined import UndefinedBits

if TYPE_CHECKING:
    from ..code.function import FunctionCode
    from .warp import ReconvergencePoint

__all__ = ["Frame", "Registers"]

WIDE = np.dtype([("lo", "u8"), ("hi", "u8")])
_RAW: dict[str, np.dtype[Any]] = {
    "p": np.dtype(np.bool_),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "u128": WIDE,
}
_TYPED = {
    "s16": ("u16", np.dtype(np.int16)),
    "f16": ("u16", np.dtype(np.float16)),
    "s32": ("u32", np.dtype(np.int32)),
    "f32": ("u32", np.dtype(np.float32)),
    "s64": ("u64", np.dtype(np.int64)),
    "f64": ("u64", np.dtype(np.float64)),
}


class Registers:
    """Registers of ``warps`` warps for one function, initialized with zeros. Later CTAs reuse the storage."""

    def __init__(self, code: FunctionCode, warps: int) -> None:
        self.code, self.warps = code, warps
        columns = 32 * warps
        self.raw = {view: np.zeros((code.rows[cls], columns), _RAW[view]) for cls, view in CLASSES.items()}
        #: For registers that a path may read before any write: flags of the threads that have written them.
        self.written = np.zeros((len(code.tracked), columns), np.bool_)
        #: The carry flag of the condition code.
        self.carry = np.zeros(columns, np.uint8)
        self.undefined = UndefinedBits(columns)
        self._frames: dict[tuple[int, int], Frame] = {}

    def clear(self) -> None:
        """Reset everything to the state of new registers."""
        for array in (*self.raw.values(), self.written, self.carry):
            array[...] = 0
        self.undefined.rows.clear()
        for frame in self._frames.values():
            frame.special = {}

    def frame(self, first: int, count: int = 1) -> Frame:
        """Return the registers of ``count`` warps, starting at warp ``first``."""
        key = (first, count)
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = Frame(self, 32 * first, 32 * (first + count))
        return found


class Frame:
    """Registers of some warps in one activation of a function.

    ``u32`` and the other views are arrays ``[register, thread]``; ``r_u32`` and the like are lists of the
    rows of these arrays. Both are created at the first use. ``caller`` and the attributes after it hold the
    state that the return from a device function restores.
    """

    def __init__(self, registers: Registers, first: int, end: int) -> None:
        self.registers, self.code = registers, registers.code
        self.columns = end - first
        self.span = slice(first, end)
        self.written = registers.written[:, first:end]
        #: The same dictionary as in the registers' :class:`UndefinedBits`, which is empty as a rule.
        self.undefined_rows = registers.undefined.rows
        self.carry = registers.carry[first:end]
        #: Values of special registers by name.
        self.special: dict[str, NDArray[Any]] = {}
        #: Address of the function's local variables in the threads' local memory.
        self.base = 0
        #: The CTA's rank at its place in the address of a shared variable.
        self.shared = 0
        self.caller: Frame | None = None
        #: The block after the call, the reconvergence points around the call, and the call itself.
        self.resume = 0
        self.outer: list[ReconvergencePoint] = []
        self.site: Any = None
        #: The threads' local stack pointers before the call, the lanes that have not returned, the number of
        #: callers.
        self.stack: NDArray[np.int64] | None = None
        self.lanes = 0
        self.depth = 0
        self._constants: dict[int, NDArray[np.int64]] = {}

    def __getattr__(self, name: str) -> Any:
        value: Any
        if name.startswith("r_"):
            value = list(getattr(self, name[2:]))
        elif name in self.registers.raw:
            value = self.registers.raw[name][:, self.span]
        elif name in _TYPED:
            raw, dtype = _TYPED[name]
            value = getattr(self, raw).view(dtype)
        else:
            raise AttributeError(name)
        setattr(self, name, value)
        return value

    def constant(self, value: int) -> NDArray[np.int64]:
        """Return an array that holds ``value`` for each thread. The caller must not write to it."""
        found = self._constants.get(value)
        if found is None:
            bits = np.full(self.columns, value & 0xFFFF_FFFF_FFFF_FFFF, np.uint64)
            found = self._constants[value] = bits.view(np.int64)
        return found

    def lane_values(self, lane: int) -> list[Any]:
        """Return every register of one thread as Python numbers (raw bits), in the order of their places."""
        values: list[Any] = []
        for view in ("p", "u16", "u32", "u64"):
            values += getattr(self, view)[:, lane].tolist()
        values += [low | high << 64 for low, high in self.u128[:, lane].tolist()]
        return values

    def set_lane_values(self, lane: int, values: list[Any]) -> None:
        """Write every register of one thread, from values as :meth:`lane_values` returns them."""
        start = 0
        for view in ("p", "u16", "u32", "u64"):
            array = getattr(self, view)
            end = start + array.shape[0]
            array[:, lane] = values[start:end]
            start = end
        wide = self.u128
        for row, value in enumerate(values[start:]):
            wide[row, lane] = (value & (2**64 - 1), value >> 64)

    def snapshot(self, lanes: Any) -> bytes:
        """Return the registers of some threads as bytes that can be compared."""
        return b"".join(getattr(self, view)[:, lanes].tobytes() for view in CLASSES.values())
