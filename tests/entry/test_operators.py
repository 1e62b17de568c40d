"""Kernels under torch.compile, export, transforms, and with tensors that have no memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from pyptx import SpecError, Tile, TileParam, UnsupportedError, f32, kernel, ptx, u32
from tests.entry.torch_kernels import activation, axpy, squared_relu

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.full

N = 64


def numbers(start: int = 0, count: int = N) -> Any:
    return torch.arange(start, start + count, dtype=torch.float32)


@kernel(in_specs=(Tile("N", f32),), grid=lambda N: N // 32, block=32, arch="sm_90a")
def double(x: TileParam) -> None:
    """x *= 2: the kernel has no outputs."""
    i = ptx.special.ctaid.x() * 32 + ptx.special.tid.x()
    value = ptx.load(f32, x.at(i))
    ptx.store(x.at(i), value + value)


@kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32), Tile(2, u32)), grid=1, block=32, arch="sm_90a")
def two(x: TileParam, y: TileParam, z: TileParam) -> None:
    i = ptx.special.tid.x()
    value = ptx.load(f32, x.at(i))
    ptx.store(y.at(i), value + value)
    with ptx.if_(i < 2):
        ptx.store(z.at(i), i)


def graphs(function: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Compile a function without graph breaks; return it, and the graphs that appear."""
    seen: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        seen.append(module)
        return module.forward

    return torch.compile(function, backend=backend, fullgraph=True, **options), seen


# --- names --------------------------------------------------------------------------------------------------


def test_the_name_has_the_content() -> None:
    name = axpy().operator()._opname
    assert name.startswith("axpy_")
    assert axpy().operator()._opname == name + "_2"  # another kernel object of the same content
    others = {axpy(1).operator()._opname, axpy().operator(TWICE=True)._opname, axpy().operator("N")._opname}
    others |= {axpy().operator(out=True)._opname, axpy().operator(TWICE=1)._opname}
    assert len(others) == 5 and not any(other.startswith(name) for other in others)
    k = axpy()
    assert k.operator() is k.operator() is not k.operator(TWICE=False)


def test_the_schema_says_what_is_written() -> None:
    assert str(axpy().operator("N")._schema).endswith(
        "(Tensor x, Tensor y, float alpha, SymInt n, SymInt dim_N) -> Tensor"
    )
    assert str(axpy().operator(out=True)._schema).endswith(
        "(Tensor x, Tensor y, float alpha, SymInt n, Tensor(a4!) z) -> ()"
    )
    assert str(double.operator()._schema).endswith("(Tensor(a0!) x) -> ()")
    assert str(two.operator()._schema).endswith("(Tensor x) -> (Tensor, Tensor)")
    with pytest.raises(SpecError, match="no constant or dim 'M'"):
        axpy().operator("M")
    with pytest.raises(SpecError, match="constants must be hashable"):
        axpy().operator(TWICE=[])


def test_an_input_that_the_kernel_writes_is_an_error() -> None:
    @kernel(in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), grid=1, block=32, arch="sm_90a")
    def careless(x: TileParam, y: TileParam) -> None:
        i = ptx.special.tid.x()
        value = ptx.load(f32, x.at(i))
        ptx.store(y.at(i), value)
        ptx.store(x.at(i), value + value)

    with pytest.raises(
        SpecError, match="careless writes its input x, which its operator in torch does not say"
    ) as e:
        careless.operator()(numbers(0, 32))
    assert "out_specs" in e.value.hint
    assert e.value.location is not None and e.value.location.file == __file__


