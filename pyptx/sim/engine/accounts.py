"""What engines know about the threads for which they act: the account of the launch, and the issuing warp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from ...core.findings import Finding
from ...core.records import dataclass

__all__ = ["Issuer", "LaunchAccount"]


@dataclass(eq=False, slots=True)
class LaunchAccount:
    """Counts and findings of one launch, which threads and engines add to.

    Attributes:
        number: position of the launch in its stream.
        entry: name of the kernel.
        findings: the findings of the launch, in order.
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
    """A warp as the engines know it.

    Attributes:
        account: the account of the warp's launch.
        cta_key: the warp's CTA, as (launch number, CTA number in the grid).
        cluster: a key that only the warps of one cluster share.
        warp: the warp's number in the CTA.
        thread_names: function that returns the names of lanes for a message, given the lanes' numbers.
    """

    account: LaunchAccount
    cta_key: tuple[int, int]
    cluster: object
    warp: int
    thread_names: Callable[[Any], str]
