"""Assignments: which clusters start by themselves, and which clusters their requests cancel.

A cluster that runs may cancel clusters that have not started and do their work (``clusterlaunchcontrol``).
Which one a request gets is the hardware's choice. An assignment has a list for each cluster that starts: the
cluster itself, and then what its requests get, in the order of the requests: another cluster or a refusal.
Each request after these is refused. Each cluster of the grid is in one list.
"""

from __future__ import annotations

from ...core.errors import SpecError
from ...core.records import dataclass

__all__ = ["MANY", "Assignment", "number_of_assignments"]

#: Assignments are counted up to this number.
MANY = 10**15
_REFUSAL = "-"


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment: a list for each cluster that starts. None in a list is a refusal; it is not the last.

    Its text is ``0,2,1/3``: clusters 0 and 3 start, and the requests of cluster 0 get cluster 2, then 1. In
    ``0,-,1/2`` the first request of cluster 0 is refused, and the second gets cluster 1.
    """

    lists: tuple[tuple[int | None, ...], ...]

    @classmethod
    def of(cls, text: str) -> Assignment:
        """Read the text of an assignment. Raise :class:`SpecError` if it is none."""
        try:
            lists = [
                [None if word.strip() == _REFUSAL else int(word) for word in one.split(",")]
                for one in text.split("/")
            ]
        except ValueError:
            lists = []
        numbers = sorted(number for one in lists for number in one if number is not None)
        if not numbers or numbers != list(range(len(numbers))) or any(one[0] is None for one in lists):
            raise SpecError(
                f"launch_control is {text!r}: expected 'every', or an assignment that has each cluster once",
                hint="'0,2,1/3': clusters 0 and 3 start, and the requests of cluster 0 get cluster 2, then 1",
            )
        return cls._of_lists(lists)

    @classmethod
    def none_canceled(cls, clusters: int) -> Assignment:
        """Return the assignment in which all clusters start."""
        return cls(tuple((number,) for number in range(clusters)))

    @classmethod
    def _of_lists(cls, lists: list[list[int | None]]) -> Assignment:
        for one in lists:
            while one[-1] is None:
                del one[-1]
        return cls(tuple(sorted(map(tuple, lists), key=lambda one: one[0] or 0)))

    def __str__(self) -> str:
        return "/".join(",".join(_REFUSAL if n is None else str(n) for n in one) for one in self.lists)

    @property
    def clusters(self) -> int:
        """The number of clusters of the grid."""
        return sum(number is not None for one in self.lists for number in one)

    @property
    def starting(self) -> tuple[int, ...]:
        """The clusters that start by themselves."""
        return tuple(one[0] for one in self.lists if one[0] is not None)

    @property
    def grants(self) -> dict[tuple[int, int], int]:
        """The clusters that requests get, by the cluster that requests and the position of its request."""
        return {
            (one[0], place): number
            for one in self.lists
            if one[0] is not None
            for place, number in enumerate(one[1:])
            if number is not None
        }

    def granting(self, cluster: int, place: int) -> list[Assignment]:
        """Return the assignments that differ in what request number ``place`` of a cluster gets.

        The request is refused here. There it gets a cluster that starts here and whose requests are all
        refused.
        """
        found = []
        for one in self.lists:
            if len(one) == 1 and one[0] != cluster:
                lists = [list(other) for other in self.lists if other is not one]
                mine = next(other for other in lists if other[0] == cluster)
                mine += [None] * (place + 2 - len(mine))
                mine[place + 1] = one[0]
                found.append(self._of_lists(lists))
        return found

    def described(self) -> str:
        """Return in words which clusters cancel which."""
        parts = [
            f"cluster {first} cancels {', then '.join('none' if n is None else str(n) for n in others)}"
            for first, *others in self.lists
            if others
        ]
        return "; ".join(parts) or "no cluster is canceled"


def number_of_assignments(clusters: int) -> int:
    """Return the number of assignments of a grid without refusals between grants; at most :data:`MANY`.

    It is the number of sets of lists: 1, 3, 13, 73, 501, 4051 for 1 to 6 clusters (OEIS A000262).
    """
    before, number = 1, 1
    for n in range(2, clusters + 1):
        before, number = number, (2 * n - 1) * number - (n - 1) * (n - 2) * before
        if number >= MANY:
            return MANY
    return number
