"""Data classes with methods on demand, compared with those of Python's own decorator."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from pyptx.core.errors import SpecError
from pyptx.core.records import dataclass
from pyptx.core.tracebacks import short_traceback

OPTIONS = [
    dict(zip(("eq", "repr", "frozen", "slots"), flags, strict=True))
    for flags in itertools.product((False, True), repeat=4)
]


def twins(make: Callable[[Any], type], options: dict[str, bool]) -> tuple[type, type]:
    """Return the class that ``make`` makes with a decorator: Python's, and pyptx's."""
    return make(dataclasses.dataclass(**options)), make(dataclass(**options))


def plain(decorate: Any) -> type:
    @decorate
    class Plain:
        """A class."""

        limit: ClassVar[int] = 7
        first: int
        second: str = "two"
        third: list[int] = field(default_factory=list)
        hidden: object = field(default=None, repr=False, compare=False)
        made: int = field(default=4, init=False)

        def double(self) -> int:
            return 2 * self.first

    return Plain


def finished(decorate: Any) -> type:
    @decorate
    class Finished:
        """A class with a field that it computes."""

        first: int
        total: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", 3 * self.first)

    return Finished


def derived(decorate: Any) -> type:
    @decorate
    class Base:
        """A class."""

        first: int
        second: int = 2

    @decorate
    class Derived(Base):
        """A class."""

        second: int = 5
        third: int = 3

    return Derived


def empty(decorate: Any) -> type:
    @decorate
    class Empty:
        """A class."""

    return Empty


def own(decorate: Any) -> type:
    @decorate
    class Own:
        """A class with methods of its own."""

        first: float

        def __init__(self, first: float) -> None:
            object.__setattr__(self, "first", -first)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    return Own


def simple(decorate: Any) -> type:
    @decorate
    class Simple:
        """A class whose fields are all given."""

        first: int
        second: object = None
        third: int = 4

    return Simple


CALLS: dict[Callable[[Any], type], list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    plain: [
        ((1,), {}),
        ((1, "b"), {"third": [2]}),
        ((), {"first": 2, "hidden": 9}),
        ((2,), {}),
        ((), {}),
        ((1,), {"made": 3}),
    ],
    finished: [((1,), {}), ((1,), {"total": 2}), ((2,), {})],
    derived: [((1,), {}), ((1, 5, 3), {}), ((1, 5, 3, 4), {})],
    simple: [
        ((1,), {}),
        ((1, "b", 2), {}),
        ((1,), {"third": 3}),
        ((), {}),
        ((1, 2, 3, 4), {}),
        ((1,), {"other": 3}),
    ],
    empty: [((), {}), ((1,), {})],
    own: [((1.5,), {}), ((2.5,), {})],
}


def outcome(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> tuple[Any, Any]:
    """Return what a call gives, or the class of its error (a frozen class names the field as well)."""
    try:
        return "value", function(*arguments, **keywords)
    except (TypeError, AttributeError) as error:
        return type(error), str(error) if isinstance(error, FrozenInstanceError) else None


def described(value: Any) -> Any:
    """Return what an instance has, and what its methods say."""
    values = {
        name: getattr(value, name, "none") for name in ("first", "second", "third", "hidden", "made", "total")
    }
    return values, outcome(hash, value)[0], hasattr(value, "__dict__")


@pytest.mark.sample(5)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(k for k, v in options.items() if v))
@pytest.mark.parametrize("make", CALLS, ids=lambda make: make.__name__)
def test_a_class_does_what_pythons_own_does(make: Callable[[Any], type], options: dict[str, bool]) -> None:
    python, ours = twins(make, options)
    made: list[tuple[Any, Any]] = []
    for arguments, keywords in CALLS[make]:
        (how, wanted), (found_how, found) = (outcome(cls, *arguments, **keywords) for cls in (python, ours))
        assert how == found_how
        if how == "value":
            made.append((wanted, found))
    assert made
    for (one, ours_one), (two, ours_two) in itertools.product(made, made):
        assert (ours_one == ours_two) == (one == two)
        if outcome(hash, one)[0] == "value":
            assert (hash(ours_one) == hash(ours_two)) == (hash(one) == hash(two))
        assert make is own or ours_one != two
    for wanted, found in made:
        assert described(found) == described(wanted)
        if options["repr"]:
            assert repr(found) == repr(wanted)
        for name in ("first", "other"):
            refused, expected = (outcome(setattr, value, name, 3) for value in (found, wanted))
            # With slots, some versions of Python give a TypeError for what is no field.
            assert refused == expected or (expected[0] is TypeError and refused[0] is FrozenInstanceError)
        assert outcome(copy.copy, found)[0] == outcome(copy.copy, wanted)[0]
        assert described(copy.copy(found)) == described(copy.copy(wanted))
        if wanted.__class__.__match_args__:
            assert outcome(delattr, found, "first") == outcome(delattr, wanted, "first")


@pytest.mark.sample(3)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(k for k, v in options.items() if v))
@pytest.mark.parametrize("make", CALLS, ids=lambda make: make.__name__)
def test_the_functions_of_dataclasses_take_a_class(
    make: Callable[[Any], type], options: dict[str, bool]
) -> None:
    python, ours = twins(make, options)
    assert dataclasses.is_dataclass(ours)
    found, wanted = (
        [(f.name, f.type, f.default, f.init, f.repr, f.compare) for f in dataclasses.fields(cls)]
        for cls in (ours, python)
    )
    assert found == wanted
    assert ours.__match_args__ == python.__match_args__  # type: ignore[attr-defined]
    assert [str(p) for p in inspect.signature(ours).parameters.values()] == [
        str(p) for p in inspect.signature(python).parameters.values()
    ]
    if make is plain:
        changed = dataclasses.replace(ours(1), second="new")
        assert (changed.first, changed.second) == (1, "new")
        assert dataclasses.asdict(ours(1)) == dataclasses.asdict(python(1))


@pytest.mark.parametrize(
    ("base", "sub"), [(dataclass, dataclasses.dataclass), (dataclasses.dataclass, dataclass)]
)
def test_it_and_pythons_own_inherit_from_each_other(base: Any, sub: Any) -> None:
    @base(frozen=True)
    class Base:
        first: int
        second: int = 2

    @sub(frozen=True)
    class Sub(Base):
        third: int = 3

    made = Sub(1, third=4)
    assert (made.first, made.second, made.third) == (1, 2, 4)
    assert [f.name for f in dataclasses.fields(made)] == ["first", "second", "third"]
    assert made == Sub(1, 2, 4) != Base(1, 2)


@dataclass(frozen=True, slots=True)
class Kept:
    """A class that pickle finds."""

    first: int
    second: tuple[int, ...] = ()


def test_pickle_keeps_instances() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_equality_is_that_of_the_tuples_of_fields() -> None:
    nan = float("nan")
    assert Kept(nan) == Kept(nan)  # type: ignore[arg-type]


def test_a_subclass_uses_the_methods_of_its_base() -> None:
    class Sub(Kept):
        pass

    sub = Sub(3)
    assert (sub.first, repr(sub)) == (3, f"{Sub.__qualname__}(first=3, second=())")
    assert sub != Kept(3)
    sub.note = "its own"  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'first'"):
        sub.first = 4  # type: ignore[misc]


def test_a_mutable_default_is_refused() -> None:
    with pytest.raises(ValueError, match="Wrong.items has a mutable default"):

        @dataclass
        class Wrong:
            items: list[int] = []  # noqa: RUF012


def test_frames_of_generated_methods_are_not_the_authors() -> None:
    @dataclass
    class Checked:
        first: int

        def __post_init__(self) -> None:
            raise SpecError("refused")

    @short_traceback
    def make() -> None:
        Checked(1)

    with pytest.raises(SpecError) as caught:
        make()
    assert [entry.name for entry in caught.traceback][-2:] == ["make", "__post_init__"]


def test_an_import_compiles_no_method() -> None:
    """No class of what a launch imports gets methods before they are used, by any decorator."""
    probe = textwrap.dedent(
        """
        import dataclasses, sys
        import numpy, ml_dtypes
        made = []
        def dataclass(cls=None, /, **options):
            def make(cls):
                made.append(cls.__qualname__)
                return cls
            return make if cls is None else make(cls)
        dataclasses.dataclass = dataclass
        from pyptx import Tile, TensorMap, bf16, kernel, kit, ptx, reg, smem
        import pyptx.entry.gpu, pyptx.toolchain.cache
        print(made)
        """
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
