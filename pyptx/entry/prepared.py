"""A kernel with its arguments, checked, loaded and packed, which only needs to be started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.tracebacks import short_traceback
from ..runtime.launch import current_stream, stream_handle
from ..runtime.plan import Frame, Plan
from .signatures import Ready

__all__ = ["Prepared"]

#: Most streams for which a prepared launch keeps its parameters in memory.
_STREAMS = 64


class Prepared:
    """A launch that was prepared by :meth:`.Kernel.prepare`. It keeps its arguments alive.

    Attributes:
        outputs: what :meth:`__call__` returns: the output array, a tuple of several, or None.
    """

    __slots__ = ("_arguments", "_device", "_find", "_frames", "_name", "_plan", "_values", "outputs")

    def __init__(
        self,
        name: str,
        plan: Plan,
        values: Sequence[Any],
        arguments: Sequence[Any],
        outputs: Any,
        find: Callable[[Sequence[Any], Any], tuple[Ready, list[Any]]],
    ) -> None:
        """Keep a launch.

        Args:
            name: of the kernel.
            plan: the launch.
            values: the address or the number for each parameter of the entry.
            arguments: the arrays, which must live as long as their addresses are used.
            outputs: those of the arguments.
            find: returns, for other inputs and outputs, the launch of their signature, with their addresses
                and numbers; raises SpecError if the signature is another one.
        """
        self._name = name
        self._plan = plan
        self._device = plan.kernel.device_index
        self._values = tuple(values)
        self._arguments = tuple(arguments)
        self._find = find
        self.outputs = outputs
        #: The parameters in memory, for each stream; the launches of a stream share them.
        self._frames: dict[int, Frame] = {}

    def __repr__(self) -> str:
        return f"<{self._name} prepared for GPU {self._device}>"

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
            return self._with(arrays, out, stream)
        handle = current_stream(self._device) if stream is None else stream_handle(stream, self._device)
        frame = self._frames.get(handle)
        if frame is None:
            if len(self._frames) >= _STREAMS:
                self._frames.clear()
            frame = self._frames[handle] = self._plan.frame(self._values, handle)
        self._plan.start(frame)
        return self.outputs

    @short_traceback
    def _with(self, arrays: Sequence[Any], out: Any, stream: Any) -> Any:
        ready, flat = self._find(arrays, out)
        return ready.launch(arrays, flat, out, stream)
