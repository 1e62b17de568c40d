"""Machine code for a PTX text on a GPU: from the disk caches, from the driver's JIT, or from ptxas.

Owns the order in which these are asked, and what a cached cubin depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..core.errors import ToolNotFoundError
from ..ir import PrintedModule
from ..toolchain import assemble, find_ptxas
from ..toolchain.cache import CachedCubin, CubinCache, CubinSource, shipped_caches, user_cache
from ..toolchain.ptxas import target_of
from .driver import DeviceInfo, driver_name
from .jit import LINE_INFO, TextTooNewError, link

__all__ = ["Candidate", "candidates"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cubin that the driver may be able to load.

    Attributes:
        cubin: the image, with the tool that made it and the tool's log.
        discard: removes the cubin from the cache if the driver refuses it; None for a cubin made just now.
    """

    cubin: CachedCubin
    discard: Callable[[], None] | None


def candidates(
    printed: PrintedModule | str, plain: Callable[[], str], entry: str, device: DeviceInfo
) -> Iterator[Candidate]:
    """Yield cubins for a text, to be tried until the driver loads one; the last was compiled just now.

    The order is: the user's cache, the shipped caches (by the text without lines, so that the place of the
    source files does not count), the driver's JIT, and ptxas if the text is newer than the driver.
    The context of the GPU must be current.

    Raises:
        AssembleError: the text was refused.
        LaunchError: the driver failed.
    """
    text = printed if isinstance(printed, str) else printed.text
    target = _target(text, device)
    source = CubinSource(entry, text, target, (LINE_INFO,))
    cache = user_cache()
    yield from _cached(cache, source, driver_name())
    for shipped in shipped_caches():
        found = shipped.find_any(CubinSource(entry, plain(), target))
        if found is not None:
            yield Candidate(found, _nothing)
    try:
        image, log = link(printed, entry, device)
        made = CachedCubin(image, driver_name(), log)
    except TextTooNewError as refused:
        try:
            tool = find_ptxas()
        except ToolNotFoundError:
            raise refused from None
        yield from _cached(cache, source, f"ptxas-{tool.version_text}")
        made = CachedCubin(assemble(printed, target, ptxas=tool).cubin, f"ptxas-{tool.version_text}")
    if cache is not None:
        cache.store(source, made)
    yield Candidate(made, None)


def _cached(cache: CubinCache | None, source: CubinSource, tool: str) -> Iterator[Candidate]:
    found = None if cache is None else cache.find(source, tool)
    if cache is not None and found is not None:
        yield Candidate(found, lambda: cache.discard(source, tool))


def _nothing() -> None:
    """A shipped cubin stays where it is."""


def _target(text: str, device: DeviceInfo) -> str:
    """Return the architecture of the machine code that the JIT makes from a text on this GPU."""
    target = target_of(text) or device.arch
    return target if target.rstrip("af") == device.arch else device.arch
