"""Launches of kernels of other projects, from their PTX alone: in the simulator, predicted, on a GPU.

A folder has the texts and ``launches.json``, which :func:`compile_all` writes: for each launch its grid,
block, cluster and shared memory, its arrays, and its arguments in the order of the parameters.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from _foreign_references import REFERENCES
from _rows import Row

from pyptx import TensorMap, sim
from pyptx.core.types import TYPES
from pyptx.ir import Launch
from pyptx.runtime.launch import PackedArguments, launch, pack
from pyptx.runtime.loader import LoadedKernel, load
from pyptx.runtime.tensor_maps import encode

__all__ = ["FILE", "Foreign", "array", "compile_all", "compile_second", "compile_third", "read", "row_of"]

FILE = "launches.json"
#: Options of a tensor map that the file of launches may have.
_OPTIONS = ("box", "swizzle", "shape", "strides", "l2_promotion")


@dataclass(frozen=True, eq=False)
class Foreign:
    """One launch of a kernel that another project wrote.

    Attributes:
        given: what the file of launches has.
        text: the PTX.
    """

    given: Mapping[str, Any]
    text: str
    _packed: dict[tuple[int, ...], tuple[PackedArguments, list[Any]]] = field(default_factory=dict)
    _zeroed: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.given["name"])

    @cached_property
    def entry(self) -> str:
        """The entry's whole name, of which the file of launches may have only a part."""
        found = [name for name in re.findall(r"\.entry\s+([\w$]+)", self.text) if self.given["entry"] in name]
        assert len(found) == 1, f"{self.name}: {self.given['entry']!r} names {found}"
        return str(found[0])

    @property
    def extents(self) -> dict[str, tuple[int, ...]]:
        """Grid, block and cluster."""
        return {name: tuple(self.given[name]) for name in ("grid", "block", "cluster")}

    @property
    def inputs(self) -> dict[str, Mapping[str, Any]]:
        """The arrays that the kernel reads, by name."""
        return {name: each for name, each in self.given["arrays"].items() if each["role"] == "in"}

    @property
    def outputs(self) -> dict[str, Mapping[str, Any]]:
        """The arrays that the kernel writes, by name."""
        return {name: each for name, each in self.given["arrays"].items() if each["role"] == "out"}

    @property
    def nbytes(self) -> float:
        """Bytes of all arrays: what a launch reads and writes at least."""
        return float(
            sum(np.prod(each["shape"]) * TYPES[each["type"]].nbytes for each in self.given["arrays"].values())
        )

    def ptx(self) -> str:
        """Return the text, as a kernel of ours does."""
        return self.text

    def values(self, arrays: Mapping[str, Any]) -> list[Any]:
        """Return the arguments for arrays by name: arrays, :class:`TensorMap` s and numbers."""
        found: list[Any] = []
        for each in self.given["args"]:
            if "number" in each:
                found.append(each["number"])
            elif "array" in each:
                found.append(arrays[each["array"]])
            else:
                options = {name: each[name] for name in _OPTIONS if name in each}
                found.append(TensorMap.tiled(arrays[each["map"]], **options))
        return found

    def contents(self, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays in the host's memory: inputs normally distributed, outputs zero."""
        draw = np.random.default_rng(seed)
        found = {}
        for name, each in self.given["arrays"].items():
            if "data" in each:
                found[name] = _data(each)
            elif each["role"] == "in":
                found[name] = _drawn(each, draw)
            else:
                found[name] = np.zeros(each["shape"], TYPES[each["type"]].dtype)
        return found

    @cached_property
    def module(self) -> sim.LoadedModule:
        """The text in the simulator."""
        return sim.load(self.text)

    def shapes(self) -> dict[str, Any]:
        """Return the arrays for a prediction: shapes alone, but for those that decide where threads go.

        The file has the data of these, or says that they are drawn.
        """
        draw = np.random.default_rng(0)
        found: dict[str, Any] = {}
        for name, each in self.given["arrays"].items():
            if "data" in each:
                found[name] = _data(each)
            elif each.get("drawn"):
                found[name] = _drawn(each, draw)
            else:
                found[name] = sim.unknown(each["shape"], each["type"])
        return found

    # --- on a GPU ---------------------------------------------------------------------------------

    @cached_property
    def loaded(self) -> LoadedKernel:
        """The kernel on the first GPU."""
        return load(self.text, self.entry, dynamic_smem=self.given["smem"], device_index=0)

    def tensors(self, torch: Any, copy: int) -> list[Any]:
        """Return the inputs on the GPU: the data that the file has, or numbers as the file asks for them."""
        draw = torch.Generator("cuda").manual_seed(copy)
        found = []
        for each in self.inputs.values():
            if "data" in each:
                data = torch.tensor(each["data"], dtype=_dtype(torch, each), device="cuda")
                found.append(data.reshape(each["shape"]))
            else:
                found.append(_drawn_on_gpu(torch, each, draw))
        return found

    def __call__(self, *tensors: Any) -> Any:
        """Launch on torch's current stream, and return the outputs, which are allocated.

        Outputs that are ``zeroed``, which the kernel also reads, are made once for the same inputs.
        """
        import torch

        arrays = dict(zip(self.inputs, tensors, strict=True))
        given = tuple(tensor.data_ptr() for tensor in tensors)
        for name, each in self.outputs.items():
            if not each.get("zeroed"):
                arrays[name] = torch.empty(each["shape"], dtype=_dtype(torch, each), device="cuda")
                continue
            if (name, given) not in self._zeroed:
                made = torch.zeros(each["shape"], dtype=_dtype(torch, each), device="cuda")
                self._zeroed[name, given] = made
            arrays[name] = self._zeroed[name, given]
        key = tuple(array.data_ptr() for array in arrays.values())
        if key not in self._packed:
            self._packed[key] = self._pack(torch, arrays)
        packed, _ = self._packed[key]
        launch(self.loaded, Launch(**self.extents, dynamic_smem=self.given["smem"]), packed)
        found = [arrays[name] for name in self.outputs]
        return found[0] if len(found) == 1 else found

    def _pack(self, torch: Any, arrays: Mapping[str, Any]) -> tuple[PackedArguments, list[Any]]:
        """Return the arguments in the driver's format, and what must live as long."""
        found: list[Any] = []
        alive: list[Any] = []
        for each, value in zip(self.given["args"], self.values(arrays), strict=True):
            if "number" in each:
                found.append((value, TYPES[each["type"]]))
            elif "array" in each:
                found.append(value.data_ptr())
            else:
                encoded = encode(value, value.address)
                if each.get("pointer"):
                    alive.append(self._map_on_gpu(torch, each["map"], encoded))
                    found.append(alive[-1].data_ptr())
                else:
                    found.append(encoded)
        return pack(found), alive

    @cached_property
    def _maps(self) -> dict[tuple[str, bytes], Any]:
        return {}

    def _map_on_gpu(self, torch: Any, name: str, encoded: Any) -> Any:
        """Return a map's bytes in the memory of the GPU; made once, since a captured launch cannot copy."""
        image = ctypes.string_at(encoded.getPtr(), 128)
        if (name, image) not in self._maps:
            held = torch.frombuffer(bytearray(image), dtype=torch.uint8)
            self._maps[name, image] = held.to("cuda")
        return self._maps[name, image]


def _data(array: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Return an array whose elements the file has."""
    return np.asarray(array["data"], TYPES[array["type"]].dtype).reshape(array["shape"])


def _drawn(array: Mapping[str, Any], draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return an array of normally distributed numbers, or of what ``values`` asks for.

    ``["uniform", low, high]`` and ``["integers", low, high]`` exclude the higher end; ``["permutation"]`` has
    each number below the number of elements once.
    """
    shape, dtype = tuple(array["shape"]), TYPES[array["type"]].dtype
    match array.get("values", ["normal"]):
        case ["uniform", low, high]:
            return draw.uniform(low, high, shape).astype(dtype)
        case ["integers", low, high]:
            return draw.integers(low, high, shape).astype(dtype)
        case ["permutation"]:
            return draw.permutation(int(np.prod(shape))).reshape(shape).astype(dtype)
        case _:
            return draw.standard_normal(shape, np.float32).astype(dtype)


def _drawn_on_gpu(torch: Any, array: Mapping[str, Any], draw: Any) -> Any:
    """Return what :func:`_drawn` does, as a tensor on the GPU."""
    shape, dtype = array["shape"], _dtype(torch, array)
    match array.get("values", ["normal"]):
        case ["uniform", low, high]:
            drawn = torch.rand(shape, generator=draw, device="cuda") * (high - low) + low
            return drawn.to(dtype)
        case ["integers", low, high]:
            return torch.randint(low, high, shape, generator=draw, device="cuda").to(dtype)
        case ["permutation"]:
            count = int(np.prod(shape))
            return torch.randperm(count, generator=draw, device="cuda").reshape(shape).to(dtype)
        case _ if array["type"] == "e4m3":  # torch draws none of so few bits
            return torch.randn(shape, generator=draw, device="cuda").to(dtype)
        case _:
            return torch.randn(shape, generator=draw, device="cuda", dtype=dtype)


#: Types of PTX whose names in torch are not the type's kind and bits.
_NAMES = {"bf16": "bfloat16", "u8": "uint8", "e4m3": "float8_e4m3fn"}
_KINDS = {"f": "float", "s": "int"}


def _dtype(torch: Any, array: Mapping[str, Any]) -> Any:
    name = array["type"]
    return getattr(torch, _NAMES.get(name) or f"{_KINDS[name[0]]}{name[1:]}")


def row_of(foreign: Foreign) -> Row:
    """Return a launch as a row that is measured as those of ``hopper.py``."""
    given = foreign.given
    parameters = given.get("parameters", {})
    return Row(
        foreign.name,
        "foreign",
        ours=lambda: foreign,
        rivals=lambda torch: {},
        inputs=foreign.tensors,
        reference=lambda *tensors: REFERENCES[given["reference"]](*tensors, **parameters),
        rtol=given["rtol"],
        atol=given["atol"],
        flops=given.get("flops"),
        bytes=foreign.nbytes,
    )


# --- the folder -----------------------------------------------------------------------------------


def array(type: str, *shape: int, role: str = "in", **more: Any) -> dict[str, Any]:
    """Return an array as the file of launches has it; ``role`` is ``"in"`` or ``"out"``."""
    return {"type": type, "shape": list(shape), "role": role, **more}


def read(folder: Path, key: str = "launches") -> list[Foreign]:
    """Return the launches of a folder: ``launches``, or the small ones of ``checks``."""
    lines = json.loads((folder / FILE).read_text(encoding="utf-8"))[key]
    return [Foreign(line, (folder / f"{line['text']}.ptx").read_text(encoding="utf-8")) for line in lines]


def compile_all(sources: Path, out: Path, cuda: Path | None, sizes: Mapping[int, Sequence[Any]]) -> None:
    """Write the texts and the file of launches to a folder.

    Args:
        sources: a folder with ``fast.cu`` and ``triton/python/tutorials``.
        cuda: the CUDA toolkit; the wheels' by default.
        sizes: M, N, K of the launches of each kernel of fast.cu; the last is for the simulator alone.
    """
    import _foreign_fastcu
    import _foreign_triton

    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {"launches": [], "checks": []}
    for name, text in _foreign_fastcu.compiled(sources, cuda):
        (out / f"{name}.ptx").write_text(text, encoding="utf-8")
        number = int(name.removeprefix("fastcu_"))
        *real, small = (_foreign_fastcu.launch(number, *size) for size in sizes[number])
        found["launches"] += real
        found["checks"].append(small)
    some = {"launches": _foreign_triton.launches(), "checks": _foreign_triton.checks()}
    _compile_triton(sources, out, cuda, some, found)
    _write(out, found)


def compile_second(sources: Path, out: Path, cuda: Path | None) -> None:
    """Write the second set as :func:`compile_all` the first.

    Args:
        sources: a folder with ``SGEMM_CUDA``, ``learn-cuda``, ``llm.c``, ``Liger-Kernel`` and
            ``triton/python/tutorials``.
        cuda: the CUDA toolkit; the wheels' by default.
    """
    import _foreign_cuda
    import _foreign_liger
    import _foreign_triton

    out.mkdir(parents=True, exist_ok=True)
    some = {
        "launches": _foreign_triton.launches_2() + _foreign_liger.launches(),
        "checks": _foreign_triton.checks_2() + _foreign_liger.checks(),
    }
    found: dict[str, list[dict[str, Any]]] = {"launches": [], "checks": []}
    lines = {"launches": _foreign_cuda.launches(), "checks": _foreign_cuda.checks()}
    _compile_cuda(sources, out, cuda, _foreign_cuda.SOURCES, lines, found)
    _compile_triton(sources, out, cuda, some, found)
    _write(out, found)


def compile_third(sources: Path, out: Path, cuda: Path | None) -> None:
    """Write the third set as :func:`compile_all` the first.

    Args:
        sources: a folder with ``cuda-samples``, ``LeetCUDA``, ``apex``, ``DeepGEMM``, ``cutlass``,
            ``flash-linear-attention``, ``unsloth`` and ``FlagGems``.
        cuda: the CUDA toolkit; the wheels' by default.
    """
    import _foreign_deepgemm
    import _foreign_leetcuda
    import _foreign_samples
    import _foreign_third_triton

    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {"launches": [], "checks": []}
    for each in (_foreign_samples, _foreign_leetcuda, _foreign_deepgemm):
        lines = {"launches": each.launches(), "checks": each.checks()}
        _compile_cuda(sources, out, cuda, each.SOURCES, lines, found)
    some = {"launches": _foreign_third_triton.launches(), "checks": _foreign_third_triton.checks()}
    _compile_triton(sources, out, cuda, some, found)
    _write(out, found)


def _compile_cuda(
    sources: Path,
    out: Path,
    cuda: Path | None,
    some: Mapping[str, Any],
    lines: Mapping[str, Sequence[dict[str, Any]]],
    found: dict[str, list[dict[str, Any]]],
) -> None:
    """Write the texts of CUDA's kernels, and add their lines to those found."""
    import _foreign_cuda

    for key, line, text in _foreign_cuda.compiled(sources, cuda, some, lines):
        (out / f"{line['text']}.ptx").write_text(text, encoding="utf-8")
        found[key].append(line)


def _compile_triton(
    sources: Path,
    out: Path,
    cuda: Path | None,
    some: Mapping[str, Sequence[Any]],
    found: dict[str, list[dict[str, Any]]],
) -> None:
    """Write the texts of Triton's kernels, and add their lines to those found."""
    import _foreign_triton

    scratch = out / "modules"
    scratch.mkdir(exist_ok=True)
    for key, line, text in _foreign_triton.compiled(sources, cuda, scratch, some):
        name = re.sub(r"\W+", "_", line["name"])
        (out / f"{name}.ptx").write_text(text, encoding="utf-8")
        found[key].append({**line, "text": name})


def _write(out: Path, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    (out / FILE).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for key, lines in found.items():
        print(f"{len(lines)} {key}")
