"""The launch of a PTX text that ``pyptx predict`` predicts.

Owns :class:`TextLaunch`: the options that say what a launch of a text is, in the notation of ``pyptx sim``. A
kernel of a Python file has its own launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ..core.errors import SpecError
from ..core.records import dataclass
from ..entry.prediction import Prediction
from ..entry.text_prediction import predict
from ..layout import TensorMap
from .sim.arguments import parse_named
from .sim.bind import LaunchArray, bind
from .sim.cli import extents_of, parse_array, parse_extent
from .sim.target import find_target

__all__ = ["TextLaunch"]


@dataclass(frozen=True)
class TextLaunch:
    """The options of a launch as the command line has them.

    Attributes:
        entry: the kernel, if the text has several.
        grid, block, cluster: extents such as ``4,2``.
        smem: bytes of dynamic shared memory.
        args: an argument for each parameter.
        arrays: arrays that only tensor maps use.
        zeroed: names of arrays that are zero when the launch begins and that its CTAs work with.
    """

    entry: str | None = None
    grid: str | None = None
    block: str | None = None
    cluster: str | None = None
    smem: int | None = None
    args: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()

    def given(self) -> Iterator[str]:
        """Yield the names of the options that the command line has."""
        options = {
            "--entry": self.entry,
            "--grid": self.grid,
            "--block": self.block,
            "--cluster": self.cluster,
            "--smem": self.smem,
            "--arg": self.args or None,
            "--array": self.arrays or None,
            "--zeroed": self.zeroed or None,
        }
        return (name for name, value in options.items() if value is not None)

    def predicted(self, file: str, **conditions: Any) -> Prediction:
        """Return the prediction of the launch.

        Args:
            file: the file of PTX text; ``-`` for standard input.
            conditions: keywords of :func:`pyptx.predict` such as ``gpu``.

        Raises:
            UsageError: click's error, for options that do not fit the text.
            ParseError: the text is not PTX.
            SpecError, TargetError: the launch does not fit the entry or the GPU.
        """
        extents = {"grid": self.grid, "block": self.block, "cluster": self.cluster}
        settings: dict[str, Any] = {
            name: parse_extent(name, text) for name, text in extents.items() if text is not None
        }
        if self.smem is not None:
            settings["smem"] = self.smem
        try:
            found = find_target(file, (), self.entry)
            launch = extents_of(found, settings)
            args, arrays = map(parse_named, self.args), map(parse_array, self.arrays)
            bound = bind(found.entry, found.parameters, list(args), list(arrays))
            zeroed = [place for name in self.zeroed for place in _places(name, bound.buffers, bound.values)]
        except SpecError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise click.UsageError(f"{error.message}{hint}") from None
        return predict(
            found.loaded,
            found.entry,
            **launch,
            args=bound.values,
            uninitialized=sorted(bound.fresh),
            zeroed=zeroed,
            **conditions,
        )


def _places(name: str, buffers: Mapping[str, LaunchArray], values: Sequence[Any]) -> list[int]:
    """Return the positions of the arguments that pass an array."""
    if name not in buffers:
        known = ", ".join(buffers) or "none"
        raise SpecError(f"--zeroed {name}: no array has this name; the arrays are: {known}")
    array = buffers[name].array
    return [
        place
        for place, value in enumerate(values)
        if (value.array if isinstance(value, TensorMap) else value) is array
    ]
