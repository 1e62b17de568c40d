"""Launches of kernels of other projects, from their PTX alone: in the simulator, predicted, on a GPU.

A folder has the texts and ``launches.json``, which :func:`compile_all` writes: for each launch its grid,
block, cluster and shared memory, its arrays, and its arguments in the order of the parameters.
"""

from __future__ import annotations

import ctypes
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from _rows import Row

from pyptx import TensorMap, sim
from pyptx.core.types import TYPES
from pyptx.ir import Launch
from pyptx.runtime.launch import PackedArguments, launch, pack
from pyptx.runtime.loader import LoadedKernel, load
from pyptx.runtime.tensor_maps import encode

__all__ = ["FILE", "Foreign", "array", "compile_all", "compile_second", "read", "row_of"]

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
        """Return the inputs on the GPU: the data that the file has, or normal numbers."""
        draw = torch.Generator("cuda").manual_seed(copy)
        found = []
        for each in self.inputs.values():
            if "data" in each:
                data = torch.tensor(each["data"], dtype=_dtype(torch, each), device="cuda")
                found.append(data.reshape(each["shape"]))
            else:
                found.append(
                    torch.randn(
                        each["shape"],
                        generator=draw,
                        device="cuda",
                        dtype=_dtype(torch, each),
                    )
                )
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
    """Return an array of normally distributed numbers."""
    return draw.standard_normal(tuple(array["shape"]), np.float32).astype(TYPES[array["type"]].dtype)


def _dtype(torch: Any, array: Mapping[str, Any]) -> Any:
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "s32": "int32", "s64": "int64"}
    return getattr(torch, names[array["type"]])


# --- what the kernels compute ---------------------------------------------------------------------


def _layer_norm(x: Any, w: Any, b: Any) -> list[Any]:
    wide = x.float()
    mean, variance = wide.mean(1), wide.var(1, correction=0)
    rstd = (variance + 1e-5).rsqrt()
    y = (wide - mean[:, None]) * rstd[:, None] * w.float() + b.float()
    return [y.to(x.dtype), mean, rstd]


def _attention(q: Any, k: Any, v: Any, *, scale: float, heads: int, causal: bool) -> list[Any]:
    """Return the logarithm (to base 2) of each row's sum, and the output, as Triton's tutorial does."""
    import torch

    sums, outputs = [], []
    for one, two, three in zip(*(each.reshape(heads, -1, each.shape[1]) for each in (q, k, v)), strict=True):
        scores = (one.float() @ two.float().T) * scale
        if causal:
            scores += torch.full_like(scores, -1e6).triu(1)
        sums.append(torch.logsumexp(scores, 1) * 1.4426950408889634)
        outputs.append((torch.softmax(scores, 1) @ three.float()).to(q.dtype))
    return [torch.stack(sums), torch.cat(outputs)]


def _sum(x: Any, y: Any) -> Any:
    return x + y


def _rms_norm(x: Any, w: Any, *, eps: float) -> list[Any]:
    """Return the product with the weights, whose other factor is rounded, and the inverse of the root."""
    wide = x.float()
    rstd = ((wide * wide).mean(1) + eps).rsqrt()
    return [(wide * rstd[:, None]).to(x.dtype) * w, rstd]


def _fused_add_rms_norm(x: Any, residual: Any, w: Any, *, eps: float) -> list[Any]:
    y, rstd = _rms_norm(x + residual, w, eps=eps)
    return [y, x + residual, rstd]


def _group_norm(x: Any, w: Any, b: Any, *, eps: float) -> list[Any]:
    """Return what is normalized by image and group; ``x`` has images, groups and what a group has."""
    mean = x.mean(2)
    rstd = (x.var(2, correction=0) + eps).rsqrt()
    y = ((x - mean[..., None]) * rstd[..., None]).reshape(len(x), len(w), -1)
    return [(y * w[:, None] + b[:, None]).reshape(x.shape), mean, rstd]


def _poly_norm(x: Any, w: Any, b: Any, *, eps: float) -> list[Any]:
    import torch

    wide = x.float()
    powers = [wide**3, wide**2, wide]
    rstd = [((power * power).mean(1) + eps).rsqrt() for power in powers]
    terms = [factor * power * each[:, None] for factor, power, each in zip(w, powers, rstd, strict=True)]
    return [(sum(terms) + b).to(x.dtype), torch.stack(rstd, 1)]


def _gelu(x: Any) -> Any:
    import torch

    return torch.nn.functional.gelu(x.float(), approximate="tanh").to(x.dtype)


def _gelu_gradient(x: Any, dy: Any) -> Any:
    wide = x.float()
    scale, cubic = (2 / math.pi) ** 0.5, 0.044715
    tanh = (scale * (wide + cubic * wide**3)).tanh()
    slope = 0.5 * (1 + tanh) + 0.5 * wide * (1 - tanh**2) * scale * (1 + 3 * cubic * wide**2)
    return (slope * dy.float()).to(x.dtype)


def _layer_norm_of_sum(x: Any, y: Any, w: Any, b: Any) -> list[Any]:
    total = (x.float() + y.float()).to(x.dtype)
    normed, mean, rstd = _layer_norm(total, w, b)
    return [total, normed, mean.to(x.dtype), rstd.to(x.dtype)]


