"""A worker without a GPU: what a candidate does is in the name of its kernel.

``double_5`` takes 5 us. ``first_hang_...`` and ``time_hang_...`` sleep, and so on: ``trap`` answers with a failure
after which nothing works, ``crash`` ends the process, ``refuse`` fails and leaves the process usable.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyptx.core.errors import LaunchError
from pyptx.tools.autotune.worker import serve


class FakeBackend:
    def __init__(self) -> None:
        self._entries: dict[int, str] = {}
        self._alive = True

    def open(self, device: int, folder: str) -> dict[str, Any]:
        if device == 7:
            raise LaunchError("there is no GPU 7")
        with Path(folder).parent.joinpath("opened").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return {"gpu": "Fake", "driver": "1.0", "multiprocessors": 132}

    def close(self) -> dict[str, Any]:
        self._entries.clear()
        return {}

    def alive(self) -> bool:
        return self._alive

    def load(self, number: int, kernel: dict[str, Any]) -> dict[str, Any]:
        assert Path(kernel["text"]).read_text().count(kernel["entry"])
        self._entries[number] = kernel["entry"]
        os.write(1, b"a kernel prints\n")
        return {}

    def _act(self, number: int, when: str) -> float:
        words = self._entries[number].split("_")
        if words[0] == when:
            if words[1] == "hang":
                time.sleep(60)
            elif words[1] == "crash":
                sys.stderr.write("it has crashed\n")
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            elif words[1] == "trap":
                self._alive = False
                raise LaunchError("CUDA_ERROR_LAUNCH_FAILED (719)")
            elif words[1] == "refuse":
                raise LaunchError("CUDA_ERROR_INVALID_CLUSTER_SIZE (912)")
            elif words[1] == "bug":
                raise KeyError("bug")
        assert self._alive, "a candidate was measured in a context that is broken"
        return float(words[-1])

    def first(self, number: int) -> dict[str, Any]:
        return {"us": self._act(number, "first"), "group": 0}

    def time(self, number: int, launches: int) -> dict[str, Any]:
        return {"us": self._act(number, "time")}


serve(FakeBackend())
