"""Named tuples that are made without compiling, compared with those of Python's own class."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

from pyptx.core import tuples


class Theirs(typing.NamedTuple):
    """A named tuple."""

    first: int
    second: str = "two"
    third: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.first


class Ours(tuples.NamedTuple):
    """A named tuple."""

    first: int
    second: str = "two"
    third: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.first


class Single(tuples.NamedTuple):
    only: int


class Derived(Ours):
    def __repr__(self) -> str:
        return f"derived {self.first}"


def outcome(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return what a call gives, without the class's name, or its error."""
    try:
        return repr(function(*arguments, **keywords)).replace("Theirs", "Ours")
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error).replace("Theirs", "Ours")


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    "call",
    [
        lambda cls: cls(1),
        lambda cls: cls(1, third=(4,)),
        lambda cls: cls(second="b", first=2),
        lambda cls: cls(),
        lambda cls: cls(1, 2, 3, 4),
        lambda cls: cls(1, fourth=4),
        lambda cls: cls(1)._replace(second="c"),
        lambda cls: cls(1)._asdict(),
        lambda cls: cls._make([1, "b", (2,)]),
        lambda cls: (cls._fields, cls._field_defaults, cls.__match_args__, cls.__doc__),
        lambda cls: (cls(3).double, cls(3).second, cls(3)[0], list(cls(3)), len(cls(3))),
        lambda cls: (cls(3) == (3, "two", ()), hash(cls(3)) == hash((3, "two", ())), cls(3) < cls(4)),
        lambda cls: (copy.copy(cls(3)), copy.deepcopy(cls(3)), hasattr(cls(3), "__dict__")),
        lambda cls: [(p.name, p.kind, p.default) for p in inspect.signature(cls).parameters.values()],
        lambda cls: setattr(cls(3), "first", 4),
        lambda cls: setattr(cls(3), "other", 4),
    ],
)
def test_a_class_does_what_pythons_own_does(call: Callable[[Any], Any]) -> None:
    assert outcome(call, Ours) == outcome(call, Theirs)


def test_an_unknown_field_is_not_replaced() -> None:
    with pytest.raises(ValueError, match="fourth"):
        Ours(1)._replace(fourth=4)  # type: ignore[call-arg]


def test_instances_are_pickled_and_matched() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(Ours(1, "b"), protocol))
        assert found == Ours(1, "b") and type(found) is Ours
    match Ours(1, "b"):
        case Ours(1, second):
            assert second == "b"
        case _:
            pytest.fail("the pattern did not match")


def test_a_class_may_have_one_field_and_be_a_base() -> None:
    (only,) = Single(5)
    assert (only, repr(Single(5))) == (5, "Single(only=5)")
    assert repr(Derived(7)) == "derived 7" and Derived(7)._replace(first=8).first == 8
    assert isinstance(Derived(7)._replace(first=8), Derived)


def test_defaults_come_last() -> None:
    with pytest.raises(TypeError, match="default"):

        class Wrong(tuples.NamedTuple):  # type: ignore[misc]
            first: int = 1
            second: int  # type: ignore[misc]