def test_autograd_notices_what_an_operator_writes() -> None:
    x = numbers().requires_grad_()
    z = torch.zeros(N)
    product = x * z  # its gradient needs z
    before = z._version
    axpy().operator(out=True)(z, z, 1.0, 5, z)
    double.operator()(z)
    assert z._version > before + 1 and torch.equal(z, torch.full((N,), 10.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


# --- tensors without memory -----------------------------------------------------------------------------------


def test_meta_and_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = numbers().to("meta")
    z = axpy()(x, x, 2.0, 3, N=17)
    assert z.device.type == "meta" and z.shape == (17,) and z.dtype is torch.float32
    assert [each.shape for each in two(x[:32])] == [(32,), (2,)]
    with FakeTensorMode() as mode:
        y = mode.from_tensor(numbers())
        assert type(axpy()(y, y, 2.0, 3, N=5)) is type(y)
        assert axpy()(y, y, 2.0, 3, out=y) is y
        with pytest.raises(
            SpecError, match="K is 64 by dimension 0 of x and 32 by dimension 0 of y"
        ) as error:
            axpy()(y, y[:32], 2.0, 3, N=5)
        assert error.value.location is not None and error.value.location.file == __file__
        with pytest.raises(SpecError, match="dtype f64"):
            axpy()(y.double(), y, 2.0, 3, N=5)
        with pytest.raises(SpecError, match="x is not contiguous"):
            axpy()(y[::2], y[::2], 2.0, 3, N=5)
        with pytest.raises(SpecError, match="the dims N of an output have no value"):
            axpy()(y, y, 2.0, 3)
    with pytest.raises(SpecError, match="different devices: x on meta:0, y on cpu:0"):
        axpy()(x, numbers(), 2.0, 3, N=5)


def test_under_functionalize_and_under_jit_trace() -> None:
    def call(x: Any) -> Any:
        return axpy()(x, x, 2.0, 3, N=N) + 1

    assert torch.equal(torch.func.functionalize(call)(numbers()), call(numbers()))
    with pytest.raises(UnsupportedError, match="torch.jit.trace cannot record a pyptx kernel"):
        torch.jit.trace(call, (numbers(),))


def test_types_without_a_name() -> None:
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no such type")
    pairs = torch.zeros(N, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    for value in (pairs, pairs.to("meta")):
        with pytest.raises(
            SpecError, match="no PTX type corresponds to the dtype torch.float4_e2m1fn_x2"
        ) as error:
            axpy()(value, value, 2.0, 3, N=N)
        assert "tensor.view(torch.uint8)" in error.value.hint


def test_vmap_launches_for_each_element() -> None:
    x = torch.stack([numbers(), numbers(9)])
    found = torch.vmap(lambda a, b: axpy()(a, b, 2.0, 3, N=N), (0, None))(x, x[0])
    assert torch.equal(found, x * 2 + x[0] + 3)
    columns = torch.vmap(lambda a: two(a)[0], in_dims=1, out_dims=1)(x[:, :32].t().contiguous())
    assert torch.equal(columns, 2 * x[:, :32].t())
    with pytest.raises(
        UnsupportedError, match="writes tensors of the caller, which torch.vmap does not allow"
    ):
        torch.vmap(double)(x)


def test_tensors_that_no_kernel_takes() -> None:
    k, x = axpy(), numbers()
    wrong = {
        "nested tensor": torch.nested.nested_tensor([x, x]),
        "quantized one of torch.qint8": torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "layout torch.sparse_coo": x.to_sparse(),
        "lazily negated view": torch._neg_view(x),
    }
    for said, value in wrong.items():
        with pytest.raises(SpecError, match=said):
            k(value, x, 2.0, 3, N=N)


def test_a_dtensor_is_refused_by_name(tmp_path: Path) -> None:
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        x = DTensor.from_local(numbers(), init_device_mesh("cpu", (1,)), [Replicate()])
        with pytest.raises(SpecError, match="got a DTensor") as error:
            axpy()(x, x, 2.0, 3, N=N)
        assert "to_local()" in error.value.hint
        assert torch.equal(axpy()(x.to_local(), x.to_local(), 2.0, 3, N=N), 3 * numbers() + 3)
    finally:
        dist.destroy_process_group()


def test_a_subclass_decides_for_itself() -> None:
    seen: list[str] = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            with torch._C._DisableTorchDispatch():
                return function(*args, **(kwargs or {}))

    k, x = axpy(), numbers()
    assert torch.equal(k(torch.Tensor._make_subclass(Watched, x), x, 2.0, 3, N=N), 3 * x + 3)
    assert any("pyptx.axpy_" in each for each in seen)


# --- torch.compile and export -----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [False, True])
def test_opcheck(given: bool) -> None:
    x = numbers()
    outputs = (torch.empty(N),) if given else ()
    done = torch.library.opcheck(axpy().operator("N", out=given), (x, x, 2.0, 3, *outputs, N))
    assert set(done.values()) == {"SUCCESS"}
    if given:
        assert set(torch.library.opcheck(double.operator(), (x.clone(),)).values()) == {"SUCCESS"}


def test_one_graph_for_all_sizes() -> None:
    k = axpy()

    def function(x: Any, y: Any) -> Any:
        return k(x + 1, y, 0.5, x.shape[0], N=x.shape[0], TWICE=True) * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run, seen = graphs(function, dynamic=True)
        for count in (64, 96, 33):
            x, y = numbers(1, count), numbers(5, count)
            assert torch.equal(run(x, y), ((x + 1) * 0.5 + y + count) * 4)
    assert len(seen) == 1


def test_what_the_compiled_code_depends_on() -> None:
    kernels = [axpy(0), axpy(0)]
    chosen = {"kernel": kernels[0], "TWICE": False}

    def function(x: Any, alpha: float) -> Any:
        return chosen["kernel"](x, x, alpha, 0, N=N, TWICE=chosen["TWICE"])

    run, seen = graphs(function)
    x = numbers()
    assert torch.equal(run(x, 1.0), 2 * x)
    chosen["TWICE"] = True
    assert torch.equal(run(x, 1.0), 4 * x)
    chosen["kernel"] = axpy(7)
    assert torch.equal(run(x, 1.0), 4 * x + 14)
    chosen["kernel"] = kernels[1]
    assert torch.equal(run(x, 1.0), 4 * x)
    assert torch.equal(run(x, 3.0), 8 * x)
    calls = len(seen)
    assert torch.equal(run(x, 3.0), 8 * x) and len(seen) == calls


def test_outputs_of_the_caller_and_no_outputs() -> None:
    k = axpy()

    def function(x: Any) -> Any:
        z = torch.zeros_like(x)
        assert k(x, x, 1.0, 0, out=z) is z
        double(z)
        y, few = two(z[:32])
        return z, y, few

    x = numbers()
    z, y, few = torch.compile(function, fullgraph=True, backend="aot_eager")(x)
    assert torch.equal(z, 4 * x) and torch.equal(y, 8 * x[:32]) and few.tolist() == [0, 1]


def test_wherever_the_kernel_stands() -> None:
    """As the compiled function, in a module's attributes, lists and dicts, under checkpoint and in torch.cond."""
    from torch.utils.checkpoint import checkpoint

    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.several, self.named = squared_relu, [axpy(), axpy(1)], {"last": activation}

        def forward(self, x: Any) -> Any:
            y = self.first(x, x.numel())
            for each in self.several:
                y = each(y, y, 1.0, 0, N=y.shape[0])
            return checkpoint(lambda y: self.named["last"](y, y.numel()), y, use_reentrant=False)

    options = {"fullgraph": True, "backend": "aot_eager"}
    x = numbers(-16, 32)
    module = Module()
    assert torch.equal(torch.compile(module, **options)(x), module(x))
    assert torch.equal(torch.compile(squared_relu, **options)(x, 32), x.relu().square())

    def either(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: squared_relu(x, 32), lambda x: x + 1, (x,))

    for given in (x, -x + 1):
        assert torch.equal(torch.compile(either, **options)(given), either(given))
    y = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(torch.compile(activation, **options)(y, 32).sum(), y)
    assert torch.equal(gradient, 2 * x.relu())


def test_export() -> None:
    k = axpy()

    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return k(x * 2, x, 2.0, 3, N=x.shape[0])

    dynamic = ({0: torch.export.Dim("count", min=2, max=4096)},)
    for strict in (True, False):
        program = torch.export.export(Module(), (numbers(),), dynamic_shapes=dynamic, strict=strict)
        x = numbers(3, 96)
        assert torch.equal(program.module()(x), x * 5 + 3)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    k, x = axpy(), numbers()
    k(x, x, 2.0, 3, N=N)  # a launch that is ready changes nothing
    traced = make_fx(lambda a: k(a, a, 2.0, 3, N=N), tracing_mode=mode)(x)
    assert any("axpy_" in str(node.target) for node in traced.graph.nodes)
    assert torch.equal(traced(numbers(9)), 3 * numbers(9) + 3)


def test_what_cannot_be_compiled_says_why() -> None:
    # Before torch 2.7 a graph break names the function and not the reason.
    k, x = axpy(), numbers()
    with pytest.raises(Exception, match=r"x has dtype f64, expected f32(.|\n)*test_operators"):
        graphs(lambda: k(x.double(), x, 2.0, 3, N=N))[0]()
    with pytest.raises(Exception, match="requires a gradient, which the call would lose|_with_gradient"):
        graphs(lambda a: k(a, x, 2.0, 3, N=N))[0](x.clone().requires_grad_())
    with pytest.raises(Exception, match="stream= of a pyptx kernel cannot be compiled|_on_stream"):
        graphs(lambda: k(x, x, 2.0, 3, N=N, stream=1))[0]()
    with pytest.raises(Exception, match="no constant or dim 'WRONG'"):
        graphs(lambda: k(x, x, 2.0, 3, N=N, WRONG=1))[0]()
    with pytest.raises(Exception, match="takes 4 inputs .*got 2"):
        graphs(lambda: k(x, x, N=N))[0]()


# --- on a GPU ---------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"mode": "reduce-overhead"}], ids=str)
def test_compiled_on_a_gpu(options: dict[str, Any]) -> None:
    k = axpy()

    def function(x: Any, y: Any) -> Any:
        z = torch.empty_like(x)
        k(x + 1, y, 0.5, 3, out=z)
        return k(z, y, 1.0, 0, N=x.shape[0], TWICE=True) * 2

    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*Dynamo.*")
        run = torch.compile(function, fullgraph=True, **options)
        for round in range(6):
            count = (64, 4096)[round % 2]
            x, y = numbers(round, count).cuda(), numbers(5, count).cuda()
            assert torch.equal(run(x, y).clone(), (((x + 1) * 0.5 + y + 3) + y) * 4)
    torch._dynamo.reset()


@pytest.mark.gpu
@pytest.mark.parametrize("given", [False, True])
def test_opcheck_on_a_gpu(given: bool) -> None:
    x = numbers().cuda()
    outputs = (torch.empty_like(x),) if given else ()
    k = axpy()
    k(x, x, 2.0, 3, N=N)
    done = torch.library.opcheck(k.operator("N", out=given), (x, x, 2.0, 3, *outputs, N))
    assert set(done.values()) == {"SUCCESS"}


def test_a_write_is_counted_once_and_not_in_inference_mode() -> None:
    k, x, out = axpy(), torch.ones(N), torch.zeros(N)
    operator = k.operator("N", out=True)
    before = out._version
    operator(x, x, 2.0, 3, out, N)
    assert out._version == before + 1 and (out == 6).all()
    with torch.inference_mode():
        hidden = torch.zeros(N)
        operator(x, x, 2.0, 3, hidden, N)
    assert (hidden == 6).all()
