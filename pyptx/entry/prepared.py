"""A kernel with its arguments, checked, loaded and packed, which only needs to be started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import PyptxError, SpecError
from ..core.tracebacks import shortened
from ..runtime.launch import current_stream, stream_handle
from ..runtime.plan import Frame, Plan
from .arguments import KernelArguments
from .foreign import owner_of
from .ready import count_writes
from .signatures import MISS, Signatures

__all__ = ["Prepared"]

#: Most streams for which a prepared launch keeps its parameters in memory.
_STREAMS = 64


class Prepared:
    """A launch that was prepared by :meth:`.Kernel.prepare`. It keeps its arguments alive.

    Attributes:
        outputs: what :meth:`__call__` returns: the output array, a tuple of several, or None.
    """

    __slots__ = (
        "_arguments",
        "_described",
        "_device",
        "_frames",
        "_plan",
        "_signatures",
        "_start",
        "_values",
        "outputs",
    )

    def __init__(
        self,
        described: str,
        plan: Plan,
        values: Sequence[Any],
        arguments: KernelArguments,
        signatures: Signatures,
        start: Callable[[Any], bool],
    ) -> None:
        """Keep a launch.

        Args:
            described: the kernel and its arguments, for messages.
            plan: the launch.
            values: the address or the number for each parameter of the entry.
            arguments: the arguments, which must live as long as their addresses are used.
            signatures: the launch, ready for other arguments of the same signature.
            start: the compiled path: launches on a stream, or returns False.
        """
        self._described = described
        self._plan = plan
        self._device = plan.kernel.device_index
        self._values = tuple(values)
        self._arguments = arguments
        self._signatures = signatures
        self._start = start
        outputs = tuple(owner_of(each) for each in arguments.outputs)
        self.outputs = outputs if len(outputs) > 1 else outputs[0] if outputs else None
        #: The parameters in memory, for each stream; the launches of a stream share them.
        self._frames: dict[int, Frame] = {}

    def __repr__(self) -> str:
        return f"<{self._described}>"

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None) -> Any:
        """Enqueue one launch, without waiting for it to finish.

        Args:
            arrays: nothing, or other inputs of the same dtypes, shapes and device.
            out: with other inputs, the outputs; they are allocated if None.
            stream: CUDA stream; by default torch's current stream.

        Returns:
            The outputs, as a call of the kernel does. Without ``arrays`` they are those of the preparation.

        Raises:
            SpecError: the arguments are not like those of the preparation.
            LaunchError: the driver refused the launch, or an earlier kernel failed.
        """
        if arrays or out is not None:
            try:
                done = self._signatures.quick(arrays, out, stream)
                return self._with(arrays, out, stream) if done is MISS else done
            except PyptxError as error:
                failed = error
            try:
                raise shortened(failed)
            finally:
                del failed  # its traceback refers to this frame: a reference cycle
        if self._start(stream):
            return self.outputs
        handle = current_stream(self._device) if stream is None else stream_handle(stream, self._device)
        frame = self._frames.get(handle)
        if frame is None:
            if len(self._frames) >= _STREAMS:
                self._frames.clear()
            frame = self._frames[handle] = self._plan.frame(self._values, handle)
        self._plan.start(frame)
        count_writes(self._arguments.written)
        return self.outputs

    def _with(self, arrays: Sequence[Any], out: Any, stream: Any) -> Any:
        done = self._signatures(arrays, out, stream, {})
        if done is MISS:
            raise SpecError(
                f"{self._described}: these arrays differ, are not contiguous or aligned to 16 bytes, "
                "or require gradients",
                hint="call the kernel, which says what is wrong, or prepare another launch",
            )
        return done
