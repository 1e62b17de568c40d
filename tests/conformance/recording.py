"""Recorded words: what a GPU answered to each case, one compressed file per chapter.

A file is xz over one line of JSON (where and when; name, fingerprint and length of each row) and the rows. The words
of value cases stand in as few bytes as they have; those of kernel cases are the outputs one behind another.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import KernelCase, Out
from .gpu import Machine
from .values import ValueCase
from .words import Words

__all__ = ["DATA", "Recording", "Row", "outputs_of", "pack_outputs", "pack_words", "read", "words_of"]

DATA = Path(__file__).with_name("data")


@dataclass(frozen=True)
class Row:
    """The recorded bytes of one case, and the fingerprint of what was run."""

    fingerprint: int
    data: bytes


@dataclass
class Recording:
    """The rows of one chapter. ``refused``: cases that the GPU did not run, and what the driver said."""

    machine: Machine
    date: str
    rows: dict[str, Row] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        header = {
            "machine": asdict(self.machine),
            "date": self.date,
            "refused": self.refused,
            "rows": [[name, row.fingerprint, len(row.data)] for name, row in self.rows.items()],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(header).encode() + b"\n" + b"".join(row.data for row in self.rows.values())
        path.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


@cache
def read(sort: str, chapter: str, folder: Path = DATA) -> Recording | None:
    """The recording of a chapter's ``values`` or ``kernels``, or None if there is none."""
    path = folder / sort / f"{chapter}.xz"
    if not path.exists():
        return None
    head, _, body = lzma.decompress(path.read_bytes()).partition(b"\n")
    header = json.loads(head)
    found = Recording(Machine(**header["machine"]), header["date"], {}, header["refused"])
    start = 0
    for name, fingerprint, length in header["rows"]:
        found.rows[name] = Row(fingerprint, body[start : start + length])
        start += length
    return found


# --- value cases --------------------------------------------------------------------------------


def pack_words(case: ValueCase, results: Words) -> bytes:
    """The rows ``results[result, tuple]`` of a case."""
    return b"".join(
        np.packbits(row.astype(np.bool_)).tobytes() if bits == 1 else row.astype(f"<u{bits // 8}").tobytes()
        for bits, row in zip(case.widths, results, strict=True)
    )


def words_of(case: ValueCase, data: bytes) -> Words:
    """The inverse of :func:`pack_words`."""
    rows, start = [], 0
    for bits in case.widths:
        size = bits * case.count // 8
        part = np.frombuffer(data, f"<u{max(bits // 8, 1)}", size // max(bits // 8, 1), start)
        rows.append((np.unpackbits(part) if bits == 1 else part).astype(np.uint64))
        start += size
    return np.stack(rows)


# --- kernel cases -------------------------------------------------------------------------------


def pack_outputs(case: KernelCase, outputs: Sequence[NDArray[Any]]) -> bytes:
    """The outputs of a case; what any order may have is sorted, so that recordings are the same."""
    return b"".join(_ordered(out, array).tobytes() for out, array in zip(case.outputs, outputs, strict=True))


def outputs_of(case: KernelCase, data: bytes) -> list[NDArray[Any]]:
    """The inverse of :func:`pack_outputs`."""
    arrays, start = [], 0
    for out in case.outputs:
        like = out.before()
        part = np.frombuffer(data, np.uint8, like.nbytes, start)
        arrays.append(part.view(like.dtype).reshape(like.shape))
        start += like.nbytes
    return arrays


def _ordered(out: Out, array: NDArray[Any]) -> NDArray[Any]:
    if out.order == "fixed":
        return np.ascontiguousarray(array)
    return np.sort(array, axis=-1)
