"""The process that measures: ``python -m pyptx.tools.autotune.worker``.

It reads requests from standard input and writes answers, both as lines of JSON. A kernel that hangs or breaks
the context ends this process, and not the user's; when the user's process ends, this one ends as well.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from typing import Any, Protocol

from ...core.errors import PyptxError

__all__ = ["Backend", "serve"]

#: Seconds without a request after which the process ends, which frees the GPU's memory.
_IDLE = 60.0


class Backend(Protocol):
    """What carries out requests. Each method's arguments and result are values of JSON."""

    def open(self, device: int, folder: str) -> dict[str, Any]:
        """Use a GPU; return ``gpu``, ``driver``, ``multiprocessors``. Outputs are kept in ``folder``."""

    def load(self, number: int, kernel: dict[str, Any]) -> dict[str, Any]:
        """Load the candidate ``number`` and make its arrays."""

    def first(self, number: int) -> dict[str, Any]:
        """Launch once; return ``us`` and ``group``: candidates of one group have the same outputs."""

    def time(self, number: int, launches: int) -> dict[str, Any]:
        """Launch ``launches`` times back to back; return ``us``, the time of one launch."""

    def close(self) -> dict[str, Any]:
        """Free what the tuning has used; the next one begins with :meth:`open`."""

    def alive(self) -> bool:
        """False if an earlier failure has made the process useless."""


def serve(backend: Backend) -> None:
    """Answer requests until standard input ends, or until no request has come for a minute."""
    # A kernel's printf goes to descriptor 1, which must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), name="requests", daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_IDLE)
        except queue.Empty:
            return
        answers.write(json.dumps(_answer(backend, json.loads(line))) + "\n")
        answers.flush()


def _read(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)  # the main thread may wait for a kernel that never ends


def _answer(backend: Backend, request: dict[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = getattr(backend, request.pop("do"))(**request)
        return found
    except PyptxError as error:
        return {"failed": error.message, "alive": backend.alive()}
    except Exception as error:
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}", "alive": False}


if __name__ == "__main__":
    from .on_gpu import CudaBackend

    serve(CudaBackend())
