"""``pyptx.autotune``: the decorator, and what it makes of a kernel, a builder function or a class.

Owns :class:`TunedKernel`, which tunes at its first call and remembers for which sizes a choice holds.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ...core.arrays import describe, is_array
from ...core.errors import SpecError
from ...core.tracebacks import short_traceback
from ...dsl import Tile
from ...entry import Kernel
from ...entry.arguments import bind_dims, check_array
from ...entry.constants import exact, exact_items
from ...entry.operators import traced_tuned
from ...entry.signatures import MISS
from .candidates import Candidate, State
from .result import Tuning
from .space import Axis, Configuration, axis, check_names, configurations
from .tuning import Request, Settings, tune

__all__ = ["Tuned", "TunedKernel", "autotune"]

#: Most signatures of calls, and most kernels of one builder, that are remembered.
_SIGNATURES, _KERNELS = 1024, 64


def autotune(
    names: str,
    rows: Iterable[Any],
    *,
    check: Mapping[str, Any] | None = None,
    reference: Callable[..., Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    deadline: float | None = None,
    budget: float | None = None,
) -> Callable[[Any], Any]:
    """Choose values of compile-time parameters by measuring; a decorator.

    It takes a function that returns a kernel, a class whose instances return a kernel when they are called,
    or a kernel with keyword-only constants. The tuned names are parameters of the function, of the class's
    ``__init__``, or constants of the kernel. Stacked decorators multiply. What is decorated is called as
    before, without the tuned names; the first call with arrays tunes.

    On a GPU the candidates that fit are timed in a process of their own, which is started again after a
    candidate that hangs or breaks it. The result is kept on disk. With arrays in host memory the candidates
    are ranked by a prediction for the GPU of the kernel's target, with a warning.

    Args:
        names: the tuned names, with commas between them.
        rows: the choices: a list of values for each, in the order of the names. For a single name a row may
            be the value itself.
        check: sizes for a run of every candidate in the simulator, by the names of dims or of untuned
            parameters. Candidates that break a rule or compute something else are not measured.
        reference: a function of the inputs, numpy arrays, that returns what the outputs of that run must be.
            Without it they must be those of the first candidate that runs clean.
        rtol, atol: tolerances of that run, as those of :meth:`.Kernel.simulate`.
        deadline: seconds after which a launch is taken to hang; 5 if None.
        budget: seconds for all predictions together, 60 if None. Candidates that are not predicted in this
            time rank behind the others, by their resources; 0 ranks all of them so.

    Raises:
        SpecError: the names or rows are not of this form, two decorators vary one name, or what is decorated
            has no parameter of a name.
    """
    found = axis(names, rows)
    if deadline is not None and not deadline > 0:
        raise SpecError(f"autotune: deadline is {deadline!r}: expected seconds, more than 0")
    if budget is not None and not budget >= 0:
        raise SpecError(f"autotune: budget is {budget!r}: expected seconds, at least 0")
    if check is None and reference is not None:
        raise SpecError(
            "autotune: reference= is for the run in the simulator, which needs check=",
            hint="pass check= with small sizes, such as check={'M': 256, 'N': 256}",
        )
    settings = Settings(check, reference, rtol, atol, deadline, budget)

    def decorate(what: Any) -> Any:
        if isinstance(what, Tuned):
            return type(what)(what.what, (found, *what.axes), _merged(settings, what.settings))
        if isinstance(what, TunedKernel):
            return _of_kernel(what.what, (found, *what.axes), _merged(settings, what.settings))
        if isinstance(what, Kernel):
            return _of_kernel(what, (found,), settings)
        if inspect.isclass(what):
            return TunedClass(what, (found,), settings)
        if callable(what):
            return TunedBuilder(what, (found,), settings)
        raise SpecError(f"autotune decorates a function, a class or a kernel, not {what!r}")

    return decorate


def _merged(a: Settings, b: Settings) -> Settings:
    given = {}
    for field in fields(Settings):
        values = [value for each in (a, b) if (value := getattr(each, field.name)) is not None]
        if len(values) > 1:
            raise SpecError(f"autotune: two decorators give {field.name}=: give it to one of them")
        given[field.name] = values[0] if values else None
    return replace(a, **given)


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    """Return the parameters that can be given by name; None if any can."""
    found = list(inspect.signature(function).parameters.values())
    if any(each.kind is each.VAR_KEYWORD for each in found):
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in found if each.kind in named]


# --- kernels --------------------------------------------------------------------------------------


class TunedKernel:
    """A kernel whose tuned constants are chosen at its first call; called as a kernel is.

    A choice holds for all calls with the same dtypes, constants and compile-time sizes. A size that the
    recordings do not depend on is a run-time size: a new one neither tunes nor records nor compiles.

    Attributes:
        name: name for messages.
        what: what was decorated.
        tunings: the results so far, one for each set of compile-time sizes.
    """

    def __init__(
        self,
        name: str,
        what: Any,
        make: Callable[[Configuration, Mapping[str, Any]], tuple[Kernel, dict[str, Any]]],
        axes: tuple[Axis, ...],
        settings: Settings,
    ) -> None:
        self.name, self.what, self.axes, self.settings = name, what, axes, settings
        self._make = make
        self._tuned = frozenset(name for each in axes for name in each.names)
        self.tunings: list[Tuning] = []
        self._held: list[tuple[Any, list[Candidate], Tuning]] = []
        self._choices: dict[Any, Tuning] = {}
        #: The one choice so far, if a launch of its kernel that is ready cannot need another choice.
        self._only: Tuning | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        count = len(configurations(self.axes))
        return f"<tuned kernel {self.name}, {count} configurations, tuned {len(self.tunings)} times>"

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None, **keywords: Any) -> Any:
        """Run the kernel with the best configuration; the first call for compile-time sizes tunes.

        The arguments, result and errors are those of :meth:`.Kernel.__call__`, and those of :meth:`tune`.
        """
        only = self._only
        if only is not None and self._tuned.isdisjoint(keywords):
            given = {**only.constants, **keywords} if keywords else only.constants
            done = only.kernel.ready(arrays, out, stream, given)
            if done is not MISS:
                return done
        choice = self._choice(arrays, out, keywords)
        return choice.kernel(*arrays, out=out, stream=stream, **choice.constants, **keywords)

    #: What torch.compile traces instead of the function above.
    __call__._torchdynamo_inline = traced_tuned  # type: ignore[attr-defined]

    @short_traceback
    def prepare(self, *arrays: Any, out: Any = None, **keywords: Any) -> Any:
        """Tune if necessary, and prepare the best kernel, as :meth:`.Kernel.prepare`."""
        choice = self._choice(arrays, out, keywords)
        return choice.kernel.prepare(*arrays, out=out, **choice.constants, **keywords)

    @short_traceback
    def simulate(self, *arrays: Any, **keywords: Any) -> Any:
        """Tune if necessary, and run the best kernel in the simulator, as :meth:`.Kernel.simulate`."""
        known = inspect.signature(Kernel.simulate).parameters
        own = {name: value for name, value in keywords.items() if name not in known}
        choice = self._choice(arrays, keywords.get("out"), own)
        return choice.kernel.simulate(*arrays, **choice.constants, **keywords)

    @short_traceback
    def tune(self, *arrays: Any, out: Any = None, gpu: int | None = None, **keywords: Any) -> Tuning:
        """Return the result for these arguments; tune if there is none yet.

        Args:
            arrays: the inputs of a call. Candidates are measured with arrays of the same shapes and dtypes:
                floats are normally distributed, other types have the contents of ``arrays``.
            out: the outputs of the call, if they name dims that no input has.
            gpu: a GPU to measure on, for arrays in host memory; by default the GPU of the arrays.
            keywords: dims and constants that are not tuned.

        Raises:
            SpecError: no configuration can be used, or the arguments do not fit.
            LaunchError: the GPU cannot be used.
        """
        given = [*arrays, *_outputs(out)]
        infos = [describe(value) for value in given if is_array(value)]
        places = {info.device_index for info in infos if info.device == "cuda"}
        device = gpu if gpu is not None else min(places, default=None)
        for name in keywords:
            if name in self._tuned:
                raise SpecError(f"{self.name}: {name!r} is tuned: leave it out of the call")
        fixed = _fixed(given, keywords, device)
        with self._lock:
            for known, candidates, tuning in self._held:
                if known == fixed and _serves(tuning, candidates, arrays, out, keywords):
                    return tuning
            dims = self._dims(arrays, out, keywords)
            request = Request(
                self.name,
                lambda configuration: self._make(configuration, {}),
                lambda configuration: self._make(configuration, self.settings.check or {}),
                configurations(self.axes),
                self.settings,
                arrays,
                {**dims, **keywords},
                device,
            )
            tuning, candidates = tune(request)
            self._held.append((fixed, candidates, tuning))
            self.tunings.append(tuning)
            self._only = tuning if len(self.tunings) == 1 and _reads_most(candidates) else None
            return tuning

    def _choice(self, arrays: Sequence[Any], out: Any, keywords: Mapping[str, Any]) -> Tuning:
        signature = _signature(arrays, out, keywords)
        try:
            found = self._choices.get(signature)
        except TypeError:  # a constant that has no hash
            return self.tune(*arrays, out=out, **keywords)
        if found is None:
            found = self.tune(*arrays, out=out, **keywords)
            while len(self._choices) >= _SIGNATURES:
                del self._choices[next(iter(self._choices))]
            self._choices[signature] = found
        return found

    def _dims(self, arrays: Sequence[Any], out: Any, keywords: Mapping[str, Any]) -> dict[str, int]:
        """Return the dims, if outputs are given. A configuration that builds no kernel is passed over."""
        if out is None:
            return {}
        for configuration in configurations(self.axes):
            try:
                kernel, _ = self._make(configuration, {})
            except (ValueError, AssertionError):
                continue
            bound = _bound(kernel, arrays, out, keywords)
            return {name: size for name, size in bound.items() if name not in keywords}
        return {}


def _outputs(out: Any) -> Sequence[Any]:
    return () if out is None else out if isinstance(out, (tuple, list)) else (out,)


def _signature(arrays: Sequence[Any], out: Any, keywords: Mapping[str, Any]) -> Any:
    """What a choice may depend on, quickly: dtype, shape and device of each array, and the keywords."""
    key: list[Any] = [len(arrays)]
    for value in (*arrays, *_outputs(out)):
        shape = getattr(value, "shape", None)
        if shape is None:
            key.append(type(value))
        else:
            key += (value.dtype, shape, getattr(value, "device", None))
    key += exact_items(keywords.items())
    return tuple(key)


def _fixed(given: Sequence[Any], keywords: Mapping[str, Any], device: int | None) -> Any:
    """What of a call a choice depends on besides the dims."""
    types = [
        (info.type.name, len(info.shape)) if info is not None else None
        for info in (describe(value) if is_array(value) else None for value in given)
    ]
    return types, device, sorted((name, type(value).__name__, value) for name, value in keywords.items())


def _bound(kernel: Kernel, arrays: Sequence[Any], out: Any, keywords: Mapping[str, Any]) -> dict[str, int]:
    """Return the dims of a call. Raises :class:`SpecError` if an array does not fit."""
    options = kernel.options
    outputs = _outputs(out)
    given = [*zip(options.names, options.specs[: options.inputs], arrays, strict=False)]
    given += zip(options.names[options.inputs :], options.specs[options.inputs :], outputs, strict=False)
    infos = [
        check_array(name, spec, value) if isinstance(spec, Tile) else None for name, spec, value in given
    ]
    named = {dim for spec in options.specs if isinstance(spec, Tile) for dim in spec.dims}
    dims = {name: value for name, value in keywords.items() if name in named}
    return bind_dims([name for name, *_ in given], [spec for _, spec, _ in given], infos, dims)


def _serves(
    tuning: Tuning,
    candidates: Sequence[Candidate],
    arrays: Sequence[Any],
    out: Any,
    keywords: Mapping[str, Any],
) -> bool:
    """True if every candidate's recording is the same for these arguments."""
    dims = _bound(tuning.kernel, arrays, out, keywords)
    return all(each.special is None or each.special.recorded.serves(dims) for each in candidates)


