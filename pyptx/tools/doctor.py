"""``pyptx doctor``: shows what this machine has, and which parts of pyptx work on it.

:func:`examine` gathers versions, tools, driver and GPUs as plain data; the command prints them as text or
JSON. The command never fails: a missing tool is part of the answer.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from importlib import metadata
from typing import Any

import click

from ..core.errors import LaunchError, ToolNotFoundError
from ..runtime import driver
from ..runtime.quick import native
from ..toolchain import Tool, check_text, find_nvdisasm, find_ptxas
from ..toolchain.cache import CubinCache, default_folder, shipped_caches, user_cache
from .cache import size_text
from .show import Section, show_sections

__all__ = ["command", "examine"]

_PACKAGES = ("numpy", "ml_dtypes", "cuda-bindings", "torch", "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm")

#: Targets of the examples, each with the lowest PTX version that has it.
_TARGETS = {"sm_90a": "8.0", "sm_100a": "8.6"}


def examine() -> dict[str, Any]:
    """Gather the facts that ``pyptx doctor --json`` prints.

    Keys: ``python``, ``platform``, ``cpus``, ``packages`` (name to version or None), ``ptxas`` and
    ``nvdisasm`` (``path``, ``version``, ``found``, for ptxas ``targets``; or ``error``), ``driver``
    (``gpus``, or ``error``), ``launch_path`` (``compiled`` or ``python``), ``cache`` (``folder``, ``used``,
    ``entries``, ``bytes``, ``limit``, ``shipped``), ``works`` (``emit``, ``assemble``, ``simulate``,
    ``launch``: ``ok`` and ``why``).
    """
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": {name: _package(name) for name in ("pyptx", *_PACKAGES)},
        "ptxas": _tool(find_ptxas),
        "nvdisasm": _tool(find_nvdisasm),
        "driver": _driver(),
        "launch_path": "python" if native() is None else "compiled",
        "cache": _cache(),
    }
    report["works"] = {
        "emit": {"ok": True, "why": "needs Python alone"},
        "assemble": _assemble(report),
        "simulate": {"ok": True, "why": f"on {report['cpus']} CPUs with numpy {report['packages']['numpy']}"},
        "launch": _launch(report),
    }
    return report


def _package(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cache() -> dict[str, Any]:
    opened = user_cache()
    cache = opened or CubinCache(default_folder())
    entries = cache.entries()
    return {
        "folder": str(cache.root),
        "used": opened is not None,
        "entries": len(entries),
        "bytes": sum(entry.nbytes for entry in entries),
        "limit": cache.limit,
        "shipped": [str(shipped.root) for shipped in shipped_caches()],
    }


def _tool(find: Callable[[], Tool]) -> dict[str, Any]:
    try:
        tool = find()
    except ToolNotFoundError as error:
        return {"error": f"{error.message}\n{error.hint}"}
    facts: dict[str, Any] = {"path": str(tool.path), "version": tool.version_text, "found": tool.found}
    if tool.name == "ptxas":
        facts["targets"] = [
            name
            for name, version in _TARGETS.items()
            if check_text(f".version {version}\n.target {name}\n.address_size 64\n", ptxas=tool).ok
        ]
    return facts


def _driver() -> dict[str, Any]:
    try:
        return {"gpus": [_gpu(index) for index in range(driver.device_count())]}
    except LaunchError as error:
        return {"error": error.message}


def _gpu(index: int) -> dict[str, Any]:
    info = driver.device_info(index)
    return {
        "name": info.name,
        # wgmma and tcgen05 exist in the architecture-specific targets only.
        "target": f"{info.arch}a" if info.compute_capability >= (9, 0) else info.arch,
        "multiprocessors": info.sm_count,
        "shared_memory": info.max_shared_memory,
        "driver_cuda": "{}.{}".format(*info.driver_version),
    }


def _assemble(report: dict[str, Any]) -> dict[str, Any]:
    ptxas = report["ptxas"]
    if "error" in ptxas:
        return {"ok": False, "why": ptxas["error"]}
    missing = [name for name in _TARGETS if name not in ptxas["targets"]]
    if missing:
        return {"ok": False, "why": f"ptxas {ptxas['version']} does not know {' and '.join(missing)}"}
    return {"ok": True, "why": f"for {', '.join(_TARGETS)} with ptxas {ptxas['version']}"}


def _launch(report: dict[str, Any]) -> dict[str, Any]:
    gpus = report["driver"].get("gpus")
    if not gpus:
        return {"ok": False, "why": report["driver"].get("error", "the driver reports no GPU")}
    if report["packages"]["torch"] is None:
        return {"ok": False, "why": "no torch, whose CUDA tensors are the arguments: pip install torch"}
    return {"ok": True, "why": f"kernels for {', '.join(sorted({gpu['target'] for gpu in gpus}))}"}


def _sections(report: dict[str, Any]) -> list[Section]:
    works = [(what, f"{'yes' if r['ok'] else 'no'}: {r['why']}") for what, r in report["works"].items()]
    machine = [
        ("Python", report["python"]),
        ("system", f"{report['platform']}, {report['cpus']} CPUs"),
    ]
    packages = [(name, version or "not installed") for name, version in report["packages"].items()]
    compiled = report["launch_path"] == "compiled"
    machine.append(
        ("launch path", "compiled" if compiled else "Python (slower: no C compiler at installation)")
    )
    cache = report["cache"]
    size = f"{cache['entries']} cubins, {size_text(cache['bytes'])} of {size_text(cache['limit'])}"
    why = "" if cache["used"] else " (not used: PYPTX_CACHE=0, or the folder of another user)"
    machine.append(("disk cache", f"{cache['folder']}: {size}{why}"))
    machine += [("shipped cache", folder) for folder in cache["shipped"]]
    tools = []
    for name in ("ptxas", "nvdisasm"):
        facts = report[name]
        tools.append((name, facts.get("error") or f"{facts['version']} ({facts['found']}: {facts['path']})"))
    gpus = [
        (
            f"GPU {index}",
            f"{gpu['name']}, {gpu['target']}, {gpu['multiprocessors']} SMs, CUDA {gpu['driver_cuda']} driver",
        )
        for index, gpu in enumerate(report["driver"].get("gpus", ()))
    ] or [("GPU", "none")]
    return [
        ("What works here", works),
        ("Machine", [*machine, *gpus]),
        ("Packages", packages),
        ("Tools", tools),
    ]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(as_json: bool) -> None:
    """Show what this machine has and what will work on it."""
    report = examine()
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        show_sections(_sections(report))
