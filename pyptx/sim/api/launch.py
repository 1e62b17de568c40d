"""Loads a module into the simulator and launches its entries.

Owns the public functions for one launch, :func:`load` and :class:`LoadedModule`, and the checked form of a
launch, :class:`Request`. :func:`run` turns requests into reports, for one launch and for the launches of a
:mod:`.stream`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SpecError, TargetError
from ...core.findings import RULES, Finding, Verdict, verdict_of
from ...ir import Function, Launch, Module, parse_module
from ...isa import BoundInstructions, unavailable
from ...isa.targets import version_text
from ..claims.competing import Claim
from ..claims.watch import Watch
from ..code.image import ModuleImage, element_bytes
from ..code.program import EntryProgram
from ..machine.machine import Machine
from ..machine.schedule import make_policy
from ..memory.segments import Fault
from ..sanitizer.sanitizer import Sanitizer
from ..threads.grid import Grid
from .arguments import Mapped, bind_arguments, unwritten_outputs
from .every_schedule import EVERY_SCHEDULE, LaunchBuffer, Outcome, run_every_schedule
from .options import LaunchOptions, RunKeywords, checked_arguments, positions, shows_options
from .report import Report

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["LoadedModule", "load"]

#: The largest number of faults of a module that one error lists.
_LISTED = 10


def load(module: Module | str, *, check: bool = True) -> LoadedModule:
    """Prepare a module or PTX text from any source for launches in the simulator.

    Args:
        check: whether the first launch of an entry checks the entry and the functions that it reaches. It
            refuses instructions that the module's ``.target`` or ``.version`` does not have, and different
            ``.cta_group`` modifiers.

    Raises:
        ParseError: the text is not PTX.
        SpecError: ``module`` is neither a module nor text.
    """
    if isinstance(module, str):
        module = parse_module(module)
    if not isinstance(module, Module):
        raise SpecError(f"sim.load takes an ir.Module or PTX text, got {type(module).__name__}")
    return LoadedModule(module, check=check)


class LoadedModule:
    """A module in the simulator. Blocks of code are translated once and used by all launches."""

    def __init__(self, module: Module, *, check: bool = True) -> None:
        self.module = module
        self._check = check
        #: Names of the entries that were checked against the target and the version.
        self._available: set[str] = set()
        #: Binds each instruction once, for the check and for the code.
        self._bind = BoundInstructions()
        self._image: ModuleImage | None = None
        self._programs: dict[tuple[str, bool, bool], EntryProgram] = {}

    @property
    def image(self) -> ModuleImage:
        """The module's memory image. Its variables keep their contents from launch to launch."""
        if self._image is None:
            self._image = ModuleImage(self.module, self._bind)
        return self._image

    def variable(self, name: str) -> NDArray[np.uint8]:
        """Return the bytes of a ``.global`` or ``.const`` variable, to read or change between launches."""
        found = self.image.find(name)
        if found is None:
            known = sorted(v.name for v in self.module.variables if v.space in ("global", "const"))
            raise SpecError(f"no variable {name!r}; the module has {', '.join(known) or 'none'}")
        return found

    @shows_options
    def launch(
        self,
        entry: str | None = None,
        *,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        cluster: int | Sequence[int] = (1, 1, 1),
        dynamic_smem: int = 0,
        args: Sequence[Any] = (),
        uninitialized: Sequence[int] = (),
        outputs: Sequence[int] = (),
        **options: Unpack[RunKeywords],
    ) -> Report:
        """Run ``entry`` (the only one if None) to its end and return a report.

        Args:
            grid, block, cluster: extents in x, y, z.
            dynamic_smem: bytes of dynamic shared memory.
            args: one argument for each parameter: arrays and CPU tensors (global pointers; written in place),
                :class:`TensorMap` values, numbers for scalars. A C struct takes bytes, a structured numpy
                scalar, a list of members (arrays, tensor maps, numpy scalars, bytes, lists), each placed at
                its alignment, or a dict from offsets to members. A pointer also takes a list of arrays, and
                then points at their addresses, or a tensor map or a list of them, which are placed in global
                memory.
            uninitialized: positions of array arguments whose contents count as never written.
            outputs: positions of array arguments that count as never written and that the kernel must fill:
                elements that are never written are a finding.
            schedule: ``eager``, ``late``, ``random`` (with ``seed``), or ``starve:ENGINE`` with ``tma``,
                ``mma``, ``ld``, ``st`` or ``cp``. ``all`` runs under eager, late, a starving schedule for
                each engine that the launch uses, and random with ``seeds`` seeds starting at ``seed``. Each
                run starts from the same memory. Afterwards the arrays hold what the eager run left; results
                that differ between schedules are a finding.
            seed: seed of the random schedule.
            seeds: number of random schedules in ``all``; their seeds start with ``seed``.
            sanitize: True, or ``"strict"``, which promotes findings for review to errors. Bounds, alignment
                and initialization are always checked.
            max_steps: warp-instructions after which the run ends as ``incomplete``: 10**9 if None.
            timeout: seconds after which the run ends as ``incomplete``; for ``all``, of all runs together.
            memory: bytes of the host's memory for the threads of the CTAs that run at once. If as many CTAs
                as the GPU would run need more, fewer run at once.
            progress: called about once a second with a :class:`Progress`.
            observers: :class:`~pyptx.sim.Observer` s, such as a recorder, that get every event of the run.

        Raises:
            SpecError: arguments or extents do not fit the entry. Mistakes of the kernel are not raised: they
                are findings in the report.
            TargetError: the module's target or version lacks instructions of the entry; see :func:`load`.
        """
        checked = LaunchOptions.of(options)
        request = self.request(
            entry, grid, block, cluster, dynamic_smem, args, uninitialized, outputs=outputs
        )
        return run([request], checked)[0]

    def request(
        self,
        entry: str | None,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        cluster: int | Sequence[int],
        dynamic_smem: int,
        args: Sequence[Any],
        uninitialized: Sequence[int],
        *,
        outputs: Sequence[int] = (),
        dependent: bool = False,
    ) -> Request:
        """Check a launch and return it as a request. Arguments and errors are as in :meth:`launch`."""
        if entry is not None and not isinstance(entry, str):
            raise SpecError(f"entry is {entry!r}: expected the name of an entry, or None")
        try:
            function = self.module.entry(entry)
        except KeyError as error:
            raise SpecError(str(error.args[0])) from None
        launch = Launch.of(grid, block, cluster, dynamic_smem)
        required = function.directive("reqnctapercluster")
        if required is not None and launch.cluster == (1, 1, 1):
            # If the launch gives no cluster, use the one that the kernel was built for, as the driver does.
            launch = Launch.of(grid, block, required, dynamic_smem)
        _check_entry(function, launch)
        self._check_available(function)
        args = checked_arguments(args)
        unwritten = positions("uninitialized", uninitialized, args)
        filled = positions("outputs", outputs, args)
        return Request(self, function, launch, args, unwritten | filled, filled, dependent)

    def _check_available(self, function: Function) -> None:
        """Raise an error if ``function`` uses what the module's target or version does not have.

        The error lists each use with its line.
        """
        if not self._check or function.name in self._available:
            return
        faults = unavailable(self.module, function, self._bind)
        if faults:
            module = self.module
            lines = [f"{fault.location}: {fault.message}" for fault in faults[:_LISTED]]
            if len(faults) > _LISTED:
                lines.append(f"and {len(faults) - _LISTED} more")
            raise TargetError(
                f"{function.name} uses what .target {module.target} with .version "
                f"{version_text(module.version)} does not have:\n  " + "\n  ".join(lines),
                hint="correct .target or .version, or skip this check: sim.load(text, check=False), "
                "pyptx sim --no-check",
            )
        self._available.add(function.name)

    def program(
        self, function: Function, launch: Launch, *, interleaved: bool, check_time: Callable[[], None]
    ) -> EntryProgram:
        """Return the code of an entry, prepared for a launch with these extents.

        Args:
            function: the entry.
            launch: the extents of the launch.
            interleaved: True if blocks end wherever other threads can act.
            check_time: called repeatedly while the code is prepared; it may raise an exception.

        Raises:
            Fault: the code cannot be run.
        """
        clustered = launch.cluster != (1, 1, 1)
        key = (function.name, clustered, interleaved)
        program = self._programs.get(key)
        if program is None:
            program = EntryProgram(
                self.image, function, clustered=clustered, interleaved=interleaved, check_time=check_time
            )
            self._programs[key] = program
        return program


