"""Recording small bodies, looking at their instructions, and expecting rejections."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from pyptx.core.errors import PyptxError
from pyptx.dsl import Recording, Scalar, Tile, Trace, current, record
from pyptx.ir import Instruction, LabelStatement, print_module

MARK = "# rejected"


def recorded(
    body: Callable[..., object], *specs: Tile | Scalar, arch: str = "sm_100a", **options: Any
) -> Recording:
    """``body`` as a kernel; its parameters are the specs'."""
    names = [p.name for p in inspect.signature(body).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    return record(body, names, specs, entry="k", arch=arch, **options)


def text_of(body: Callable[..., object], *specs: Tile | Scalar, **options: Any) -> str:
    return print_module(recorded(body, *specs, **options).module).text


def body_of(body: Callable[..., object], *specs: Tile | Scalar, **options: Any) -> list[str]:
    """Statements of the entry as text, without the final ``ret;``."""
    function = recorded(body, *specs, **options).module.functions[0]
    lines = [
        str(statement) for statement in function.body if isinstance(statement, (Instruction, LabelStatement))
    ]
    assert lines[-1] == "ret;"
    return lines[:-1]


def in_kernel(check: Callable[[], object], **options: Any) -> None:
    """Run ``check`` while a kernel records."""

    def body() -> None:
        check()

    recorded(body, **options)


def snapshot(trace: Trace) -> tuple[object, ...]:
    """Everything about a recording that a rejected call must leave as it was."""
    return (
        tuple(map(id, trace.statements)),
        tuple(trace.registers),
        frozenset(trace._names),
        {stem: count for stem, count in trace._counters.items() if count},
        tuple(trace.prologue),
        tuple(map(id, trace.regions)),
        tuple(state.mark() for state in trace.state.values()),
    )


@contextmanager
def rejected(error: type[PyptxError], *fragments: str) -> Iterator[None]:
    """The block raises ``error`` at its line marked ``# rejected``, and leaves the recording unchanged."""
    before = snapshot(current())
    with pytest.raises(error) as caught:
        yield
    says(caught.value, fragments)
    assert snapshot(current()) == before


def says(error: PyptxError, fragments: Sequence[str]) -> None:
    """``error`` mentions every fragment and points at a line marked ``# rejected``."""
    message = str(error)
    for fragment in fragments:
        assert fragment in message, message
    assert error.location is not None
    assert error.location.text.endswith(MARK), error.location.describe()
    assert error.location.text in message


def asked(value: object, *fragments: str) -> tuple[str, ...]:
    """What the refusal of ``value`` says: ``fragments`` of a number, else that a number was expected."""
    return fragments if type(value) is int else (" is ", "an integer")
