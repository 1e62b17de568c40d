"""One tuning: from the configurations to the best candidate.

Owns the order of the stages: record, look on the disk, assemble, drop what does not fit, simulate, measure;
or predict where nothing can be measured.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.arrays import describe, is_array
from ...core.errors import PyptxWarning, SpecError
from ...core.records import dataclass
from ...core.source import author_location
from ...dsl import Tile
from ...entry.bounds import Estimate
from ...runtime.driver import device_info
from ...runtime.machine_code import keep
from ...timing.constants import gpu_for
from . import store
from .candidates import Candidate, Make, State, record
from .jobs import Inputs
from .lab import place_of
from .predicted import Ranking, drop_others, predict_all
from .progress import Progress, progress
from .race import race
from .resources import assemble_all, drop_unfit, rank
from .result import Tuning
from .space import Configuration

__all__ = ["Request", "Settings", "tune"]


@dataclass(frozen=True)
class Settings:
    """The options of ``autotune``; see there."""

    check: Mapping[str, Any] | None = None
    reference: Callable[..., Any] | None = None
    rtol: float | None = None
    atol: float | None = None
    deadline: float | None = None
    budget: float | None = None

    def values(self) -> list[Any]:
        """Return what of the options a result depends on, as values of JSON."""
        sizes = sorted((name, repr(size)) for name, size in (self.check or {}).items())
        return [sizes, store.code_of(self.reference), self.rtol, self.atol, self.deadline]


#: Seconds of one request to the GPU, and of all predictions, if the author names none.
_DEADLINE, _BUDGET = 5.0, 60.0


@dataclass(frozen=True)
class Request:
    """What is tuned, for which arguments.

    Attributes:
        name: name for messages.
        make: builds the kernel of a configuration.
        make_small: builds it for the sizes of the simulated check.
        configurations: all of them.
        settings: the author's options.
        arrays: the inputs of the call.
        keywords: dims and constants of the call that are not tuned.
        gpu: the GPU to measure on; None ranks by predictions.
    """

    name: str
    make: Make
    make_small: Make
    configurations: Sequence[Configuration]
    settings: Settings
    arrays: Sequence[Any]
    keywords: Mapping[str, Any]
    gpu: int | None


def tune(request: Request) -> tuple[Tuning, list[Candidate]]:
    """Find the best configuration; return the result and all candidates.

    Raises:
        SpecError: no configuration can be used; the message says why for each.
        LaunchError: the GPU cannot be used.
    """
    with progress(request.name) as shown:
        shown.stage("recording", len(request.configurations))
        candidates = record(request.make, request.configurations, request.arrays, request.keywords)
        if request.gpu is None:
            best, where, forecasts = _ranked(request, candidates, shown)
            shown.end()
            tuning = Tuning(
                request.name,
                candidates,
                best,
                measured=False,
                where=where,
                seconds=shown.elapsed,
                forecasts=forecasts,
            )
            return tuning, candidates
        _refuse_capture()
        return _on_gpu(request, request.gpu, candidates, shown), candidates


def _on_gpu(request: Request, device_index: int, candidates: list[Candidate], shown: Progress) -> Tuning:
    """Take the result from the disk, or measure and write it there."""
    gpu, driver = _facts(device_index)
    problem, options = _problem(candidates, request.arrays), request.settings.values()
    key = store.key_of(candidates, problem, gpu, driver, options)
    best, restarts = store.load(key, candidates), 0
    stored = best is not None
    if best is None:
        shown.stage("waiting", 0)
        with store.alone(key):
            # Another process may have measured meanwhile.
            best = store.load(key, candidates)
            stored = best is not None
            if best is None:
                about = {"name": request.name, "gpu": gpu, "driver": driver}
                try:
                    best, restarts = _measured(request, candidates, shown)
                except BaseException:
                    # A hang or a failure that is known now need not happen again.
                    store.save(key, candidates, ended=False, about=about)
                    raise
                store.save(key, candidates, ended=True, about={**about, "seconds": shown.elapsed})
    shown.end()
    return Tuning(
        request.name,
        candidates,
        best,
        measured=True,
        where=gpu,
        seconds=shown.elapsed,
        restarts=restarts,
        stored=stored,
        stages=None if stored else shown.seconds,
    )


def _facts(device_index: int) -> tuple[str, str]:
    """Return the GPU's name, and the version of the driver. Raises LaunchError if there is none."""
    info = device_info(device_index)
    version = ".".join(map(str, info.driver_version))
    try:
        line = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        line = ""
    return info.name, f"{version} {line}".strip()


def _refuse_capture() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise SpecError(
            "autotune: the first call tunes, which cannot happen while a CUDA graph is captured",
            hint="call tune(...) with these arguments, or the kernel once, before the capture",
        )


