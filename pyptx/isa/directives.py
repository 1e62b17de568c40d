"""Directives, attributes and pragmas: the places where each is allowed, its versions and its targets.

Source: PTX ISA, `#directives`_; where ptxas differs, what ptxas accepts.

.. _#directives: https://docs.nvidia.com/cuda/parallel-thread-execution/#directives
"""

from __future__ import annotations

from ..core.records import dataclass
from .targets import TargetSet, Version, parse_version

__all__ = ["ATTRIBUTES", "DIRECTIVES", "PRAGMAS", "DirectiveRule"]


@dataclass(frozen=True, slots=True)
class DirectiveRule:
    """The rule of one directive, attribute or pragma.

    Attributes:
        name: the name without the dot; of a pragma, the first word of its string.
        where: the places where it is allowed: ``module`` (a statement of the module), ``entry`` and ``func``
            (the header of a kernel or device function), ``body`` (among instructions), ``declaration``
            (before or inside a declaration).
        since: first PTX version.
        on: targets that have it.
        until: the first PTX version that refuses it, or None.
    """

    name: str
    where: frozenset[str]
    since: Version
    on: TargetSet
    until: Version | None = None


def _rules(rows: str) -> dict[str, DirectiveRule]:
    """Return the rule of each line: name, places, first version, targets (all if absent), ``until ...``."""
    found: dict[str, DirectiveRule] = {}
    for row in filter(None, map(str.strip, rows.splitlines())):
        head, _, end = row.partition(" until ")
        name, places, since, *on = head.split()
        until = parse_version(end) if end else None
        allowed = TargetSet(tuple(on) or ("sm_75+",))
        found[name] = DirectiveRule(name, frozenset(places.split(",")), parse_version(since), allowed, until)
    return found


#: Every directive by name. Every ptxas knows ``.tex`` variables and ``.maxnctapersm``, and refuses them.
DIRECTIVES = _rules(
    """
    version module 1.0
    target module 1.0
    address_size module 2.3
    entry declaration 1.0
    func declaration 1.0
    alias module 6.3
    extern declaration 1.0
    visible declaration 1.0
    weak declaration 3.1
    common declaration 5.0
    attribute declaration 4.0
    align declaration 1.0
    ptr declaration 2.2
    reg declaration 1.0
    sreg declaration 1.0
    const declaration 1.0
    global declaration 1.0
    local declaration 1.0
    param declaration 1.0
    shared declaration 1.0
    tex declaration 1.0 until 1.5
    maxnreg entry 1.3
    maxntid entry 1.3
    reqntid entry 2.1
    minnctapersm entry 2.0
    maxnctapersm entry 1.3 until 2.1
    noreturn func 6.4
    abi_preserve func 9.0 sm_80+
    abi_preserve_control func 9.0 sm_80+
    reqnctapercluster entry 7.8 sm_90+
    explicitcluster entry 7.8 sm_90+
    maxclusterrank entry 7.8 sm_90+
    blocksareclusters entry 9.0 sm_90+
    minperctamemory entry 9.4 sm_80+
    language entry,func 9.2
    pragma module,entry,func,body 2.0
    branchtargets body 2.1
    calltargets body 2.1
    callprototype body 2.1
    file module 1.0
    section module 2.0
    loc body 1.0
    loc_intermediate body 9.4
    nv_intermediate_source_section module 9.4
    """
)

#: The attributes that ``.attribute(...)`` may have.
ATTRIBUTES = _rules(
    """
    managed declaration 4.0
    unified declaration 8.0
    """
)

#: The first words of ``.pragma`` strings that have an effect; ptxas ignores other pragmas.
PRAGMAS = _rules(
    """
    nounroll module,entry,body 2.0
    used_bytes_mask body 8.3
    enable_smem_spilling body 8.7
    frequency body 9.0
    mma_throughput body 9.3
    """
)
