"""The derivative of a kernel, as its author gives it."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.errors import SpecError, UnsupportedError
from ..core.records import dataclass
from ..core.source import defined_at

__all__ = ["Context", "Formula"]


class Context:
    """torch's context as the author's functions see it: about the kernel's inputs alone, without autograd.

    Args:
        ctx: torch's context.
        first: the place of the kernel's first input among the arguments that torch knows.
    """

    def __init__(self, ctx: Any, first: int) -> None:
        vars(self).update(_ctx=ctx, _first=first)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_ctx"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_ctx"], name, value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` kept."""
        return tuple(each if each is None else each.detach() for each in self._ctx.saved_tensors)

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """For each input, whether its gradient is wanted."""
        return tuple(self._ctx.needs_input_grad[self._first :])


@dataclass(frozen=True)
class Formula:
    """How to differentiate a kernel.

    Attributes:
        entry: the kernel's name.
        inputs: the names of its inputs.
        backward: function of the context and the outputs' gradients that returns the inputs' gradients.
        setup_context: function of the context, the inputs and the output that keeps what backward needs.
    """

    entry: str
    inputs: tuple[str, ...]
    backward: Callable[..., Any]
    setup_context: Callable[..., None] | None

    def keep(self, ctx: Context, inputs: Sequence[Any], output: Any, keywords: Mapping[str, Any]) -> None:
        """Keep what the backward needs, and the dims and constants of the call in ``ctx.keywords``."""
        ctx.keywords = dict(keywords)
        if self.setup_context is not None:
            self.setup_context(ctx, tuple(inputs), output)

    def differentiate(self, ctx: Context, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradient of each input.

        Raises:
            SpecError: the author's backward returned another number of gradients than the kernel has inputs.
        """
        torch = sys.modules["torch"]
        again = torch.is_grad_enabled()
        with torch.no_grad():
            # A sum's gradient is one number in all places, without memory for each.
            plain = [each if each is None else each.detach().contiguous() for each in gradients]
            found = self.backward(ctx, *plain)
        results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(results) != len(self.inputs):
            raise SpecError(
                f"the backward of {self.entry} returned {len(results)} gradients: expected "
                f"{len(self.inputs)}, for {', '.join(self.inputs)}",
                hint="return None for an input that has no gradient",
                location=defined_at(self.backward),
            )
        if again:
            sources = [each for each in (*gradients, *ctx._ctx.saved_tensors) if _follows(each)]
            results = tuple(self._once(each, sources) for each in results)
        return results

    def trace(self, inputs: Sequence[Any], output: Any, keywords: Mapping[str, Any]) -> None:
        """Run the author's functions with tensors without memory, which makes their kernels operators.

        Machine code that torch.compile finds on disk names the operators of the backward, and torch does not
        trace the backward again. Does nothing if no input requires a gradient. Errors are not raised: they
        come where torch traces or runs the backward.

        Args:
            inputs: the inputs of a call, fake tensors and numbers.
            output: what the call returned.
            keywords: the dims and constants of the call.
        """
        torch = sys.modules["torch"]
        follows = tuple(map(_follows, inputs))
        if not any(follows):
            return
        ctx = Context(_NoGraph(follows), 0)
        outputs = output if isinstance(output, tuple) else (output,)
        with contextlib.suppress(Exception), torch.no_grad():
            self.keep(ctx, inputs, output, keywords)
            self.differentiate(ctx, [torch.empty_like(each) for each in outputs])

    def _once(self, gradient: Any, sources: Sequence[Any]) -> Any:
        """Return the gradient such that its own derivative is an error, which names the kernel."""
        if not sources or not hasattr(gradient, "is_floating_point") or not gradient.is_floating_point():
            return gradient
        return _once_function().apply(self.entry, gradient, *sources)


def _follows(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", False))


class _NoGraph:
    """What torch's context offers, without a graph behind it."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass

    def mark_dirty(self, *tensors: Any) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        pass


@functools.cache
def _once_function() -> Any:
    import torch

    class Once(torch.autograd.Function):  # type: ignore[misc]
        generate_vmap_rule = True

        @staticmethod
        def forward(entry: str, gradient: Any, *sources: Any) -> Any:
            return gradient.clone()

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.entry = inputs[0]

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise UnsupportedError(
                f"{ctx.entry} has no second derivative: its backward was differentiated",
                hint="leave out create_graph=True, or write the first derivative with torch's functions",
            )

    return Once
