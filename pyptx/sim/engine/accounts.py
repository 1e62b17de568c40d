"""What engines know of the threads that they act for: the account of their launch, and the issuing warp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...core.findings import Finding

__all__ = ["Issuer", "LaunchAccount"]


@dataclass(eq=False, slots=True)
class LaunchAccount:
    """What one launch did and found.

    Attributes:
        number: position of the launch in its stream.
        entry: name of the kernel.
        findings: in order.
        steps: warp-instructions executed.
        events: steps of asynchronous operations that happened.
    """

    number: int
    entry: str
    findings: list[Finding] = field(default_factory=list)
    steps: int = 0
    events: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Issuer:
    """A warp as engines know it.

    Attributes:
        account: its launch's.
        cta_key: its CTA, as the number of the launch and the CTA's number in the grid.
        cluster: equal for the warps of one cluster, and for no others.
        warp: its number in the CTA.
        thread_names: lanes of the warp, by number, in words.
    """

    account: LaunchAccount
    cta_key: tuple[int, int]
    cluster: object
    warp: int
    thread_names: Callable[[Any], str]
