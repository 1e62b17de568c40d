"""Every public function of the DSL with one argument replaced by junk: recorded and legal, or refused and gone.

A refusal is a `PyptxError` at the author's line that speaks of what was given and leaves the recording as it
was.  What is recorded must be PTX that ptxas takes.  The junk is the same in every run; by default each
argument meets a third of it, and all of it in the slow test.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import PyptxError, TargetError, TraceError
from pyptx.core.types import u32
from pyptx.dsl import Buffer, Label, current, ptx, record, reg, smem
from pyptx.dsl.operands import Addr
from pyptx.dsl.register_arrays import RegArray
from pyptx.dsl.registers import NotPred, Reg
from pyptx.ir import Immediate, print_module
from pyptx.toolchain import Tool, check_text
from pyptx.tools.wrappers import functions_of

from .helpers import snapshot
from .valid_calls import VALID, Arguments, Bench

ARCHS = ("sm_100a", "sm_90a", "sm_107a", "sm_103a")
#: A decorator, whose arguments are a function's: tests/dsl/test_functions.py.
ELSEWHERE = {"ptx.func"}
#: What these record is the author's text, or names what only the whole module has.
UNREAD = {"ptx.raw", "ptx.call", "ptx.calltargets"}
_OBJECT, EMPTY = object(), ""
_KINDS = (
    "b16", "b32", "b64", "b128", "u16", "u32", "u64", "s32", "f16", "f32", "f64", "bf16", "f16x2", "p",
)  # fmt: skip
SHARE = 3


@cache
def functions() -> dict[str, Callable[..., Any]]:
    roots = (("ptx", ptx), ("reg", reg), ("smem", smem))
    return {name: found for root, owner in roots for name, found in functions_of(owner, root)}


@cache
def foreign() -> dict[str, Any]:
    """A register and a buffer of a recording that has ended."""
    made: dict[str, Any] = {}

    def body() -> None:
        made["register"], made["buffer"] = reg.scalar(u32), smem.alloc(16)

    record(body, (), (), entry="k", arch="sm_90")
    return made


def junk(bench: Bench) -> list[Any]:
    """What nobody should pass, and some that somebody should."""
    return [
        None, "x", EMPTY, -1, 0, 3.5, float("nan"), 1e300, True, 1 << 70, _OBJECT, [], (), {"a": 1}, {1, 2}, b"ab",
        [None], [_OBJECT], [[bench.u32]], (bench.u32, bench.p), int, lambda: 1,
        *foreign().values(), ~bench.p, bench.buffer, bench.stages, ptx.addr(bench.u64, 4), bench.label,
        bench.symbol, bench.words, ptx.special.tid.x, ptx.special.tid, u32, Immediate(5),
        np.int32(3), np.float32(2.5), np.bool_(True), np.zeros(3), [np.int64(1)],
        *(getattr(bench, kind) for kind in _KINDS),
    ]  # fmt: skip


def variations(
    function: Callable[..., Any], given: Arguments
) -> Iterator[tuple[str, Callable[[Any], Arguments]]]:
    """For each parameter: its name, and the arguments with another value for it."""
    positional, named = given

    def at(index: int) -> Callable[[Any], Arguments]:
        return lambda value: ((*positional[:index], value, *positional[index + 1 :]), named)

    def called(name: str) -> Callable[[Any], Arguments]:
        return lambda value: (positional, {**named, name: value})

    for index, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield from ((name, at(place)) for place in range(len(positional)))
        elif index < len(positional) and parameter.kind is not parameter.KEYWORD_ONLY:
            yield name, at(index)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            yield name, called(name)


def forms(value: Any) -> set[str]:
    """How a message may speak of ``value``: itself, its name, its type."""
    found = {repr(value), str(value), type(value).__name__}
    if isinstance(value, np.generic):
        found |= forms(value.item())
    elif isinstance(value, int):
        found |= {f"{value:#x}", str(4 * value)}  # elements of f32 as bytes
    elif isinstance(value, np.ndarray):
        found |= {repr(value)[:20], *map(repr, value.ravel()[:1].tolist())}
    elif isinstance(value, Reg):
        # Bits count as unsigned, and 16-bit floats travel as bits.
        found |= {value.name, value.type.name, f"u{value.type.bits}", f"b{value.type.bits}"}
    elif isinstance(value, RegArray):
        found |= {value.name, value.type.name}
    elif isinstance(value, Buffer):
        found |= {value.name, "%smem_base"}
    elif isinstance(value, NotPred):
        found |= {str(value.register), "predicate"}
    elif isinstance(value, Addr):
        found.add(str(value.base))
    elif isinstance(value, Label):
        found.add(repr(value.hint))
    return found


def speaks(error: PyptxError, parameter: str, value: Any) -> bool:
    """Whether the message has the value; or the parameter, where nothing may stand in its place."""
    if value is None or value is EMPTY or isinstance(value, (list, tuple, dict, set, bool, np.bool_, type)):
        return True  # that nothing was given, or how many, what the flag turns on, what calling it raised
    text = f"{error.message} {error.hint}"
    if "called fresh" in text:
        return True  # the valid call has taken the name
    return parameter in text or any(form in text for form in forms(value))


def misuse(name: str, share: int, counts: Counter[str]) -> tuple[list[str], str]:
    """What goes wrong with the function called ``name``, and the text of what it recorded."""
    function, faults = functions()[name], []

    def body() -> None:
        bench = Bench()
        given = VALID[name](bench)
        trace, values = current(), junk(bench)
        function(*given[0], **given[1])
        for offset, (parameter, vary) in enumerate(variations(function, given)):
            for value in values[(offset + len(name)) % share :: share]:
                positional, named = vary(value)
                before = snapshot(trace)
                what = f"{name}{positional}{named}"
                try:
                    function(*positional, **named)  # the call
                except PyptxError as error:
                    counts["refused"] += 1
                    if error.location is None or not error.location.text.endswith("# the call"):
                        faults.append(f"{what}: at {error.location}")
                    if not speaks(error, parameter, value):
                        faults.append(f"{what}: says nothing of {value!r}: {error.message}")
                    if snapshot(trace) != before:
                        faults.append(f"{what}: refused, and left something")
                except Exception as error:
                    faults.append(f"{what}: {type(error).__name__}: {error}")
                else:
                    counts["recorded"] += 1
        with contextlib.suppress(TraceError):  # a branch to the junk "x" is legal, and so is ptx.label("x")
            ptx.label("x")

    for arch in ARCHS:
        try:
            recorded = record(body, (), (), entry="k", arch=arch)
        except TargetError:
            continue
        return faults, print_module(recorded.module).text
    raise AssertionError(f"no target takes {name}{VALID[name]}")


def test_every_public_function_has_a_valid_call() -> None:
    assert functions().keys() - VALID.keys() == ELSEWHERE
    assert VALID.keys() <= functions().keys()


def hold_all(share: int, ptxas: Tool) -> Counter[str]:
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for name in sorted(functions().keys() - ELSEWHERE):
        found, text = misuse(name, share, counts)
        faults += found
        report = check_text(text, ptxas=ptxas)
        if not report.ok and name not in UNREAD:
            faults.append(f"{name}: {report}")
    print(f"{sum(counts.values())} calls of {len(functions())} functions: {dict(counts)}")
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:400])
    return counts


@pytest.mark.slow
@pytest.mark.full
def test_junk_is_refused_where_it_stands(ptxas: Tool) -> None:
    counts = hold_all(SHARE, ptxas)
    assert counts["refused"] > 20_000
    assert counts["recorded"] > 1_000


@pytest.mark.slow
def test_all_junk_is_refused_where_it_stands(ptxas: Tool) -> None:
    assert hold_all(1, ptxas)["refused"] > 60_000
