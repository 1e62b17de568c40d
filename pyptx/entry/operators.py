"""Kernels as operators of torch: what ``torch.compile``, ``torch.export`` and tensors without memory call.

Owns :class:`Operators`, the operators of one kernel, which are registered when they are first needed, and
:func:`traced`, the call that leads to them.  A plain call with tensors that have memory does not come here.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..core.arrays import ArrayInfo, refuse_composed, tensor_type
from ..core.errors import PyptxError, SpecError, UnsupportedError
from ..core.records import dataclass
from ..core.source import SourceLocation, is_author_file
from ..dsl import Tile
from .arguments import allocate, bind_dims, check_info, gradient_error, place_of
from .constants import exact_items
from .formula import Context, Formula
from .signatures import MISS

if TYPE_CHECKING:
    from .decorator import Kernel

__all__ = ["Operators", "needs_operator", "traced", "traced_tuned"]

#: The kernels' operators by token. torch.compile guards the token, which is a string.
_BY_TOKEN: WeakValueDictionary[str, Operators] = WeakValueDictionary()
_NUMBERS = itertools.count()
#: Names of the operators that this process has registered.
_TAKEN: set[str] = set()
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class _Call:
    """What one operator does.

    Attributes:
        kernel: the kernel.
        given: whether the caller gives the outputs.
        dims: the dims that the caller gives by keyword, which are the operator's last arguments.
        constants: the compile-time constants.
        checked: the number of recordings that were checked.
    """

    kernel: Kernel
    given: bool
    dims: tuple[str, ...]
    constants: Mapping[str, Any]
    checked: list[int] = field(default_factory=lambda: [0])

    def split(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any], dict[str, Any]]:
        """Return the inputs, the given outputs, and the dims by name."""
        options = self.kernel.options
        end = len(options.specs) if self.given else options.inputs
        dims = dict(zip(self.dims, values[end:], strict=True))
        return tuple(values[: options.inputs]), list(values[options.inputs : end]), dims

    def run(self, *values: Any) -> Any:
        """Run the kernel on the GPU or in the simulator: the tensors have memory."""
        kernel = self.kernel
        inputs: tuple[Any, ...] = values
        outs: list[Any] | None = None
        keywords = self.constants
        if self.given or self.dims:
            inputs, given, dims = self.split(values)
            outs, keywords = given if self.given else None, {**dims, **keywords}
        done = kernel.ready(inputs, outs, None, keywords)
        if done is MISS:
            done = kernel.run(inputs, outs, None, keywords)
        if len(kernel.options.specs) > kernel.options.inputs:
            if self.checked[0] != kernel.recorded:
                self._check_written()
            if outs is None:
                return done
        return None

    def _check_written(self) -> None:
        """Raise an error if the kernel writes an input, whose memory torch may have given to others."""
        from ..flow.written import written_parameters

        options = self.kernel.options
        count = self.kernel.recorded
        for recorded in self.kernel.recordings():
            if "operator" in recorded.loaded:
                continue
            function = next(each for each in recorded.module.functions if each.name == recorded.entry)
            written = written_parameters(function)
            for slot in recorded.slots:
                if slot.param.name in written and slot.index < options.inputs:
                    name = options.names[slot.index]
                    raise SpecError(
                        f"{options.entry} writes its input {name}, which its operator in torch does not say",
                        hint=f"declare {name} in out_specs, and pass it as out=: kernels may read outputs",
                        location=_users_line(),
                    )
            recorded.loaded["operator"] = True
        self.checked[0] = count

    def fake(self, *values: Any) -> Any:
        """Check tensors without memory, and return outputs of the same kind."""
        try:
            return self._fake(*values)
        except PyptxError as error:
            failed = error
        raise type(failed)(
            failed.summary, details=failed.details, hint=failed.hint, see=failed.see, location=_users_line()
        )

    def _fake(self, *values: Any) -> Any:
        inputs, outs, dims = self.split(values)
        options = self.kernel.options
        infos = [
            check_info(name, spec, _info_of(value)) if isinstance(spec, Tile) else None
            for name, spec, value in zip(options.names, options.specs, (*inputs, *outs), strict=False)
        ]
        known = options.names[: len(infos)]
        place_of(known, infos)
        dims = bind_dims(known, options.specs[: len(infos)], infos, dims)
        if self.given or len(options.specs) == options.inputs:
            return None
        like = next((info.obj for info in infos if info is not None), None)
        if like is None:
            raise UnsupportedError(
                f"{options.entry} has no input tensor, which would say where its outputs lie",
                hint="pass out=",
            )
        made = []
        for name, spec in zip(options.names[options.inputs :], options.specs[options.inputs :], strict=True):
            assert isinstance(spec, Tile)
            missing = [dim for dim in spec.dims if isinstance(dim, str) and dim not in dims]
            if missing:
                raise SpecError(
                    f"{options.entry}: the dims {', '.join(missing)} of an output have no value",
                    hint=f"pass them: {', '.join(f'{dim}=...' for dim in missing)}",
                )
            made.append(allocate(name, spec, dims, like))
        return made[0] if len(made) == 1 else tuple(made)

    def schema(self) -> str:
        """Return the operator's arguments and results in torch's notation."""
        options = self.kernel.options
        parts: list[str] = []
        names: list[str] = []
        count = len(options.specs) if self.given else options.inputs
        no_outputs = len(options.specs) == options.inputs
        for place, (name, spec) in enumerate(zip(options.names[:count], options.specs, strict=False)):
            names.append(name)
            if not isinstance(spec, Tile):
                kind = "float" if spec.type.kind == "f" and spec.type.lanes == 1 else "SymInt"
            elif no_outputs or place >= options.inputs:
                kind = f"Tensor(a{place}!)"
            else:
                kind = "Tensor"
            parts.append(f"{kind} {name}")
        for dim in self.dims:
            name = f"dim_{dim}"
            while name in names:
                name += "_"
            parts.append(f"SymInt {name}")
        outputs = 0 if self.given else len(options.specs) - options.inputs
        results = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
        return f"({', '.join(parts)}) -> {results}"


class Operators:
    """The operators of one kernel, by constants, by the dims that are given, and with or without ``out=``.

    Attributes:
        token: a string that no other kernel of this process has.
        differentiable: whether autograd can record calls.
    """

    def __init__(self, kernel: Kernel, formula: Formula | None = None) -> None:
        self.kernel = kernel
        self.formula = formula
        self.differentiable = formula is not None
        self.token = f"{kernel.options.entry} {next(_NUMBERS)}"
        self._known: dict[Any, Any] = {}
        _BY_TOKEN[self.token] = self

    def get(self, given: bool, dims: Sequence[str], constants: Mapping[str, Any]) -> Any:
        """Return the operator, a ``torch._ops.OpOverload``, registered at its first use.

        Its arguments are the inputs, the outputs if they are given, and the dims.

        Raises:
            SpecError: a constant is not hashable.
            UnsupportedError: this torch cannot register operators.
        """
        key = (given, tuple(dims), exact_items(sorted(constants.items())))
        try:
            found = self._known.get(key)
        except TypeError:
            raise SpecError(
                f"{self.kernel.options.entry}: constants must be hashable, got {dict(constants)!r}",
                hint="pass tuples instead of lists, numbers instead of arrays",
            ) from None
        if found is None:
            with _lock:
                found = self._known.get(key)
                if found is None:
                    call = _Call(self.kernel, given, tuple(dims), dict(constants))
                    found = self._known[key] = self._register(call)
        return found

    def _register(self, call: _Call) -> Any:
        import torch

        from .content import content_digest

        if not hasattr(torch.library, "register_vmap"):
            raise UnsupportedError(
                f"torch {torch.__version__} cannot register a kernel as an operator",
                hint="use torch 2.6 or later",
            )
        schema = call.schema()
        kernel = call.kernel
        digest = content_digest(
            schema, kernel.function, kernel.options, call.given, call.dims, dict(call.constants), self.formula
        )
        first = name = f"{kernel.options.entry}_{digest}"
        for number in itertools.count(2):
            if name not in _TAKEN:
                break
            name = f"{first}_{number}"  # another kernel object of the same content
        _TAKEN.add(name)
        library = _library()
        library.define(name + schema, tags=_tags())
        library.impl(name, call.run, "CompositeExplicitAutograd")
        qualified, made = f"pyptx::{name}", getattr(torch.ops.pyptx, name).default
        fake = call.fake
        if self.formula is not None and not call.given:
            _differentiate(qualified, call, self.formula)
            fake = functools.partial(_differentiable_fake, call, self.formula)
        torch.library.register_fake(qualified, fake, lib=library)
        torch.library.register_vmap(qualified, functools.partial(_mapped, call, made), lib=library)
        return made


@functools.cache
def _library() -> Any:
    """Return the library of the operators. torch.library.custom_op would cost 11 us more for each call."""
    import torch

    return torch.library.Library("pyptx", "FRAGMENT")


@functools.cache
def _tags() -> tuple[Any, ...]:
    """Return the tags of the operators: a kernel takes what its fake implementation saw, in that order."""
    import torch

    strides = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    return (torch.Tag.pt2_compliant_tag, strides)


def _mapped(
    call: _Call, run: Callable[..., Any], info: Any, in_dims: Sequence[int | None], *values: Any
) -> Any:
    """The operator under ``torch.vmap``: one launch for each element of the batch."""
    torch = sys.modules["torch"]
    options = call.kernel.options
    if call.given or len(options.specs) == options.inputs:
        raise UnsupportedError(
            f"{options.entry} writes tensors of the caller, which torch.vmap does not allow",
            hint="let the kernel allocate its outputs, or call it for each element of the batch",
            location=_users_line(),
        )
    results = []
    for number in range(info.batch_size):
        # A copy is contiguous and starts at an aligned address.
        picked = [
            value if dim is None else value.select(dim, number).clone(memory_format=torch.contiguous_format)
            for value, dim in zip(values, in_dims, strict=True)
        ]
        results.append(run(*picked))
    if not isinstance(results[0], tuple):
        return torch.stack(results), 0
    stacked = tuple(torch.stack(each) for each in zip(*results, strict=True))
    return stacked, (0,) * len(stacked)


def _differentiable_fake(call: _Call, formula: Formula, *values: Any) -> Any:
    """The fake implementation of an operator with a backward; it registers the backward's operators."""
    output = call.fake(*values)
    given, _, dims = call.split(values)
    formula.trace(given, output, {**dims, **call.constants})
    return output


