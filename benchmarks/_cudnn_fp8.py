"""cuDNN's attention on e4m3 through its frontend, ``nvidia-cudnn-frontend``, which torch does not call.

The fastest of the plans that cuDNN's heuristic proposes, chosen at the first call.  Without the package, and
for heads that cuDNN refuses, there is no such rival.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["Attention8", "cudnn_attention", "kernel_names"]

#: Factors and largest values: what the graph reads, and what it writes beside O.
GIVEN = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")
FOUND = ("amax_s", "amax_o")
#: Elements of a head: cuDNN 9.1x takes 256, too, but an H200's kernel then reads where no memory is.
MOST = 128


@cache
def _library() -> Any:
    """Return the frontend's module, or None where it is not installed."""
    import torch  # noqa: F401  loads the library

    try:
        import cudnn
    except ImportError:
        return None
    return cudnn


@cache
def _handle() -> Any:
    return _library().create_handle()


def cudnn_attention(torch: Any, D: int, causal: bool) -> dict[str, Callable[..., Any]]:
    """Return cuDNN's forward by its name, or nothing without the frontend and for heads that it fails for.

    The function takes Q, K and V as e4m3 ``[B, S, H, D]``, ignores further arguments, and returns O, which is
    e4m3, too: cuDNN before 9.13 has no other.
    """
    return {"cuDNN": Attention8(causal)} if D <= MOST and _library() is not None else {}


class Attention8:
    """Attention of e4m3 ``[B, S, H, D]`` with factors of one; a call returns O.

    Args:
        causal: whether query i sees the keys up to i.
    """

    def __init__(self, causal: bool) -> None:
        self.causal = causal
        self._plan: Any = None

    def __call__(self, q: Any, k: Any, v: Any, *_: Any) -> Any:
        import torch

        o = torch.empty(q.shape, device=q.device, dtype=q.dtype)
        if self._plan is None:
            self._plan = self._made(q, k, v, o)
        self._run(q, k, v, o, self._plan[-1])
        return o

    def plans(self) -> list[str]:
        """Return the names of the plans, the chosen one first; after a call."""
        graph, best = self._plan[0], self._plan[-1]
        count = graph.get_execution_plan_count()
        return [graph.get_plan_name_at_index(i) for i in (best, *(i for i in range(count) if i != best))]

    def _made(self, q: Any, k: Any, v: Any, o: Any) -> tuple[Any, ...]:
        """Return the graph, its tensors, the arrays of factors, the workspace, and the fastest plan."""
        import torch

        cudnn = _library()
        narrow, wide = cudnn.data_type.FP8_E4M3, cudnn.data_type.FLOAT
        graph = cudnn.pygraph(
            io_data_type=narrow, intermediate_data_type=wide, compute_data_type=wide, handle=_handle()
        )

        def places(array: Any) -> tuple[list[int], list[int]]:
            return [array.shape[i] for i in (0, 2, 1, 3)], [array.stride(i) for i in (0, 2, 1, 3)]

        ports = {}
        for name, array in (("q", q), ("k", k), ("v", v)):
            dim, stride = places(array)
            ports[name] = graph.tensor(name=name, dim=dim, stride=stride, data_type=narrow)
        single = [1, 1, 1, 1]
        for name in GIVEN:
            ports[name] = graph.tensor(name=name, dim=single, stride=single, data_type=wide)
        ports["o"], _, ports["amax_s"], ports["amax_o"] = graph.sdpa_fp8(
            **ports, is_inference=True, attn_scale=1 / math.sqrt(q.shape[-1]), use_causal_mask=self.causal
        )
        dim, stride = places(o)
        ports["o"].set_output(True).set_dim(dim).set_stride(stride).set_data_type(narrow)
        for name in FOUND:
            ports[name].set_output(True).set_dim(single).set_stride(single).set_data_type(wide)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A])
        graph.check_support()
        graph.build_plans(cudnn.build_plan_policy.ALL)
        factors = {name: torch.ones(1, device=q.device) for name in (*GIVEN, *FOUND)}
        self._plan = graph, ports, factors, None, None
        best = None
        for index in range(graph.get_execution_plan_count()):
            try:
                size = graph.get_workspace_size_plan_at_index(index)
                workspace = torch.empty(max(size, 1), device=q.device, dtype=torch.uint8)
                self._plan = graph, ports, factors, workspace, None
                times = [self._timed(q, k, v, o, index) for _ in range(6)]
            except (RuntimeError, cudnn.cudnnGraphNotSupportedError):  # a plan that was not built
                continue
            if best is None or min(times[1:]) < best[0]:
                best = min(times[1:]), workspace, index
        if best is None:
            raise RuntimeError("cuDNN has no plan for this attention")
        return graph, ports, factors, *best[1:]

    def _timed(self, q: Any, k: Any, v: Any, o: Any, index: int) -> float:
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self._run(q, k, v, o, index)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    def _run(self, q: Any, k: Any, v: Any, o: Any, index: int) -> None:
        import torch

        graph, ports, factors, workspace, _ = self._plan
        _library().set_stream(handle=_handle(), stream=torch.cuda.current_stream().cuda_stream)
        arrays = {"q": q, "k": k, "v": v, "o": o, **factors}
        given = {port.get_uid(): arrays[name].data_ptr() for name, port in ports.items()}
        graph.execute_plan_at_index(given, workspace.data_ptr(), index, handle=_handle())


def kernel_names(torch: Any, function: Callable[..., Any], *arguments: Any) -> list[str]:
    """Return the names of the kernels that a call launches, as the profiler sees them."""
    function(*arguments)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function(*arguments)
        torch.cuda.synchronize()
    return [event.name for event in profile.events() if event.device_type.name == "CUDA"]
