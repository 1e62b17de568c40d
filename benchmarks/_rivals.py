"""Rivals compiled beforehand: the folder with their libraries, and FlashAttention-3.

``PYPTX_RIVALS`` names the folder; ``benchmarks/rivals/build.py`` fills it where no GPU is.  A library that is
not in it, and every library without the variable, is left out of the rows.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["address", "flash_attention", "flash_attention_backward", "launched", "library", "stream"]

VARIABLE = "PYPTX_RIVALS"


def library(name: str) -> ctypes.CDLL | None:
    """Return the library of that name without ``.so``, or None if the folder does not have it.

    Raises:
        FileNotFoundError: the variable names a folder that is not there.
    """
    if not (given := os.environ.get(VARIABLE)):
        return None
    folder = Path(given).resolve()
    if not folder.is_dir():
        raise FileNotFoundError(f"{VARIABLE} is {given!r}: there is no such folder")
    path = folder / f"{name}.so"
    return _loaded(path) if path.exists() else None


@cache
def _loaded(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


def address(array: Any) -> ctypes.c_void_p:
    """Return where a tensor's first element lies."""
    return ctypes.c_void_p(array.data_ptr())


def stream(torch: Any) -> ctypes.c_void_p:
    """Return torch's current stream."""
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def launched(name: str, code: int) -> None:
    """Raise an error if a library's function returned another code than 0."""
    if code:
        raise RuntimeError(f"{name} returned CUDA error {code}")


def _sms(torch: Any) -> int:
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def flash_attention(
    torch: Any, D: int, causal: bool, *, narrow: bool = False
) -> dict[str, Callable[..., Any]]:
    """Return FlashAttention-3's forward by its name, or nothing if it is absent.

    The function takes Q, K and V as bf16 ``[B, S, H, D]``, with ``narrow`` as e4m3, ignores further
    arguments, and returns O in bf16.  It does what the package's own call does: where causal, it clears the
    counter of its tiles before the kernel.
    """
    found = library(f"flash_attention_3_e4m3_hd{D}" if narrow else f"flash_attention_3_hd{D}")
    if found is None:
        return {}
    sms = _sms(torch)

    def run(q: Any, k: Any, v: Any, *_: Any) -> Any:
        (B, Sq, H, _), (Sk, Hk) = q.shape, k.shape[1:3]
        o = torch.empty(q.shape, device=q.device, dtype=torch.bfloat16)
        lse = torch.empty((B, H, Sq), device=q.device, dtype=torch.float32)
        counter = torch.empty(1, device=q.device, dtype=torch.int32)
        arrays = map(address, (q, k, v, o, lse, counter))
        code = found.fa3_forward(*arrays, B, Sq, Sk, H, Hk, int(causal), sms, stream(torch))
        launched("FlashAttention-3", code)
        return o

    return {"FlashAttention-3": run}


def flash_attention_backward(torch: Any, D: int, causal: bool) -> dict[str, Callable[..., Any]]:
    """Return FlashAttention-3's backward by its name, or nothing if it is absent.

    The function takes Q, K, V, O as bf16 ``[B, S, H, D]``, the log-sum-exp as f32 ``[B, H, S]``, and dO. It
    returns dQ, dK and dV; dQ is summed in any order.
    """
    found = library(f"flash_attention_3_backward_hd{D}")
    if found is None:
        return {}
    sms, rows = _sms(torch), found.fa3_rows(int(causal))

    def run(q: Any, k: Any, v: Any, o: Any, lse: Any, do: Any) -> Any:
        B, S, H, _ = q.shape
        blocks = -(-S // rows)
        gradients = [torch.empty_like(x) for x in (q, k, v)]
        shapes = (B, H, blocks * rows), (B, H, blocks * rows), (B, H, blocks * rows, D)
        scratch = [torch.empty(shape, device=q.device, dtype=torch.float32) for shape in shapes]
        scratch.append(torch.empty((blocks, B, H), device=q.device, dtype=torch.int32))
        arrays = map(address, (q, k, v, o, lse, do, *gradients, *scratch))
        code = found.fa3_backward(*arrays, B, S, H, int(causal), sms, stream(torch))
        launched("FlashAttention-3", code)
        return gradients

    return {"FlashAttention-3": run}
