"""Calls of one signature on a GPU: the fast path launches what the full checks would, and refuses what they refuse."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pyptx.core.errors import PyptxError, SpecError
from pyptx.core.types import f32, s32, u64
from pyptx.dsl import Reg, Scalar, Tile, TileParam, ptx, reg
from pyptx.entry import Kernel, kernel
from pyptx.runtime import quick
from tests.examples.loading import load_example

pytestmark = pytest.mark.gpu

N, BLOCK = 256, 64


def axpy(shift: int = 0) -> Kernel:
    """z = x * alpha + y + n + shift; with TWICE, twice that."""

    @kernel(
        in_specs=(Tile("N", f32), Tile("N", f32), Scalar(f32), Scalar(s32)),
        out_specs=(Tile("N", f32),),
        grid=lambda N: N // BLOCK,
        block=BLOCK,
        arch="sm_90a",
    )
    def axpy(x: TileParam, y: TileParam, alpha: Reg, n: Reg, z: TileParam, *, TWICE: bool = False) -> None:
        i = ptx.special.ctaid.x() * BLOCK + ptx.special.tid.x()
        offset = reg.scalar(u64)
        ptx.inst.mul.wide.u32(offset, i, 4)
        a, b, more = reg.scalar(f32), reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, ptx.addr(x.ptr + offset))
        ptx.inst.ld.global_.f32(b, ptx.addr(y.ptr + offset))
        ptx.inst.cvt.rn.f32.s32(more, n + shift)
        total = a * alpha + b + more
        if TWICE:
            total += total
        ptx.inst.st.global_.f32(ptx.addr(z.ptr + offset), total)

    return axpy


@pytest.fixture(autouse=True, params=["compiled", "pure"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both launch paths must give the same."""
    monkeypatch.setenv(quick.PURE, "1" if request.param == "pure" else "0")
    if request.param == "compiled" and quick.native() is None:
        pytest.skip("pyptx.runtime._quick is not built here (docs/install.md)")
    return str(request.param)


def numbers(torch: Any, start: int, count: int = N, **options: Any) -> Any:
    return torch.arange(start, start + count, dtype=torch.float32, device="cuda", **options)


def ready(k: Kernel) -> int:
    """The number of signatures that the kernel keeps ready."""
    return len(k._signatures._ready)


def test_other_arrays_numbers_and_constants(torch: Any) -> None:
    k = axpy()
    for start in range(4):
        x, y, z = numbers(torch, start), numbers(torch, 7 * start), numbers(torch, 0)
        for twice in (False, True):
            for alpha, n in ((2.0, 3), (0.5, -start)):
                factor = 2 if twice else 1
                expected = (x * alpha + y + n) * factor
                constants = {"TWICE": True} if twice else {}
                assert torch.equal(k(x, y, alpha, n, **constants), expected)
                assert k(x, y, alpha, n, out=z, **constants) is z
                assert torch.equal(z, expected)
    assert ready(k) == 4
    # 1 equals True, and is another constant: it has a specialization of its own.
    assert torch.equal(k(x, y, 1.0, 0, TWICE=1), (x + y) * 2)
    assert ready(k) == 5


def test_other_lengths(torch: Any) -> None:
    k = axpy()
    for count in (64, 128, 64, 192, 128):
        x = numbers(torch, 1, count)
        assert torch.equal(k(x, x, 1.0, 0), 2 * x)
    assert k.recorded == 1


@pytest.mark.parametrize("given", [False, True])
def test_what_the_checks_refuse_is_refused_on_every_call(torch: Any, given: bool) -> None:
    k = axpy()
    x, z = numbers(torch, 0), numbers(torch, 0)
    out = z if given else None
    k(x, x, 1.0, 0, out=out)
    wide = numbers(torch, 0, 2 * N)
    wrong = [
        (x.double(), x, 1.0, 0),
        (x.to(torch.int32), x, 1.0, 0),
        (wide[::2], x, 1.0, 0),
        (wide[1 : N + 1], x, 1.0, 0),
        (x.reshape(1, N), x, 1.0, 0),
        (wide, x, 1.0, 0),
        (x.cpu(), x, 1.0, 0),
        (x.cpu().numpy(), x, 1.0, 0),
        (x, torch._neg_view(x), 1.0, 0),
        (x.clone().requires_grad_(), x, 1.0, 0),
        (x, torch.nn.Parameter(x.clone()), 1.0, 0),
        (x, x, "1.0", 0),
        (x, x, 1.0, 1.5),
        (x, x, 1.0, 1 << 31),
        (x, x, 1.0),
        (x, x, 1.0, 0, z),
        (x, x, 1.0, 0, z, z),
        (x.to_sparse(), x, 1.0, 0),
    ]
    for arguments in wrong:
        with pytest.raises(PyptxError) as first:
            axpy()(*arguments, out=out)
        with pytest.raises(PyptxError) as again:
            k(*arguments, out=out)
        assert type(again.value) is type(first.value)
        assert again.value.message == first.value.message
    freed = numbers(torch, 0)
    freed.untyped_storage().resize_(0)
    with pytest.raises(SpecError, match="no memory"):
        k(freed, x, 1.0, 0, out=out)
    with torch.no_grad():
        assert torch.equal(k(x.clone().requires_grad_(), x, 1.0, 0, out=out), 2 * x)
    assert torch.equal(k(x, x, 1, 0, out=out), 2 * x)


