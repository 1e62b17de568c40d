"""``@kernel``: turns a Python function into a GPU kernel.

Owns :class:`Kernel`: its keywords, and the decision whether a call runs on a
GPU or in the simulator.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..core.arrays import ArrayInfo, is_tensor
from ..core.collection import uncollected
from ..core.errors import DeviceError, PyptxError, PyptxWarning, SpecError, StreamError
from ..core.source import defined_at
from ..core.tracebacks import short_traceback, shortened
from ..dsl import Scalar, Tile, Workspace
from ..dsl.trace import identifier
from ..ir import Module, PrintedModule, print_module
from ..isa import target
from ..runtime.launch import stream_handle
from .arguments import KernelArguments, allocate, bind_dims, check_array, check_scalar, place_of
from .declaration import parameter_names, positive, whole
from .foreign import is_foreign, lend, owner_of
from .operators import Operators, needs_operator, traced
from .ready import count_writes, on_stream
from .signatures import MISS, Signatures
from .specializations import Specializations
from .specialize import Extent, KernelOptions, Recorded, Specialization

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from os import PathLike

    from ..core.waivers import Waiver
    from ..sim import Debugger, Observer, Report, Stop
    from ..sim.clock.units import L2State
    from ..timing.constants import Gpu
    from ..toolchain import Assembly
    from .autograd import Differentiable
    from .export import Exported
    from .prediction import Contents, Prediction, Protocol
    from .prepared import Prepared

__all__ = ["Kernel", "kernel"]


@overload
def kernel(function: Callable[..., None], /) -> Kernel: ...


@overload
def kernel(
    *,
    in_specs: Sequence[Tile | Scalar] = (),
    out_specs: Sequence[Tile] = (),
    grid: Extent = 1,
    block: Extent = 1,
    cluster: Extent = (1, 1, 1),
    arch: str = "sm_100a",
    smem: int | Callable[..., int] | None = None,
    extern_smem: bool = False,
    min_ctas_per_sm: int | None = None,
    max_registers: int | None = None,
    cooperative: bool = False,
    dependent: bool = False,
    priority: int | None = None,
    carveout: int | None = None,
    workspaces: Sequence[Workspace] = (),
    name: str | None = None,
) -> Callable[[Callable[..., None]], Kernel]: ...


def kernel(
    function: Callable[..., None] | None = None,
    /,
    *,
    in_specs: Sequence[Tile | Scalar] = (),
    out_specs: Sequence[Tile] = (),
    grid: Extent = 1,
    block: Extent = 1,
    cluster: Extent = (1, 1, 1),
    arch: str = "sm_100a",
    smem: int | Callable[..., int] | None = None,
    extern_smem: bool = False,
    min_ctas_per_sm: int | None = None,
    max_registers: int | None = None,
    cooperative: bool = False,
    dependent: bool = False,
    priority: int | None = None,
    carveout: int | None = None,
    workspaces: Sequence[Workspace] = (),
    name: str | None = None,
) -> Kernel | Callable[[Callable[..., None]], Kernel]:
    """Make a kernel from a function that records instructions.

    The function's positional parameters are the inputs, then the outputs, in the order of the specs. Its
    keyword-only parameters are compile-time constants, which the caller gives as keywords; each combination
    of values is recorded as a separate specialization. A constant with the name of a dim gets the dim's
    value.

    Args:
        in_specs: a ``Tile`` for each array, a ``Scalar`` for each run-time number.
        out_specs: a ``Tile`` for each output.
        grid: number of CTAs in x, y, z: a number, a tuple, or a function of the dims and constants (which it
            gets by name, or as one dict).
        block: threads of a CTA in x, y, z, or a function; recorded as ``.reqntid``.
        cluster: CTAs of a cluster in x, y, z, or a function.
        arch: target architecture.
        smem: bytes of shared memory that the author lays out by hand, starting at ``smem.base()``; or a
            function.
        extern_smem: make shared memory dynamic even if static memory would suffice (up to 48 KiB).
        min_ctas_per_sm: minimum number of CTAs per SM, recorded as ``.minnctapersm``.
        max_registers: maximum number of registers per thread, recorded as ``.maxnreg``.
        cooperative: all CTAs of the grid must be resident at the same time, for barriers of the whole grid;
            the driver refuses a grid that is too large (CUDA's cooperative launch).
        dependent: a launch may begin before the previous one in its stream has ended: when all its CTAs have
            executed ``griddepcontrol.launch_dependents`` or ended. The kernel waits for the previous one's
            results with ``griddepcontrol.wait`` (programmatic dependent launch).
        priority: priority of the launches, lower numbers first; by default that of their stream.
        carveout: percentage of an SM's memory that should be shared memory, from 0 to 100; the rest is L1
            cache. By default the driver chooses.
        workspaces: a ``Workspace`` for each piece of memory that a launch needs besides its arrays; the
            function's parameters for them follow the outputs.
        name: name of the entry in the PTX text; by default the function's name.

    Watch out: a specialization is recorded once for its dims and constants. If the function reads other
    Python values (globals, closures), later changes of them have no effect; pass such values as constants.

    Raises:
        SpecError: the function's parameters do not match the specs.
        TargetError: an unknown architecture.
    """

    def decorate(function: Callable[..., None]) -> Kernel:
        specs = (*in_specs, *out_specs)
        names = parameter_names(function, specs, len(in_specs), workspaces, _reserved())
        count = len(specs)
        target(arch)
        return Kernel(
            function,
            KernelOptions(
                names=names[:count],
                specs=specs,
                inputs=len(in_specs),
                grid=grid,
                block=block,
                cluster=cluster,
                arch=arch,
                smem=smem,
                extern_smem=extern_smem,
                min_ctas_per_sm=positive("min_ctas_per_sm", min_ctas_per_sm),
                max_registers=positive("max_registers", max_registers),
                cooperative=bool(cooperative),
                dependent=bool(dependent),
                priority=whole("priority", priority, -(1 << 31), (1 << 31) - 1),
                carveout=whole("carveout", carveout, 0, 100),
                workspaces=tuple(zip(names[count:], workspaces, strict=True)),
                entry=identifier(name or function.__name__),
                location=defined_at(function),
            ),
        )

    return decorate if function is None else decorate(function)


@functools.cache
def _reserved() -> frozenset[str]:
    """Return the keywords that the kernel's methods have; a compile-time constant cannot have such a name."""
    methods = (
        *(Kernel.__call__, Kernel.prepare, Kernel.simulate),
        *(Kernel.ptx, Kernel.assemble, Kernel.sass, Kernel.export),
    )
    parameters = (p for method in methods for p in inspect.signature(method).parameters.values())
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


class Kernel:
    """A kernel, which can be called with arrays or printed as PTX. Made by :func:`kernel`.

    Keywords of its methods are compile-time constants and dims, by name.  The function is recorded once for
    each set of constants and of dims that it reads (``A.shape[0]``, a constant with the name of a dim); if
    the function reads other values (globals, closures), later changes of them have no effect.
    """

    def __init__(self, function: Callable[..., None], options: KernelOptions) -> None:
        self.function = function
        self.options = options
        self._specializations = Specializations(options, function)
        self._signatures = Signatures(options.specs)
        #: The kernel as operators of torch.
        self.operators = Operators(self)
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<kernel {self.options.entry} for {self.options.arch}>"

    def content(self) -> tuple[object, ...]:
        """Return what the kernel was made from: its function and its options."""
        return self.function, self.options

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        """Return the kernel itself, as for a function: copies of a module share its kernels."""
        return self

    def __reduce__(self) -> str:
        """Pickle the kernel by its name, as a function; it must be an attribute of its module."""
        return self.__qualname__  # type: ignore[attr-defined,no-any-return]

    # --- specialization -----------------------------------------------------------------------

    def _own_keywords(self) -> list[str]:
        """Return the keywords of calls, runs and predictions, which are no constants or dims."""
        methods = (self.__call__, self.simulate, self.predict)
        parameters = [each for method in methods for each in inspect.signature(method).parameters.values()]
        return [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]

    def split(self, keywords: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
        """Split the keywords into dims and constants. Raises :class:`SpecError` for any other keyword."""
        defaults = self._specializations.defaults
        for name in keywords:
            if name not in self.options.dims and name not in defaults:
                known = dict.fromkeys([*self.options.dims, *defaults])
                near = difflib.get_close_matches(name, [*known, *self._own_keywords()], 1)
                raise SpecError(
                    f"{self.options.entry} has no constant or dim {name!r}; "
                    f"it has: {', '.join(known) or 'none'}",
                    hint=f"did you mean {near[0]!r}?" if near else "",
                )
        dims = {
            name: int(value) if isinstance(value, np.integer) else value
            for name, value in keywords.items()
            if name in self.options.dims
        }
        constants = {name: value for name, value in keywords.items() if name not in self.options.dims}
        return dims, constants

    @short_traceback
    def specialize(self, **keywords: Any) -> Specialization:
        """Record the kernel for these dims and constants, or return it from the cache.

        Dims that differ only in what the recording has not read share one recording.

        Raises:
            SpecError: a keyword is unknown, a constant or dim has no value, or a constant is not hashable.
            PyptxError: the kernel function makes a mistake.
        """
        return self._specializations(*self.split(keywords))

    @property
    def recorded(self) -> int:
        """How often the function was recorded."""
        return self._specializations.made

    def recordings(self) -> list[Recorded]:
        """Return the recordings that are kept, the oldest first; specializations share them."""
        return self._specializations.recorded()

    @short_traceback
    def specialize_for(self, *arrays: Any, **keywords: Any) -> Specialization:
        """Record the kernel for the dims of these inputs, as a call with them does.

        Raises:
            SpecError: the inputs do not fit the specs, or a keyword does not.
            PyptxError: the kernel function makes a mistake.
        """
        infos = self._inputs(arrays)[1]
        dims, constants = self.split(keywords)
        names, specs = self.options.names[: len(infos)], self.options.specs[: len(infos)]
        return self._specializations(bind_dims(names, specs, infos, dims), constants)

    def specializations(self) -> tuple[Specialization, ...]:
        """Return the specializations that are kept: one for each of the latest sets of dims and constants."""
        return self._specializations.kept()

    @short_traceback
    def module(self, **keywords: Any) -> Module:
        """Return the recorded IR. The arguments and errors are those of :meth:`specialize`."""
        return self.specialize(**keywords).module

    @short_traceback
    def printed(self, **keywords: Any) -> PrintedModule:
        """Return the plain PTX text with a table that gives the Python line of each text line."""
        return self.specialize(**keywords).printed

    @short_traceback
    def ptx(self, *, lines: bool = False, annotate: bool = False, **keywords: Any) -> str:
        """Return the PTX text.

        The default text is plain: it has the same bytes on every machine, to be read and compared.  ptxas and
        the driver get the text with ``lines=True``, which compiles to the same machine code.

        Args:
            lines: name the Python line that recorded each instruction, with ``.file`` and ``.loc``; helper
                functions are inlined frames. The lines keep the numbers that they have in the plain text.
            annotate: put the Python lines between the instructions that they recorded, as comments.
            keywords: constants and dims.

        PTX ISA: `#debugging-directives-loc`
        """
        special = self.specialize(**keywords)
        if annotate:
            return print_module(special.module, lines=lines, annotate=True).text
        return (special.lined if lines else special.printed).text

    @short_traceback
    def assemble(self, *, lines: bool = True, **keywords: Any) -> Assembly:
        """Run ptxas on the text and return a :class:`~pyptx.toolchain.Assembly`.

        The result has the cubin, registers, spills, shared memory, and every warning and note of ptxas with
        the Python line that it concerns.

        Args:
            lines: put Python lines into the cubin, for nvdisasm, ncu, compute-sanitizer and cuda-gdb. Without
                them the cubin is smaller, and the machine code is the same.
            keywords: constants and dims.

        Raises:
            AssembleError: ptxas refuses the text; the message shows the Python lines.
            ToolNotFoundError: there is no ptxas.
        """
        from ..toolchain import assemble

        special = self.specialize(**keywords)
        assembly: Assembly | None = special.loaded.get(("ptxas", lines))
        if assembly is None:
            assembly = assemble(special.lined if lines else special.printed)
            special.loaded["ptxas", lines] = assembly
        return assembly

    @short_traceback
    def sass(self, *, lines: bool = False, control: bool = False, **keywords: Any) -> str:
        """Return the disassembled machine code (SASS) that ptxas generates.

        Args:
            lines: put the Python lines between the instructions, as comments.
            control: put the control code of each instruction, ``B0-----:R-:W1:-:S02``, in front of it: the
                barriers it waits for, those it holds until its operands are read and its result is written,
                Y if another warp should go next, and the cycles to this warp's next instruction.
            keywords: constants and dims.

        Raises:
            AssembleError: ptxas refuses the text; the message shows the Python lines.
            ToolNotFoundError: there is no ptxas or no nvdisasm.
        """
        from ..toolchain import disassemble

        cubin = self.assemble(lines=True, **keywords).cubin
        return str(disassemble(cubin, lines=lines, control=control))

    @short_traceback
    def export(
        self, directory: str | PathLike[str], /, *, name: str | None = None, **keywords: Any
    ) -> Exported:
        """Write the kernel for programs without Python: a cubin, its PTX, a JSON manifest, and a C header.

        The header has functions that load the cubin and launch the kernel; it needs ``cuda.h`` alone.  The
        sizes and the grid are those of the dims.

        Args:
            directory: folder for the files, which is made if necessary.
            name: name of the files and beginning of the C functions' names; by default that of the entry.
                Give one to export a kernel for several sizes.
            keywords: constants and dims.

        Raises:
            SpecError: ``name`` is no C identifier, or a dim or constant has no value.
            AssembleError: ptxas refuses the text; the message shows the Python lines.
            ToolNotFoundError: there is no ptxas.
        """
        from .export import export

        special = self.specialize(**keywords)
        return export(special, self.options, self.assemble(lines=False, **keywords), directory, name)

    # --- running ------------------------------------------------------------------------------

    def check_counts(self, inputs: int, outputs: int | None) -> None:
        """Raise :class:`SpecError` if a call gives another number of inputs, or of outputs in ``out=``."""
        options = self.options
        if inputs != options.inputs:
            expected = ", ".join(options.names[: options.inputs]) or "none"
            raise SpecError(
                f"{options.entry} takes {options.inputs} inputs ({expected}), got {inputs}",
                hint="outputs are returned, or passed as out=; constants are keywords",
            )
        wanted = len(options.specs) - options.inputs
        if outputs is not None and outputs != wanted:
            raise SpecError(f"{options.entry} has {wanted} outputs, got {outputs} in out=")

    def _inputs(self, given: Sequence[Any], stream: Any = None) -> tuple[list[Any], list[ArrayInfo | None]]:
        options = self.options
        self.check_counts(len(given), None)
        values: list[Any] = []
        infos: list[ArrayInfo | None] = []
        for name, spec, value in zip(options.names, options.specs, given, strict=False):
            if isinstance(spec, Tile):
                values.append(lend(name, value, stream) if is_foreign(value) else value)
                infos.append(check_array(name, spec, values[-1]))
            else:
                values.append(check_scalar(name, spec, value))
                infos.append(None)
        return values, infos

    def _bind(
        self, given: Sequence[Any], out: Any, keywords: Mapping[str, Any], stream: Any = None
    ) -> tuple[Specialization, KernelArguments]:
        """Check all arguments, record the kernel if necessary, and allocate outputs that were not given.

        On a GPU, ``stream`` is the stream that will write the outputs.
        """
        options = self.options
        dims, constants = self.split(keywords)
        values, infos = self._inputs(given, stream)
        specs = options.specs[options.inputs :]
        names = options.names[options.inputs :]
        fresh = out is None
        outputs: list[Any] = []
        if not fresh:
            outputs = list(out) if isinstance(out, (tuple, list)) else [out]
            self.check_counts(len(given), len(outputs))
            outputs = [
                lend(name, value, stream, written=True) if is_foreign(value) else value
                for name, value in zip(names, outputs, strict=True)
            ]
            infos += [
                check_array(name, spec, value)
                for name, spec, value in zip(names, specs, outputs, strict=True)
                if isinstance(spec, Tile)
            ]
        known = options.names[: len(infos)]
        dims = bind_dims(known, options.specs[: len(infos)], infos, dims)
        place, index = place_of(known, infos)
        special = self._specializations(dims, constants)
        if fresh:
            like = next((value for value, info in zip(values, infos, strict=True) if info is not None), None)
            tiles = [spec for spec in specs if isinstance(spec, Tile)]

            def make() -> list[Any]:
                return [allocate(name, tile, dims, like) for name, tile in zip(names, tiles, strict=True)]

            side = place == "cuda" and stream is not None and is_tensor(like)
            outputs = on_stream(stream_handle(stream, index), index, make) if side else make()
            infos += map(check_array, names, tiles, outputs)
        return special, KernelArguments((*values, *outputs), tuple(infos), tuple(outputs), fresh)

    @short_traceback
    def simulate(
        self,
        *arrays: Any,
        schedule: str = "eager",
        seed: int = 0,
        seeds: int = 3,
        sanitize: bool | str = True,
        max_steps: int | None = None,
        timeout: float | None = None,
        observers: Sequence[Observer] = (),
        max_runs: int = 1000,
        resume: str | PathLike[str] | None = None,
        executor: Executor | None = None,
        waivers: Sequence[Waiver] = (),
        debug: bool | Debugger | Sequence[str] | Callable[[Stop], str | None] | None = None,
        timeline: bool | int = False,
        launch_control: str | None = None,
        reference: Any = None,
        rtol: float | None = None,
        atol: float | None = None,
        out: Any = None,
        **keywords: Any,
    ) -> Report:
        """Run the kernel in the simulator.

        Args:
            arrays: the inputs: numpy arrays, CPU tensors, numbers for scalars.
            schedule: ``"eager"``, ``"late"``, ``"random"`` (with ``seed``), ``"starve:ENGINE"``,
                ``"sampled"``, which runs under each of them, or ``"all"``, which explores all interleavings
                (see :meth:`.LoadedModule.launch`).
            seed: seed of the random schedule.
            seeds: number of random schedules in ``"sampled"``; their seeds start with ``seed``.
            sanitize: ``"strict"`` turns findings for review into errors.
            max_steps: number of warp-instructions after which the run ends as incomplete.
            timeout: seconds after which the run ends as incomplete.
            observers: :class:`~pyptx.sim.Observer` s, such as a recorder, that get every event of the run.
            max_runs, resume, executor: bounds and means of ``"all"``, as in :meth:`.LoadedModule.launch`.
            waivers: :class:`.Waiver` s for findings that the author accepts; the report counts them.
            debug: True steps through the run at a prompt; a :class:`~pyptx.sim.Debugger`, a list of its
                commands, or a function that gets each :class:`~pyptx.sim.Stop`.
            timeline: True, or the largest number of events: ``report.timeline`` then shows what happened.
            launch_control: ``"every"`` runs a kernel with cluster launch control once for each assignment of
                its clusters, at most ``max_runs``; the text of one assignment runs that one (see
                :meth:`.LoadedModule.launch`).
            reference: what the outputs must be: an array or a sequence of arrays, or a function of the inputs
                that returns them. A difference is the finding ``wrong-result``.
            rtol, atol: an element is right if it differs by at most ``atol + rtol * |reference|``. By default
                as in ``torch.testing.assert_close``, by the type of the array; integers must be equal.
            out: array or arrays for the outputs; allocated if None.
            keywords: constants and dims.

        Returns:
            The simulator's report with the output arrays in ``outputs``, and with ``verdict`` and
            ``findings``.

        Raises:
            SpecError: the arguments do not fit the specs. Mistakes of the kernel do not raise; the report
                lists them.
        """
        from ..sim.api.options import LaunchOptions
        from .execute import outputs_of, simulate

        options = LaunchOptions.of(
            {
                "schedule": schedule,
                "seed": seed,
                "seeds": seeds,
                "sanitize": sanitize,
                "max_steps": max_steps,
                "timeout": timeout,
                "observers": observers,
                "max_runs": max_runs,
                "resume": resume,
                "executor": executor,
                "waivers": waivers,
                "debug": debug,
                "timeline": timeline,
                "launch_control": launch_control,
            }
        )
        wanted = outputs_of(reference, arrays)
        special, arguments = self._bind(arrays, out, keywords)
        place, _ = place_of(self.options.names, arguments.infos)
        if place != "cpu":
            raise DeviceError(
                "the simulator needs arrays in host memory, got CUDA tensors", hint="pass tensor.cpu()"
            )
        return simulate(special, self.options, arguments, options, (wanted, rtol, atol))

    @short_traceback
    def predict(
        self,
        *arrays: Any,
        gpu: str | PathLike[str] | Gpu | None = None,
        clock: Protocol = "sustained",
        timeout: float | None = None,
        data: str | float = "normal",
        l2: L2State = "rotating",
        contents: Contents = "unknown",
        out: Any = None,
        **keywords: Any,
    ) -> Prediction:
        """Predict how long a launch takes on a GPU that need not be here.

        The timed machine runs some clusters event by event; they stand for all.

        Args:
            arrays: the inputs: arrays, or shapes as tuples of integers, whose contents are then unknown, as
                those of :func:`pyptx.sim.unknown` are (if they decide where threads go, the verdict is
                ``incomplete``); numbers for scalars. Without any, the dims give the shapes,
                and keywords the numbers.
            gpu: ``"b200"``, ``"h200"``, the path of a file of constants that ``pyptx calibrate`` wrote, or a
                :class:`~pyptx.timing.constants.Gpu`. By default the GPU of the kernel's target: an H200 for
                sm_90a, a B200 for sm_100a and for other targets.
            clock: ``"burst"``, ``"sustained"``, or the frequency in MHz at which the multiprocessors run.
            timeout: seconds after which the prediction ends as incomplete.
            data: what the tensor cores multiply, which decides how much power they take: ``"zeros"``,
                ``"normal"``, or a number between 0 and 1.
            l2: what L2 holds before the launch. ``"rotating"``: what a launch like this one has stored, which
                makes room as fast as this one stores. ``"warm"``: what the same launch on the same arrays
                leaves of its inputs and outputs; all of them if they fit. ``"flushed"``: what a flush by
                writes has left, as of
                :func:`pyptx.bench`; what the kernel loads replaces bytes that must go to memory. ``"cold"``:
                nothing that must, as under ncu; what the kernel stores at last stays in L2.
            contents: what arrays hold that are given as shapes. ``"zeros"``: zeros, and products add nothing,
                so that threads go the ways that they go on zeros: for kernels in which usual inputs take the
                same ways, such as attention that rescales its sums only if a maximum grows much.
            out: array or arrays for the outputs; allocated if None.
            keywords: constants and dims; without inputs, also the numbers that the kernel takes, by name.

        Raises:
            SpecError: the arguments do not fit the specs, `data` is none of these, or the GPU does not run
                the kernel's target.
        """
        from .kernel_prediction import numbers_of, predict_launch, with_arrays
        from .prediction import Conditions

        numbers = numbers_of(self.options, keywords)
        keywords = {name: value for name, value in keywords.items() if name not in numbers}
        given = with_arrays(self.options, arrays, self.split(keywords)[0], numbers)
        special, arguments = self._bind(given, out, keywords)
        conditions = Conditions(gpu, clock, timeout, data, l2, contents)
        return predict_launch(special, self.options, arguments, conditions)

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None, **keywords: Any) -> Any:
        """Run the kernel: with CUDA tensors on their GPU, with numpy arrays or CPU tensors in the simulator.

        Args:
            arrays: the inputs, in order; numbers for scalars.
            out: array or arrays for the outputs; allocated if None.
            stream: CUDA stream; by default torch's current stream.
            keywords: constants and dims.

        Returns:
            The output, a tuple of several outputs, or None if the kernel has none.

        Raises:
            SpecError: the arguments do not fit the specs, or live in different places.
            SimulationError: the simulated run ended with an error or incomplete.
            LaunchError, AssembleError: the driver refused the launch or the text.

        Warns:
            PyptxWarning: the simulated run has a finding for review; shown once per calling line.
        """
        try:
            if not keywords:
                done = self._signatures.quick(arrays, out, stream)
                if done is not MISS:
                    return done
            done = self._signatures(arrays, out, stream, keywords)
            if done is not MISS:
                return done
            if needs_operator(arrays, out):
                return traced(self, *arrays, out=out, stream=stream, **keywords)
            return self.run(arrays, out, stream, keywords)
        except PyptxError as error:
            failed = error
        try:
            raise shortened(failed)
        finally:
            del failed  # its traceback refers to this frame: a reference cycle

    #: What torch.compile traces instead of the function above; without it, it would break the graph.
    __call__._torchdynamo_inline = traced  # type: ignore[attr-defined]

    def ready(self, arrays: tuple[Any, ...], out: Any, stream: Any, keywords: Mapping[str, Any]) -> Any:
        """Launch if a launch of this signature is ready; return ``MISS`` otherwise."""
        done = MISS if keywords else self._signatures.quick(arrays, out, stream)
        return self._signatures(arrays, out, stream, keywords) if done is MISS else done

    def run(self, arrays: Sequence[Any], out: Any, stream: Any, keywords: Mapping[str, Any]) -> Any:
        """Check all arguments and run the kernel; on a GPU, keep the launch for its signature."""
        special, arguments = self._bind(arrays, out, keywords, stream)
        place, index = place_of(self.options.names, arguments.infos)
        if place == "cuda":
            with uncollected():  # the first launch imports, loads and packs
                from .gpu import launch

                made = launch(special, self.options, arguments, index, stream)
            if made is not None:
                outputs = None if arguments.fresh else arguments.outputs
                self._signatures.add(arrays, outputs, keywords, *made)
        else:
            if stream is not None:
                raise StreamError(
                    "stream= was given, but the arrays are in host memory: the simulator has no streams",
                    hint="pass CUDA tensors, or leave out stream=",
                )
            from .execute import simulate

            report = simulate(special, self.options, arguments)
            sys.stdout.write(report.printed)
            report.check()
            for finding in report.findings:
                # Level 3 skips this frame and the call's: the warning names the calling line.
                warnings.warn(f"{special.entry} in the simulator: {finding}", PyptxWarning, stacklevel=3)
        if not (arguments.fresh and arguments.outputs):
            count_writes(arguments.written)
        outputs = tuple(owner_of(each) for each in arguments.outputs)
        return outputs if len(outputs) > 1 else outputs[0] if outputs else None

    def differentiable(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., None] | None = None
    ) -> Differentiable:
        """Return the kernel with a backward: autograd records its calls, also under ``torch.compile``.

        Args:
            backward: function of a context and of the gradient of each output, contiguous. It returns the
                gradient of each input, None where there is none; it may call kernels. It runs without
                autograd, so that second derivatives are an error.
            setup_context: function of the context, the tuple of inputs, and the output or the tuple of
                outputs. It keeps what ``backward`` needs: ``ctx.save_for_backward(...)`` for tensors,
                attributes for the rest. ``ctx.keywords`` has the dims and constants of the call.
        """
        from .autograd import Differentiable
        from .formula import Formula

        options = self.options
        inputs = options.names[: options.inputs]
        return Differentiable(self, Formula(options.entry, inputs, backward, setup_context))

    @short_traceback
    def jax(self, *arrays: Any, **keywords: Any) -> Any:
        """Call the kernel in a JAX program, also under ``jax.jit`` and ``jax.vmap``: a custom call of XLA.

        It runs on XLA's stream of the GPU, and in the simulator where JAX runs on the CPU. Of a call under
        ``jit``, shapes, scalars and constants are part of the compiled program.

        Args:
            arrays: the inputs, in order: JAX's arrays; Python numbers for scalars.
            keywords: constants and dims.

        Returns:
            The output, or a tuple of several outputs, as arrays of JAX.

        Raises:
            SpecError: the arguments do not fit the specs, or a scalar is traced.
            UnsupportedError: the kernel has no outputs, or this JAX has no ``jax.ffi``.
        """
        from .jax_call import call_jax

        return call_jax(self, arrays, keywords)

    @short_traceback
    def operator(self, *dims: str, out: bool = False, **constants: Any) -> Any:
        """Return the kernel as an operator of torch, which is registered at its first use.

        Calls under ``torch.compile`` and with tensors without memory find it themselves. Take it to load an
        exported program, or to check it with ``torch.library.opcheck``. Its name has the kernel's name and a
        digest of what the kernel was made from.

        Args:
            dims: names of the dims that calls give by value; they are the last arguments.
            out: whether calls give the outputs; they follow the inputs.
            constants: the compile-time constants.

        Raises:
            SpecError: an unknown dim or constant.
            UnsupportedError: this torch cannot register operators.
        """
        self.split({**dict.fromkeys(dims), **constants})
        return self.operators.get(out, dims, constants)

    @short_traceback
    def prepare(self, *arrays: Any, out: Any = None, **keywords: Any) -> Prepared:
        """Check the arguments of a launch on a GPU, load the kernel, pack the parameters; do not launch.

        The result starts the launch: ``p = k.prepare(a, b, out=c)``, then ``p()`` as often as needed, also
        while a CUDA graph is captured, or ``p(a2, b2, out=c2)`` with arrays of the same dtypes, shapes and
        device.

        Args:
            arrays: the inputs, in order: CUDA tensors, and numbers for scalars.
            out: array or arrays for the outputs; allocated once if None.
            keywords: constants and dims.

        Raises:
            SpecError: the arguments do not fit the specs, or are not on a GPU.
            LaunchError, AssembleError: the driver refused the text.
        """
        from .gpu import prepare

        special, arguments = self._bind(arrays, out, keywords)
        place, index = place_of(self.options.names, arguments.infos)
        if place != "cuda":
            raise DeviceError(
                f"{self.options.entry}.prepare needs arrays on a GPU, got arrays in host memory",
                hint="call the kernel to run it in the simulator",
            )
        return prepare(special, self.options, arguments, index)
