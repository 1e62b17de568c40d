"""The C header of an exported kernel: a function that loads the cubin, and one that launches the kernel.

Owns the C text.  The header needs ``cuda.h`` and the driver's library alone, no Python and no CUDA runtime.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.types import ScalarType
from ..core.version import VERSION

__all__ = ["c_header", "c_type"]

#: Names that an argument cannot have: keywords of C and C++, and names that the functions here use.
_TAKEN = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr
const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or
or_eq private protected public register reinterpret_cast restrict return short signed sizeof static
static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename
union unsigned using virtual void volatile wchar_t while xor xor_eq
kernel stream path status parameters configuration attributes
"""
_KEYWORDS = frozenset(_TAKEN.split())
#: Bytes of dynamic shared memory that a launch may have without opt-in, and CTAs of a portable cluster.
_SHARED, _PORTABLE = 48 * 1024, 8


def c_type(type: ScalarType) -> str:
    """Return the C type of a run-time number. Types that C lacks, such as f16, are passed as their bits."""
    if type.lanes == 1 and type.name in ("f32", "f64"):
        return "float" if type.name == "f32" else "double"
    sign = "" if type.kind == "s" and type.lanes == 1 else "u"
    return f"{sign}int{8 * type.nbytes}_t"


def c_names(names: Sequence[str]) -> list[str]:
    """Return names for the arguments of the C function: the kernel's own, unless C has a meaning for them."""
    found: list[str] = []
    for name in names:
        plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
        while plain in _KEYWORDS or plain in found or re.fullmatch(r"(map|extent)_\d+", plain):
            plain += "_"
        found.append(plain)
    return found


def c_header(manifest: Mapping[str, Any]) -> str:
    """Return the text of the header for what a manifest of :mod:`~pyptx.entry.export` describes."""
    name, launch = manifest["name"], manifest["launch"]
    arguments = manifest["arguments"]
    names = c_names([argument["name"] for argument in arguments])
    guard = f"PYPTX_{name.upper()}_H"
    declared = ",\n    ".join(
        (
            f"const {name}_kernel *kernel, CUstream stream",
            *(f"{argument['c_type']} {c}" for argument, c in zip(arguments, names, strict=True)),
        )
    )
    extents = ", ".join(f"{what} {_extent(launch[what])}" for what in ("grid", "block", "cluster"))
    described = "\n".join(
        f" *   {c}: {argument['description']}" for argument, c in zip(arguments, names, strict=True)
    )
    return f"""\
/* {manifest["entry"]} for {manifest["target"]}, exported by pyptx {VERSION}. Link with the driver (-lcuda).
 *
 *   {name}_kernel kernel;
 *   CUresult status = {name}_load(&kernel, "{manifest["cubin"]}");
 *   if (status == CUDA_SUCCESS) status = {name}_launch(&kernel, stream{", ..." if names else ""});
 */
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cuda.h>

/* The kernel in one context. */
typedef struct {name}_kernel {{
    CUmodule module;
    CUfunction function;
}} {name}_kernel;

/* Load the file {manifest["cubin"]} in the current context. */
static inline CUresult {name}_load({name}_kernel *kernel, const char *path) {{
    CUresult status = cuModuleLoad(&kernel->module, path);
    if (status != CUDA_SUCCESS) return status;
    status = cuModuleGetFunction(&kernel->function, kernel->module, "{manifest["entry"]}");
{_permissions(launch)}    if (status != CUDA_SUCCESS) cuModuleUnload(kernel->module);
    return status;
}}

/* Unload the kernel; no launch and no graph may use it any more. */
static inline CUresult {name}_unload({name}_kernel *kernel) {{
    return cuModuleUnload(kernel->module);
}}

/* Enqueue one launch: {extents}.
{described}
 */
static inline CUresult {name}_launch({declared}) {{
    CUlaunchConfig configuration;
{_maps(manifest, names)}{_configuration(launch)}{_parameters(manifest, names)}}}

#endif
"""


def _extent(extent: Sequence[int]) -> str:
    return " x ".join(map(str, extent))


