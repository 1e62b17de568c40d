"""Finds the DSL function of a hardware unit, such as ``ptx.mbarrier``, that emits an instruction.

Owns :func:`unit_call`. An instruction that is not listed, or that has other operands, becomes ``ptx.inst``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import Address, Immediate, Instruction, Register, Sink

__all__ = ["unit_call"]

#: Name of an instruction -> the function, its operands and keywords. ``_`` is a sink that the function adds
#: itself, ``a`` an address, ``n`` a number, ``v`` a number or a register; ``?`` marks an operand that may be
#: absent.
_UNITS: dict[str, tuple[str, str, str]] = {
    "bar.sync": ("bar.sync", "v v?", ""),
    "cp.async.commit_group": ("cp.async_.commit_group", "", ""),
    "cp.async.wait_group": ("cp.async_.wait_group", "n", ""),
    "cp.async.wait_all": ("cp.async_.wait_all", "", ""),
    "cp.async.bulk.commit_group": ("cp.async_.bulk.commit_group", "", ""),
    "cp.async.bulk.wait_group": ("cp.async_.bulk.wait_group", "n", ""),
    "cp.async.bulk.wait_group.read": ("cp.async_.bulk.wait_group", "n", "read=True"),
    "fence.mbarrier_init.release.cluster": ("fence.mbarrier_init", "", ""),
    "fence.proxy.async": ("fence.proxy_async", "", ""),
    "fence.proxy.async.shared::cta": ("fence.proxy_async", "", 'space="shared::cta"'),
    "fence.proxy.async.global": ("fence.proxy_async", "", 'space="global"'),
    "griddepcontrol.launch_dependents": ("griddepcontrol.launch_dependents", "", ""),
    "griddepcontrol.wait": ("griddepcontrol.wait", "", ""),
    "mbarrier.arrive.shared::cta.b64": ("mbarrier.arrive", "_ a v?", ""),
    "mbarrier.arrive.expect_tx.shared::cta.b64": ("mbarrier.arrive_expect_tx", "_ a v", ""),
    "mbarrier.init.shared::cta.b64": ("mbarrier.init", "a v", ""),
    "mbarrier.init.shared.b64": ("mbarrier.init", "a v", 'space="shared"'),
    "mbarrier.inval.shared::cta.b64": ("mbarrier.inval", "a", ""),
    "mbarrier.inval.shared.b64": ("mbarrier.inval", "a", 'space="shared"'),
    "nanosleep.u32": ("nanosleep", "v", ""),
    "setmaxnreg.dec.sync.aligned.u32": ("setmaxnreg.dec", "n", ""),
    "setmaxnreg.inc.sync.aligned.u32": ("setmaxnreg.inc", "n", ""),
    "tcgen05.fence::after_thread_sync": ("tcgen05.fence_after_thread_sync", "", ""),
    "tcgen05.fence::before_thread_sync": ("tcgen05.fence_before_thread_sync", "", ""),
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned": ("tcgen05.relinquish_alloc_permit", "", ""),
    "tcgen05.wait::ld.sync.aligned": ("tcgen05.wait_ld", "", ""),
    "tcgen05.wait::st.sync.aligned": ("tcgen05.wait_st", "", ""),
    "trap": ("trap", "", ""),
    "wgmma.commit_group.sync.aligned": ("wgmma.commit_group", "", ""),
    "wgmma.fence.sync.aligned": ("wgmma.fence", "", ""),
    "wgmma.wait_group.sync.aligned": ("wgmma.wait_group", "n", ""),
}
_KINDS: dict[str, Callable[[Any], bool]] = {
    "_": lambda operand: isinstance(operand, Sink),
    "a": lambda operand: isinstance(operand, Address) and operand.coordinates is None and not operand.extra,
    "n": lambda operand: isinstance(operand, Immediate),
    "v": lambda operand: isinstance(operand, Immediate | Register),
}


def unit_call(instruction: Instruction) -> tuple[str, list[int], list[str]] | None:
    """Return the DSL function that emits ``instruction``, the indices of its operands, and its keywords."""
    found = _UNITS.get(instruction.name)
    if found is None:
        return None
    function, wanted, keywords = found
    places = []
    operands = instruction.operands
    kinds = wanted.split()
    if not len([k for k in kinds if not k.endswith("?")]) <= len(operands) <= len(kinds):
        return None
    for place, (operand, kind) in enumerate(zip(operands, kinds, strict=False)):
        if not _KINDS[kind[0]](operand):
            return None
        if kind != "_":
            places.append(place)
    return f"ptx.{function}", places, [keywords] if keywords else []
