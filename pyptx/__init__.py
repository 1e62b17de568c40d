"""pyptx: NVIDIA kernels in Python, one PTX instruction at a time, run on a GPU or lane by lane without one.

This module lists the public names.  They are loaded on first use, so that ``import pyptx`` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core import version

__version__ = version.VERSION

#: Public name -> module that owns it.
_HOME = {
    "kernel": "entry",
    "Kernel": "entry",
    "Program": "dsl",
    "Tile": "dsl",
    "Scalar": "dsl",
    "Layout": "dsl",
    "Reg": "dsl",
    "RegArray": "dsl",
    "Sym": "dsl",
    "TileParam": "dsl",
    "VectorReg": "dsl",
    "ptx": "dsl",
    "reg": "dsl",
    "smem": "dsl",
    "TensorMap": "layout",
    "Timeline": "timeline",
    "assert_same_ptx": "tools.diff",
    "autotune": "tools.autotune",
    "bench": "tools.bench",
    "diff": "tools.diff",
    "lint": "tools.lint",
    "ncu_run": "tools.ncu",
    "transpile": "tools.transpile",
    "unload_unused": "runtime.unloading",
    "InstructionDescriptor": "layout",
    "OperandTile": "layout",
    "Tcgen05SmemDescriptor": "layout",
    "WgmmaDescriptor": "layout",
    "ZeroColumnMask": "layout",
    "kit": "",
    "timeline": "",
    "sim": "",
    "ir": "",
    "isa": "",
    "layout": "",
    "toolchain": "",
    "Finding": "core.findings",
    "Verdict": "core.findings",
    "PyptxError": "core.errors",
    "PyptxWarning": "core.errors",
    "AssembleError": "core.errors",
    "InstructionError": "core.errors",
    "KernelFailedError": "core.errors",
    "LaunchError": "core.errors",
    "OperandError": "core.errors",
    "SharedMemoryError": "core.errors",
    "SimulationError": "core.errors",
    "SpecError": "core.errors",
    "TargetError": "core.errors",
    "ToolNotFoundError": "core.errors",
    "TraceError": "core.errors",
    "UnsupportedError": "core.errors",
    "WaitTimeoutError": "core.errors",
    "WrongResultError": "core.errors",
    **dict.fromkeys(
        [
            "b8",
            "b16",
            "b32",
            "b64",
            "b128",
            "bf16",
            "bf16x2",
            "e4m3",
            "e5m2",
            "f16",
            "f16x2",
            "f32",
            "f64",
            "pred",
            "s8",
            "s16",
            "s32",
            "s64",
            "tf32",
            "u8",
            "u16",
            "u32",
            "u64",
            "ue8m0",
            "ScalarType",
        ],
        "core.types",
    ),
}

if TYPE_CHECKING:
    from . import ir, isa, kit, layout, sim, timeline, toolchain
    from .core.errors import (
        AssembleError,
        InstructionError,
        KernelFailedError,
        LaunchError,
        OperandError,
        PyptxError,
        PyptxWarning,
        SharedMemoryError,
        SimulationError,
        SpecError,
        TargetError,
        ToolNotFoundError,
        TraceError,
        UnsupportedError,
        WaitTimeoutError,
        WrongResultError,
    )
    from .core.findings import Finding, Verdict
    from .core.types import (
        ScalarType,
        b8,
        b16,
        b32,
        b64,
        b128,
        bf16,
        bf16x2,
        e4m3,
        e5m2,
        f16,
        f16x2,
        f32,
        f64,
        pred,
        s8,
        s16,
        s32,
        s64,
        tf32,
        u8,
        u16,
        u32,
        u64,
        ue8m0,
    )
    from .dsl import (
        Layout,
        Program,
        Reg,
        RegArray,
        Scalar,
        Sym,
        Tile,
        TileParam,
        VectorReg,
        ptx,
        reg,
        smem,
    )
    from .entry import Kernel, kernel
    from .layout import (
        InstructionDescriptor,
        OperandTile,
        Tcgen05SmemDescriptor,
        TensorMap,
        WgmmaDescriptor,
        ZeroColumnMask,
    )
    from .runtime.unloading import unload_unused
    from .timeline import Timeline
    from .tools.autotune import autotune
    from .tools.bench import bench
    from .tools.diff import assert_same_ptx, diff
    from .tools.lint import lint
    from .tools.ncu import ncu_run
    from .tools.transpile import transpile

__all__ = [
    "AssembleError",
    "Finding",
    "InstructionDescriptor",
    "InstructionError",
    "Kernel",
    "KernelFailedError",
    "LaunchError",
    "Layout",
    "OperandError",
    "OperandTile",
    "Program",
    "PyptxError",
    "PyptxWarning",
    "Reg",
    "RegArray",
    "Scalar",
    "ScalarType",
    "SharedMemoryError",
    "SimulationError",
    "Tcgen05SmemDescriptor",
    "SpecError",
    "Sym",
    "TargetError",
    "TensorMap",
    "Tile",
    "TileParam",
    "Timeline",
    "ToolNotFoundError",
    "TraceError",
    "UnsupportedError",
    "VectorReg",
    "Verdict",
    "WaitTimeoutError",
    "WgmmaDescriptor",
    "WrongResultError",
    "ZeroColumnMask",
    "assert_same_ptx",
    "autotune",
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "bf16",
    "bench",
    "bf16x2",
    "diff",
    "e4m3",
    "e5m2",
    "f16",
    "f16x2",
    "f32",
    "f64",
    "ir",
    "isa",
    "kernel",
    "kit",
    "layout",
    "lint",
    "ncu_run",
    "pred",
    "ptx",
    "reg",
    "s8",
    "s16",
    "s32",
    "s64",
    "sim",
    "smem",
    "tf32",
    "timeline",
    "toolchain",
    "transpile",
    "unload_unused",
    "u8",
    "u16",
    "u32",
    "u64",
    "ue8m0",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'pyptx' has no attribute {name!r}")
    if not home:
        return import_module(f"{__name__}.{name}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
