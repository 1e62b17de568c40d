"""Runs several launches in the order of one stream, some of them by programmatic dependent launch.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-griddepcontrol`_; CUDA C++
Programming Guide, programmatic dependent launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import SpecError
from ...ir import Module
from .launch import LoadedModule, load
from .options import LaunchOptions, RunKeywords, shows_options
from .report import Report
from .runs import Request, run

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Stream"]


class Stream:
    """A list of launches, filled by :meth:`launch` and run together by :meth:`run`."""

    def __init__(self) -> None:
        self._requests: list[Request] = []

    def launch(
        self,
        module: LoadedModule | Module | str,
        entry: str | None = None,
        *,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        cluster: int | Sequence[int] = (1, 1, 1),
        dynamic_smem: int = 0,
        args: Sequence[Any] = (),
        uninitialized: Sequence[int] = (),
        dependent: bool = False,
    ) -> Stream:
        """Append a launch, and return the stream. Nothing runs yet.

        The launch starts when all launches before it have completed. A ``dependent`` launch starts earlier:
        as soon as each CTA of the previous launch has executed ``griddepcontrol.launch_dependents`` or ended,
        or at a later time that the schedule chooses. To see the results of that launch, the kernel executes
        ``griddepcontrol.wait``.

        An array that several launches get is one buffer. The other arguments and the errors are those of
        :meth:`LoadedModule.launch`.

        Raises:
            SpecError: ``dependent`` is set for the first launch of the stream.
        """
        if dependent and not self._requests:
            raise SpecError("the first launch of a stream cannot be dependent: no launch comes before it")
        loaded = module if isinstance(module, LoadedModule) else load(module)
        request = loaded.request(
            entry, grid, block, cluster, dynamic_smem, args, uninitialized, dependent=dependent
        )
        self._requests.append(request)
        return self

    @shows_options
    def run(self, **options: Unpack[RunKeywords]) -> list[Report]:
        """Run the launches added since the last run, and return one report for each launch, in their order.

        A finding that ends the run is in the report of the launch where it occurred. The launches that have
        not completed by then are ``incomplete``. The options are those of :meth:`LoadedModule.launch`.

        Raises:
            SpecError: no launch was added, or several modules have ``.global`` variables.
        """
        if not self._requests:
            raise SpecError("the stream has no launch to run: call launch() before run()")
        checked = LaunchOptions.of(options)
        requests, self._requests = self._requests, []
        return run(requests, checked)