def _problem(candidates: Sequence[Candidate], arrays: Sequence[Any]) -> list[Any]:
    """Return dtypes and shapes for the key; a dim that no candidate reads by its name, not its extent."""
    recorded = [each for each in candidates if each.special is not None]
    read = {name for each in recorded if each.special is not None for name in each.special.recorded.read}
    first = recorded[0]
    assert first.kernel is not None and first.special is not None
    found: list[Any] = []
    for number, spec in enumerate(first.kernel.options.specs):
        if isinstance(spec, Tile):
            given = arrays[number] if number < len(arrays) else None
            type = describe(given).type if is_array(given) else spec.dtype
            dims = [
                first.special.dims[dim] if isinstance(dim, str) and dim in read else dim for dim in spec.dims
            ]
            found.append([type.name, dims])
        else:
            found.append([spec.type.name])
    return found


def _filtered(request: Request, candidates: list[Candidate], shown: Progress) -> bool:
    """Assemble, drop what does not fit, simulate. Returns False if there is no ptxas."""
    ready = [each for each in candidates if each.ready]
    shown.stage("ptxas", len(ready))
    assembled = assemble_all(ready, shown.step)
    drop_unfit(ready)
    settings = request.settings
    ready = [each for each in ready if each.ready]
    if settings.check is not None and ready:
        from .check import check_all  # the simulator, which takes a while to import

        shown.stage("simulating", len(ready))
        tolerance = (settings.rtol, settings.atol)
        check_all(ready, request.make_small, settings.check, settings.reference, tolerance, shown.step)
    return assembled


def _ranked(
    request: Request, candidates: list[Candidate], shown: Progress
) -> tuple[Candidate, str, Mapping[int, Estimate]]:
    """Choose by predictions, or by resources without any, and warn that it is no measurement.

    Returns the best candidate, the GPU or the target, and the predictions by the candidates' numbers.
    """
    assembled = _filtered(request, candidates, shown)
    ready = [each for each in candidates if each.ready]
    if not ready:
        raise _none_left(request, candidates)
    ordered = rank(ready) if assembled else ready
    assert ordered[0].kernel is not None
    arch = ordered[0].kernel.options.arch
    budget = _BUDGET if request.settings.budget is None else request.settings.budget
    on = gpu_for(arch)
    if on is not None and budget and len(ordered) > 1:
        shown.stage("predicting", len(ordered))
        found = predict_all(ordered, on, request.arrays, request.keywords, budget, shown.step)
        if found.forecasts:
            best = found.order[0]
            best.state, best.reason = State.BEST, f"predicted {found.forecasts[best.number]}"
            drop_others(found)
            _warn_once(request.name, _chosen(request.name, found, on.title, budget))
            return best, on.title, found.forecasts
    best, *others = ordered
    for place, candidate in enumerate(others, 2):
        why = f"; {candidate.reason}" if candidate.reason else ""
        ranked = f"rank {place} by resources" if assembled else "not ranked: no ptxas"
        candidate.drop(State.SLOWER, ranked + why)
    best.state = State.BEST
    how = "by registers, spills and occupancy" if assembled else "the first, since there is no ptxas"
    _warn_once(
        request.name,
        f"autotune has not measured {request.name}: the arrays are in host memory. It chose {best}, {how}",
    )
    return best, arch, {}


def _chosen(name: str, found: Ranking, gpu: str, budget: float) -> str:
    """Return the warning about a choice by predictions."""
    best, alike = found.order[0], len(found.alike())
    left = len(found.order) - len(found.forecasts)
    text = (
        f"autotune has not measured {name}: the arrays are in host memory. It chose {best} by a prediction "
        f"for the {gpu}: {found.forecasts[best.number]}"
    )
    if alike:
        text += f"; not distinguishable from it: {alike} of {len(found.order) - 1} others"
    text += f"; predictions took {found.seconds:.1f} s of {budget:g}"
    return text + (f", and {left} candidates have none: they rank behind, by resources" if left else "")


_warned: set[str] = set()


def _warn_once(name: str, text: str) -> None:
    if name in _warned:
        return
    _warned.add(name)
    place = author_location()
    warnings.warn_explicit(text, PyptxWarning, place.file, place.line)


def _measured(request: Request, candidates: list[Candidate], shown: Progress) -> tuple[Candidate, int]:
    """Measure on the GPU. Returns the best candidate, and how often the worker was started again."""
    assert request.gpu is not None
    _filtered(request, candidates, shown)
    ready = [each for each in candidates if each.ready]
    if not ready:
        raise _none_left(request, candidates)
    for candidate in ready:
        if candidate.assembly is not None and candidate.special is not None:
            keep(candidate.special.lined, candidate.special.entry, candidate.assembly)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize(request.gpu)
    with tempfile.TemporaryDirectory(prefix="pyptx-autotune-") as folder:
        inputs = Inputs(request.arrays, Path(folder))
        place = place_of(request.gpu, inputs, Path(folder), request.settings.deadline or _DEADLINE)
        try:
            best = race(ready, place, shown.step, stage=shown.stage)
        finally:
            place.close()
    if best is None:
        raise _none_left(request, candidates)
    return best, place.restarts


def _none_left(request: Request, candidates: Sequence[Candidate]) -> SpecError:
    return SpecError(
        f"autotune: no configuration of {request.name} can be used",
        details=[f"{each}: {each.state.value}: {each.reason}" for each in candidates],
    )