def _permissions(launch: Mapping[str, Any]) -> str:
    """Return the statements that allow what a launch may not have by default."""
    wanted = []
    if launch["dynamic_shared"] > _SHARED:
        wanted.append(("MAX_DYNAMIC_SHARED_SIZE_BYTES", launch["dynamic_shared"]))
    if math.prod(launch["cluster"]) > _PORTABLE:
        wanted.append(("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1))
    return "".join(
        f"    if (status == CUDA_SUCCESS)\n"
        f"        status = cuFuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_{name}, {value});\n"
        for name, value in wanted
    )


def _maps(manifest: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the statements that encode the tensor maps."""
    text = ""
    for number, parameter in enumerate(manifest["parameters"]):
        if parameter["kind"] != "map":
            continue
        recipe = parameter["map"]
        arrays = "".join(
            f"        const {kind} {field}[] = {{{', '.join(map(str, recipe[field]))}}};\n"
            for kind, field in (
                ("cuuint64_t", "dims"),
                ("cuuint64_t", "strides"),
                ("cuuint32_t", "box"),
                ("cuuint32_t", "element_strides"),
            )
        )
        enums = ",\n            ".join(
            f"(CUtensorMap{kind}){recipe[field]}"
            for kind, field in (
                ("Interleave", "interleave"),
                ("Swizzle", "swizzle"),
                ("L2promotion", "l2_promotion"),
                ("FloatOOBfill", "oob_fill"),
            )
        )
        address = f"(void *)(uintptr_t){names[parameter['argument']]}"
        text += f"""\
    CUtensorMap map_{number};
    {{
{arrays}        CUresult status = cuTensorMapEncodeTiled(
            &map_{number}, (CUtensorMapDataType){recipe["data_type"]}, {recipe["rank"]}, {address},
            dims, strides, box, element_strides, {enums});
        if (status != CUDA_SUCCESS) return status;
    }}
"""
    return text


def _configuration(launch: Mapping[str, Any]) -> str:
    """Return the statements that fill the launch configuration."""
    text = "    memset(&configuration, 0, sizeof configuration);\n"
    for field in ("grid", "block"):
        for axis, value in zip("XYZ", launch[field], strict=True):
            text += f"    configuration.{field}Dim{axis} = {value};\n"
    text += f"    configuration.sharedMemBytes = {launch['dynamic_shared']};\n"
    text += "    configuration.hStream = stream;\n"
    attributes = _attributes(launch)
    if attributes:
        text += (
            f"    CUlaunchAttribute attributes[{len(attributes)}];\n"
            "    memset(attributes, 0, sizeof attributes);\n"
        )
    for number, (name, fields) in enumerate(attributes):
        text += f"    attributes[{number}].id = CU_LAUNCH_ATTRIBUTE_{name};\n"
        for field, value in fields.items():
            text += f"    attributes[{number}].value.{field} = {value};\n"
    if attributes:
        text += f"    configuration.attrs = attributes;\n    configuration.numAttrs = {len(attributes)};\n"
    return text


def _attributes(launch: Mapping[str, Any]) -> list[tuple[str, dict[str, int]]]:
    """Return the attributes of a launch: names, and the fields of their values."""
    found: list[tuple[str, dict[str, int]]] = []
    if math.prod(launch["cluster"]) > 1:
        fields = zip("xyz", launch["cluster"], strict=True)
        found.append(("CLUSTER_DIMENSION", {f"clusterDim.{axis}": value for axis, value in fields}))
    if launch["cooperative"]:
        found.append(("COOPERATIVE", {"cooperative": 1}))
    if launch["dependent"]:
        field = "programmaticStreamSerializationAllowed"
        found.append(("PROGRAMMATIC_STREAM_SERIALIZATION", {field: 1}))
    if launch["priority"] is not None:
        found.append(("PRIORITY", {"priority": launch["priority"]}))
    if launch["carveout"] is not None:
        found.append(("PREFERRED_SHARED_MEMORY_CARVEOUT", {"sharedMemCarveout": launch["carveout"]}))
    return found


def _parameters(manifest: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the statements that collect the parameters and launch."""
    places, text = [], ""
    for number, parameter in enumerate(manifest["parameters"]):
        if parameter["kind"] == "map":
            places.append(f"&map_{number}")
        elif parameter["kind"] == "extent":
            text += f"    uint32_t extent_{number} = {parameter['value']};\n"
            places.append(f"&extent_{number}")
        else:
            places.append(f"(void *)&{names[parameter['argument']]}")
    return (
        f"{text}    void *parameters[] = {{{', '.join(places) or 'NULL'}}};\n"
        "    return cuLaunchKernelEx(&configuration, kernel->function, parameters, NULL);\n"
    )
