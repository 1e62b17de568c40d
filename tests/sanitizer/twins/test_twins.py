"""Each class of bug has a kernel that is right and a twin that has the bug: the right one has no finding."""

from __future__ import annotations

import pytest

from pyptx.core.findings import RULES
from pyptx.toolchain import Tool, assemble

from .classes import SHIPPED, SUBJECTS, UNSEEN
from .corpus import TWINS
from .not_yet import FALSE_ALARMS, NOT_YET
from .twin import Twin, Which

pytestmark = pytest.mark.full

_NAMES = list(TWINS)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", _NAMES)
def test_right(name: str) -> None:
    outcome = TWINS[name].run("right")
    complaint = TWINS[name].complaint("right", outcome)
    if name in FALSE_ALARMS:
        assert outcome.right and complaint, f"{name} is clean now: remove it from FALSE_ALARMS"
    else:
        assert not complaint, f"{complaint}\n{outcome}"


@pytest.mark.parametrize("name", _NAMES)
def test_wrong(name: str) -> None:
    """A finding names the rule and the lines; names in ``NOT_YET`` leave that list when it does."""
    outcome = TWINS[name].run("wrong")
    complaint = TWINS[name].complaint("wrong", outcome)
    if name in NOT_YET:
        assert complaint, f"{name} is found now: remove it from NOT_YET"
    else:
        assert not complaint, f"{complaint}\n{outcome}"


def test_names_of_not_yet_exist() -> None:
    assert (NOT_YET | FALSE_ALARMS).issubset(TWINS)


@pytest.mark.parametrize("which", ["right", "wrong"])
@pytest.mark.parametrize("target", sorted({twin.target for twin in TWINS.values()}))
def test_ptxas_accepts_all(ptxas: Tool, target: str, which: Which) -> None:
    """One text for each target has all kernels."""
    texts = [twin.text(which, f"twin{n}_") for n, twin in enumerate(TWINS.values()) if twin.target == target]
    head, _, _ = texts[0].partition(".visible")
    assemble(head + "".join(text.removeprefix(head) for text in texts), ptxas=ptxas)


def test_every_class_has_a_twin() -> None:
    named = {name for twin in TWINS.values() for name in twin.classes}
    assert named == {*SHIPPED, *UNSEEN, *SUBJECTS}


def test_rules_are_those_of_the_catalog() -> None:
    """A rule that exists has the severity that the twin expects."""
    for twin in TWINS.values():
        for rule in twin.rules:
            assert rule not in RULES or RULES[rule].severity == twin.severity, twin.name


def test_a_judgment_can_fail() -> None:
    """The right kernel's run does not satisfy the expectation of the wrong one."""
    for twin in TWINS.values():
        if twin.severity != "none":
            assert twin.complaint("wrong", twin.run("right"))
            return


def test_the_bug_is_the_only_difference() -> None:
    def changed(twin: Twin) -> int:
        pairs = zip(twin.text("right").splitlines(), twin.text("wrong").splitlines(), strict=True)
        return sum(a != b for a, b in pairs)

    assert all(1 <= changed(twin) <= 6 for twin in TWINS.values())
