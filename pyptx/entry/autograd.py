"""Kernels that autograd differentiates: a kernel with a backward that the author gives."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import PyptxError
from ..core.records import dataclass
from ..core.tracebacks import shortened
from .formula import Context, Formula
from .operators import Operators, needs_operator, traced
from .signatures import MISS

if TYPE_CHECKING:
    from .decorator import Kernel

__all__ = ["Differentiable"]


class Differentiable:
    """A kernel with a backward, made by :meth:`.Kernel.differentiable`, and called as the kernel is.

    Attributes:
        kernel: the kernel itself, for everything but calls.
        operators: the kernel as operators of torch, with the backward.
    """

    def __init__(self, kernel: Kernel, formula: Formula) -> None:
        self.kernel = kernel
        self.operators = Operators(kernel, formula)
        self._formula = formula
        self._function: Any = None
        functools.update_wrapper(self, kernel.function)

    def __repr__(self) -> str:
        return f"<differentiable kernel {self.kernel.options.entry} for {self.kernel.options.arch}>"

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None, **keywords: Any) -> Any:
        """Run the kernel as :meth:`.Kernel.__call__` does; autograd records what requires a gradient.

        A call that autograd records allocates its outputs. Its backward runs on torch's current stream.

        Raises:
            SpecError: as the kernel, or an argument requires a gradient in a call with ``out=``.
        """
        try:
            done = self.kernel.ready(arrays, out, stream, keywords)
            if done is not MISS:
                return done
            if not needs_operator(arrays, out) and not _follows(arrays, out):
                return self.kernel.run(arrays, out, stream, keywords)
            self.kernel.check_counts(len(arrays), None)
            if out is not None:
                return traced(self, *arrays, out=out, stream=stream, **keywords)
            if self._function is None:
                self._function = _function(self._formula)
            return self._function.apply(_Call(self.kernel, stream, keywords), *arrays)
        except PyptxError as error:
            failed = error
        try:
            raise shortened(failed)
        finally:
            del failed  # its traceback refers to this frame: a reference cycle

    __call__._torchdynamo_inline = traced  # type: ignore[attr-defined]

    def operator(self, *dims: str, **constants: Any) -> Any:
        """Return the kernel as an operator of torch, with its backward; see :meth:`.Kernel.operator`."""
        return self.operators.get(False, dims, constants)


@dataclass(frozen=True, eq=False, slots=True)
class _Call:
    """What a call gives besides the inputs: one object, which torch passes on."""

    kernel: Kernel
    stream: Any
    keywords: Mapping[str, Any]


def _function(formula: Formula) -> Any:
    """Return a ``torch.autograd.Function`` of a call and the inputs."""
    import torch

    class Function(torch.autograd.Function):  # type: ignore[misc]
        generate_vmap_rule = True

        @staticmethod
        def forward(call: _Call, *arrays: Any) -> Any:
            return call.kernel(*arrays, stream=call.stream, **call.keywords)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            call, *arrays = inputs
            formula.keep(Context(ctx, 1), arrays, output, call.keywords)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return (None, *formula.differentiate(Context(ctx, 1), gradients))

    Function.__name__ = Function.__qualname__ = formula.entry
    return Function


def _follows(arrays: tuple[Any, ...], out: Any) -> bool:
    """True if autograd is on and an argument requires a gradient."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return False
    outs = out if isinstance(out, (tuple, list)) else (out,)
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in (*arrays, *outs))