def _differentiate(qualified: str, call: _Call, formula: Formula) -> None:
    """Register the backward of an operator."""
    torch = sys.modules["torch"]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        given, _, dims = call.split(inputs)
        formula.keep(Context(ctx, 0), given, output, {**dims, **call.constants})

    def backward(ctx: Any, *gradients: Any) -> Any:
        return (*formula.differentiate(Context(ctx, 0), gradients), *(None for _ in call.dims))

    torch.library.register_autograd(qualified, backward, setup_context=setup_context, lib=_library())


def _info_of(tensor: Any) -> ArrayInfo:
    """Describe a tensor that has no memory. Its extents may be symbols."""
    device = tensor.device
    return ArrayInfo(
        type=tensor_type(tensor),
        shape=tuple(tensor.shape),
        strides=tuple(stride * tensor.element_size() for stride in tensor.stride()),
        pointer=0,
        device=device.type,
        device_index=device.index or 0,
        nbytes=0,
        contiguous=tensor.is_contiguous(),
        obj=tensor,
    )


def _users_line() -> SourceLocation | None:
    """Return the line that is being traced, or that called torch."""
    torch = sys.modules["torch"]
    package = os.path.dirname(str(torch.__file__)) + os.sep
    for each in reversed(torch._guards.TracingContext.extract_stack()):
        if is_author_file(each.filename) and not each.filename.startswith(package):
            return SourceLocation(each.filename, each.lineno or 0, each.name)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if is_author_file(name) and not name.startswith(package):
            return SourceLocation(name, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


# --- the ways in ----------------------------------------------------------------------------------


def needs_operator(arrays: Sequence[Any], out: Any) -> bool:
    """True if torch must see the call: a tensor has no memory of its own, or torch records operators.

    Raises:
        SpecError: a tensor is a DTensor, or has a tangent.
        UnsupportedError: torch.jit.trace runs.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    outs = out if isinstance(out, (tuple, list)) else (out,)
    if torch._C._get_tracing_state() is not None:
        raise UnsupportedError(
            "torch.jit.trace cannot record a pyptx kernel", hint="use torch.compile or torch.export"
        )
    forward = torch.autograd.forward_ad
    dual = forward._current_level >= 0
    for value in (*arrays, *outs):
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return True
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_nested:
            continue
        if dual and forward.unpack_dual(value).tangent is not None:
            raise SpecError(
                f"an argument of shape {(*value.shape,)} has a tangent (forward-mode differentiation), "
                "which a kernel would lose",
                hint="differentiate in reverse mode, with k.differentiable(...)",
            )
        if type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            refuse_composed(value)
            return True
        if value.device.type == "meta":
            return True
        try:
            value.data_ptr()
        except RuntimeError:  # under a transform, such as torch.vmap
            return True
        if torch._is_functional_tensor(value):  # under torch.func.functionalize
            return True
    return bool(torch._C._len_torch_dispatch_stack())


def traced(kernel: Any, *arrays: Any, out: Any = None, stream: Any = None, **keywords: Any) -> Any:
    """A kernel's call as torch traces it: one operator. torch.compile follows this function line by line."""
    import torch

    token = kernel.operators.token
    outs = () if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)
    follows = -1
    if torch.is_grad_enabled():
        for place, value in enumerate((*arrays, *outs)):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                follows = place
    dims = _dims_given(token, *keywords)
    if torch.compiler.is_dynamo_compiling():
        if stream is not None:
            return _on_stream(kernel, *arrays, out=out, stream=stream, **keywords)
        if follows >= 0 and (out is not None or not kernel.operators.differentiable):
            return _with_gradient(kernel, *arrays, out=out, **keywords)
    constants = {}
    for keyword, value in keywords.items():
        if keyword not in dims:
            # A size that torch treats as a symbol becomes a number, on which the compiled code depends.
            constants[keyword] = operator.index(value) if type(value) is int else value
    name = _operator(
        token, len(arrays), None if out is None else len(outs), stream is not None, follows, dims, **constants
    )
    done = getattr(torch.ops.pyptx, name).default(*arrays, *outs, *[keywords[dim] for dim in dims])
    if out is None:
        return done
    return outs if len(outs) > 1 else outs[0] if outs else None


