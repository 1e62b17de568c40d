"""Special registers: names, types, versions and targets.  Source: PTX ISA, `#special-registers`_.

.. _#special-registers: https://docs.nvidia.com/cuda/parallel-thread-execution/#special-registers
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.types import TYPES, ScalarType
from .targets import TargetSet, Version

__all__ = ["SPECIAL_REGISTERS", "SpecialRegister"]


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """``%name``: readable with ``mov`` of its type's width."""

    name: str
    type: ScalarType
    since: Version
    on: TargetSet


def _table() -> dict[str, SpecialRegister]:
    found: dict[str, SpecialRegister] = {}

    def add(names: str, kind: str, since: Version = (1, 0), on: str = "sm_75+") -> None:
        for name in names.split():
            found[name] = SpecialRegister(name, TYPES[kind], since, TargetSet.parse(on))

    for vector in ("tid", "ntid", "ctaid", "nctaid"):
        add(" ".join(f"{vector}.{axis}" for axis in "xyz"), "u32")
    for vector in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"):
        add(" ".join(f"{vector}.{axis}" for axis in "xyz"), "u32", (7, 8), "sm_90+")
    add("laneid warpid nwarpid smid nsmid", "u32")
    add("cluster_ctarank cluster_nctarank", "u32", (7, 8), "sm_90+")
    add("is_explicit_cluster", "pred", (7, 8), "sm_90+")
    add("lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt", "u32", (2, 0))
    add("clock clock_hi globaltimer_lo globaltimer_hi", "u32", (1, 0))
    add("clock64 globaltimer gridid", "u64", (3, 1))
    add("dynamic_smem_size total_smem_size", "u32", (4, 1))
    return found


#: Every special register by name, without the ``%``.
SPECIAL_REGISTERS: dict[str, SpecialRegister] = _table()
