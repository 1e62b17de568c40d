"""Machine code for a PTX text: from the disk caches, or from ptxas.

Owns the order in which these are asked, and what a cached cubin depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..core.errors import AssembleError, ToolNotFoundError
from ..core.logs import logger
from ..core.records import dataclass
from ..ir import PrintedModule
from ..toolchain.cache import CachedCubin, CubinCache, CubinSource, shipped_caches, user_cache
from ..toolchain.find import Tool, find_ptxas
from ..toolchain.targets import target_of
from .driver import DeviceInfo

if TYPE_CHECKING:
    from ..toolchain import Assembly

__all__ = ["Candidate", "cubins", "keep", "made_cubin"]

_log = logger("cache")

#: The text has lines, so the cubin names them; the machine code is the same without.
_WITH_LINES = ("lines",)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cubin that the driver may be able to load.

    Attributes:
        cubin: the image, with the tool that made it and what the tool said.
        discard: removes the cubin from the user's cache, if the driver refuses it.
    """

    cubin: CachedCubin
    discard: Callable[[], None]


def cubins(
    printed: PrintedModule | str, plain: Callable[[], str], entry: str, device: DeviceInfo
) -> Iterator[Candidate]:
    """Yield cubins for a text, to be tried until the driver loads one; the last was made just now.

    The order is: the user's cache, the shipped caches (by the text without lines, so that the place of the
    source files does not count), and ptxas, for a cubin to keep. There may be none: then the driver's JIT is
    left, for example if there is no ptxas, or if the cache is turned off.
    """
    text = printed if isinstance(printed, str) else printed.text
    target = _target(text, device)
    cache = user_cache()
    tool = None if cache is None else _ptxas(device)
    source = CubinSource(entry, text, target, _WITH_LINES)
    if cache is not None and tool is not None:
        found = cache.find(source, tool.label)
        if found is not None:
            _log.info("%s: machine code of %s from the user's cache", entry, found.tool)
            yield _candidate(found, cache, source)
    for shipped in shipped_caches():
        found = shipped.find_any(CubinSource(entry, plain(), target))
        if found is not None:
            _log.info("%s: machine code of %s from a shipped cache", entry, found.tool)
            yield Candidate(found, _stays)
    if cache is not None and tool is not None:
        try:
            made = _assembled(printed, target, tool)
        except AssembleError:  # the JIT may know more; if not, its errors name the same lines
            return
        cache.store(source, made)
        yield _candidate(made, cache, source)


def made_cubin(printed: PrintedModule | str, device: DeviceInfo) -> CachedCubin | None:
    """Return the cubin that ptxas makes of a text; None if there is no ptxas whose cubins the driver takes.

    Raises:
        AssembleError: ptxas refused the text.
    """
    tool = _ptxas(device)
    text = printed if isinstance(printed, str) else printed.text
    return None if tool is None else _assembled(printed, _target(text, device), tool)


def keep(printed: PrintedModule, entry: str, assembly: Assembly) -> None:
    """Put what ptxas has made of a text with lines into the user's cache, where a launch will find it."""
    cache = user_cache()
    if cache is not None:
        cache.store(CubinSource(entry, printed.text, assembly.target, _WITH_LINES), assembly.kept)


def _assembled(printed: PrintedModule | str, target: str, tool: Tool) -> CachedCubin:
    from ..toolchain import assemble

    return assemble(printed, target, ptxas=tool).kept


def _ptxas(device: DeviceInfo) -> Tool | None:
    """Return ptxas, if the driver loads its cubins: its major version must not be newer than the driver's."""
    try:
        tool = find_ptxas()
    except ToolNotFoundError:
        return None
    return tool if tool.version[0] <= device.driver_version[0] else None


def _candidate(cubin: CachedCubin, cache: CubinCache, source: CubinSource) -> Candidate:
    return Candidate(cubin, lambda: cache.discard(source, cubin.tool))


def _stays() -> None:
    """A shipped cubin stays where it is."""


def _target(text: str, device: DeviceInfo) -> str:
    """Return the architecture of machine code for a text on this GPU."""
    target = target_of(text) or device.arch
    return target if target.rstrip("af") == device.arch else device.arch
