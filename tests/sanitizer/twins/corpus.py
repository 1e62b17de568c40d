"""All twins by name."""

from __future__ import annotations

from . import clusters, groups, launches, mbarriers, ordering, pairs, proxies, reuse, tcgen05, wgmma
from .twin import Twin

__all__ = ["TWINS"]

_UNITS = (ordering, mbarriers, proxies, groups, clusters, launches, reuse, wgmma, tcgen05, pairs)

#: Every twin by its name.
TWINS: dict[str, Twin] = {}
for _unit in _UNITS:
    for _twin in _unit.TWINS:
        assert _twin.name not in TWINS, f"two twins are called {_twin.name}"
        TWINS[_twin.name] = _twin
