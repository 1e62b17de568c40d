"""The issue of an asynchronous operation, as messages describe it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...core.source import SourceLocation
from ..engine.stream import GroupKind

__all__ = ["Issue"]


@dataclass(eq=False, slots=True)
class Issue:
    """An operation that threads have issued.

    Attributes:
        mark: the number of records that existed: accesses with this number or a smaller one came before.
        signals: the mbarriers that the operation signals, each with its phase at the time of the issue.
    """

    mark: int
    name: str
    group: GroupKind | None
    cta: tuple[int, int]
    threads: NDArray[np.int64]
    signals: tuple[tuple[Hashable, int], ...]
    location: SourceLocation | None

    @property
    def short(self) -> str:
        """The first words of the name, for texts."""
        return self.name.partition(".shared")[0].partition(".global")[0].partition(".cta_group")[0]
