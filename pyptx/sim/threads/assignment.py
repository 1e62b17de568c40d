"""Assignments: which clusters start by themselves, and which clusters their requests cancel.

A cluster that runs may cancel clusters that have not started and do their work (``clusterlaunchcontrol``).
Which one a request gets is the hardware's choice. An assignment has a list for each cluster that starts: the
cluster itself, and then the clusters that its requests get, in the order of the requests. Each request after
these is refused. Each cluster of the grid is in one list.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.errors import SpecError
from ...core.records import dataclass

__all__ = ["MANY", "Assignment", "every_assignment", "number_of_assignments"]

#: Assignments are counted up to this number.
MANY = 10**15


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment: a list for each cluster that starts, by the number of the cluster.

    Its text is ``0,2,1/3``: clusters 0 and 3 start, and the requests of cluster 0 get cluster 2, then 1.
    """

    lists: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, text: str) -> Assignment:
        """Read the text of an assignment. Raise :class:`SpecError` if it is none."""
        try:
            lists = tuple(tuple(int(word) for word in one.split(",")) for one in text.split("/"))
        except ValueError:
            lists = ()
        numbers = sorted(number for one in lists for number in one)
        if not lists or numbers != list(range(len(numbers))):
            raise SpecError(
                f"launch_control is {text!r}: expected 'every', or an assignment that has each cluster once",
                hint="'0,2,1/3': clusters 0 and 3 start, and the requests of cluster 0 get cluster 2, then 1",
            )
        return cls(tuple(sorted(lists)))

    def __str__(self) -> str:
        return "/".join(",".join(map(str, one)) for one in self.lists)

    @property
    def clusters(self) -> int:
        """The number of clusters of the grid."""
        return sum(map(len, self.lists))

    @property
    def starting(self) -> tuple[int, ...]:
        """The clusters that start by themselves."""
        return tuple(one[0] for one in self.lists)

    def described(self) -> str:
        """Return in words which clusters cancel which."""
        parts = [
            f"cluster {first} cancels {', then '.join(map(str, others))}"
            for first, *others in self.lists
            if others
        ]
        return "; ".join(parts) or "no cluster is canceled"


def every_assignment(clusters: int) -> Iterator[Assignment]:
    """Yield every assignment of a grid, each once. In the first one, all clusters start."""
    for lists in _partitions(clusters):
        yield Assignment(tuple(sorted(lists)))


def _partitions(count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every set of lists that together have the numbers below ``count`` once."""
    if not count:
        yield ()
        return
    last = count - 1
    for lists in _partitions(last):
        yield (*lists, (last,))
        for place, one in enumerate(lists):
            for position in range(len(one) + 1):
                yield (*lists[:place], (*one[:position], last, *one[position:]), *lists[place + 1 :])


def number_of_assignments(clusters: int) -> int:
    """Return the number of assignments of a grid; :data:`MANY` if there are more.

    It is the number of sets of lists: 1, 3, 13, 73, 501, 4051 for 1 to 6 clusters (OEIS A000262).
    """
    before, number = 1, 1
    for n in range(2, clusters + 1):
        before, number = number, (2 * n - 1) * number - (n - 1) * (n - 2) * before
        if number >= MANY:
            return MANY
    return number
