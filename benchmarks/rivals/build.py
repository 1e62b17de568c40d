"""Compile the rivals of ``benchmarks/hopper.py`` that no wheel brings: FlashAttention-3 and DeepGEMM.

    pip install nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* nvidia-nvvm==13.0.* \
        nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.*
    git clone --recursive https://github.com/Dao-AILab/flash-attention sources/flash-attention
    git clone --recursive https://github.com/deepseek-ai/DeepGEMM sources/DeepGEMM
    python benchmarks/rivals/build.py --sources sources --out rivals
    PYPTX_RIVALS=rivals python benchmarks/hopper.py attention-hd128 fp8-blocks

No GPU and no torch are needed, only a C++ compiler; one head dim of FlashAttention-3 takes about four minutes
and 3 GB.  The libraries have their own copy of CUDA's runtime and need only the driver, so the folder can be
carried to another machine.  Kernels are compiled with the flags of the projects' own builds, for sm_90a.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _deepgemm import BF16, CONTIGUOUS, MASKED, NORMAL, instances

HERE = Path(__file__).resolve().parent
#: What the rows do not use of FlashAttention-3; each halves the time to compile it.
UNUSED = ["SPLIT", "PAGEDKV", "APPENDKV", "LOCAL", "SOFTCAP", "PACKGQA", "FP16", "FP8", "VARLEN", "SM8x"]
UNUSED += ["HDIMDIFF64", "HDIMDIFF192"]
DISABLED = "-DFLASHATTENTION_DISABLE_"
DEFINED = ("CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED", "CUTLASS_ENABLE_GDC_FOR_SM90", "NDEBUG")
ATTENTION = [
    "-std=c++17",
    "--use_fast_math",
    "--expt-relaxed-constexpr",
    *(f"-D{name}" for name in DEFINED),
    *(f"{DISABLED}{name}" for name in UNUSED),
]
GEMM = [
    "-std=c++20",
    "--expt-relaxed-constexpr",
    "--expt-extended-lambda",
    "--diag-suppress=39,161,174,177,186,940",
    "--ptxas-options=--register-usage-level=10",
]


@dataclass(frozen=True)
class Library:
    """How a library is compiled.

    Attributes:
        source: a file beside this one.
        flags: of nvcc.
        includes: folders below that of the sources.
    """

    source: str
    flags: list[str]
    includes: tuple[str, ...]


def _attention(source: str, D: int, element: str = "bfloat16_t") -> Library:
    includes = ("flash-attention/hopper", "flash-attention/csrc/cutlass/include")
    flags = [*ATTENTION, f"-DHEAD_DIM={D}", f"-DELEMENT=cutlass::{element}"]
    if element == "float_e4m3_t":
        flags.remove(f"{DISABLED}FP8")
    return Library(source, flags, includes)


def _gemm(source: str) -> Library:
    return Library(source, GEMM, ("DeepGEMM/deep_gemm/include", "DeepGEMM/third-party/cutlass/include"))


#: What DeepGEMM's sources include, by file name.
GENERATED = {"deepgemm_instances.inc": NORMAL + CONTIGUOUS + MASKED, "deepgemm_bf16_instances.inc": BF16}
LIBRARIES = {
    "flash_attention_3_hd128": _attention("flash_attention_3.cu", 128),
    "deepgemm": _gemm("deepgemm.cu"),
    "flash_attention_3_hd64": _attention("flash_attention_3.cu", 64),
    "flash_attention_3_hd256": _attention("flash_attention_3.cu", 256),
    "flash_attention_3_e4m3_hd128": _attention("flash_attention_3.cu", 128, "float_e4m3_t"),
    "flash_attention_3_e4m3_hd256": _attention("flash_attention_3.cu", 256, "float_e4m3_t"),
    "deepgemm_bf16": _gemm("deepgemm_bf16.cu"),
    "flash_attention_3_backward_hd128": _attention("flash_attention_3_backward.cu", 128),
    "flash_attention_3_backward_hd64": _attention("flash_attention_3_backward.cu", 64),
}


def toolkit(given: Path | None) -> Path:
    """Return the folder of the CUDA toolkit: the one given, the wheels', or that of nvcc on the path."""
    found = shutil.which("nvcc")
    folders = [given, Path(sysconfig.get_path("purelib"), "nvidia", "cu13")]
    folders += [Path(found).resolve().parents[1]] if found else []
    for folder in filter(None, folders):
        if (folder / "bin" / "nvcc").exists():
            return folder
    sys.exit("there is no nvcc: install the wheels that the head of this file names, or pass --cuda")


def command(library: Library, cuda: Path, sources: Path, generated: Path, out: Path) -> list[str]:
    """Return the command that compiles a library; ``generated`` is the folder of the generated files."""
    includes = [generated, *(sources / folder for folder in library.includes), cuda / "include" / "cccl"]
    for folder in includes:
        if not folder.is_dir():
            sys.exit(f"{folder} is missing")
    return [
        str(cuda / "bin" / "nvcc"),
        "-O3",
        *library.flags,
        "--resource-usage",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-diag-suppress=20013,20015",
        *(f"-I{folder}" for folder in includes),
        "-Xcompiler=-fPIC,-fvisibility=hidden",
        "-shared",
        "-cudart=static",
        *(f"-L{folder}" for folder in (cuda / "lib", cuda / "lib64")),
        "-o",
        str(out),
        str(HERE / library.source),
    ]


def spills(said: str) -> list[str]:
    """Return the lines of the compiler that tell of spills."""
    return [line.strip() for line in said.splitlines() if re.search(r"[1-9]\d* bytes spill", line)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=f"of {', '.join(LIBRARIES)}; all")
    parser.add_argument("--sources", type=Path, required=True, help="of flash-attention and DeepGEMM")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the libraries")
    parser.add_argument("--cuda", type=Path, help="the CUDA toolkit, 13.0 or later; the wheels' by default")
    options = parser.parse_args()
    if unknown := set(options.libraries) - set(LIBRARIES):
        parser.error(f"there is no {min(unknown)}; the libraries are {', '.join(LIBRARIES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    cuda = toolkit(options.cuda)
    for name in options.libraries or LIBRARIES:
        out = options.out / f"{name}.so"
        with tempfile.TemporaryDirectory() as folder:
            for file, problems in GENERATED.items():
                Path(folder, file).write_text(instances(problems), encoding="utf-8")
            made = Path(folder, out.name)
            words = command(LIBRARIES[name], cuda, options.sources, Path(folder), made)
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{done.stdout}{done.stderr}\n{name} was not compiled")
            shutil.move(made, out)
        print(f"{out}: {out.stat().st_size / 2**20:.2f} MiB")
        for line in spills(done.stdout + done.stderr):
            print(f"    {line}")


if __name__ == "__main__":
    main()
