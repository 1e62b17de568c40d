"""Compiler output, parsed, printed and assembled: the SASS is that of the original, byte for byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from pyptx.ir import Module, parse_module, print_module
from pyptx.toolchain import Tool, assemble, disassemble

CORPUS = Path(__file__).parent / "corpus"
SOURCES = sorted(CORPUS.glob("*.cu"))
ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a")
#: Ways to compile, with what ptxas needs for each.
BUILDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "optimised": (("-lineinfo",), ("-lineinfo",)),
    "debug": (("-G",), ("-g",)),
}
#: Kernels that each source has at least, in every architecture and build.
KERNELS = {"arithmetic": 27, "basics": 9, "memory": 8}


@pytest.fixture(scope="module")
def nvcc() -> str:
    wheels = Path(sysconfig.get_paths()["purelib"], "nvidia")
    homes = [
        *sorted(wheels.glob("cu[0-9]*")),
        *(Path(os.environ[v]) for v in ("CUDA_HOME",) if v in os.environ),
    ]
    path = os.pathsep.join([os.environ.get("PATH", ""), *(str(home / "bin") for home in homes)])
    found = shutil.which("nvcc", path=path)
    if found is None or shutil.which("g++") is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have nvcc (wheels nvidia-cuda-nvcc and nvidia-cuda-cccl) and g++")
        pytest.skip("needs nvcc and g++")
    return found


def _compile(nvcc: str, source: Path, arch: str, options: tuple[str, ...], folder: Path) -> str:
    out = folder / f"{source.stem}.{arch}.ptx"
    command = [nvcc, "-ptx", "-std=c++17", f"-arch={arch}", "-w", *options, str(source), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return out.read_text()


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_same_machine_code(
    source: Path, arch: str, build: str, nvcc: str, ptxas: Tool, nvdisasm: Tool, tmp_path: Path
) -> None:
    compiler, assembler = BUILDS[build]
    text = _compile(nvcc, source, arch, compiler, tmp_path)
    module = parse_module(text)
    printed = print_module(module).text
    assert parse_module(printed) == module
    before = assemble(text, arch, ptxas=ptxas, options=assembler)
    after = assemble(printed, arch, ptxas=ptxas, options=assembler)
    assert _code(before.cubin, nvdisasm) == _code(after.cubin, nvdisasm)
    assert len(module.entries) >= KERNELS[source.stem]


def _code(cubin: bytes, nvdisasm: Tool) -> str:
    return disassemble(cubin, nvdisasm=nvdisasm, options=("--print-code", "--print-instruction-encoding"))


def test_corpus_is_large_enough() -> None:
    assert sum(KERNELS.values()) * len(ARCHITECTURES) * len(BUILDS) >= 150


def test_a_change_of_the_code_is_seen(ptxas: Tool, nvdisasm: Tool) -> None:
    text = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
        ".reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [out]; mov.u32 %r, %tid.x; add.u32 %r, %r, 3;\n"
        "st.global.u32 [%a], %r; ret; }\n"
    )
    module: Module = parse_module(text)
    changed = parse_module(text.replace("%r, 3", "%r, 4"))
    first, second = (_code(assemble(print_module(m)).cubin, nvdisasm) for m in (module, changed))
    assert first != second
    assert first == _code(assemble(text, ptxas=ptxas).cubin, nvdisasm)
