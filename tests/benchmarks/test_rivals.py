"""The rivals compiled beforehand: absent without a folder, called as their C declarations say, DeepGEMM's choice."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyptx.tools.load import load_module

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delenv("PYPTX_RIVALS", raising=False)
    return lambda name: load_module(BENCHMARKS / name)


def test_a_rival_is_absent_without_its_library(
    load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rivals = load("_rivals.py")
    assert rivals.flash_attention(None, 128, False) == {}
    monkeypatch.setenv("PYPTX_RIVALS", str(tmp_path))
    assert rivals.flash_attention(None, 128, False) == {}
    monkeypatch.setenv("PYPTX_RIVALS", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="PYPTX_RIVALS is .*none'"):
        rivals.flash_attention(None, 128, False)


class Array:
    """As much of a tensor as the calls read; its address is a number that a test can find again."""

    def __init__(self, *shape: int, at: int = 0) -> None:
        self.shape, self.device, self.at = shape, "cuda", at

    def data_ptr(self) -> int:
        return self.at


class Torch:
    """As much of torch as the calls use; arrays that it makes get the addresses 1000, 1001, ..."""

    bfloat16, float32, int32 = "bfloat16", "float32", "int32"

    def __init__(self) -> None:
        addresses = itertools.count(1000)
        found = SimpleNamespace(multi_processor_count=132)
        self.made: list[Array] = []
        self.cuda = SimpleNamespace(
            current_device=lambda: 0,
            current_stream=lambda: SimpleNamespace(cuda_stream=77),
            get_device_properties=lambda device: found,
        )
        self.next = lambda: next(addresses)

    def empty(self, shape: Any, **given: Any) -> Array:
        self.made.append(Array(*(shape if isinstance(shape, tuple) else (shape,)), at=self.next()))
        return self.made[-1]

    def empty_like(self, array: Array) -> Array:
        return self.empty(array.shape)


def declared(source: str, function: str) -> list[tuple[str, str]]:
    """Return the parameters of a function of a CUDA file: type and name of each."""
    text = (BENCHMARKS / "rivals" / source).read_text(encoding="utf-8")
    found = re.search(rf'extern "C"[^;{{]*\b{function}\(([^)]*)\)', text)
    assert found is not None
    parameters = [re.fullmatch(r"(void\*|int) (\w+)", each.strip()) for each in found[1].split(",")]
    return [(each[1], each[2].rstrip("_")) for each in parameters if each is not None]


def named(source: str, function: str, given: tuple[Any, ...]) -> dict[str, Any]:
    """Return the arguments by the names of the parameters, after a check of their number and types."""
    parameters = declared(source, function)
    assert len(parameters) == len(given)
    found = {}
    for (kind, name), value in zip(parameters, given, strict=True):
        if kind == "int":
            assert type(value) is int, name
        else:
            assert value is None or isinstance(value, ctypes.c_void_p), name
        found[name] = value.value if isinstance(value, ctypes.c_void_p) else value
    return found


class Library:
    """Stands for a loaded library: keeps the arguments of each call, and returns ``code``."""

    def __init__(self, code: int = 0) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.code = code

    def __getattr__(self, function: str) -> Callable[..., int]:
        def call(*given: Any) -> int:
            self.calls.append((function, given))
            return self.code

        return call


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_gets_what_its_declaration_names(
    load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, causal: bool
) -> None:
    rivals, library, torch = load("_rivals.py"), Library(), Torch()
    monkeypatch.setattr(rivals, "library", {"flash_attention_3_hd64": library}.get)
    assert rivals.flash_attention(torch, 128, causal) == {}
    ((name, run),) = rivals.flash_attention(torch, 64, causal).items()
    assert name == "FlashAttention-3"
    o = run(Array(2, 100, 8, 64, at=1), Array(2, 300, 4, 64, at=2), Array(2, 300, 4, 64, at=3))
    ((function, given),) = library.calls
    found = named("flash_attention_3.cu", function, given)
    pointers = {"q": 1, "k": 2, "v": 3, "o": o.at, "lse": torch.made[1].at, "semaphore": torch.made[2].at}
    sizes = {"B": 2, "Sq": 100, "Sk": 300, "H": 8, "Hk": 4, "causal": int(causal), "sms": 132, "stream": 77}
    assert found == pointers | sizes
    assert o.shape == (2, 100, 8, 64) and torch.made[1].shape == (2, 8, 100)
    library.code = 98
    with pytest.raises(RuntimeError, match="FlashAttention-3 returned CUDA error 98"):
        run(Array(2, 100, 8, 64), Array(2, 300, 4, 64), Array(2, 300, 4, 64))


@pytest.mark.parametrize("rows", [64, 80])
def test_the_backward_of_flash_attention_gets_what_its_declaration_names(
    load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    rivals, library, torch = load("_rivals.py"), Library(rows), Torch()
    monkeypatch.setattr(rivals, "library", {"flash_attention_3_backward_hd128": library}.get)
    assert rivals.flash_attention_backward(torch, 64, True) == {}
    ((name, run),) = rivals.flash_attention_backward(torch, 128, True).items()
    assert (name, library.calls.pop()) == ("FlashAttention-3", ("fa3_rows", (1,)))
    library.code = 0
    q, k, v, o, do = (Array(2, 256, 4, 128, at=at) for at in (1, 2, 3, 4, 6))
    gradients = run(q, k, v, o, Array(2, 4, 256, at=5), do)
    ((function, given),) = library.calls
    found = named("flash_attention_3_backward.cu", function, given)
    blocks = -(-256 // rows)
    whole = blocks * rows
    scratch = {"sums": (2, 4, whole), "logs": (2, 4, whole), "accumulators": (2, 4, whole, 128)}
    made = {array.at: array.shape for array in torch.made}
    shapes = {name: made[found.pop(name)] for name in (*scratch, "semaphores")}
    assert shapes == scratch | {"semaphores": (blocks, 2, 4)}
    given = {"q": 1, "k": 2, "v": 3, "o": 4, "lse": 5, "dout": 6}
    given |= {name: array.at for name, array in zip(("dq", "dk", "dv"), gradients, strict=True)}
    assert found == given | {"B": 2, "S": 256, "H": 4, "causal": 1, "sms": 132, "stream": 77}
    assert all(array.shape == q.shape for array in gradients)


def test_deepgemm_gets_what_its_declaration_names(
    load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, library, torch = load("_deepgemm.py"), Library(), Torch()
    problem = module.Problem("masked", 256, 512, 384, 4, 100)
    assert module.deepgemm(torch, problem) == {}
    monkeypatch.setattr(module, "library", {"deepgemm": library}.get)
    run = module.deepgemm(torch, problem)["DeepGEMM"]
    arrays = [Array(at=at) for at in (2, 3, 4)]
    d = run(Array(4, 256, 384, at=1), *arrays, Array(4, at=5))
    ((function, given),) = library.calls
    found = named("deepgemm.cu", function, given)
    assert found == {
        **{"type": 2, "groups": 4, "M": 256, "N": 512, "K": 384},
        **{"a": 1, "b": 2, "sfa": 3, "sfb": 4, "layout": 5, "d": d.at, "stream": 77},
    }
    assert d.shape == (4, 256, 512)
    run = module.deepgemm(torch, module.Problem("normal", 256, 512, 384))["DeepGEMM"]
    run(Array(256, 384, at=1), *arrays)
    found = named("deepgemm.cu", function, library.calls[-1][1])
    assert (found["type"], found["layout"], torch.made[-1].shape) == (0, None, (256, 512))
    plain = module.Problem("contiguous", 256, 512, 384, 4, element="bf16")
    assert module.deepgemm(torch, plain) == {}
    monkeypatch.setattr(module, "library", {"deepgemm_bf16": library}.get)
    d = module.deepgemm(torch, plain)["DeepGEMM"](Array(256, 384, at=1), Array(at=3), Array(at=5))
    expected = {"type": 1, "groups": 4, "M": 256, "N": 512, "K": 384, "a": 1, "b": 3, "layout": 5, "d": d.at}
    assert library.calls[-1][0] == "deepgemm_bf16"
    assert named("deepgemm_bf16.cu", "deepgemm_bf16", library.calls[-1][1]) == expected | {"stream": 77}
    # The kernels are compiled for the multiprocessors of one GPU.
    other = Torch()
    other.cuda.get_device_properties(0).multi_processor_count = 114
    assert module.deepgemm(other, problem) == {}


#: What the library's own C++ chooses, compiled with g++: problem; tile, cluster, stages, bytes of shared memory,
#: swizzle of D, threads that multiply.
LIBRARY = [
    (("normal", 4096, 7168, 2048), ((256, 128), (1, 2), 3, 216384, 128, 256)),
    (("normal", 128, 4096, 7168), ((64, 64), (1, 1), 13, 224992, 128, 128)),
    (("contiguous", 8192, 4096, 4096, 8), ((128, 192), (2, 1), 4, 215552, 128, 256)),
    (("masked", 4096, 4096, 4096, 32, 20), ((64, 128), (2, 1), 8, 215424, 128, 128)),
    (("contiguous", 8192, 4096, 4096, 8, 0, "bf16"), ((128, 256), (2, 1), 3, 213248, 128, 256)),
    (("masked", 4096, 4096, 4096, 6, 1024, "bf16"), ((128, 256), (2, 1), 3, 213248, 128, 256)),
]


@pytest.mark.parametrize(("problem", "expected"), LIBRARY)
def test_deepgemm_chooses_as_its_library_does(
    load: Callable[[str], ModuleType], problem: tuple[Any, ...], expected: tuple[Any, ...]
) -> None:
    module = load("_deepgemm.py")
    choice = module.choose(module.Problem(*problem))
    found = choice.tile, choice.cluster, choice.stages, choice.shared, choice.swizzle, choice.math_threads
    assert found == expected


def test_every_kernel_of_deepgemm_has_the_memory_it_lays_out(load: Callable[[str], ModuleType]) -> None:
    module = load("_deepgemm.py")
    text = (BENCHMARKS / "rivals" / "deepgemm.cu").read_text(encoding="utf-8")
    macro = re.search(r"#define KERNEL\(([^)]*)\)", text)
    assert macro is not None
    names = [name.strip().rstrip("_") for name in macro[1].split(",")]
    problems = module.NORMAL + module.CONTIGUOUS + module.MASKED + module.BF16
    lines = module.instances(problems).splitlines()
    for problem, line in zip(problems, lines, strict=True):
        words = line.removeprefix("KERNEL(").removesuffix(")").split(", ")
        given = dict(zip(names, words, strict=True))
        number = {name: int(word) for name, word in given.items() if name != "TYPE"}
        rows, columns, stages = number["ROWS"], number["COLUMNS"], number["STAGES"]
        # As the kernel lays it out: D, the ring of A and B, A's scales, B's scales, two barriers a stage.
        laid = -(-rows * columns * 2 // 1024) * 1024 + stages * (rows + columns) * 128 + 16 * stages
        if problem.element == "e4m3":
            scales = -(-number["K"] // 128) * 4 * (1 if 128 % columns == 0 else 2)
            laid += stages * -(-rows * 4 // 128) * 128 + -(-scales // 8) * 8
        assert laid <= number["SHARED"] <= 227 * 1024, line
        assert (2 * columns) % number["SWIZZLE"] == 0 and number["MULTICAST"] in (1, 2), line


def test_scales_of_blocks(load: Callable[[str], ModuleType], torch: Any) -> None:
    module = load("_hopper_blocks.py")
    x = torch.randn(2, 256, 384, generator=torch.Generator().manual_seed(3))
    for rows in (1, 128):
        narrow, scales = module.quantized(torch, x, rows)
        assert narrow.dtype == torch.float8_e4m3fn and scales.shape == (2, 256 // rows, 3)
        # The largest number of each block becomes 448; e4m3 has 3 bits, and steps of 2^-9 near zero.
        largest = narrow.float().view(2, 256 // rows, rows, 3, 128).abs().amax(dim=(2, 4))
        assert (largest == 448).all()
        error = (module.widened(narrow, scales, rows) - x).abs()
        step = scales.repeat_interleave(rows, 1).repeat_interleave(128, 2)
        assert (error <= (1.01 * 2.0**-4 * x.abs()).maximum(2.0**-10 * 1.01 * step)).all()


@pytest.mark.parametrize("kind", ["normal", "contiguous", "masked"])
def test_the_reference_of_blocks(load: Callable[[str], ModuleType], torch: Any, kind: str) -> None:
    module, problems = load("_hopper_blocks.py"), load("_deepgemm.py")
    groups = 1 if kind == "normal" else 3
    problem = problems.Problem(kind, 768, 128, 256, groups, 200 if kind == "masked" else 0)
    generator = np.random.default_rng(5)
    shapes = [(768, 256), (128, 256)] if kind == "normal" else [(768, 256), (groups, 128, 256)]
    if kind == "masked":
        shapes[0] = (groups, 768, 256)
    a, b = (torch.from_numpy(generator.standard_normal(shape, np.float32)) for shape in shapes)
    (a8, scales_a), (b8, scales_b) = module.quantized(torch, a, 1), module.quantized(torch, b, 128)
    got = module.reference(problem, a8, b8, scales_a.transpose(-1, -2).contiguous(), scales_b)
    if kind == "normal":
        counts, parts = [768], [(a, b)]
    else:
        counts = problem.sizes
        slabs = [x[:n] for x, n in zip(a, counts, strict=True)] if kind == "masked" else a.split(counts)
        parts = list(zip(slabs, b, strict=True))
    expected = [x.double() @ y.double().T for x, y in parts]
    found = list(got) if kind == "masked" else list(got.split(counts))
    for part, wanted in zip(found, expected, strict=True):
        # A product of two e4m3 numbers errs by 2^-4 twice; such errors of 256 products do not add up.
        assert (part.double() - wanted).abs().max() < 6 * 2.0**-4 * 256**0.5
        assert (part.double() - wanted).abs().mean() < 2.0**-4 * wanted.abs().mean()


def test_sizes_of_groups(load: Callable[[str], ModuleType]) -> None:
    problems = load("_deepgemm.py")
    for problem in problems.CONTIGUOUS + problems.MASKED:
        sizes = problem.sizes
        assert len(sizes) == problem.groups and len(set(sizes)) > 1
        if problem.kind == "contiguous":
            assert sum(sizes) == problem.M and not any(size % 128 for size in sizes)
        else:
            assert max(sizes) <= problem.M
            assert sum(sizes) / problem.groups == pytest.approx(problem.expected, rel=0.03)


@pytest.fixture
def build(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("rivals/build.py")


def test_the_build_names_what_is_missing(build: ModuleType, tmp_path: Path) -> None:
    library = build.LIBRARIES["deepgemm"]
    with pytest.raises(SystemExit, match="DeepGEMM.*is missing"):
        build.command(library, tmp_path, tmp_path, tmp_path, tmp_path / "out.so")
    for folder in (*library.includes, "include/cccl"):
        (tmp_path / folder).mkdir(parents=True)
    words = build.command(library, tmp_path, tmp_path, tmp_path, tmp_path / "out.so")
    assert words[0] == str(tmp_path / "bin" / "nvcc")
    assert f"-I{tmp_path / library.includes[0]}" in words and "-cudart=static" in words
    assert all((build.HERE / each.source).exists() for each in build.LIBRARIES.values())


def test_the_build_tells_of_spills(build: ModuleType) -> None:
    clean = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
    spilled = "    8 bytes stack frame, 12 bytes spill stores, 10 bytes spill loads"
    assert build.spills(f"{clean}\n{spilled}\n{clean}") == [spilled.strip()]


def test_torch_gets_scales_as_it_wants_them_or_is_left_out(
    load: Callable[[str], ModuleType], torch: Any
) -> None:
    module, problems = load("_hopper_blocks.py"), load("_deepgemm.py")
    problem = problems.Problem("normal", 256, 384, 512)
    calls: list[tuple[Any, ...]] = []

    def takes(a: Any, b: Any, *, scale_a: Any, scale_b: Any, out_dtype: Any) -> None:
        calls.append((a, b, scale_a, scale_b))

    def refuses(*given: Any, **options: Any) -> None:
        raise RuntimeError("Invalid scaling configuration")

    fake = {name: getattr(torch, name) for name in ("bfloat16", "float8_e4m3fn")}
    fake["zeros"] = lambda *shape, device: torch.zeros(*shape)
    assert module._rivals(problem, SimpleNamespace(_scaled_mm=refuses, **fake)) == {}
    assert list(module._rivals(problem, SimpleNamespace(_scaled_mm=takes, **fake))) == ["torch._scaled_mm"]
    ((a, b, scale_a, scale_b),) = calls
    assert (a.shape, a.stride(), b.shape, b.stride()) == ((256, 512), (512, 1), (512, 384), (1, 512))
    # 1x128 of A: neighbors along M are adjacent. 128x128 of B.T: neighbors along K are.
    assert (scale_a.shape, scale_a.stride()) == ((256, 4), (1, 256))
    assert (scale_b.shape, scale_b.stride()) == ((4, 3), (1, 4))


@pytest.mark.parametrize(("counts", "present"), [((1024,) * 8, True), ((1000, 1048) + (1024,) * 6, False)])
def test_groups_of_whole_tiles_alone_are_deepgemms(
    load: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    torch: Any,
    counts: tuple[int, ...],
    present: bool,
) -> None:
    module = load("_hopper_grouped.py")
    monkeypatch.setattr(module, "deepgemm", lambda torch, problem: {"DeepGEMM": lambda *given: given})
    fake = SimpleNamespace(
        int32=torch.int32,
        arange=lambda count, dtype, device: torch.arange(count, dtype=dtype),
        tensor=lambda values, device: torch.tensor(values),
    )
    found = module._library(counts, 4096, 4096, fake)
    assert ("DeepGEMM" in found) == present
    if present:
        a, b, layout = found["DeepGEMM"]("a", "b", "ends")
        assert (a, b) == ("a", "b")
        assert layout.tolist() == [group for group, size in enumerate(counts) for _ in range(size)]
