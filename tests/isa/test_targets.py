"""What is known of targets."""

from __future__ import annotations

import pytest

from pyptx.isa import KNOWN_TARGETS, target

#: KiB of shared memory that a CTA may have, from the tables of compute capabilities in the CUDA programming guide.
SHARED = {
    **{"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99, "sm_90": 227, "sm_100": 227},
    **{"sm_103": 227, "sm_110": 227, "sm_120": 99, "sm_121": 99},
}


@pytest.mark.parametrize("name", SHARED)
def test_shared_memory_of_a_cta(name: str) -> None:
    assert target(name).shared_limit == SHARED[name] * 1024


def test_every_target_has_its_limits() -> None:
    for known in KNOWN_TARGETS:
        found = target(str(known))
        assert found.shared_limit >= found.static_shared_limit > 0
        assert found.multiprocessors > 0 and found.threads_per_sm >= 1024 and found.ctas_per_sm >= 16
