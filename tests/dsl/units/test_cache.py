"""``ptx.cache``: every variant assembles, the spelling is exact, and what is illegal is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError
from pyptx.core.types import b64, f32, pred, u32, u64
from pyptx.dsl import ptx, reg
from pyptx.dsl.units import cache
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.places import ALL_TARGETS, calls, place
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

PRIMARY = ("evict_last", "evict_normal", "evict_first", "evict_unchanged")
SECONDARY = (None, "evict_first", "evict_unchanged")
SPACES = ("global", None)


def _calls() -> list[Call]:
    unit: Any = ptx.cache

    def fractional(first: str, rest: Any, fraction: Any) -> None:
        given = reg.scalar(f32) if fraction == "register" else fraction
        unit.policy(first, rest, fraction=given)

    def ranged(first: str, rest: Any, space: Any, sizes: Any) -> None:
        given = sizes or (reg.scalar(u32), reg.scalar(u32))
        unit.policy_range(place(None), *given, first, rest, space=space)

    return [
        *calls("cache.policy", fractional, PRIMARY, SECONDARY, (None, 1, 0.25, "register")),
        *calls("cache.policy_range", ranged, PRIMARY, SECONDARY, SPACES, ((256, 1024), None)),
        *calls("cache.policy_cvt", lambda: unit.policy_cvt(reg.scalar(u64))),
        *calls(
            "cache.prefetch",
            lambda level, space: unit.prefetch(place(None), level, space=space),
            ("L1", "L2"),
            ("global", "local", None),
        ),
        *calls(
            "cache.prefetch",
            lambda evict: unit.prefetch(place(None), evict=evict),
            ("evict_last", "evict_normal"),
        ),
        *calls("cache.prefetch", lambda s: unit.prefetch(place(None), "L1::32B", space=s), SPACES),
        *calls("cache.prefetch_uniform", lambda: unit.prefetch_uniform(place(None))),
        *calls("cache.discard", lambda space: unit.discard(place(None), space=space), SPACES),
        *calls("cache.apply_priority", lambda space: unit.apply_priority(place(None), space=space), SPACES),
    ]


def test_every_variant_is_reached_and_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_calls(), ptxas, ALL_TARGETS)
    assert reached.wrappers == public_functions(cache, "cache")
    # Ranges behind a fabric handle, and tensor maps, are other units'.
    assert unreached(reached, "createpolicy", lambda words: "fabric" not in words) == []
    assert unreached(reached, "prefetch", lambda words: "tensormap" not in words) == []
    assert unreached(reached, "applypriority", lambda words: "async" not in words) == []
    for opcode in ("prefetchu", "discard"):
        assert unreached(reached, opcode) == []


def test_spelling(ptxas: Tool) -> None:
    def body() -> None:
        a, p = reg.scalar(u64, init=0), reg.scalar(pred, init=True)
        keep = ptx.cache.policy("evict_last")
        some = ptx.cache.policy("evict_last", "evict_first", fraction=0.5)
        near = ptx.cache.policy_range(a, 256, 4096, "evict_last")
        cuda = ptx.cache.policy_cvt(a)
        assert {x.type for x in (keep, some, near, cuda)} == {b64}
        ptx.cache.prefetch(a)
        ptx.cache.prefetch(ptx.addr(a, 128), "L1", space=None, pred=p)
        ptx.cache.prefetch(a, evict="evict_last")
        ptx.cache.discard(a)
        ptx.cache.apply_priority(a)

    assert body_of(body)[2:] == [
        "createpolicy.fractional.L2::evict_last.b64 %keep;",
        "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %some, 0f3F000000;",
        "createpolicy.range.global.L2::evict_last.b64 %near, [%a], 256, 4096;",
        "createpolicy.cvt.L2.b64 %cuda, %a;",
        "prefetch.global.L2 [%a];",
        "@%p prefetch.L1 [%a+128];",
        "prefetch.global.L2::evict_last [%a];",
        "discard.global.L2 [%a], 128;",
        "applypriority.global.L2::evict_normal [%a], 128;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_refuses() -> None:
    def check() -> None:
        unit: Any = ptx.cache
        a, narrow = reg.scalar(u64), reg.scalar(u32)
        with rejected(OperandError, "primary of", "is 'last'", "'evict_last'"):
            unit.policy("last")  # rejected
        with rejected(OperandError, "secondary of", "is 'evict_last'", "'evict_first'"):
            unit.policy("evict_last", "evict_last")  # rejected
        for fraction in (0, 1.5, -0.5, "half"):
            with rejected(
                OperandError,
                f"is {fraction!r}",
                "a number" if fraction == "half" else "0 < fraction <= 1",
            ):
                unit.policy("evict_last", fraction=fraction)  # rejected
        with rejected(OperandError, "primary_size is -1", "0..4294967295"):
            unit.policy_range(a, -1, 16, "evict_last")  # rejected
        with rejected(OperandError, "primary-size is 32", "at most total-size, which is 16"):
            unit.policy_range(a, 32, 16, "evict_last")  # rejected
        with rejected(OperandError, "space is 'shared'", "'global', None"):
            unit.policy_range(a, 16, 32, "evict_last", space="shared")  # rejected
        with rejected(OperandError, "level is 'L3'", "'L1', 'L2'"):
            unit.prefetch(a, "L3")  # rejected
        with rejected(OperandError, "level is 'L1'", "'L2'"):
            unit.prefetch(a, "L1", evict="evict_last")  # rejected
        with rejected(OperandError, "evict of", "is 'evict_first'", "'evict_last'"):
            unit.prefetch(a, evict="evict_first")  # rejected
        with rejected(OperandError, "space is 'local'", "'global'"):
            unit.prefetch(a, evict="evict_last", space="local")  # rejected
        with rejected(OperandError, "space is 'shared'", "'global', 'local', None"):
            unit.prefetch(a, space="shared")  # rejected
        with rejected(InstructionError, "valid_addr"):
            unit.prefetch(a, "L1::32B", space="local")  # rejected
        for function in (unit.discard, unit.apply_priority):
            with rejected(OperandError, "space is 'local'", "'global', None"):
                function(a, space="local")  # rejected
        with rejected(OperandError, "%narrow", "u32"):
            unit.discard(narrow)  # rejected

    in_kernel(check, arch="sm_107a")


@pytest.mark.parametrize("name", ["load", "store"])
def test_a_policy_goes_with_a_copy(name: str, ptxas: Tool) -> None:
    def body() -> None:
        s, g = reg.scalar(u32, init=0), reg.scalar(u64, init=0)
        first = ptx.cache.policy("evict_first")
        if name == "load":
            ptx.cp.async_.bulk.load(s, g, 16, s, cache_hint=first)
        else:
            ptx.cp.async_.bulk.store(g, s, 16, cache_hint=first)

    assert body_of(body)[-1].endswith(", %first;")
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_policies_go_into_a_given_register() -> None:
    def body() -> None:
        a, l2, p = reg.scalar(u64), reg.scalar(b64), reg.scalar(pred)
        assert ptx.cache.policy("evict_first", out=l2, pred=p) is l2
        ptx.cache.policy_range(a, 16, 32, "evict_first", out=l2)
        ptx.cache.policy_cvt(a, out=l2, pred=~p)

    assert body_of(body) == [
        "@%p createpolicy.fractional.L2::evict_first.b64 %l2;",
        "createpolicy.range.global.L2::evict_first.b64 %l2, [%a], 16, 32;",
        "@!%p createpolicy.cvt.L2.b64 %l2, %a;",
    ]
