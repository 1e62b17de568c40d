"""``k.export``: the files, and a C program that launches with a driver of this file's own, or with the real one."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from pyptx.core.errors import SpecError
from pyptx.core.types import TYPES, bf16, f32, f64, s32, u16, u32
from pyptx.dsl import Layout, Scalar, Tile, Workspace, ptx, smem
from pyptx.entry import Kernel, kernel
from pyptx.entry.c_header import c_names, c_type
from pyptx.entry.export import Exported
from pyptx.layout import TensorMap
from pyptx.toolchain import Tool
from tests.examples.loading import load_example

#: A driver that prints what it is asked for, as text that Python reads.
CUDA_H = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef int CUresult;
enum { CUDA_SUCCESS = 0 };
typedef struct { int unused; } *CUmodule, *CUfunction, *CUstream;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
typedef struct { _Alignas(64) unsigned char opaque[128]; } CUtensorMap;
typedef int CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill;
enum { CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6, CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14 };
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14 };
typedef struct { int id; union { struct { unsigned x, y, z; } clusterDim; int cooperative, priority;
    int programmaticStreamSerializationAllowed; unsigned sharedMemCarveout; } value; } CUlaunchAttribute;
typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream; CUlaunchAttribute *attrs; unsigned numAttrs;
} CUlaunchConfig;
static const int sizes[] = SIZES;
static inline CUresult cuModuleLoad(CUmodule *m, const char *path) { *m = (CUmodule)0x11; return strcmp(path, "refused") ? 0 : 301; }
static inline CUresult cuModuleUnload(CUmodule m) { printf("unload %p\n", (void *)m); return 0; }
static inline CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    (void)m; *f = (CUfunction)0x22; printf("entry %s\n", name); return 0; }
static inline CUresult cuFuncSetAttribute(CUfunction f, int which, int value) { (void)f; printf("allow %d %d\n", which, value); return 0; }
static inline CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, unsigned rank, void *address, const cuuint64_t *dims,
        const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, int interleave, int swizzle, int l2, int fill) {
    memset(map, 0, sizeof *map); memcpy(map, &address, 8);
    printf("map %d %u", type, rank);
    for (unsigned i = 0; i < rank; i++) printf(" %llu %u %u", (unsigned long long)dims[i], box[i], steps[i]);
    for (unsigned i = 0; i + 1 < rank; i++) printf(" %llu", (unsigned long long)strides[i]);
    printf(" %d %d %d %d\n", interleave, swizzle, l2, fill);
    return 0; }
static inline CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **parameters, void **extra) {
    printf("launch %p %p %p %u %u %u %u %u %u %u", (void *)f, (void *)c->hStream, (void *)extra, c->gridDimX, c->gridDimY,
        c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes);
    for (unsigned i = 0; i < c->numAttrs; i++) printf(" %d %u %u %u", c->attrs[i].id, c->attrs[i].value.clusterDim.x,
        c->attrs[i].value.clusterDim.y, c->attrs[i].value.clusterDim.z);
    printf("\n");
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int b = 0; b < sizes[i]; b++) printf("%02x", ((unsigned char *)parameters[i])[b]);
        printf("\n"); }
    return 0; }
"""
MAPPED = Tile("M", 64, bf16, Layout.TMA_128B, tma_box=(8, 64))