def _reads_most(candidates: Sequence[Candidate]) -> bool:
    """True if the best kernel depends on every size that another candidate's recording depends on."""
    specials = [each.special for each in candidates if each.special is not None]
    best = next(each.special for each in candidates if each.state is State.BEST)
    assert best is not None
    return all(each.recorded.read.keys() <= best.recorded.read.keys() for each in specials)


def _of_kernel(kernel: Kernel, axes: tuple[Axis, ...], settings: Settings) -> TunedKernel:
    parameters = inspect.signature(kernel.function).parameters.values()
    constants = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    name = kernel.options.entry
    check_names(axes, constants, f"the kernel {name}")
    named = {dim for spec in kernel.options.specs if isinstance(spec, Tile) for dim in spec.dims}
    for each in axes:
        for tuned in each.names:
            if tuned in named:
                raise SpecError(f"autotune: {tuned!r} is a dim of {name}: the arrays give its value")
    found = TunedKernel(name, kernel, lambda configuration, _: (kernel, configuration), axes, settings)
    functools.update_wrapper(found, kernel.function)
    return found


# --- builders and classes ---------------------------------------------------------------------------


class Tuned:
    """A builder function or a class that is tuned.

    Attributes:
        what: the function or class itself, which takes the tuned names as before.
    """

    #: How often it is called until there is a kernel.
    _calls = 1

    def __init__(self, what: Callable[..., Any], axes: tuple[Axis, ...], settings: Settings) -> None:
        self.what, self.axes, self.settings = what, axes, settings
        self.name = str(getattr(what, "__name__", type(what).__name__))
        check_names(axes, _parameters(what), self.name)
        self._first = configurations(axes)[0]
        self._kernels: dict[Any, TunedKernel] = {}
        for name in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(what, name):
                setattr(self, name, getattr(what, name))

    def __repr__(self) -> str:
        return f"<tuned {self.name}, {len(configurations(self.axes))} configurations>"

    def _accept(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Raise for arguments that are tuned, or that the function does not take."""
        signature = inspect.signature(self.what)
        positional = signature.bind_partial(*args).arguments
        for name in self._first:
            if name in keywords or name in positional:
                raise SpecError(
                    f"{self.name}: {name!r} is tuned: leave it out of the call",
                    hint=f"{self.name}.what is the function or class without tuning",
                )
        signature.bind(*args, **{**keywords, **self._first})

    def _kernel(self, *calls: tuple[tuple[Any, ...], dict[str, Any]]) -> TunedKernel:
        """Return the tuned kernel for the arguments of these calls, the same one for the same arguments."""
        key: Any = tuple((tuple(map(exact, args)), exact_items(given.items())) for args, given in calls)
        try:
            found = self._kernels.get(key)
        except TypeError:  # an argument that has no hash
            key, found = None, None
        if found is None:
            found = TunedKernel(self.name, self.what, _builder(self.what, calls), self.axes, self.settings)
            if key is not None:
                while len(self._kernels) >= _KERNELS:
                    del self._kernels[next(iter(self._kernels))]
                self._kernels[key] = found
        return found


def _builder(
    what: Callable[..., Any], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
) -> Callable[[Configuration, Mapping[str, Any]], tuple[Kernel, dict[str, Any]]]:
    """Return the function that builds the kernel of a configuration, with some arguments replaced."""

    def make(configuration: Configuration, sizes: Mapping[str, Any]) -> tuple[Kernel, dict[str, Any]]:
        value: Any = what
        for number, (args, keywords) in enumerate(calls):
            given = {**keywords, **(configuration if number == 0 else {})}
            if sizes:
                bound = inspect.signature(value).bind(*args, **given)
                replaced = {n: size for n, size in sizes.items() if n in bound.signature.parameters}
                bound.arguments.update(replaced)
                value = value(*bound.args, **bound.kwargs)
            else:
                value = value(*args, **given)
        if not isinstance(value, Kernel):
            raise TypeError(
                f"autotune: {getattr(what, '__name__', what)} returned {type(value).__name__}: "
                "expected a kernel, as pyptx.kernel makes it"
            )
        return value, {}

    return make


class TunedBuilder(Tuned):
    """A function that returns a kernel. Its call takes the untuned arguments and returns a tuned kernel."""

    def __call__(self, *args: Any, **keywords: Any) -> TunedKernel:
        self._accept(args, keywords)
        return self._kernel((args, keywords))


class TunedClass(Tuned):
    """A class whose instances return kernels. Its call takes the untuned arguments of ``__init__``."""

    def __call__(self, *args: Any, **keywords: Any) -> TunedInstance:
        self._accept(args, keywords)
        return TunedInstance(self, args, keywords)


class TunedInstance:
    """An instance of a tuned class: its call takes what ``__call__`` of the class takes."""

    def __init__(self, of: TunedClass, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._of, self._args, self._keywords = of, args, keywords

    def __repr__(self) -> str:
        return f"<tuned instance of {self._of.name}>"

    def __call__(self, *args: Any, **keywords: Any) -> TunedKernel:
        """Return the tuned kernel that the instance builds for these arguments."""
        return self._of._kernel((self._args, self._keywords), (args, keywords))