def traced_tuned(tuned: Any, *arrays: Any, out: Any = None, stream: Any = None, **keywords: Any) -> Any:
    """A tuned kernel's call as torch.compile traces it: that of the chosen kernel, if it serves all calls."""
    only = tuned._only
    if only is None:
        _dims_given("")
        return _not_tuned(tuned, *arrays, out=out, stream=stream, **keywords)
    return traced(only.kernel, *arrays, out=out, stream=stream, **only.constants, **keywords)


def _not_tuned(kernel: Any, *arrays: Any, **keywords: Any) -> Any:
    return kernel(*arrays, **keywords)


def _on_stream(kernel: Any, *arrays: Any, **keywords: Any) -> Any:
    return kernel(*arrays, **keywords)


def _with_gradient(kernel: Any, *arrays: Any, **keywords: Any) -> Any:
    return kernel(*arrays, **keywords)


#: Why torch.compile ends its graph before these functions.
_REASONS = {
    "_not_tuned": "a tuned kernel cannot be compiled before one choice serves all sizes: call it once "
    "before, or compile the kernel of k.tune(...) with its constants",
    "_on_stream": "stream= of a pyptx kernel cannot be compiled: use `with torch.cuda.stream(...)`",
    "_with_gradient": "an argument of a pyptx kernel requires a gradient, which the call would lose: give "
    "the kernel a backward with k.differentiable(...), leave out out=, or call within torch.no_grad()",
}


