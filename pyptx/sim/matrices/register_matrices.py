"""Gathers matrices from fragments in the registers of a warp, and scatters matrices to fragments.

:mod:`pyptx.layout.fragments` defines the place of each element. This module converts the places to index
arrays, once for each instruction. Elements are raw codes in arrays of unsigned integers; elements of 4 bits
and 1 bit are in the low bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layout.fragments import FragmentLayout, SelectedLayout

__all__ = ["Gather", "Scatter", "SelectedGather", "full_warp", "split"]

Array = NDArray[Any]
_LANES = 32


def full_warp(registers: Any, lanes: Array) -> Array:
    """Return the registers ``[register, 32]`` of an operand, with zeros for lanes that are missing."""
    rows = np.asarray(registers)
    if rows.ndim == 1:
        rows = rows[None]
    if len(lanes) != _LANES:
        given, rows = rows, np.zeros((len(rows), _LANES), rows.dtype)
        rows[:, lanes] = given
    return np.ascontiguousarray(rows)


def split(registers: Array, bits: int) -> Array:
    """Return the elements of registers ``[registers, lanes]`` as one row.

    The elements of one register of one lane are neighbors, then come the other lanes, then the other
    registers.
    """
    if bits >= 8:
        return registers.view(f"u{bits // 8}").reshape(-1)
    if bits == 1:
        return np.unpackbits(registers.view(np.uint8).reshape(-1), bitorder="little")
    pairs = registers.view(np.uint8).reshape(-1, 1)
    return ((pairs >> np.array([0, 4], np.uint8)) & np.uint8(15)).reshape(-1)


def _join(elements: Array, bits: int, register_bits: int) -> Array:
    """Pack elements ``[registers, lanes, parts]`` to registers: the inverse of :func:`split`."""
    if bits == 1:
        parts = np.packbits(elements, axis=-1, bitorder="little")
    elif bits == 4:
        parts = elements[..., 0::2] | elements[..., 1::2] << np.uint8(4)
    else:
        parts = elements
    return np.ascontiguousarray(parts).view(f"u{register_bits // 8}")[..., 0]


def _positions(layout: FragmentLayout) -> Array:
    """Return where :func:`split` puts element e of thread t, as an array ``[elements, threads]``."""
    element = np.arange(layout.elements)[:, None]
    register, part = np.divmod(element, layout.packed)
    threads = np.arange(layout.thread_count)[None, :]
    return (register * layout.thread_count + threads) * layout.packed + part


class Gather:
    """Gathers the codes of a matrix from its fragment: ``[row, column]``, or ``[column, row]`` if turned.

    Fragments of several matrices give ``[matrix, row, column]``.
    """

    __slots__ = ("_bits", "_index")

    def __init__(self, layout: FragmentLayout, *, turned: bool = False) -> None:
        row, column, matrix = layout.places()
        index = np.zeros((layout.matrices, layout.rows, layout.columns), np.intp)
        index[matrix, row, column] = _positions(layout)
        if turned:
            index = index.swapaxes(1, 2)
        self._index = np.ascontiguousarray(index if layout.matrices > 1 else index[0])
        self._bits = layout.bits

    def __call__(self, registers: Array) -> Array:
        return split(registers, self._bits).take(self._index)


class Scatter:
    """Scatters the codes of a matrix, ``[row, column]``, to a fragment's registers ``[register, lane]``."""

    __slots__ = ("_bits", "_index", "_register_bits")

    def __init__(self, layout: FragmentLayout) -> None:
        row, column, matrix = layout.places()
        place = (matrix * layout.rows + row) * layout.columns + column
        self._index = np.ascontiguousarray(
            place.reshape(layout.registers, layout.packed, layout.thread_count).swapaxes(1, 2)
        )
        self._bits, self._register_bits = layout.bits, layout.register_bits

    def __call__(self, matrix: Array) -> Array:
        return _join(matrix.reshape(-1).take(self._index), self._bits, self._register_bits)


class SelectedGather:
    """Gathers the codes of an operand that only some threads supply: the lanes that ``selector`` names."""

    __slots__ = ("_bits", "_index")

    def __init__(self, found: SelectedLayout, selector: int, *, turned: bool = False) -> None:
        layout = found.layout
        row, column, _ = layout.places()
        lanes = list(found.lanes(selector))
        index = np.zeros((layout.rows, layout.columns), np.intp)
        index[row[:, lanes], column[:, lanes]] = _positions(layout)[:, lanes]
        self._index = np.ascontiguousarray(index.T if turned else index)
        self._bits = layout.bits

    def __call__(self, registers: Array) -> Array:
        return split(registers, self._bits).take(self._index)
