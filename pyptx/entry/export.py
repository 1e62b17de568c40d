"""Exports a kernel for programs without Python: the cubin, a manifest, and a C header that launches it.

Owns the manifest: what a launch of one specialization needs, as JSON.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.version import VERSION
from ..dsl import ParameterSlot, Scalar, Tile, Workspace
from .c_header import c_header, c_type
from .specialize import KernelOptions, Specialization, tensor_map

if TYPE_CHECKING:
    from ..toolchain import Assembly

__all__ = ["Exported", "export"]

_FORMAT = 1


@dataclass(frozen=True)
class Exported:
    """The files of an exported kernel.

    Attributes:
        cubin: the machine code.
        ptx: the PTX text that the cubin was made from.
        manifest: JSON: the entry, the launch, the parameters with their offsets, how tensor maps are encoded.
        header: C functions that load and launch the kernel; they need ``cuda.h`` alone.
    """

    cubin: Path
    ptx: Path
    manifest: Path
    header: Path


def export(
    special: Specialization,
    options: KernelOptions,
    assembly: Assembly,
    directory: str | os.PathLike[str],
    name: str | None,
) -> Exported:
    """Write the files of a specialization; see :meth:`.Kernel.export`."""
    name = special.entry if name is None else name
    if not (name.isidentifier() and name.isascii()):
        raise SpecError(
            f"name is {name!r}: expected a C identifier, of which file names and functions are made"
        )
    folder = Path(directory)
    files = Exported(*(folder / f"{name}.{ending}" for ending in ("cubin", "ptx", "json", "h")))
    manifest = _manifest(special, options, assembly, name)
    folder.mkdir(parents=True, exist_ok=True)
    files.cubin.write_bytes(assembly.cubin)
    files.ptx.write_text(special.printed.text, encoding="utf-8")
    files.manifest.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    files.header.write_text(c_header(manifest), encoding="utf-8")
    return files


def _manifest(
    special: Specialization, options: KernelOptions, assembly: Assembly, name: str
) -> dict[str, Any]:
    launch = special.launch
    return {
        "format": _FORMAT,
        "pyptx": VERSION,
        "name": name,
        "entry": special.entry,
        "target": assembly.target,
        "ptxas": assembly.ptxas.version_text,
        "cubin": f"{name}.cubin",
        "ptx": f"{name}.ptx",
        "header": f"{name}.h",
        "dims": special.dims,
        "constants": {key: _plain(value) for key, value in special.constants.items()},
        "launch": {
            "grid": list(launch.grid),
            "block": list(launch.block),
            "cluster": list(launch.cluster),
            "dynamic_shared": launch.dynamic_smem,
            "static_shared": special.static_smem,
            "cooperative": launch.cooperative,
            "dependent": launch.dependent,
            "priority": launch.priority,
            "carveout": launch.carveout,
        },
        "registers": assembly.registers,
        "spills": assembly.spills,
        "arguments": [
            _argument(given, spec, special.dims, dict(options.workspaces).get(given))
            for given, spec in options.parameters
        ],
        "parameters": _parameters(special, options),
    }


def _plain(value: Any) -> Any:
    """Return a constant as JSON has it; what JSON lacks as Python writes it."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _argument(
    name: str, spec: Tile | Scalar, dims: dict[str, int], workspace: Workspace | None
) -> dict[str, Any]:
    """Describe an argument of the launch function; the caller also gives the memory of workspaces."""
    if isinstance(spec, Scalar):
        kind = c_type(spec.type)
        bits = "" if kind in ("float", "double") or spec.type.kind in "us" else ", as its bits"
        return {
            "name": name,
            "type": spec.type.name,
            "c_type": kind,
            "description": f"{spec.type.name}{bits}",
        }
    shape = list(spec.shape(dims))
    where = "device address of a dense row-major array"
    if workspace is not None:
        zero = ", 0 before the first launch, which each launch leaves so" if workspace.zeroed else ""
        where = f"device address of a workspace{zero}"
    return {
        "name": name,
        "type": spec.dtype.name,
        "shape": shape,
        "c_type": "CUdeviceptr",
        "description": f"{where}, {spec.dtype.name}[{', '.join(map(str, shape))}]",
    }


def _parameters(special: Specialization, options: KernelOptions) -> list[dict[str, Any]]:
    """Describe the parameters of the entry, with the offsets that PTX gives them."""
    rows, end = [], 0
    for slot in special.slots:
        size = slot.param.nbytes
        alignment = slot.param.align or slot.param.type.nbytes
        offset = -(-end // alignment) * alignment
        end = offset + size
        row: dict[str, Any] = {
            "name": slot.param.name,
            "kind": slot.kind,
            "argument": slot.index,
            "offset": offset,
            "size": size,
        }
        if slot.kind == "map":
            row["map"] = _recipe(slot, options, special.dims)
        if slot.kind == "extent":
            row["value"] = special.dims[slot.dim]
        rows.append(row)
    return rows


def _recipe(slot: ParameterSlot, options: KernelOptions, dims: dict[str, int]) -> dict[str, Any]:
    """Return the arguments of ``cuTensorMapEncodeTiled``, innermost axis first, without the address."""
    name, spec = options.parameters[slot.index]
    assert isinstance(spec, Tile)
    made = tensor_map(name, spec, 0, shape=spec.shape(dims), dtype=spec.dtype).driver_arguments()
    recipe = {key: list(v) if isinstance(v, tuple) else v for key, v in made._asdict().items()}
    del recipe["address"]
    # For rank 1 the driver reads no strides, and C has no empty array.
    recipe["strides"] = recipe["strides"] or [16]
    return recipe