def _classifier(logits: Any, dlosses: Any, targets: Any) -> list[Any]:
    """Return the gradients of the logits, and the losses, as llm.c's fused classifier does."""
    import torch

    chosen = targets.long()[:, None]
    gradients = logits.softmax(1)
    losses = -torch.log(gradients.gather(1, chosen))[:, 0]
    gradients.scatter_add_(1, chosen, torch.full_like(dlosses, -1.0)[:, None])
    return [gradients * dlosses[:, None], losses]


def _embedding(tokens: Any, wte: Any, wpe: Any) -> Any:
    return (wte[tokens.long()].float() + wpe.float()).to(wte.dtype)


def _swish(x: Any) -> Any:
    return (x.float() * x.float().sigmoid()).to(x.dtype)


def _cross_entropy(x: Any, target: Any) -> Any:
    """Return each row's part of the mean."""
    wide = x.float()
    return (wide.logsumexp(1) - wide.gather(1, target[:, None])[:, 0]) / len(x)


def _kl_divergence(y: Any, target: Any, *, eps: float) -> Any:
    """Return each row's sum; ``y`` is a logarithm, and the target is not."""
    return (target * (target.clamp(min=eps).log() - y)).sum(1)


def _total_variation(p: Any, q: Any) -> list[Any]:
    """Return each row's part of the mean, and the gradient of ``p``."""
    import torch

    half = torch.full_like(p, 0.5 / len(p))
    return [(p - q).abs().sum(1) * (0.5 / len(p)), torch.where(p > q, half, -half)]


def _seeded_dropout(x: Any, *, p: float, seed: int) -> Any:
    """Return what Triton's random numbers, which are those of Philox 4x32-10, leave of an array."""
    import torch

    # 64 bits hold a product's bits, as a signed number; a shift and a mask take the upper half of it.
    mask, multipliers = 0xFFFFFFFF, (0xD2511F53, 0xCD9E8D57)
    a = torch.arange(len(x), device=x.device)
    b, c, d = (torch.zeros_like(a) for _ in range(3))
    keys = [seed & mask, seed >> 32]
    for _ in range(10):
        one, two = a * multipliers[0], c * multipliers[1]
        a, c = (two >> 32 & mask) ^ b ^ keys[0], (one >> 32 & mask) ^ d ^ keys[1]
        b, d = two & mask, one & mask
        keys = [keys[0] + 0x9E3779B9 & mask, keys[1] + 0xBB67AE85 & mask]
    signed = a.to(torch.int32)
    drawn = torch.where(signed < 0, -signed - 1, signed).float() * 4.6566127342e-10
    return torch.where(drawn > p, x / (1 - p), 0.0)


#: Of the inputs, in their order, by the word that the file of launches has.
REFERENCES: Mapping[str, Callable[..., Any]] = {
    "sum": _sum,
    "softmax": lambda x: x.softmax(1),
    "layer norm": _layer_norm,
    "product": lambda a, b: a @ b,
    "product of transposed": lambda a, b: a @ b.T,
    # fast.cu's C by columns; its last kernels also read a list of tiles.
    "product by columns": lambda a, b, tiles=None: b @ a.T,
    "attention": lambda q, k, v, **given: _attention(q, k, v, causal=False, **given),
    "causal attention": lambda q, k, v, **given: _attention(q, k, v, causal=True, **given),
    "output of attention": lambda q, k, v, **given: _attention(q, k, v, causal=False, **given)[1],
    "sums of rows": lambda x: x.sum(1),
    "product with a vector": lambda x, w: (w.float() @ x.float()).to(x.dtype),
    "gelu": _gelu,
    "gradient of gelu": _gelu_gradient,
    "layer norm of a sum": _layer_norm_of_sum,
    "fused classifier": _classifier,
    "embedding": _embedding,
    "permutation": lambda x: x.permute(3, 2, 0, 1).contiguous(),
    "seeded dropout": _seeded_dropout,
    "rms norm": _rms_norm,
    "fused add rms norm": _fused_add_rms_norm,
    "group norm": _group_norm,
    "poly norm": _poly_norm,
    "dynamic tanh": lambda x, alpha, gamma, beta: (x.float() * alpha).tanh() * gamma + beta,
    "swiglu": lambda a, b: _swish(a) * b,
    "geglu": lambda a, b: _gelu(a) * b,
    "relu squared": lambda x: x.relu() ** 2,
    "softmax backward": lambda dy, y: y * (dy - (dy * y).sum(1, keepdim=True)),
    "relu squared backward": lambda dy, x: dy * 2 * x.relu(),
    "cross entropy": _cross_entropy,
    "kl divergence": _kl_divergence,
    "total variation": _total_variation,
}


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
    for check, line, text in _foreign_cuda.compiled(sources, cuda):
        (out / f"{line['text']}.ptx").write_text(text, encoding="utf-8")
        found["checks" if check else "launches"].append(line)
    _compile_triton(sources, out, cuda, some, found)
    _write(out, found)


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