@dataclass(frozen=True)
class Request:
    """One launch whose arguments and options have been checked, and that has not run yet.

    ``uninitialized`` also contains the positions of ``outputs``. ``dependent`` means that the launch depends
    on the previous one by programmatic dependent launch.
    """

    module: LoadedModule
    function: Function
    launch: Launch
    args: Sequence[Any]
    uninitialized: frozenset[int]
    outputs: frozenset[int] = frozenset()
    dependent: bool = False


def run(requests: Sequence[Request], options: LaunchOptions) -> list[Report]:
    """Run one or more launches of one stream to their end, and return a report for each."""
    if options.schedule != EVERY_SCHEDULE:
        return _run(requests, options).reports

    def run_one(
        schedule: str, seed: int, timeout: float | None, begin: Callable[[list[LaunchBuffer]], None]
    ) -> Outcome:
        one = replace(options, schedule=schedule, seed=seed, timeout=timeout)
        return _run(requests, one, begin)

    return run_every_schedule(run_one, seed=options.seed, seeds=options.seeds, timeout=options.timeout)


def _run(
    requests: Sequence[Request],
    options: LaunchOptions,
    begin: Callable[[list[LaunchBuffer]], None] | None = None,
) -> Outcome:
    """Run all launches under one schedule, and return a report for each.

    ``begin``, if given, is called before the first thread runs, with the memory whose contents outlive the
    run.
    """
    policy = make_policy(options.schedule, options.seed)
    started, began = time.perf_counter(), time.monotonic()

    def check_time() -> None:
        if options.timeout is not None and time.monotonic() - began > options.timeout:
            why = (
                f"stopped after timeout={options.timeout} s, before any thread ran, while preparing the code"
            )
            raise Fault(Finding(RULES["step-limit"], why))

    programs: list[EntryProgram] = []
    refused: dict[int, Finding] = {}
    for index, request in enumerate(requests):
        try:
            programs.append(
                request.module.program(
                    request.function, request.launch, interleaved=policy.interleaves, check_time=check_time
                )
            )
        except Fault as fault:
            refused[index] = fault.finding

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

    if refused:
        stopped = Finding(RULES["stream-stopped"], "nothing ran: a launch of the stream cannot start")
        refusals = [refused.get(index, stopped) for index in range(len(requests))]
        functions = [request.function for request in requests]
        return Outcome(
            [report(function.name, [why]) for function, why in zip(functions, refusals, strict=True)],
            frozenset(),
        )
    target = max((program.target for program in programs), key=lambda target: target.number)
    machine = Machine(target, policy, options.limits, progress=options.progress, started=began)
    watch: Watch | None = None
    if options.sanitize:
        sanitizer = Sanitizer(machine)
        # The watch reads what threads know before the sanitizer lets them learn from the same event.
        watch = Watch(machine, sanitizer)
        machine.observe(watch)
        machine.observe(sanitizer)
    for observer in options.observers:
        machine.observe(observer)
    mapped = _fill(machine, requests, programs)
    if begin is not None:
        begin(_buffers(programs, mapped))
    machine.run()
    for grid, request in zip(machine.grids, requests, strict=True):
        found = grid.account.findings
        if verdict_of(found) not in (Verdict.ERROR, Verdict.INCOMPLETE):
            found += unwritten_outputs(mapped, request.args, request.outputs)
    claim = None
    if watch is not None:
        claim = watch.claim([finding for grid in machine.grids for finding in grid.account.findings])
    reports = [
        report(account.entry, account.findings, account.steps, account.events, "".join(grid.printed), claim)
        for grid in machine.grids
        for account in (grid.account,)
    ]
    return Outcome(reports, frozenset(machine.engines.used))


