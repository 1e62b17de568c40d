"""Records the outputs of every launch on a GPU: ``python -m tests.sim.compiled.hopper.record [FOLDER]``."""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tests.conformance.gpu import Refused, machine

from ..record import launched
from .cases import CASES
from .recorded import FOLDER


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    runs = {name: case.run() for name, case in CASES.items()}
    words, troubles = {}, []
    for name, answer in zip(runs, launched(list(runs.values())), strict=True):
        if isinstance(answer, Refused):
            troubles.append(f"{name}: {answer.reason}")
            continue
        words.update({f"{name}/{index}": array for index, array in enumerate(answer)})
        for index, (array, expected) in enumerate(zip(answer, CASES[name].must_give(), strict=True)):
            if not (right := expected.agrees(array)).all():
                troubles.append(
                    f"{name}: {int((~right).sum())} of {right.size} of output {index} are not as they must be"
                )
    about = {
        **asdict(machine()),
        "date": datetime.date.today().isoformat(),
        "fingerprints": {name: run.fingerprint for name, run in runs.items()},
    }
    np.savez_compressed(folder / "words.npz", **words)  # type: ignore[arg-type]
    (folder / "recorded.json").write_text(json.dumps(about, indent=1) + "\n")
    print(f"{len(runs)} launches recorded on {about['gpu']}, {len(troubles)} in trouble", *troubles, sep="\n")
    sys.exit(bool(troubles))


if __name__ == "__main__":
    main()
