"""Twins that the simulator does not judge as expected yet. A test fails if a name stands here too long."""

from __future__ import annotations

__all__ = ["FALSE_ALARMS", "NOT_YET"]

#: The right kernel has a finding.
FALSE_ALARMS: frozenset[str] = frozenset({})

#: The wrong kernel has no finding, or not the expected one.
NOT_YET: frozenset[str] = frozenset({})
