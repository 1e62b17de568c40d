"""Special registers: names, types, versions and targets.  Source: PTX ISA, `#special-registers`_.

.. _#special-registers: https://docs.nvidia.com/cuda/parallel-thread-execution/#special-registers
"""

from __future__ import annotations

from ..core.records import dataclass
from ..core.types import TYPES, ScalarType
from .targets import TargetSet, Version

__all__ = ["CLOCKS", "SPECIAL_REGISTERS", "SpecialRegister"]


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """The special register ``%name``, which a ``mov`` of its type's width reads.

    Attributes:
        name: the name without the ``%``; for a vector, the name of one component: ``tid.x``.
        since: first PTX version.
        on: targets that have it.
        directive: the directive without which an entry cannot read it, or empty.
    """

    name: str
    type: ScalarType
    since: Version
    on: TargetSet
    directive: str = ""


def _table() -> dict[str, SpecialRegister]:
    found: dict[str, SpecialRegister] = {}

    def add(names: str, kind: str, since: Version, on: str = "sm_75+", directive: str = "") -> None:
        for name in names.split():
            found[name] = SpecialRegister(name, TYPES[kind], since, TargetSet.parse(on), directive)

    # The fourth component of the vectors is always 0.
    for vector in ("tid", "ntid", "ctaid", "nctaid"):
        add(" ".join(f"{vector}.{axis}" for axis in "xyzw"), "u32", (1, 0))
    for vector in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"):
        add(" ".join(f"{vector}.{axis}" for axis in "xyzw"), "u32", (7, 8), "sm_90+")
    add("laneid warpid smid", "u32", (1, 3))
    add("nwarpid nsmid", "u32", (2, 0))
    add("gridid", "u64", (3, 0))
    add("cluster_ctarank cluster_nctarank", "u32", (7, 8), "sm_90+")
    add("is_explicit_cluster", "pred", (7, 8), "sm_90+")
    add("lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt", "u32", (2, 0))
    add("clock", "u32", (1, 0))
    add("clock64", "u64", (2, 0))
    add("clock_hi", "u32", (5, 0))
    add("pm0 pm1 pm2 pm3", "u32", (1, 3))
    add("pm4 pm5 pm6 pm7", "u32", (3, 0))
    add(" ".join(f"pm{n}_64" for n in range(8)), "u64", (4, 0))
    add(" ".join(f"envreg{n}" for n in range(32)), "b32", (2, 1))
    add("globaltimer", "u64", (3, 1))
    add("globaltimer_lo globaltimer_hi", "u32", (3, 1))
    add("dynamic_smem_size total_smem_size", "u32", (4, 1))
    add("aggr_smem_size", "u32", (8, 1), "sm_90+")
    for part in ("begin", "end", "cap", "0", "1"):
        add(f"reserved_smem_offset_{part}", "b32", (7, 6), "sm_80+")
    add("current_graph_exec", "u64", (8, 0))
    add("perctamemoryoffset", "u64", (9, 4), "sm_80+", "minperctamemory")
    add("perctamemorysize", "u32", (9, 4), "sm_80+", "minperctamemory")
    return found


#: Every special register by name, without the ``%``.
SPECIAL_REGISTERS: dict[str, SpecialRegister] = _table()
#: Those that change while a kernel runs.
CLOCKS = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"})
