"""The checks of annotations, and what messages say where an argument does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from pyptx.core.errors import OperandError
from pyptx.core.types import b64, u32
from pyptx.dsl import current, ptx, reg, smem
from pyptx.dsl.checks import check_of
from pyptx.dsl.registers import NotPred, Reg
from tests.dsl.helpers import in_kernel, snapshot

ACCEPTED: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = [
    (int, (0, -1, True), (1.5, "1", None)),
    (float, (1.5, 2), ("2", None)),
    (bool, (True, False), (1, "yes")),
    (str, ("a",), ("", b"a", 1)),
    (None, (None,), (0,)),
    (int | None, (0, None), ("0",)),
    (Literal["a", "b"], ("a", "b"), ("c", "", None, 1)),
    (Literal[1, 2], (1, 2), (True, 3, "1", 1.0)),
    (Sequence[int], ([1, 2], (1,), []), ({1}, "12", [1.5], np.zeros(2))),
    (tuple[int, str], ((1, "a"), [1, "a"]), ((1,), ("a", 1), 1)),
    (tuple[int, ...], ((), (1, 2)), ((1, "a"),)),
    (Callable[[int], int], (len, lambda n: n), (1, "len")),
    (Any, (None, 1, object()), ()),
    (object, (None, 1), ()),
]


@pytest.mark.parametrize(("hint", "fits", "misfits"), ACCEPTED, ids=lambda value: str(value)[:30])
def test_what_an_annotation_accepts(hint: Any, fits: tuple[Any, ...], misfits: tuple[Any, ...]) -> None:
    check = check_of(hint)
    assert [value for value in fits if not check.accepts(value)] == []
    assert [value for value in misfits if check.accepts(value)] == []


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, "an integer"),
        (Reg | NotPred | None, "a register or ~p or None"),
        (Literal["lo", "hi"], "'lo' or 'hi'"),
        (Sequence[Reg | int], "a list (a register or an integer each)"),
        (tuple[int, str], "(an integer, a string that is not empty)"),
        (Callable[[int], int], "a function"),
        (OSError, "an OSError"),
    ],
)
def test_what_a_message_expects(hint: Any, expected: str) -> None:
    assert str(check_of(hint)) == expected


def test_a_misfit_is_refused_before_the_function_runs() -> None:
    """Even where the function would have recorded something first."""

    def check() -> None:
        n = reg.scalar(u32, name="n")
        before = snapshot(current())
        with pytest.raises(
            OperandError, match="n of ptx.cp.async_.wait_group is the register %n .*an integer"
        ):
            ptx.cp.async_.wait_group(n)  # type: ignore[arg-type]
        with pytest.raises(OperandError, match="kind of ptx.load is 'x': expected a PTX type"):
            ptx.load("x", n)  # type: ignore[call-overload]
        assert snapshot(current()) == before

    in_kernel(check)


def test_objects_of_one_class_are_called_by_their_own_names() -> None:
    def check() -> None:
        box, bar = smem.alloc((16, 16), u32, align=128), smem.alloc(1, b64)
        for name in ("tensor_1d", "tensor_2d", "tensor_5d"):
            copy = getattr(ptx.cp.async_.bulk, name)
            with pytest.raises(OperandError, match=f"cta_group of ptx.cp.async_.bulk.{name} is 'one'"):
                copy(dst=box, src=reg.scalar(b64, init=0), coord=0, mbar=bar, cta_group="one")

    in_kernel(check)
