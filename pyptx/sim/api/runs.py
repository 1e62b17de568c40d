"""Runs the launches of one stream: under one schedule, or explored, or replayed.

Owns the checked form of a launch, :class:`Request`, and :func:`run`, which turns requests into reports.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from functools import lru_cache
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

from ...core.arrays import host_bytes, is_array
from ...core.errors import GridSizeError, SpecError
from ...core.findings import RULES, Finding, Verdict, verdict_of
from ...core.records import dataclass
from ...ir import Function, Launch, print_module
from ...layout.tensor_map import TensorMap
from ..claims.competing import Claim
from ..claims.watch import Watch
from ..code.elected import repeated_if_apart
from ..code.idle import Values
from ..code.image import element_bytes
from ..code.program import EntryProgram
from ..debugger.machine import DebuggedMachine
from ..debugger.stepper import Debugger
from ..exploration.stepwise import Explored, StepwiseMachine
from ..exploration.token import choices_of, is_token
from ..exploration.trail import Abandoned, Trail
from ..exploration.tree import Task, found_in
from ..machine.machine import Machine
from ..machine.schedule import make_policy
from ..memory.segments import Fault
from ..sanitizer.garbage import fewer_collections
from ..sanitizer.sanitizer import Sanitizer
from ..threads.assignment import Assignment
from ..threads.grid import Grid
from ..weak.reads import WeakReads, chooser
from .arguments import Mapped, bind_arguments, unwritten_outputs
from .assignments import EVERY_ASSIGNMENT, refused, run_every_assignment, too_many
from .every_schedule import EVERY_SCHEDULE, Contents, LaunchBuffer, Outcome, complete, run_every_schedule
from .exploration import EXPLORED, Explorer, Ran
from .options import LaunchOptions
from .reference import Expected, wrong_results
from .report import Report
from .timeline import TimelineRecorder
from .unknown import refuse_unknown
from .waiving import apply_waivers

if TYPE_CHECKING:
    from .launch import LoadedModule

#: Number of findings that a timeline repeats.
_NOTES = 20

__all__ = ["Request", "run", "run_packed"]


@dataclass(frozen=True)
class Request:
    """One launch whose arguments and options have been checked, and that has not run yet.

    ``uninitialized`` also contains the positions of ``outputs``. ``dependent`` means that the launch depends
    on the previous one by programmatic dependent launch. ``expected`` is what arguments must contain
    afterwards.
    """

    module: LoadedModule
    function: Function
    launch: Launch
    args: Sequence[Any]
    uninitialized: frozenset[int]
    outputs: frozenset[int] = frozenset()
    dependent: bool = False
    expected: Mapping[int, Expected] = field(default_factory=dict)


def run(requests: Sequence[Request], options: LaunchOptions) -> list[Report]:
    """Run one or more launches of one stream to their end, and return a report for each.

    Raises:
        SpecError: the contents of an array are not known, or an argument or option does not fit.
    """
    for request in requests:
        refuse_unknown(request.args)
    reports = _run_all(requests, options)
    functions = [function for request in requests for function in request.module.module.functions]
    apply_waivers(reports, [*options.waivers, *(waiver for f in functions for waiver in f.waivers)])
    return reports


def _run_all(requests: Sequence[Request], options: LaunchOptions) -> list[Report]:
    if options.schedule == EXPLORED:
        return _explore(requests, options)
    if is_token(options.schedule):
        return _replay(requests, options)
    if options.launch_control == EVERY_ASSIGNMENT:
        return _run_assignments(requests, options)
    if options.schedule != EVERY_SCHEDULE:
        outcome = _run(requests, options)
        if outcome.impossible and all(map(complete, outcome.reports)):
            raise SpecError(
                f"launch_control is '{options.launch_control}': the launch cannot follow it, since its "
                "clusters request fewer others",
                hint="a cluster that no request gets starts by itself: give it a list of its own",
            )
        return outcome.reports

    def run_one(
        schedule: str, seed: int, timeout: float | None, begin: Callable[[list[LaunchBuffer]], None]
    ) -> Outcome:
        one = replace(options, schedule=schedule, seed=seed, timeout=timeout)
        return _run(requests, one, begin)

    return run_every_schedule(run_one, seed=options.seed, seeds=options.seeds, timeout=options.timeout)


def _run_assignments(requests: Sequence[Request], options: LaunchOptions) -> list[Report]:
    """Run the launches once for each assignment of the clusters that one of them cancels."""
    plain = replace(options, launch_control=None)
    interleaved = make_policy(plain.schedule, plain.seed).interleaves
    programs, _ = programs_of(requests, plain, time.monotonic(), interleaved=interleaved)
    canceling = [
        (request, program)
        for request, program in zip(requests, programs, strict=True)
        if program is not None and program.cancels_launches
    ]
    if not canceling or None in programs:
        return _run(requests, plain).reports
    clusters = _clusters(canceling[0][0].launch)
    why = too_many(clusters, options.max_runs)
    if len(canceling) > 1:
        why = "launch control: several launches of the stream cancel clusters"
    if any(request.dependent for request in requests):
        why = "launch control: a launch of the stream depends on another one (programmatic dependent launch)"
    if why:
        return refused(_run(requests, plain).reports, why)

    def run_one(
        assignment: Assignment, timeout: float | None, begin: Callable[[list[LaunchBuffer]], None]
    ) -> Outcome:
        one = replace(plain, launch_control=str(assignment), timeout=timeout)
        return _run(requests, one, begin)

    return run_every_assignment(
        run_one, clusters, plain.name, max_runs=options.max_runs, timeout=options.timeout
    )


def _clusters(launch: Launch) -> int:
    """Return the number of clusters of a launch."""
    return prod(launch.grid) // prod(launch.cluster)


def _explore(requests: Sequence[Request], options: LaunchOptions) -> list[Report]:
    """Explore the interleavings of the launches; return a report for each launch."""
    blob = b""
    if options.executor is not None:
        if options.observers:
            raise SpecError(
                "executor= and observers= exclude each other: an executor runs in other processes"
            )
        _check_maps(requests)
        inside = replace(options, executor=None, resume=None, progress=None)
        blob = pickle.dumps((tuple(requests), inside))

    def run_here(task: Task, timeout: float | None, contents: Contents) -> Ran:
        return _run_task(requests, replace(options, timeout=timeout, progress=None), task, contents)

    def pack(task: Task, timeout: float | None) -> tuple[Any, ...]:
        return run_packed, blob, task, timeout

    return Explorer(
        run_here,
        pack,
        _fingerprint(requests, options),
        bool(options.sanitize),
        options.max_runs,
        options.timeout,
        options.executor,
        None if options.resume is None else str(options.resume),
        options.progress,
    ).explore()


def _check_maps(requests: Sequence[Request]) -> None:
    """Raise :class:`SpecError` if a tensor map has only an address: other processes cannot use it."""
    for request in requests:
        for value in request.args:
            each = value if isinstance(value, (list, tuple)) else (value,)
            if any(isinstance(one, TensorMap) and one.array is None for one in each):
                raise SpecError(
                    "executor= needs tensor maps that were made from arrays; one was made from an address",
                    hint="pass the array to TensorMap.tiled",
                )


def _fingerprint(requests: Sequence[Request], options: LaunchOptions) -> str:
    """Return a digest of the launches: of the text, the extents, and the arguments with their contents."""
    found = hashlib.sha256()

    def add(value: Any) -> None:
        if is_array(value):
            found.update(host_bytes(value).tobytes())
        elif isinstance(value, TensorMap):
            found.update(repr(replace(value, address=0)).encode())
            if value.array is not None:
                add(value.array)
        elif isinstance(value, (list, tuple)):
            for each in value:
                add(each)
        elif isinstance(value, Mapping):
            for key in value:
                add((key, value[key]))
        else:
            found.update(repr(value).encode())

    for request in requests:
        found.update(print_module(request.module.module).text.encode())
        chosen = sorted(request.uninitialized), sorted(request.outputs), request.dependent
        found.update(repr((request.function.name, request.launch, chosen)).encode())
        add(request.args)
    found.update(repr((options.sanitize, options.max_steps)).encode())
    return found.hexdigest()


def _run_task(requests: Sequence[Request], options: LaunchOptions, task: Task, contents: Contents) -> Ran:
    """Do one run of an exploration on the arrays of the requests."""
    trail = task.trail()
    try:
        outcome = _run(requests, options, contents.begin, (trail, task.contended))
    except Abandoned:
        return Ran(found_in(task, trail))
    digests = tuple(hashlib.sha256(buffer.data.tobytes()).hexdigest()[:32] for buffer in contents.buffers)
    stopped = {finding.rule.name for report in outcome.reports for finding in report.findings}
    timed_out = options.timeout is not None and "step-limit" in stopped
    return Ran(found_in(task, trail), tuple(outcome.reports), digests, trail.choices, timed_out)


@lru_cache(maxsize=2)
def _unpacked(blob: bytes) -> tuple[Sequence[Request], LaunchOptions, Contents, Lock]:
    requests, options = pickle.loads(blob)
    return requests, options, Contents(), Lock()


def run_packed(blob: bytes, task: Task, timeout: float | None) -> Ran:
    """Do one run of an exploration in another process. ``blob`` has the requests and the options."""
    requests, options, contents, lock = _unpacked(blob)
    # An executor with threads has only one copy of the arrays.
    with lock:
        return _run_task(requests, replace(options, timeout=timeout), task, contents)


def _replay(requests: Sequence[Request], options: LaunchOptions) -> list[Report]:
    """Run the interleaving that the schedule names."""
    trail = Trail(choices_of(options.schedule), {})
    why = "no agent can act any more"
    try:
        reports = _run(requests, options, None, (trail, frozenset())).reports
    except Abandoned as abandoned:
        why = str(abandoned)
    else:
        if len(trail.events) >= len(trail.prefix):
            return reports
    raise SpecError(
        f"schedule is {options.schedule!r}: the launch cannot follow it "
        f"at its step {len(trail.events)}: {why}",
        hint="replay the same kernel with the same extents and arguments as in the exploration",
    )


def _run(
    requests: Sequence[Request],
    options: LaunchOptions,
    begin: Callable[[list[LaunchBuffer]], None] | None = None,
    path: tuple[Trail, frozenset[Hashable]] | None = None,
) -> Outcome:
    """Run all launches under one schedule, and return a report for each.

    ``begin``, if given, is called before the first thread runs, with the memory whose contents outlive the
    run. ``path``, if given, replaces the schedule: a trail, and the objects that count as contended; the run
    may then raise :class:`Abandoned`.
    """
    policy = Explored() if path is not None else make_policy(options.schedule, options.seed)
    started, began = time.perf_counter(), time.monotonic()
    prepared, faults = programs_of(requests, options, began, interleaved=policy.interleaves)

    def report(
        entry: str,
        findings: list[Finding],
        steps: int = 0,
        events: int = 0,
        printed: str = "",
        claim: Claim | None = None,
    ) -> Report:
        seconds, strict = time.perf_counter() - started, options.sanitize == "strict"
        return Report(
            entry, options.name, findings, steps, events, seconds, strict=strict, printed=printed, claim=claim
        )

    if faults:
        stopped = Finding(RULES["stream-stopped"], "nothing ran: a launch of the stream cannot start")
        refusals = [faults.get(index, stopped) for index in range(len(requests))]
        functions = [request.function for request in requests]
        return Outcome(
            [report(function.name, [why]) for function, why in zip(functions, refusals, strict=True)],
            frozenset(),
        )
    programs = [program for program in prepared if program is not None]
    target = max((program.target for program in programs), key=lambda target: target.number)
    machine: Machine
    if path is not None:
        machine = StepwiseMachine(target, options.limits, *path, progress=options.progress, started=began)
    elif isinstance(options.debug, Debugger):
        machine = DebuggedMachine(
            target, policy, options.limits, options.debug, progress=options.progress, started=began
        )
    else:
        machine = Machine(target, policy, options.limits, progress=options.progress, started=began)
    watch: Watch | None = None
    if options.sanitize:
        sanitizer = Sanitizer(machine)
        if isinstance(machine, StepwiseMachine):
            touching = machine.touching
            machine.observe(
                WeakReads(machine.memory, sanitizer, machine.choose_writes, lambda: touching.current)
            )
        elif policy.weak_reads:
            machine.observe(
                WeakReads(machine.memory, sanitizer, chooser(machine.memory, policy), limited=True)
            )
        if path is None:
            # The watch reads what threads know before the sanitizer lets them learn from the same event.
            watch = Watch(machine, sanitizer)
            machine.observe(watch)
        machine.observe(sanitizer)
    for observer in options.observers:
        machine.observe(observer)
    recorder = TimelineRecorder(machine, options.timeline) if options.timeline else None
    if recorder is not None:
        machine.observe(recorder)
    mapped = fill(machine, requests, programs, options.assignment)
    if begin is not None:
        begin(_buffers(programs, mapped))
    with fewer_collections() if options.sanitize else nullcontext():
        machine.run()
    if options.sanitize:
        for grid in machine.grids:
            grid.account.findings += _elected_twice(grid.program)
    impossible = any(grid.kept for grid in machine.grids)
    for grid, request in zip(machine.grids, requests, strict=True):
        if impossible:
            # No schedule leaves what is in memory now: the work of some clusters was not done.
            continue
        found = grid.account.findings
        if verdict_of(found) not in (Verdict.ERROR, Verdict.INCOMPLETE):
            found += unwritten_outputs(mapped, request.args, request.outputs)
        if grid.complete:
            found += wrong_results(request.args, request.expected)
    claim = None
    if watch is not None:
        claim = watch.claim([finding for grid in machine.grids for finding in grid.account.findings])
    reports = [
        report(account.entry, account.findings, account.steps, account.events, "".join(grid.printed), claim)
        for grid in machine.grids
        for account in (grid.account,)
    ]
    if recorder is not None:
        names = " and ".join(dict.fromkeys(each.entry for each in reports))
        findings = [str(finding) for each in reports for finding in each.findings]
        notes = findings[:_NOTES]
        if len(findings) > len(notes):
            notes.append(f"and {len(findings) - len(notes)} more findings")
        drawn = recorder.timeline(f"{names} under {options.name}", notes)
        for each in reports:
            each.timeline = drawn
    answers = {request: got for grid in machine.grids for request, got in grid.answers.items()}
    return Outcome(reports, frozenset(machine.engines.used), impossible, answers)


def _elected_twice(program: EntryProgram) -> list[Finding]:
    """Return findings about executed instructions that hardware may carry out twice."""
    executed = program.executed()
    return [
        finding
        for code in program.codes()
        for block, finding in repeated_if_apart(code)
        if executed[code.function.name] & {op.statement for _, op in block.ops}
    ]


def programs_of(
    requests: Sequence[Request],
    options: LaunchOptions,
    began: float,
    *,
    interleaved: bool,
    waits: bool = False,
    values: Values = Values.ALL,
) -> tuple[list[EntryProgram | None], dict[int, Finding]]:
    """Prepare the code of each launch. Return it, and a finding for each launch that cannot run, by position.

    ``began`` is the time at which the run began. ``interleaved`` is True if blocks end wherever other threads
    can act, ``waits`` if they also end before arithmetic that waits for what was loaded. ``values`` says
    which values the runs compute.
    """

    def check_time() -> None:
        if options.timeout is not None and time.monotonic() - began > options.timeout:
            why = (
                f"stopped after timeout={options.timeout} s, before any thread ran, while preparing the code"
            )
            raise Fault(Finding(RULES["step-limit"], why))

    programs: list[EntryProgram | None] = []
    faults: dict[int, Finding] = {}
    for index, request in enumerate(requests):
        program: EntryProgram | None = None
        try:
            program = request.module.program(
                request.function,
                request.launch,
                interleaved=interleaved,
                waits=waits,
                values=values,
                check_time=check_time,
            )
        except Fault as fault:
            faults[index] = fault.finding
        programs.append(program)
    return programs, faults


def _check_assignment(
    assignment: Assignment, requests: Sequence[Request], programs: Sequence[EntryProgram]
) -> None:
    """Raise :class:`SpecError` if an assignment is not one of the launch that cancels clusters."""
    found = [
        _clusters(request.launch)
        for request, program in zip(requests, programs, strict=True)
        if program.cancels_launches
    ]
    if found != [assignment.clusters]:
        raise SpecError(
            f"launch_control is '{assignment}', an assignment of {assignment.clusters} clusters: "
            + (
                f"the launch has {found[0]}"
                if len(found) == 1
                else f"expected one launch that cancels clusters, and {len(found)} of the stream do"
            )
        )


def fill(
    machine: Machine,
    requests: Sequence[Request],
    programs: Sequence[EntryProgram],
    assignment: Assignment | None,
) -> Mapped:
    """Map the modules' variables and the arguments, and add the launches to the machine in order."""
    if assignment is not None:
        _check_assignment(assignment, requests, programs)
    images = {id(program.image): program.image for program in programs}
    if sum(bool(image.stored) for image in images.values()) > 1:
        raise SpecError("modules with global variables of their own cannot share a stream: merge the modules")
    for image in images.values():
        machine.map_variables(image)
    mapped: Mapped = {}
    for request, program in zip(requests, programs, strict=True):
        params = bind_arguments(machine.memory, mapped, program, request.args, request.uninitialized)
        before = machine.grids[-1] if machine.grids else None
        launch = request.launch
        given = assignment if program.cancels_launches else None
        grid = Grid(
            machine, program, launch, params, before=before, dependent=request.dependent, assignment=given
        )
        if launch.cooperative and (resident := grid.resident()) < grid.ctas:
            raise GridSizeError(
                f"{program.function.name!r} is launched cooperatively: its {grid.ctas} CTAs must be resident "
                f"at the same time, but at most {resident} can",
                hint=f"use a grid of at most {resident} CTAs, each of which loops over tiles",
            )
        machine.add(grid)
    return mapped


def _buffers(programs: Sequence[EntryProgram], mapped: Mapped) -> list[LaunchBuffer]:
    """Return the memory whose contents outlive a run: the modules' variables and the arguments' arrays."""
    images = {id(program.image): program.image for program in programs}
    variables = [
        LaunchBuffer(stored.name, stored.data, element_bytes(image.variables[stored.name]))
        for image in images.values()
        for stored in image.stored
    ]
    arrays = [LaunchBuffer(array.name, array.segment.data, array.info.itemsize) for array in mapped.values()]
    return [*variables, *arrays]
