"""One instruction of a whole warp in the simulator: registers from an array, registers to an array."""

from __future__ import annotations

import numpy as np

from pyptx import sim
from pyptx.ir import parse_module

__all__ = ["launch", "pack", "run_registers"]


def launch(body: str, *arrays: np.ndarray, target: str = "sm_90a", shared: int = 0) -> None:
    """Run ``body`` in one warp; ``%d0``, ``%d1`` ... are the addresses of ``arrays``, ``%r0`` the lane."""
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(arrays)))
    loads = "\n".join(f"ld.param.u64 %d{i}, [p{i}];" for i in range(len(arrays)))
    area = f".shared .align 128 .b8 area[{shared}];" if shared else ""
    text = (
        f".version 9.5\n.target {target}\n.address_size 64\n.visible .entry kernel({parameters})\n{{\n"
        f".reg .b32 %r<64>;\n.reg .b64 %d<64>;\n{area}\n{loads}\nmov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
    )
    report = sim.load(parse_module(text)).launch("kernel", grid=1, block=32, args=list(arrays), timeout=60.0)
    assert report.verdict == "clean", report


def run_registers(
    instruction: str, given: list[np.ndarray], results: int, *, bits: int = 32, target: str = "sm_90a"
) -> np.ndarray:
    """Registers ``[result, 32]`` of an instruction.

    Args:
        instruction: with ``{d}`` for the vector of results and ``{0}``, ``{1}`` ... for the operands.
        given: registers ``[register, 32]`` of each operand; one register alone is ``[32]``, and no vector.
        results: registers of the result.
        bits: width of all registers.
    """
    letter, body, names, number = ("d" if bits == 64 else "r"), [], [], 8
    rows = [np.atleast_2d(array) for array in given]
    source = np.concatenate(rows).T.astype(f"u{bits // 8}")
    target_array = np.zeros((32, results), f"u{bits // 8}")
    body.append(f"mad.wide.u32 %d2, %r0, {source.shape[1] * bits // 8}, %d0;")
    body.append(f"mad.wide.u32 %d3, %r0, {results * bits // 8}, %d1;")
    for array, own in zip(given, rows, strict=True):
        registers = [f"%{letter}{number + i}" for i in range(len(own))]
        for register in registers:
            body.append(f"ld.global.b{bits} {register}, [%d2+{(number - 8) * bits // 8}];")
            number += 1
        names.append(registers[0] if array.ndim == 1 else "{" + ", ".join(registers) + "}")
    d = [f"%{letter}{number + i}" for i in range(results)]
    text = instruction.replace("{d}", "{" + ", ".join(d) + "}")
    for i, name in enumerate(names):
        text = text.replace(f"{{{i}}}", name)
    body.append(text)
    body += [f"st.global.b{bits} [%d3+{i * bits // 8}], {register};" for i, register in enumerate(d)]
    launch("\n".join(body), np.ascontiguousarray(source), target_array, target=target)
    return target_array.T


def pack(codes: np.ndarray, width: int) -> np.ndarray:
    """Elements ``[element, lane]`` of up to 32 bits into registers ``[register, lane]``, the first in the low bits."""
    each = 32 // width
    parts = codes.astype(np.uint32).reshape(-1, each, codes.shape[1])
    return np.bitwise_or.reduce(
        parts << (np.arange(each, dtype=np.uint32)[:, None] * np.uint32(width)), axis=1
    )
