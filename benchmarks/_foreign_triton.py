"""Kernels of Triton's tutorials: compiled to PTX where no GPU is, and how they are launched.

The kernels are taken out of ``python/tutorials`` of Triton's repository: its files measure on a GPU when they
are imported, so only their functions for the device are. Choices are among those that the tutorials try,
except for some tiles of the second set, and arguments are specialized as Triton's own launches do: a 1 is a
constant, and multiples of 16 are known.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from _foreign import array
from rivals.build import toolkit

__all__ = ["FOLDER", "Made", "checks", "checks_2", "compiled", "launches", "launches_2"]

#: Its folder among the sources.
FOLDER = "triton/python/tutorials"
#: The newest PTX that the driver of the measurements takes.
NEWEST = (9, 0)
SMS, REGISTERS, SHARED = 132, 65536, 232448
_SWIZZLES = ("none", "32B", "64B", "128B")


@dataclass(frozen=True)
class Made:
    """A launch of a kernel.

    Attributes:
        name: of the launch.
        file, function: where the kernel is, in the folder.
        arguments: in the order of the kernel's parameters, by name: a number; an array's name in a string;
            ``(array, box)``, a descriptor. Constants are in ``constants``.
        floats: names of the numbers that are floating-point ones.
        warps, stages: choices of the compiler.
        grid: of the launch; None for softmax, whose grid depends on its registers.
        more: what the file of launches says besides.
        folder: of the file, among the sources.
        helpers: files that the kernel takes functions of, in the folder, each by the name that the kernel's
            file gives it; by an empty name its functions alone.
        general: names of the numbers that the project's decorator does not specialize.
    """

    name: str
    file: str
    function: str
    arguments: Mapping[str, Any]
    constants: Mapping[str, Any]
    arrays: Mapping[str, Any]
    warps: int
    stages: int
    grid: Sequence[int] | None
    more: Mapping[str, Any] = field(default_factory=dict)
    floats: Sequence[str] = ()
    folder: str = FOLDER
    helpers: Mapping[str, str] = field(default_factory=dict)
    general: Sequence[str] = ()


# --- the launches ---------------------------------------------------------------------------------


def add(n: int) -> Made:
    arrays = {"x": array("f32", n), "y": array("f32", n), "out": array("f32", n, role="out")}
    arguments = {"x_ptr": "x", "y_ptr": "y", "output_ptr": "out", "n_elements": n}
    more = {"reference": "sum", "rtol": 1e-6, "atol": 1e-6}
    constants = {"BLOCK_SIZE": 1024}
    name, grid = f"triton add {n}", (-(-n // 1024), 1, 1)
    return Made(name, "01-vector-add.py", "add_kernel", arguments, constants, arrays, 4, 3, grid, more)


def seeded_dropout(n: int, p: float = 0.5, seed: int = 123) -> Made:
    arrays = {"x": array("f32", n), "out": array("f32", n, role="out")}
    arguments = {"x_ptr": "x", "output_ptr": "out", "n_elements": n, "p": p, "seed": seed}
    more = {"reference": "seeded dropout", "parameters": {"p": p, "seed": seed}, "rtol": 1e-6, "atol": 1e-6}
    return Made(
        f"triton seeded-dropout {n}",
        "04-low-memory-dropout.py",
        "_seeded_dropout",
        arguments,
        {"BLOCK_SIZE": 1024},
        arrays,
        4,
        3,
        (-(-n // 1024), 1, 1),
        more,
        ("p",),
    )


def softmax(rows: int, columns: int) -> Made:
    arrays = {"x": array("f32", rows, columns), "y": array("f32", rows, columns, role="out")}
    arguments = {"output_ptr": "y", "input_ptr": "x", "input_row_stride": columns}
    arguments |= {"output_row_stride": columns, "n_rows": rows, "n_cols": columns}
    constants = {"BLOCK_SIZE": 1 << (columns - 1).bit_length(), "num_stages": 4}
    more = {"reference": "softmax", "rtol": 1e-4, "atol": 1e-6}
    name, file = f"triton softmax {rows}x{columns}", "02-fused-softmax.py"
    return Made(name, file, "softmax_kernel", arguments, constants, arrays, 8, 4, None, more)


def layer_norm(rows: int, columns: int) -> Made:
    arrays = {
        "x": array("f16", rows, columns),
        "y": array("f16", rows, columns, role="out"),
        "w": array("f16", columns),
        "b": array("f16", columns),
        "mean": array("f32", rows, role="out"),
        "rstd": array("f32", rows, role="out"),
    }
    arguments = {"X": "x", "Y": "y", "W": "w", "B": "b", "Mean": "mean", "Rstd": "rstd"}
    arguments |= {"stride": columns, "N": columns, "eps": 1e-5}
    block = min(65536 // 2, 1 << (columns - 1).bit_length())
    more = {"reference": "layer norm", "rtol": 1e-2, "atol": 1e-2}
    return Made(
        f"triton layernorm {rows}x{columns}",
        "05-layer-norm.py",
        "_layer_norm_fwd_fused",
        arguments,
        {"BLOCK_SIZE": block},
        arrays,
        min(max(block // 256, 1), 8),
        3,
        (rows, 1, 1),
        more,
        ("eps",),
    )


def _gemm_more(M: int, N: int, K: int, reference: str) -> dict[str, Any]:
    more = {"reference": reference, "rtol": 0.01, "atol": 0.01 * K**0.5}
    return {**more, "flops": 2.0 * M * N * K, "bits": 16}


@dataclass(frozen=True)
class Tile:
    """What a program of a product computes, and the compiler's choices for it."""

    m: int
    n: int
    k: int
    warps: int
    stages: int

    @property
    def constants(self) -> dict[str, int]:
        return {"BLOCK_SIZE_M": self.m, "BLOCK_SIZE_N": self.n, "BLOCK_SIZE_K": self.k, "GROUP_SIZE_M": 8}

    @property
    def suffix(self) -> str:
        """What a name says of the tile; nothing of the usual one."""
        return "" if self == _TILE else f" {self.m}x{self.n}x{self.k}"

    def grid(self, M: int, N: int, persistent: bool) -> tuple[int, int, int]:
        tiles = -(-M // self.m) * -(-N // self.n)
        return (min(SMS, tiles) if persistent else tiles), 1, 1


_TILE = Tile(128, 256, 64, 8, 3)


def matmul(M: int, N: int, K: int, persistent: bool = False, tile: Tile = _TILE) -> Made:
    """The product of the third tutorial, or the persistent one of the ninth."""
    arrays = {"a": array("f16", M, K), "b": array("f16", K, N), "c": array("f16", M, N, role="out")}
    arguments = {"a_ptr": "a", "b_ptr": "b", "c_ptr": "c", "M": M, "N": N, "K": K, "stride_am": K}
    arguments |= {"stride_ak": 1, "stride_bk": N, "stride_bn": 1, "stride_cm": N, "stride_cn": 1}
    which = "matmul_kernel_persistent" if persistent else "matmul_kernel"
    return Made(
        f"triton matmul{'-persistent' * persistent} {M}x{N}x{K}{tile.suffix}",
        "09-persistent-matmul.py" if persistent else "03-matrix-multiplication.py",
        which,
        arguments,
        {**tile.constants, **({"NUM_SMS": SMS} if persistent else {"ACTIVATION": ""})},
        arrays,
        tile.warps,
        tile.stages,
        tile.grid(M, N, persistent),
        _gemm_more(M, N, K, "product"),
    )


def matmul_tma(M: int, N: int, K: int, persistent: bool = False, tile: Tile = _TILE) -> Made:
    """The products of the ninth tutorial that load and store by descriptors of the host."""
    arrays = {"a": array("f16", M, K), "b": array("f16", N, K), "c": array("f16", M, N, role="out")}
    arguments: dict[str, Any] = {"a_desc": ("a", (tile.m, tile.k)), "b_desc": ("b", (tile.n, tile.k))}
    arguments |= {"c_desc": ("c", (tile.m, tile.n)), "M": M, "N": N, "K": K}
    constants: dict[str, Any] = {**tile.constants, "FP8_OUTPUT": False, "WARP_SPECIALIZE": False}
    if persistent:
        constants |= {"EPILOGUE_SUBTILE": False, "NUM_SMS": SMS}
    return Made(
        f"triton matmul-tma{'-persistent' * persistent} {M}x{N}x{K}{tile.suffix}",
        "09-persistent-matmul.py",
        "matmul_kernel_tma_persistent" if persistent else "matmul_kernel_tma",
        arguments,
        constants,
        arrays,
        tile.warps,
        tile.stages,
        tile.grid(M, N, persistent),
        _gemm_more(M, N, K, "product of transposed"),
    )


def attention(Z: int, H: int, S: int, D: int, causal: bool) -> Made:
    """The forward pass of the sixth tutorial, with descriptors of the host."""
    rows = Z * H * S
    arrays = {name: array("f16", rows, D) for name in ("q", "k", "v")}
    arrays["m"], arrays["o"] = array("f32", Z * H, S, role="out"), array("f16", rows, D, role="out")
    columns = min(D, 128)
    arguments: dict[str, Any] = {"sm_scale": D**-0.5, "M": "m", "Z": Z, "H": H}
    arguments |= {f"desc_{name}": (name, (128 if name in "qo" else columns, D)) for name in "qkvo"}
    arguments["N_CTX"] = S
    constants = {"HEAD_DIM": D, "BLOCK_M": 128, "BLOCK_N": columns, "FP8_OUTPUT": False}
    constants |= {"STAGE": 3 if causal else 1, "warp_specialize": False, "IS_HOPPER": True}
    more = {"reference": "causal attention" if causal else "attention", "rtol": 1e-2, "atol": 1e-2}
    more |= {"flops": 4.0 * Z * H * S * S * D * (0.5 if causal else 1.0), "bits": 16}
    # Whether a row's sum is finite decides which way its logarithm goes.
    more |= {"parameters": {"scale": D**-0.5, "heads": Z * H}, "contents": "zeros"}
    return Made(
        f"triton attention{'-causal' * causal} {Z}x{H}x{S}x{D}",
        "06-fused-attention.py",
        "_attn_fwd",
        arguments,
        constants,
        arrays,
        4 if D == 64 else 8,
        3 if D == 64 else 2,
        (-(-S // 128), Z * H, 1),
        more,
        ("sm_scale",),
    )


def launches() -> list[Made]:
    """Return the launches that are predicted."""
    return [
        add(1 << 24),
        add(1 << 27),
        softmax(8192, 4096),
        softmax(4096, 12672),
        layer_norm(4096, 4096),
        layer_norm(4096, 10240),
        matmul(4096, 4096, 4096),
        matmul(6144, 2048, 4096),
        matmul(4096, 4096, 4096, persistent=True),
        matmul_tma(4096, 4096, 4096),
        matmul_tma(6144, 2048, 4096),
        matmul_tma(8192, 8192, 4096, persistent=True),
        attention(2, 16, 2048, 64, causal=False),
        attention(2, 16, 2048, 128, causal=True),
    ]


def checks() -> list[Made]:
    """Return small launches of the same kernels, for the simulator."""
    return [
        add(4096 + 16),
        softmax(160, 4096),
        softmax(160, 12672),
        layer_norm(4, 4096),
        layer_norm(4, 10240),
        matmul(256, 512, 256),
        matmul(256, 512, 256, persistent=True),
        matmul_tma(256, 512, 256),
        matmul_tma(256, 512, 256, persistent=True),
        attention(1, 2, 256, 64, causal=False),
        attention(1, 2, 256, 128, causal=True),
    ]


#: Tiles of the second set. Not all are among those that the tutorials try on this GPU.
SQUARE_4, SQUARE_8 = Tile(128, 128, 64, 4, 4), Tile(128, 128, 64, 8, 3)
WIDE, NARROW, TALL = Tile(64, 256, 32, 4, 4), Tile(128, 64, 32, 4, 4), Tile(256, 128, 64, 8, 3)


def launches_2() -> list[Made]:
    """Return the launches of the second set."""
    return [
        add(50_000_000),
        seeded_dropout(1 << 25),
        softmax(16384, 1024),
        softmax(4096, 8192),
        layer_norm(8192, 1024),
        layer_norm(2048, 16384),
        matmul(4096, 4096, 4096, tile=SQUARE_4),
        matmul(8192, 2048, 1024, tile=WIDE),
        matmul(2048, 2048, 8192, tile=NARROW),
        matmul(4096, 4096, 4096, tile=TALL),
        matmul(8192, 2048, 1024, persistent=True, tile=SQUARE_4),
        matmul(4096, 4096, 4096, persistent=True, tile=SQUARE_8),
        matmul_tma(4096, 4096, 4096, tile=SQUARE_4),
        matmul_tma(8192, 2048, 1024, tile=SQUARE_8),
        matmul_tma(8192, 2048, 1024, persistent=True, tile=SQUARE_4),
        matmul_tma(4096, 4096, 4096, persistent=True, tile=SQUARE_8),
        attention(2, 16, 4096, 64, causal=True),
        attention(4, 16, 1024, 128, causal=False),
        attention(1, 32, 4096, 128, causal=False),
    ]


def checks_2() -> list[Made]:
    """Return small launches of the kernels of the second set, for the simulator."""
    return [
        add(8192 + 32),
        seeded_dropout(4096 + 16),
        softmax(160, 1024),
        softmax(140, 8192),
        layer_norm(4, 1024),
        layer_norm(4, 16384),
        *(matmul(256, 256, 256, tile=tile) for tile in (SQUARE_4, WIDE, NARROW, TALL)),
        matmul(256, 256, 256, persistent=True, tile=SQUARE_4),
        matmul(256, 384, 256, persistent=True, tile=SQUARE_8),
        matmul_tma(256, 256, 256, tile=SQUARE_4),
        matmul_tma(256, 384, 256, tile=SQUARE_8),
        matmul_tma(256, 256, 256, persistent=True, tile=SQUARE_4),
        matmul_tma(256, 384, 256, persistent=True, tile=SQUARE_8),
        attention(1, 2, 256, 64, causal=True),
        attention(1, 2, 256, 128, causal=False),
    ]


# --- compiling ------------------------------------------------------------------------------------


def compiled(
    sources: Path, cuda: Path | None, out: Path, some: Mapping[str, Sequence[Made]]
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield, of each launch, the key that it is under, what the file of launches has, and the PTX.

    A kernel that does not compile is left out, and said.
    """
    # Lines do not change the code, and the driver need not read them.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    for key, each in some.items():
        for made in each:
            try:
                yield key, *_compile(made, sources / made.folder, cuda, out)
            except Exception as error:  # of the compiler: whatever it raises, the other kernels go on
                print(f"{made.name} does not compile: {type(error).__name__}: {error}")


@cache
def _module(
    file: Path, out: Path, helpers: tuple[tuple[str, Path], ...] = (), deep: bool = False
) -> ModuleType:
    """Return a module with a file's functions for the device, and what they name.

    Deep, also those that the file has only under a condition; of two of one name, the last.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kept = ["import triton", "import triton.language as tl", *_imports(tree)]
    for called, path in helpers:
        helper = _module(path, out, deep=True).__name__
        kept.append(f"import {helper} as {called}" if called else f"from {helper} import *")
    for node in ast.walk(tree) if deep else tree.body:
        if isinstance(node, ast.FunctionDef):
            names = [ast.unparse(each) for each in node.decorator_list]
            if any(name.startswith("triton.jit") for name in names):
                node.decorator_list = [ast.parse("triton.jit").body[0].value]  # type: ignore[attr-defined]
                kept.append(ast.unparse(node))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _is_constant(node.value):
            kept.append(ast.unparse(node))
    name = f"{file.parent.name}_" + re.sub(r"\W", "_", file.stem)
    path = out / f"{name}.py"
    path.write_text("\n\n\n".join(kept) + "\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _is_constant(value: ast.expr | None) -> bool:
    return value is not None and ast.unparse(value).startswith("tl.constexpr(")


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield a file's imports of functions for the device; of a name's choices, the first."""
    known: set[str] = set()
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in sorted(nodes, key=lambda node: node.lineno):
        names = {each.name for each in node.names}
        if (node.module or "").startswith("triton.language.") and not names <= known:
            yield ast.unparse(node)
            known |= names


def _compile(made: Made, folder: Path, cuda: Path | None, out: Path) -> tuple[dict[str, Any], str]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    helpers = tuple((called, folder / file) for called, file in made.helpers.items())
    function = getattr(_module(folder / made.file, out, helpers), made.function)
    signature: dict[str, str] = {}
    constants, attributes = dict(made.constants), {}
    for position, name in enumerate(function.arg_names):
        value = made.arguments.get(name)
        if name in constants or (value == 1 and name not in (*made.floats, *made.general)):
            signature[name] = "constexpr"
            constants.setdefault(name, value)
        elif isinstance(value, str):
            signature[name] = f"*{_triton(made.arrays[value]['type'])}"
            attributes[position,] = [["tt.divisibility", 16]]
        elif isinstance(value, tuple):
            array, box = value
            signature[name] = f"tensordesc<{_triton(made.arrays[array]['type'])}[{', '.join(map(str, box))}]>"
        elif name in made.floats:
            signature[name] = "fp32"
        else:
            signature[name] = "i32"
            if value % 16 == 0 and name not in made.general:
                attributes[position,] = [["tt.divisibility", 16]]
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": made.warps, "num_stages": made.stages}
    found = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    meta, text = found.metadata, _not_newer(found.asm["ptx"])
    if getattr(meta, "global_scratch_size", 0) or getattr(meta, "profile_scratch_size", 0):
        raise ValueError("it needs scratch memory")
    if meta.shared > SHARED:
        raise ValueError(f"it needs {meta.shared} bytes of shared memory")
    grid = made.grid or _resident(text, meta, cuda, made.arrays["x"]["shape"][0])
    line = {
        "name": made.name,
        "entry": meta.name,
        "grid": list(grid),
        "block": [32 * meta.num_warps, 1, 1],
        "cluster": [1, 1, 1],
        "smem": meta.shared,
        "arrays": dict(made.arrays),
        "args": list(_arguments(made, function.arg_names, signature, meta)),
        **made.more,
    }
    return line, text


def _arguments(
    made: Made, names: Sequence[str], signature: Mapping[str, str], meta: Any
) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the PTX: a descriptor is a map, its extents, its strides; scratch is last."""
    descriptors = iter(getattr(meta, "tensordesc_meta", None) or ())
    for name in names:
        value = made.arguments.get(name)
        if signature[name] == "constexpr":
            continue
        if isinstance(value, str):
            yield {"array": value}
        elif isinstance(value, tuple):
            described, shape = next(descriptors), made.arrays[value[0]]["shape"]
            swizzle = _SWIZZLES[described["swizzle"]]
            map = {"map": value[0], "box": list(described["block_size"]), "swizzle": swizzle}
            yield {**map, "l2_promotion": "128B"}
            yield from ({"number": extent, "type": "s32"} for extent in shape)
            yield from ({"number": stride, "type": "s64"} for stride in (shape[1], 1))
        else:
            yield {"number": value, "type": "f32" if name in made.floats else "s32"}
    yield from ({"number": 0, "type": "u64"} for _ in range(2))


def _triton(type: str) -> str:
    return {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "s64": "i64", "e4m3": "fp8e4nv"}[type]


def _not_newer(text: str) -> str:
    """Return a text with a version that the driver takes."""
    match = re.search(r"\.version (\d+)\.(\d+)", text)
    assert match is not None
    if tuple(map(int, match.groups())) <= NEWEST:
        return text
    return text.replace(match[0], ".version {}.{}".format(*NEWEST), 1)


def _resident(text: str, meta: Any, cuda: Path | None, rows: int) -> tuple[int, int, int]:
    """Return the grid of softmax: as many programs as the tutorial counts to be resident."""
    ptxas = toolkit(cuda) / "bin" / "ptxas"
    command = [str(ptxas), "-arch=sm_90a", "-v", "-o", "/dev/null", "-"]
    said = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stderr
    used = re.search(r"Used (\d+) registers", said)
    assert used is not None
    many = min(REGISTERS // (int(used[1]) * 32 * meta.num_warps), SHARED // max(1, meta.shared))
    return min(SMS * many, rows), 1, 1