def test_a_kernel_of_the_same_name_is_another_kernel(torch: Any) -> None:
    x = numbers(torch, 0)
    assert torch.equal(axpy(1)(x, x, 1.0, 0), 2 * x + 1)
    assert torch.equal(axpy(2)(x, x, 1.0, 0), 2 * x + 2)


def test_outputs_as_list_and_tuple(torch: Any) -> None:
    k, x, z = axpy(), numbers(torch, 0), numbers(torch, 0)
    for out in ([z], (z,), z):
        assert k(x, x, 1.0, 0, out=out) is z
        assert k(x, x, 1.0, 0, out=out) is z


def test_each_call_uses_the_stream_of_its_time(torch: Any) -> None:
    """Work of a captured stream goes into the graph, and nowhere else."""
    k = axpy()
    x, z = numbers(torch, 1), numbers(torch, 0)
    p = k.prepare(x, x, 1.0, 0, out=z)
    for call in (lambda: k(x, x, 1.0, 0, out=z), p, lambda: p(x, x, 1.0, 0, out=z)):
        call()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        z.zero_()
        with torch.cuda.graph(graph):
            call()
        torch.cuda.synchronize()
        assert not z.any()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(z, 2 * x)
        z.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call()
        side.synchronize()
        assert torch.equal(z, 2 * x)
    z.zero_()
    torch.cuda.synchronize()
    p(stream=side)
    side.synchronize()
    assert torch.equal(z, 2 * x)
    with pytest.raises(SpecError, match="stream: expected"):
        k(x, x, 1.0, 0, out=z, stream="main")
    with pytest.raises(SpecError, match="stream: expected"):
        p(stream=1.5)


def test_tensor_maps_follow_the_addresses(torch: Any) -> None:
    copy = load_example("hopper/tma_copy.py")
    k = copy.tma_copy
    for seed in range(5):
        torch.manual_seed(seed)
        rows, columns = (128, 256) if seed != 3 else (256, 128)
        x = torch.randn(rows, columns, device="cuda").to(torch.bfloat16)
        out = torch.zeros_like(x)
        assert torch.equal(k(x, out=out), x)
        assert torch.equal(k(x), x)
        p = k.prepare(x)
        assert torch.equal(p(), x)
        y = torch.randn(rows, columns, device="cuda").to(torch.bfloat16)
        assert torch.equal(p(y), y) and torch.equal(p(y, out=out), y) and torch.equal(p(), x)


