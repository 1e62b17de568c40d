"""Designs of kernels on a stream of rows that the tests of the examples run, and their run on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyptx import bf16

#: Designs of the same kernel; 1024 columns fit all of them.
DESIGNS: dict[str, dict[str, Any]] = {
    "teams of warps": {"threads": 32, "teams": 4},
    "lanes of a warp": {"threads": 8, "held": 32},
    "vectors late": {"threads": 128, "keep": False, "resident": 4},
    "persistent": {"threads": 64, "ctas": 2},
    "ahead": {"threads": 64, "teams": 2, "ctas": 2, "ahead": True, "resident": 1},
    "ring": {"threads": 64, "teams": 2, "ctas": 2, "design": "ring", "stages": 3},
    "ring, not held": {"threads": 32, "ctas": 2, "design": "ring", "stages": 2, "held": 1},
    "ring, bulk stores": {"threads": 96, "ctas": 2, "design": "ring", "stages": 2, "store": "bulk"},
    "ring, rows into L2": {"threads": 64, "ctas": 2, "design": "ring", "stages": 2, "prefetch": 2},
    "one stage": {"threads": 64, "teams": 2, "design": "ring", "stages": 1, "store": "bulk"},
    "cluster": {"threads": 32, "cluster": 4, "ctas": 1},
    "cluster, ring": {"threads": 32, "cluster": 2, "ctas": 2, "design": "ring", "store": "bulk"},
    "hints": {"load_hint": "evict_first", "store_hint": "evict_first"},
}

#: Designs of first passes of gradients of weights, for 512 columns.
BACKWARDS: dict[str, dict[str, Any]] = {
    "registers": {"threads": 64, "ctas": 3},
    "teams": {"threads": 32, "teams": 2, "ctas": 2},
    "ring": {"threads": 64, "ctas": 2, "design": "ring", "stages": 2, "store": "bulk"},
    "not held": {"threads": 64, "ctas": 2, "held": 1},
    "cluster": {"threads": 32, "cluster": 2, "ctas": 2},
    "pool": {"threads": 64, "ctas": 4, "pool": 2},
    "pool, ring": {"threads": 32, "ctas": 4, "pool": 4, "design": "ring", "stages": 2, "store": "bulk"},
}

#: Sizes of the runs on a GPU: small and odd ones, and those that are timed.
GPU_SHAPES = ((1, 8), (3, 1031), (131, 4096), (2048, 8192))


def on_gpu(torch: Any, kernel: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """Run a kernel on the GPU with numpy arrays, and return its outputs as such."""

    def there(array: np.ndarray) -> Any:
        if array.dtype == bf16.dtype:
            return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16).cuda()
        return torch.from_numpy(array).cuda()

    def here(tensor: Any) -> np.ndarray:
        if tensor.dtype is torch.bfloat16:
            return tensor.view(torch.uint16).cpu().numpy().view(bf16.dtype)  # type: ignore[no-any-return]
        if tensor.element_size() == 1:
            return tensor.view(torch.uint8).cpu().numpy()  # type: ignore[no-any-return]
        return tensor.cpu().numpy()  # type: ignore[no-any-return]

    outputs = kernel(*(there(array) for array in arrays))
    return [here(each) for each in (outputs if isinstance(outputs, (tuple, list)) else (outputs,))]
