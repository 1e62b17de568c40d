"""Loads a module into the simulator and launches its entries.

Owns the public functions for one launch, :func:`load` and :class:`LoadedModule`. :mod:`.runs` runs what they
have checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SpecError, TargetError
from ...ir import Function, Launch, Module, parse_module
from ...isa import BoundInstructions, unavailable
from ...isa.targets import version_text
from ..code.idle import Values
from ..code.image import ModuleImage
from ..code.program import EntryProgram
from .options import LaunchOptions, RunKeywords, checked_arguments, positions, shows_options
from .reference import expected_outputs
from .report import Report
from .runs import Request, run

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
    """A module in the simulator. Blocks of code are translated once and used by all launches.

    ``pyptx.predict`` takes one, too, and predicts how long a launch takes on a GPU.
    """

    def __init__(self, module: Module, *, check: bool = True) -> None:
        self.module = module
        self._check = check
        #: Names of the entries that were checked against the target and the version.
        self._available: set[str] = set()
        #: Binds each instruction once, for the check and for the code.
        self._bind = BoundInstructions()
        self._image: ModuleImage | None = None
        self._programs: dict[tuple[str, bool, bool, bool, Values], EntryProgram] = {}
        #: What users of the module keep with it, such as machine code by architecture.
        self.kept: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        stored = {} if self._image is None else {each.name: each.data.copy() for each in self._image.stored}
        return _loaded_with, (self.module, self._check, stored)

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

    def executed(self) -> dict[str, set[int]]:
        """Return the operations that the runs of this module have executed so far, in this process.

        The result has, for each function that an entry which ran can reach, the indices of the statements in
        its body. An instruction whose guard was false for all threads counts. Branches, calls and returns are
        not operations.
        """
        found: dict[str, set[int]] = {}
        for program in self._programs.values():
            for name, statements in program.executed().items():
                found.setdefault(name, set()).update(statements)
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
        reference: Mapping[int, Any] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
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
            reference: for positions of array arguments, what the array must contain after each run; a
                difference is the finding ``wrong-result``.
            rtol, atol: an element is right if it differs by at most ``atol + rtol * |reference|``. By default
                as in ``torch.testing.assert_close``, by the type of the array; integers must be equal.
            schedule: ``eager``, ``late``, ``random`` (with ``seed``), or ``starve:ENGINE`` with ``tma``,
                ``mma``, ``ld``, ``st`` or ``cp``. ``weak`` (with ``seed``) is ``random`` with strong reads
                that may return older values, as PTX's memory model allows. ``sampled`` runs under eager,
                late, a starving schedule for each engine that the launch uses, and random with ``seeds``
                seeds starting at ``seed``. ``all`` explores all interleavings that differ in what threads
                and engines compete for. Each run of the two starts from the same memory. Afterwards the
                arrays hold what the first run left; results that differ are a finding. ``replay:...`` is one
                interleaving, by the name that a report of ``all`` gives it.
            seed: seed of the schedules ``random`` and ``weak``.
            seeds: number of random schedules in ``sampled``; their seeds start with ``seed``.
            max_runs: number of runs after which ``all`` ends; it then reports that this bound was reached.
                With ``launch_control="every"``, the largest number of assignments.
            resume: path of a file in which ``all`` keeps what it has explored. If the file exists, ``all``
                continues there.
            executor: a :class:`concurrent.futures.Executor` that does the runs of ``all``.
            sanitize: True, or ``"strict"``, which promotes findings for review to errors. Bounds, alignment
                and initialization are always checked.
            max_steps: warp-instructions after which the run ends as ``incomplete``: 10**9 if None.
            timeout: seconds after which the run ends as ``incomplete``; for ``sampled`` and ``all``, of all
                runs together.
            memory: bytes of the host's memory for the threads of the CTAs that run at once. If as many CTAs
                as the GPU would run need more, fewer run at once.
            progress: called about once a second with a :class:`Progress`.
            observers: :class:`~pyptx.sim.Observer` s, such as a recorder, that get every event of the run.
            waivers: :class:`Waiver` s for findings that the author accepts. The report counts them in
                ``waived``; a waiver that covers no finding is a finding for review.
            debug: True steps through the run at a prompt, as pdb does. A :class:`~pyptx.sim.Debugger`, a list
                of its commands, or a function that gets each :class:`~pyptx.sim.Stop` do so by a script.
            timeline: True, or the largest number of events: ``report.timeline`` then shows what happened.
                Under ``sampled``, each report of ``runs`` has its own. It cannot be combined with ``all``.
            launch_control: for a kernel with ``clusterlaunchcontrol.try_cancel``, None lets the schedule
                decide which clusters are canceled. ``"every"`` runs each assignment of clusters to requests,
                each time from the same memory, so that the report may hold for every schedule; what was run
                is in ``assignments``. The report says if there are more than ``max_runs``. ``"0,2,1/3"`` is
                one assignment: clusters 0 and 3 start, and the requests of cluster 0 get cluster 2, then 1.
                Clusters are counted from 0, x fastest.

        Raises:
            SpecError: arguments or extents do not fit the entry. Mistakes of the kernel are not raised: they
                are findings in the report.
            TargetError: the module's target or version lacks instructions of the entry; see :func:`load`.
        """
        checked = LaunchOptions.of(options)
        request = self.request(
            entry, grid, block, cluster, dynamic_smem, args, uninitialized, outputs=outputs
        )
        request = replace(request, expected=expected_outputs(reference, args, rtol, atol))
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
        self,
        function: Function,
        launch: Launch,
        *,
        interleaved: bool,
        waits: bool = False,
        values: Values = Values.ALL,
        check_time: Callable[[], None],
    ) -> EntryProgram:
        """Return the code of an entry, prepared for a launch with these extents.

        Args:
            function: the entry.
            launch: the extents of the launch.
            interleaved: True if blocks end wherever other threads can act.
            waits: True if they also end before arithmetic that waits for what was loaded.
            values: which values a run computes.
            check_time: called repeatedly while the code is prepared; it may raise an exception.

        Raises:
            Fault: the code cannot be run.
        """
        clustered = launch.cluster != (1, 1, 1)
        key = (function.name, clustered, interleaved, waits, values)
        program = self._programs.get(key)
        if program is None:
            program = EntryProgram(
                self.image,
                function,
                clustered=clustered,
                interleaved=interleaved,
                waits=waits,
                values=values,
                check_time=check_time,
            )
            self._programs[key] = program
        return program


def _loaded_with(module: Module, check: bool, stored: Mapping[str, NDArray[np.uint8]]) -> LoadedModule:
    """Return a loaded module whose global variables have these contents. Used to copy one."""
    loaded = LoadedModule(module, check=check)
    for name, data in stored.items():
        loaded.variable(name)[...] = data
    return loaded


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