@pytest.mark.parametrize("given", [False, True])
def test_sizes_never_seen(torch: Any, monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    """Only the first call runs the full checks, records and loads; tensor maps get the dims of each call."""
    k = load_example("hopper/tma_copy.py").tma_copy
    k = kernel(**{name: getattr(k.options, name) for name in ("grid", "block", "arch")},
               in_specs=k.options.specs[:1], out_specs=k.options.specs[1:])(k.function)  # fmt: skip

    def source(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, device="cuda").to(torch.bfloat16)

    def copied(x: Any) -> Any:
        return k(x, out=torch.zeros_like(x)) if given else k(x)

    first = source(100, 72)
    assert torch.equal(copied(first), first)
    monkeypatch.setattr(Kernel, "run", None)
    for rows in (2, 63, 64, 65, 1000):
        for columns in (8, 64, 72, 4096):
            x = source(rows, columns)
            assert torch.equal(copied(x), x)
    monkeypatch.undo()
    for shape in ((1, 64), (64, 8), (1, 8)):  # an axis with one element
        x = source(*shape)
        assert torch.equal(copied(x), x)
    with pytest.raises(SpecError, match="tensor map of A"):
        copied(source(64, 4))
    with pytest.raises(SpecError, match="B is 72 by|N is|M is"):
        k(first, out=source(100, 64))


def test_extents_that_the_kernel_reads(torch: Any) -> None:
    from tests.entry.test_sizes import BLOCK as WIDTH
    from tests.entry.test_sizes import scaled

    k = scaled()
    for rows, n in ((4, 1), (5, 1), (5, 7), (1000, 3), (4, 1)):
        x, other = torch.randn(rows, WIDTH, device="cuda"), torch.zeros(n, device="cuda")
        assert torch.equal(k(x, other), x * (rows + 10 * n))
        p = k.prepare(x, other)
        assert torch.equal(p(), x * (rows + 10 * n)) and torch.equal(p(2 * x, other), 2 * x * (rows + 10 * n))
    assert len(k._specializations.recorded()) == 1


def test_many_sizes_stay_bounded(torch: Any) -> None:
    k = axpy()
    for blocks in range(1, 1500):
        x = numbers(torch, 0, blocks * BLOCK)
        z = k(x, x, 1.0, 1)
        if blocks % 250 == 1:
            assert torch.equal(z, 2 * x + 1)
    assert ready(k) <= 1024 and len(k._specializations.recorded()) == 1


def test_prepared(torch: Any) -> None:
    k = axpy()
    x, y, z = numbers(torch, 0), numbers(torch, 5), numbers(torch, 0)
    p = k.prepare(x, y, 2.0, 1, out=z)
    torch.cuda.synchronize()
    assert torch.equal(z, numbers(torch, 0))  # preparing launches nothing
    assert p() is z and torch.equal(z, 2 * x + y + 1)
    x += 1
    assert p() is z and torch.equal(z, 2 * x + y + 1)
    other = numbers(torch, 0)
    assert p(y, x, 3.0, 2, out=other) is other and torch.equal(other, 3 * y + x + 2)
    assert torch.equal(p(y, x, 3.0, 2), other)
    assert p() is z
    for wrong in ((x,), (x, y.double(), 1.0, 1), (x[: N // 2], y[: N // 2], 1.0, 1), (x.cpu(), y, 1.0, 1)):
        with pytest.raises(SpecError, match=r"prepared for x f32\[256\] on cuda:0"):
            p(*wrong, out=z)
    fresh = k.prepare(x, y, 2.0, 1)
    assert fresh() is fresh.outputs and torch.equal(fresh(), 2 * x + y + 1)
    with pytest.raises(SpecError, match="arrays on a GPU"):
        k.prepare(x.cpu(), y.cpu(), 1.0, 0)
    # The arrays live as long as the prepared launch.
    p = k.prepare(numbers(torch, 3), numbers(torch, 4), 1.0, 0)
    for _ in range(20):
        numbers(torch, 9)
    assert torch.equal(p(), numbers(torch, 3) + numbers(torch, 4))


def test_four_threads_on_four_streams(torch: Any) -> None:
    k = axpy()
    wrong: list[int] = []
    shared = k.prepare(numbers(torch, 0), numbers(torch, 0), 1.0, 0)

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            x, out = numbers(torch, number), numbers(torch, 0)
            for round in range(500):
                k(x, x, float(round), number, out=out)
                shared()
                if round % 50 == 0 and not torch.equal(out, x * round + x + number):
                    wrong.append(round)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    torch.cuda.synchronize()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_torch_compile(torch: Any) -> None:
    k = axpy()

    @torch.compile(fullgraph=True)
    def sum_of(x: Any, y: Any) -> Any:
        return k(x + 1, y, 2.0, 3) * 2

    for start in range(3):
        x, y = numbers(torch, start), numbers(torch, 3 * start)
        assert torch.equal(sum_of(x, y), ((x + 1) * 2 + y + 3) * 2)


def test_the_kernels_context_is_used_whatever_is_current(torch: Any) -> None:
    from pyptx.runtime.driver import call

    k, x = axpy(), numbers(torch, 0)
    z = numbers(torch, 0)
    p = k.prepare(x, x, 1.0, 0, out=z)
    k(x, x, 1.0, 0, out=z)
    torch.cuda.synchronize()
    context = call("cuCtxPopCurrent")
    try:
        z_pointer = z.data_ptr()
        p()
        k(x, x, 1.0, 0, out=z)
        assert z.data_ptr() == z_pointer
    finally:
        call("cuCtxPushCurrent", context)
    assert torch.equal(z, 2 * x)
