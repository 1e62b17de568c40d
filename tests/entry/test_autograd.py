"""Kernels that autograd differentiates."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx import Kernel, Reg, Scalar, SpecError, Tile, TileParam, UnsupportedError, f64, kernel, ptx
from tests.entry.torch_kernels import axpy

torch = pytest.importorskip("torch")


@kernel(
    in_specs=(Tile("N", f64), Scalar(f64)),
    out_specs=(Tile("N", f64), Tile("N", f64)),
    grid=1,
    block=lambda N: N,
    arch="sm_90a",
)
def square(x: TileParam, c: Reg, y: TileParam, z: TileParam, *, SCALE: float = 1.0) -> None:
    """y = c * x ** 2 * SCALE, z = 2 * x"""
    i = ptx.special.tid.x()
    a = ptx.load(f64, x.at(i))
    ptx.store(y.at(i), a * a * c * SCALE)
    ptx.store(z.at(i), a + a)


@kernel(
    in_specs=(Tile("N", f64), Tile("N", f64), Tile("N", f64), Scalar(f64)),
    out_specs=(Tile("N", f64),),
    grid=1,
    block=lambda N: N,
    arch="sm_90a",
)
def square_gradient(x: TileParam, dy: TileParam, dz: TileParam, c: Reg, dx: TileParam) -> None:
    i = ptx.special.tid.x()
    a, g, h = (ptx.load(f64, each.at(i)) for each in (x, dy, dz))
    product = a * g * c
    ptx.store(dx.at(i), product + product + h + h)


wanted: list[tuple[bool, ...]] = []


def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, ctx.c = inputs
    assert len(output) == 2
    ctx.save_for_backward(x)


def backward(ctx: Any, dy: Any, dz: Any) -> tuple[Any, None]:
    (x,) = ctx.saved_tensors
    wanted.append(ctx.needs_input_grad)
    return square_gradient(x, dy, dz, ctx.c * ctx.keywords.get("SCALE", 1.0)), None


smooth = square.differentiable(backward, setup_context=keep)


def numbers() -> Any:
    return torch.tensor([0.5, -1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)


@pytest.mark.full
def test_gradcheck() -> None:
    assert torch.autograd.gradcheck(lambda x: smooth(x, 3.0, SCALE=0.5), (numbers(),))


def test_gradients() -> None:
    x = numbers()
    y, z = smooth(x, 3.0)
    assert torch.equal(y, 3 * x * x) and torch.equal(z, 2 * x)
    # The gradient of a sum has one number for all places.
    (y.sum() + z.sum()).backward()
    assert torch.equal(x.grad, 6 * x + 2)
    assert wanted[-1] == (True, False)
    with torch.no_grad():
        assert not smooth(x, 3.0)[0].requires_grad
    assert not smooth(x.detach(), 3.0)[0].requires_grad
    assert smooth.kernel is square and isinstance(square, Kernel) and "square" in repr(smooth)


def test_a_second_derivative_is_refused_by_name() -> None:
    x = numbers()
    (first,) = torch.autograd.grad(smooth(x, 3.0)[0].sum(), x, create_graph=True)
    assert torch.equal(first, 6 * x)
    with pytest.raises(UnsupportedError, match="square has no second derivative"):
        first.sum().backward()


def test_mistakes() -> None:
    x = numbers()
    with pytest.raises(SpecError, match="x requires a gradient, but autograd cannot see") as error:
        square(x, 3.0)
    assert "k.differentiable(...)" in error.value.hint
    outputs = (torch.empty_like(x), torch.empty_like(x))
    with pytest.raises(
        SpecError, match="x requires a gradient, which a call with out= does not have"
    ) as error:
        smooth(x, 3.0, out=outputs)
    assert error.value.location is not None and error.value.location.file == __file__
    with torch.no_grad():
        assert smooth(x, 3.0, out=outputs) == outputs
    with pytest.raises(SpecError, match="square takes 2 inputs"):
        smooth(x)
    wrong = square.differentiable(lambda ctx, dy, dz: dy)
    with pytest.raises(
        SpecError, match="the backward of square returned 1 gradients: expected 2, for x, c"
    ) as error:
        wrong(x, 3.0)[0].sum().backward()
    assert error.value.location is not None and error.value.location.file == __file__
    with pytest.raises(SpecError, match="dtype f32, expected f64"):
        smooth(torch.ones(4, requires_grad=True), 3.0)


@pytest.mark.full
def test_transforms() -> None:
    x = numbers().detach()

    def loss(x: Any) -> Any:
        return smooth(x, 3.0)[0].sum()

    assert torch.equal(torch.func.grad(loss)(x), 6 * x)
    each = torch.func.vmap(torch.func.grad(loss))(x.reshape(2, 2))
    assert torch.equal(each.flatten(), 6 * x)


@pytest.mark.full
def test_forward_mode_is_refused_by_name() -> None:
    import torch.autograd.forward_ad as forward

    x = numbers().detach()
    for call in (lambda x: square(x, 3.0)[0], lambda x: smooth(x, 3.0)[0]):
        with pytest.raises(
            SpecError, match="tangent .forward-mode differentiation., which a kernel would lose"
        ):
            torch.func.jvp(call, (x,), (x,))
        with forward.dual_level():
            assert torch.equal(call(x), 3 * x * x)
            with pytest.raises(SpecError, match="has a tangent"):
                call(forward.make_dual(x, x))


def test_autocast_leaves_the_types_of_a_kernel_alone() -> None:
    x = numbers()
    with torch.autocast("cpu", torch.bfloat16):
        assert smooth(x, 3.0)[0].dtype is torch.float64
        with pytest.raises(SpecError, match="dtype bf16, expected f64"):
            smooth(torch.ones(4, 4, requires_grad=True) @ torch.ones(4), 3.0)
        y = torch.ones(32)
        assert axpy()(y, y, 1.0, 0, N=32).dtype is torch.float32


@pytest.mark.full
def test_compiled() -> None:
    x = numbers()
    losses: list[Any] = []

    def loss(x: Any, c: float) -> Any:
        y, z = smooth(x, c, SCALE=0.5)
        return (y * 4 + z).sum()

    for _ in range(2):
        run = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
        losses.append(torch.autograd.grad(run(x, 3.0), x)[0])
    assert torch.equal(losses[0], 12 * x + 2) and torch.equal(losses[1], losses[0])


@pytest.mark.full
def test_opcheck() -> None:
    done = torch.library.opcheck(smooth.operator(), (numbers(), 3.0))
    assert set(done.values()) == {"SUCCESS"}
    assert smooth.operator()._opname != square.operator()._opname


def test_writes_of_kernels_are_seen() -> None:
    """What autograd has saved of a tensor is not valid once a kernel has written the tensor."""
    k, weights = axpy(), torch.ones(64, requires_grad=True)
    y = weights * 1
    total = (y * y).sum()
    with torch.no_grad():
        x = torch.ones(64)
        k(x, x, 2.0, 3, out=y, N=64)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()
    with torch.inference_mode():
        k(x, x, 2.0, 3, out=torch.empty(64), N=64)