@functools.cache
def _end_graphs() -> None:
    """Disable torch.compile in the functions of ``_REASONS``, once it runs: to disable imports it."""
    import torch

    for name, reason in _REASONS.items():
        try:
            globals()[name] = torch.compiler.disable(globals()[name], reason=reason)
        except TypeError:  # before torch 2.7
            globals()[name] = torch.compiler.disable(globals()[name])


def _dims_given(token: str, *names: str) -> tuple[str, ...]:
    """Return which of these keywords are dims. torch.compile takes the result as a constant."""
    if sys.modules.get("torch._dynamo") is not None:
        _end_graphs()
    if not token:
        return ()
    dims, _ = _BY_TOKEN[token].kernel.split(dict.fromkeys(names))
    return tuple(dims)


def _operator(
    token: str,
    inputs: int,
    outputs: int | None,
    on_stream: bool,
    follows: int,
    dims: tuple[str, ...],
    /,
    **constants: Any,
) -> str:
    """Check what does not need the arguments' values, and return the operator's name in ``torch.ops.pyptx``.

    Args:
        token: the kernel's.
        inputs: the number of inputs.
        outputs: the number of outputs that are given, or None.
        on_stream: whether ``stream=`` was given.
        follows: the place of an argument that requires a gradient, or -1.
        dims: the dims among the keywords.
        constants: the other keywords.
    """
    operators = _BY_TOKEN[token]
    options = operators.kernel.options
    operators.kernel.check_counts(inputs, outputs)
    if on_stream:
        raise UnsupportedError(
            f"{options.entry}: stream= has no meaning where torch records the call",
            hint="leave out stream=, and call within `with torch.cuda.stream(...)`",
        )
    if follows >= 0 and (operators.formula is None or outputs is not None):
        raise gradient_error(options.names[follows], differentiable=operators.formula is not None)
    name: str = operators.get(outputs is not None, dims, constants)._opname
    return name


# What torch.compiler.assume_constant_result sets, without its import of torch: these functions run while
# torch.compile traces, and it keeps what they return.
for _function in (_dims_given, _operator):
    vars(_function)["_dynamo_marked_constant"] = True