def _fill(machine: Machine, requests: Sequence[Request], programs: Sequence[EntryProgram]) -> Mapped:
    """Map the modules' variables and the arguments, and add the launches to the machine in order."""
    images = {id(program.image): program.image for program in programs}
    if sum(bool(image.stored) for image in images.values()) > 1:
        raise SpecError("modules with global variables of their own cannot share a stream: merge the modules")
    for image in images.values():
        machine.map_variables(image)
    mapped: Mapped = {}
    for request, program in zip(requests, programs, strict=True):
        params = bind_arguments(machine.memory, mapped, program, request.args, request.uninitialized)
        before = machine.grids[-1] if machine.grids else None
        machine.add(
            Grid(machine, program, request.launch, params, before=before, dependent=request.dependent)
        )
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


def _check_entry(function: Function, launch: Launch) -> None:
    """Check the launch against the entry's directives. Raise :class:`SpecError` if they do not fit."""
    exact = function.directive("reqntid")
    if exact is not None and (*exact, 1, 1)[:3] != launch.block:
        raise SpecError(f"the block is {launch.block}, but {function.name} requires {exact} (.reqntid)")
    most = function.directive("maxntid")
    if most is not None and prod(launch.block) > prod(most):
        raise SpecError(
            f"the block {launch.block} has more threads than .maxntid {most} of {function.name} allows"
        )
    required = function.directive("reqnctapercluster")
    if required is not None and (*required, 1, 1)[:3] != launch.cluster:
        raise SpecError(
            f"the cluster is {launch.cluster}, but {function.name} requires {required} (.reqnctapercluster)"
        )
