"""The results of tunings on disk: one JSON file each, named by the digest of what it depends on.

Owns the folder, ``autotune`` in the user's cache, the key, and the files.  A result depends on the texts and
launches of all candidates, on the shapes and dtypes, on the GPU and its driver, and on pyptx's version.  A
file that cannot be read or written only costs a tuning.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from ...core.version import VERSION
from ...toolchain.cache import user_cache
from .candidates import Candidate, State
from .space import written

__all__ = ["FORMAT", "alone", "code_of", "folder", "key_of", "load", "save"]

#: Changes when the meaning of a file does.
FORMAT = 1
#: States that a new tuning takes from a file: these candidates need not hang or fail again.
_KEPT = (State.WRONG, State.HUNG, State.FAILED, State.CRASHED)


def folder() -> Path | None:
    """Return the folder of the results, which need not exist; None if the user's cache is turned off."""
    cache = user_cache()
    return None if cache is None else cache.root / "autotune"


def code_of(function: Callable[..., Any] | None) -> list[Any]:
    """Return what the code of a function is, as values of JSON: it changes when the function is redefined."""
    code = getattr(function, "__code__", None)
    return [] if function is None else _code(code) if code is not None else [repr(type(function))]


def _code(code: CodeType) -> list[Any]:
    constants = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]


def key_of(
    candidates: Sequence[Candidate],
    problem: Sequence[Any],
    gpu: str,
    driver: str,
    options: Sequence[Any] = (),
) -> str:
    """Return the digest of everything that a result depends on.

    Args:
        candidates: all that were recorded.
        problem: dtypes, and shapes with the names of dims that are not compile-time sizes.
        gpu, driver: the GPU's name and the driver's version.
        options: the author's options, by which candidates may be dropped.
    """
    held = {
        "format": FORMAT,
        "pyptx": VERSION,
        "gpu": gpu,
        "driver": driver,
        "problem": list(problem),
        "options": list(options),
        "candidates": [each.digest for each in candidates if each.special is not None],
    }
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


@contextmanager
def alone(key: str) -> Iterator[None]:
    """Let one process at a time measure for a key, so that others wait for its result and take it.

    Where the folder cannot be written, nothing is waited for.
    """
    place = folder()
    path = None if place is None else place / f".{key}.lock"
    try:
        if place is None or path is None:
            raise OSError
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = path.open("w")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Who waits for this file goes on with it; who comes later makes another one.
            with contextlib.suppress(OSError):
                path.unlink()


def load(key: str, candidates: Sequence[Candidate]) -> Candidate | None:
    """Give the candidates what the file of ``key`` says of them; return the best, if a tuning has ended.

    Of a tuning that was interrupted only hangs, failures and wrong outputs are taken.
    """
    place = folder()
    if place is None:
        return None
    try:
        held = json.loads((place / f"{key}.json").read_text(encoding="utf-8"))
        rows = {
            row["number"]: (State(row["state"]), row["reason"], list(row["times"])) for row in held["rows"]
        }
        ended = bool(held["ended"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    best = None
    for candidate in candidates:
        if not candidate.ready:
            continue
        state, reason, times = rows.get(candidate.number, (State.READY, "", []))
        if ended:
            candidate.state, candidate.reason, candidate.times = state, reason, times
            best = candidate if state is State.BEST else best
        elif state in _KEPT:
            candidate.drop(state, f"{reason} (in an earlier tuning)")
    return best


def save(key: str, candidates: Sequence[Candidate], *, ended: bool, about: dict[str, Any]) -> bool:
    """Write what is known of the candidates. Returns False if it could not be written."""
    rows = [
        {
            "number": each.number,
            "configuration": written(each.configuration),
            "state": each.state.value,
            "reason": each.reason,
            "us": each.us,
            "times": each.times,
        }
        for each in candidates
        if each.special is not None and each.state is not State.SAME
    ]
    text = json.dumps({**about, "ended": ended, "rows": rows}, indent=1)
    place = folder()
    if place is None:
        return False
    target = place / f"{key}.json"
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".writing-")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        return False
    return True
