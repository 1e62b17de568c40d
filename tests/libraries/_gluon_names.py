"""Names of Gluon that triton 3.9 renamed or removed, for sources of a version before it."""

from __future__ import annotations

from types import ModuleType

from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import tma

__all__ = ["restore"]


def restore() -> None:
    """Give the functions of triton 3.9 their old names. What has no successor is an empty module, and fails if used."""
    renamed = (
        (tma, "async_copy_shared_to_global", "async_store"),
        (tma, "async_copy_global_to_shared", "async_load"),
        (tma, "async_copy_global_to_shared_im2col", "async_load_im2col"),
        (async_copy, "async_copy_global_to_shared", "async_load"),
    )
    for module, old, new in renamed:
        setattr(module, old, getattr(module, new))
    if not hasattr(blackwell, "float2"):
        blackwell.float2 = ModuleType("float2")
