"""Running one kernel in both places: the simulator and, where there is one, a GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pyptx import Kernel


def simulated(
    kernel: Kernel, inputs: list[Any], outputs: list[np.ndarray], **options: Any
) -> list[np.ndarray]:
    """Copies of ``outputs`` as the simulator fills them; any finding fails."""
    filled = [out.copy() for out in outputs]
    report = kernel.simulate(*inputs, out=filled[0] if len(filled) == 1 else tuple(filled), **options)
    assert report.verdict == "clean", str(report)
    return filled


def on_gpu(kernel: Kernel, inputs: list[Any], outputs: list[np.ndarray]) -> list[np.ndarray]:
    """Copies of ``outputs`` as the GPU fills them."""
    import torch

    def there(array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return array
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16).cuda()
        return torch.from_numpy(array).cuda()

    def back(tensor: Any, like: np.ndarray) -> np.ndarray:
        if like.dtype == ml_dtypes.bfloat16:
            return tensor.view(torch.uint16).cpu().numpy().view(like.dtype)
        return tensor.cpu().numpy()

    filled = [there(out.copy()) for out in outputs]
    kernel(*map(there, inputs), out=filled[0] if len(filled) == 1 else tuple(filled))
    torch.cuda.synchronize()
    return [back(tensor, like) for tensor, like in zip(filled, outputs, strict=True)]
