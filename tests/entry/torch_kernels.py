"""Kernels for the tests with torch: squared ReLU and its derivative, and a sum with a scalar, a dim and constants."""

from __future__ import annotations

from typing import Any

from pyptx import Kernel, Reg, Scalar, Tile, TileParam, f32, kernel, ptx, reg, s32, u32

BLOCK = 128


def axpy(shift: int = 0) -> Kernel:
    """z = x * alpha + y + n + shift; with TWICE, twice that; z has N elements, and x and y at least as many."""

    @kernel(
        in_specs=(Tile("K", f32), Tile("K", f32), Scalar(f32), Scalar(s32)),
        out_specs=(Tile("N", f32),),
        grid=lambda N: -(-N // 32),
        block=32,
        arch="sm_90a",
    )
    def axpy(x: TileParam, y: TileParam, alpha: Reg, n: Reg, z: TileParam, *, TWICE: bool = False) -> None:
        i = ptx.special.ctaid.x() * 32 + ptx.special.tid.x()
        with ptx.if_(i < z.shape[0]):
            more = reg.scalar(f32)
            ptx.inst.cvt.rn.f32.s32(more, n + shift)
            total = ptx.load(f32, x.at(i)) * alpha + ptx.load(f32, y.at(i)) + more
            if TWICE:
                total += total
            ptx.store(z.at(i), total)

    return axpy


@kernel(
    in_specs=(Tile("N", f32), Scalar(u32)),
    out_specs=(Tile("N", f32),),
    grid=lambda N: -(-N // BLOCK),
    block=BLOCK,
    arch="sm_90a",
)
def squared_relu(x: TileParam, count: Reg, y: TileParam) -> None:
    """y = max(x, 0) ** 2. The function reads no size: one recording serves all."""
    i = ptx.special.ctaid.x() * BLOCK + ptx.special.tid.x()
    with ptx.if_(i < count):
        value = ptx.max(ptx.load(f32, x.at(i)), 0.0)
        ptx.store(y.at(i), value * value)


@kernel(
    in_specs=(Tile("N", f32), Tile("N", f32), Scalar(u32)),
    out_specs=(Tile("N", f32),),
    grid=lambda N: -(-N // BLOCK),
    block=BLOCK,
    arch="sm_90a",
)
def squared_relu_gradient(x: TileParam, dy: TileParam, count: Reg, dx: TileParam) -> None:
    """dx = dy * 2 * max(x, 0)"""
    i = ptx.special.ctaid.x() * BLOCK + ptx.special.tid.x()
    with ptx.if_(i < count):
        value = ptx.max(ptx.load(f32, x.at(i)), 0.0)
        ptx.store(dx.at(i), ptx.load(f32, dy.at(i)) * (value + value))


def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, ctx.count = inputs
    ctx.save_for_backward(x)


def backward(ctx: Any, dy: Any) -> tuple[Any, None]:
    (x,) = ctx.saved_tensors
    return squared_relu_gradient(x, dy, ctx.count), None


activation = squared_relu.differentiable(backward, setup_context=keep)


def network(torch: Any, act: Any, device: str, width: int = 64) -> Any:
    """Two layers with an activation between them; ``act`` is a function of a tensor of one dimension."""

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, width), torch.nn.Linear(width, 16)

        def forward(self, x: Any) -> Any:
            h = self.first(x)
            return self.second(act(h.flatten()).view(h.shape))

    torch.manual_seed(7)
    return Network().to(device)


def ours(x: Any) -> Any:
    return activation(x, x.numel())


def theirs(x: Any) -> Any:
    return x.relu().square()