def mixed(cluster: int = 2, extern: int = 0) -> Kernel:
    """Every kind of parameter; an argument whose name C does not allow; a tensor with map and pointer."""

    @kernel(
        in_specs=[MAPPED, Scalar(f32), Scalar(s32), Scalar(u16), Tile(3, f32)],
        out_specs=[MAPPED],
        grid=lambda M: (M // 8 * cluster, 3),
        block=(32, 2),
        cluster=cluster,
        smem=extern,
        extern_smem=bool(extern),
        arch="sm_90a",
    )
    def mixed(A: Any, alpha: Any, int: Any, short: Any, kernel: Any, D: Any, *, WAY: str = "up") -> None:
        tile = smem.alloc((8, 64), bf16, swizzle="128B") if not extern else smem.base()
        arrived = smem.alloc(8, align=8)
        ptx.cp.async_.bulk.tensor_2d(dst=tile, src=A.tma_desc(), coord=(0, 0), mbar=arrived)
        ptx.inst.st.global_.f32(ptx.addr(kernel.ptr), alpha)
        ptx.inst.st.global_.u32(ptx.addr(D.ptr), int)
        ptx.inst.st.global_.u16(ptx.addr(D.ptr), short)
        ptx.cp.async_.bulk.tensor_2d(dst=D.tma_desc(), src=tile, coord=(0, 0))

    return mixed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "exported"


def ran(files: Exported, sizes: tuple[int, ...], launch: str) -> list[str]:
    """Compile a program with the header and the stand-in for the driver, run it, and return what it printed."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = files.header.parent
    name = files.header.stem
    (folder / "cuda.h").write_text(CUDA_H.replace("SIZES", f"{{{', '.join(map(str, sizes))}}}"))
    (folder / "main.c").write_text(
        f'#include "{name}.h"\nint main(void) {{\n    {name}_kernel k;\n'
        f'    if ({name}_load(&k, "refused") != 301) return 1;\n    if ({name}_load(&k, "{name}.cubin")) return 2;\n'
        f"    if ({name}_launch(&k, (CUstream)0x33{launch})) return 3;\n    return {name}_unload(&k);\n}}\n"
    )
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", "main.c", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "main"], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.splitlines()


def test_c_launches_what_was_recorded(folder: Path, ptxas: Tool) -> None:
    k = mixed()
    files = k.export(folder, M=16)
    special = k.specialize(M=16)
    sizes = tuple(slot.param.nbytes for slot in special.slots)
    rows = ran(files, sizes, ", 0x1000, 1.5f, -2, 65535, 0x2000, 0x3000")
    recipe = TensorMap.tiled(0, box=(8, 64), swizzle="128B", shape=(16, 64), dtype=bf16).driver_arguments()
    described = f"map {recipe.data_type} 2 64 64 1 16 8 1 128 0 3 {recipe.l2_promotion} {recipe.oob_fill}"
    assert rows[:3] == ["entry mixed", described, described]
    assert rows[3] == "launch 0x22 0x33 (nil) 4 3 1 32 2 1 0 4 2 1 1"
    values = {
        ("map", 0): struct.pack("<Q", 0x1000).ljust(128, b"\0"),
        ("scalar", 1): struct.pack("<f", 1.5),
        ("scalar", 2): struct.pack("<i", -2),
        ("scalar", 3): struct.pack("<H", 65535),
        ("pointer", 4): struct.pack("<Q", 0x2000),
        ("map", 5): struct.pack("<Q", 0x3000).ljust(128, b"\0"),
        ("pointer", 5): struct.pack("<Q", 0x3000),
    }
    assert rows[4:-1] == [values[slot.kind, slot.index].hex() for slot in special.slots]
    assert len(rows) == 5 + len(values) and rows[-1] == "unload 0x11"


def test_c_gives_extents_and_attributes(folder: Path, ptxas: Tool) -> None:
    @kernel(
        in_specs=[Tile("M", "extent_2", f32)],
        grid=lambda M: M // 2,
        cluster=2,
        arch="sm_90a",
        cooperative=True,
        dependent=True,
        priority=-2,
        carveout=60,
        workspaces=(Workspace(lambda M: 4 * M, f32, zeroed=True),),
    )
    def options(extent_2: Any, attributes: Any) -> None:
        ptx.inst.st.global_.u32(ptx.addr(attributes.ptr), extent_2.extent(0) + extent_2.extent(1))

    files = options.export(folder, M=8, extent_2=9)
    rows = ran(files, (8, 8, 4, 4), ", 0x1000, 0x2000")
    assert rows[1].startswith("launch 0x22 0x33 (nil) 4 1 1 1 1 1 0")
    shown = [list(map(int, rows[1].split()[11 + 4 * n : 15 + 4 * n])) for n in range(5)]
    assert shown == [[4, 2, 1, 1], [2, 1, 0, 0], [6, 1, 0, 0], [8, 4294967294, 0, 0], [14, 60, 0, 0]]
    addresses = [struct.pack("<Q", address).hex() for address in (0x1000, 0x2000)]
    assert rows[2:6] == [*addresses, struct.pack("<I", 8).hex(), struct.pack("<I", 9).hex()]
    assert (
        "workspace, 0 before the first launch, which each launch leaves so, f32[8]"
        in files.header.read_text()
    )


@pytest.mark.full
def test_c_allows_what_a_launch_may_not_have_by_default(folder: Path, ptxas: Tool) -> None:
    k = mixed(cluster=16, extern=100 << 10)
    special = k.specialize(M=16)
    sizes = tuple(slot.param.nbytes for slot in special.slots)
    rows = ran(k.export(folder, M=16), sizes, ", 0, 0, 0, 0, 0, 0")
    assert rows[1:3] == [f"allow 8 {special.launch.dynamic_smem}", "allow 14 1"]
    assert special.launch.dynamic_smem > 100 << 10 and rows[5].endswith(" 4 16 1 1")


def test_manifest(folder: Path, ptxas: Tool) -> None:
    k = mixed()
    files = k.export(folder, name="up16", M=16, WAY="down")
    manifest = json.loads(files.manifest.read_text())
    assert [p.name for p in (files.cubin, files.ptx, files.manifest, files.header)] == [
        "up16.cubin", "up16.ptx", "up16.json", "up16.h",
    ]  # fmt: skip
    assert files.cubin.read_bytes() == k.assemble(lines=False, M=16, WAY="down").cubin
    assert files.ptx.read_text() == k.ptx(M=16, WAY="down")
    assert (manifest["name"], manifest["entry"], manifest["target"]) == ("up16", "mixed", "sm_90a")
    assert manifest["dims"] == {"M": 16} and manifest["constants"] == {"WAY": "down"}
    assert manifest["launch"]["grid"] == [4, 3, 1] and manifest["launch"]["cluster"] == [2, 1, 1]
    rows = [(p["name"], p["kind"], p["argument"], p["offset"], p["size"]) for p in manifest["parameters"]]
    assert rows == [
        ("A", "map", 0, 0, 128),
        ("alpha", "scalar", 1, 128, 4),
        ("int", "scalar", 2, 132, 4),
        ("short", "scalar", 3, 136, 2),
        ("kernel", "pointer", 4, 144, 8),
        ("D", "map", 5, 192, 128),
        ("D_ptr", "pointer", 5, 320, 8),
    ]
    assert manifest["arguments"][2] == {
        "name": "int",
        "type": "s32",
        "c_type": "int32_t",
        "description": "s32",
    }
    assert manifest["arguments"][4]["shape"] == [3]


def real_compiler() -> tuple[str, Path]:
    """gcc, and the folder of NVIDIA's cuda.h."""
    homes = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")), Path("/usr/local/cuda")]
    homes += Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*")
    include = next((home / "include" for home in homes if (home / "include/cuda.h").exists()), None)
    compiler = shutil.which("gcc")
    if include is None or compiler is None:
        pytest.skip("no cuda.h (python -m pip install nvidia-cuda-runtime), or no gcc")
    return compiler, include


def test_the_real_header_takes_it(folder: Path, ptxas: Tool) -> None:
    compiler, include = real_compiler()
    files = mixed().export(folder, M=16)
    (folder / "main.c").write_text(f'#include "{files.header.name}"\nint main(void) {{ return 0; }}\n')
    options = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    command = [compiler, *options, "-isystem", str(include), "main.c"]
    subprocess.run(command, cwd=folder, check=True)


def test_refusals(folder: Path) -> None:
    with pytest.raises(SpecError, match="name is 'a-b': expected a C identifier"):
        mixed().export(folder, name="a-b", M=16)
    with pytest.raises(SpecError, match="the dims M of A have no value"):
        mixed().export(folder)
    assert not folder.exists()


def test_names_and_types_of_c() -> None:
    assert c_names(["int", "a", "größe", "map_0", "stream", "int_"]) == [
        "int_", "a", "gr__e", "map_0_", "stream_", "int__",
    ]  # fmt: skip
    kinds = {
        "f32": "float",
        "f64": "double",
        "f16": "uint16_t",
        "bf16x2": "uint32_t",
        "s8": "int8_t",
        "b64": "uint64_t",
    }
    assert {name: c_type(TYPES[name]) for name in kinds} == kinds
    assert c_type(f64) == "double" and c_type(u32) == "uint32_t"


#: Copies 200 x 136 numbers of 16 bits with the exported kernel and compares them.
COPIES = r"""
#include <stdio.h>
#include <stdlib.h>
#include "tma_copy.h"
#define CHECK(call) do { CUresult got = call; if (got) { printf("%s: %d\n", #call, (int)got); return 1; } } while (0)
int main(void) {
    enum { BYTES = 200 * 136 * 2 };
    CUdevice device; CUcontext context; CUstream stream; CUdeviceptr a, b; tma_copy_kernel copy;
    unsigned char *in = malloc(BYTES), *out = calloc(BYTES, 1);
    CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device)); CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&a, BYTES)); CHECK(cuMemAlloc(&b, BYTES));
    for (int i = 0; i < BYTES; i++) in[i] = (unsigned char)(i * 7 + i / 251);
    CHECK(cuMemcpyHtoD(a, in, BYTES)); CHECK(cuMemsetD8(b, 0xee, BYTES));
    CHECK(tma_copy_load(&copy, "tma_copy.cubin"));
    CHECK(tma_copy_launch(&copy, stream, a, b));
    CHECK(cuStreamSynchronize(stream)); CHECK(cuMemcpyDtoH(out, b, BYTES));
    CHECK(tma_copy_unload(&copy));
    printf("%s\n", memcmp(in, out, BYTES) ? "different" : "equal");
    return 0;
}
"""


@pytest.mark.gpu
def test_c_launches_on_a_gpu(folder: Path, ptxas: Tool) -> None:
    compiler, include = real_compiler()
    load_example("hopper/tma_copy.py").tma_copy.export(folder, M=200, N=136)
    (folder / "main.c").write_text(COPIES)
    command = [compiler, "-std=c11", f"-I{include}", "main.c", "-o", "main", "-l:libcuda.so.1"]
    linked = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert linked.returncode == 0, linked.stderr
    done = subprocess.run([folder / "main"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stdout
