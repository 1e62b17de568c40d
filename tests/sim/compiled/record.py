"""Records the outputs of every launch on a GPU: ``python -m tests.sim.compiled.record [FOLDER]``.

Each is launched twice; outputs that differ between the two are not kept.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sys
import tty
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.case import Run
from tests.conformance.gpu import Outputs, Pool, Refused, machine

from .cases import CASES, runs
from .launches import fingerprint
from .recorded import FOLDER


def printed(run: Run) -> str:
    """What the kernel prints: to the standard output of the process that launches it, which inherits ours.

    A terminal's, so that the C library writes every line when it ends.
    """
    kept = os.dup(1)
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    os.dup2(theirs, 1)
    try:
        with Pool(1) as pool:
            (answer,) = pool.run([run])
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(theirs)
    text = b""
    os.set_blocking(ours, False)
    with contextlib.suppress(OSError):  # nothing more to read
        while piece := os.read(ours, 4096):
            text += piece
    os.close(ours)
    assert not isinstance(answer, Refused), answer.reason
    return text.decode()


def launched(made: Sequence[Run]) -> Iterator[Outputs | Refused]:
    """The outputs of every launch; refused too is one whose second launch fails or gives other words."""
    with Pool() as pool:
        answers = list(pool.run([run for run in made for _ in range(2)]))
    for first, second in zip(answers[::2], answers[1::2], strict=True):
        if isinstance(first, Refused):
            yield first
        elif isinstance(second, Refused):
            yield Refused("only the second launch failed")
        elif any(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True)):
            yield Refused("the second launch gave other words")
        else:
            yield first


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    made = runs()
    about: dict[str, Any] = {
        **asdict(machine()),
        "date": datetime.date.today().isoformat(),
        "fingerprints": {run.name: fingerprint(run) for run in made},
        "printed": {},
        "failed": {},
    }
    words: dict[str, dict[str, NDArray[Any]]] = {}
    troubles = []
    for run, answer in zip(made, launched(made), strict=True):
        arch, case = CASES[run.name]
        if isinstance(answer, Refused):
            about["failed"][run.name] = answer.reason.partition(" at: ")[0]
            if not case.fails or case.fails not in answer.reason:
                troubles.append(f"{run.name}: {answer.reason}")
            continue
        short = run.name.partition("/")[2]
        words.setdefault(arch, {}).update({f"{short}/{index}": array for index, array in enumerate(answer)})
        if case.prints:
            about["printed"][run.name] = printed(run)
    for arch, arrays in words.items():
        np.savez_compressed(folder / f"{arch}.npz", **arrays)  # type: ignore[arg-type]
    (folder / "recorded.json").write_text(json.dumps(about, indent=1) + "\n")
    print(f"{len(made)} launches recorded on {about['gpu']}, {len(troubles)} in trouble", *troubles, sep="\n")
    sys.exit(bool(troubles))


if __name__ == "__main__":
    main()
