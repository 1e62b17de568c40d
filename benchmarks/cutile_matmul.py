"""Measure cuTile's matmul (row-major B) beside torch.matmul, in TFLOP/s.

The sizes are those of cuTile's tutorial: squares of 1024 to 16384, float16. The kernel is that by mma.sync,
the text for sm_80 (for sm_120 on a GPU of compute capability 12.0), and that by tcgen05.mma on a B200 or
B300. `pyptx.bench` verifies each kernel on random normal numbers, then times both in turns and flushes the L2
cache before every run. `--stages 3` takes 144 KB of shared memory, which GPUs of data centers have.
`--type float32` measures tf32, beside torch with TF32.

    python benchmarks/cutile_matmul.py [--type float16|bfloat16|float32] [--stages N] [SIZE ...]
"""

from __future__ import annotations

import argparse

from _examples import load_example

import pyptx

SIZES = [1024, 2048, 4096, 8192, 16384]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--type", choices=("float16", "bfloat16", "float32"), default="float16")
    parser.add_argument("--stages", type=int, help="2, on a B200 or B300 4, if not given")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("not measured: torch is not installed")
        return
    if not torch.cuda.is_available():
        print("not measured: torch sees no GPU")
        return
    major, minor = torch.cuda.get_device_capability()
    name = "matmul_tcgen05" if major == 10 else "matmul_mma_sync"
    arch = f"sm_{major}{minor}a" if major == 10 else "sm_120" if major == 12 else "sm_80"
    example = load_example(f"blackwell/cutile/{name}.py")
    given = {"arch": arch} | ({} if options.stages is None else {"stages": options.stages})
    dtype = {"float16": pyptx.f16, "bfloat16": pyptx.bf16, "float32": pyptx.f32}[options.type]
    torch.backends.cuda.matmul.allow_tf32 = True
    print(f"{torch.cuda.get_device_name()}, {options.type}, {name}, {given}")
    print(f"{'M = N = K':>10}  {'pyptx':>8}  {'torch':>8}  {'of torch':>8}  TFLOP/s")
    for size in options.sizes:
        matmul = example.build_matmul(size, size, dtype, **given)
        kind = getattr(torch, options.type)
        tensors = [torch.randn(size, size, device="cuda", dtype=kind) for _ in range(2)]
        # Sums of `size` products of normal numbers have a standard deviation of size**0.5; the type rounds
        # them.
        precision = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-9}[options.type]
        result = pyptx.bench(
            {"pyptx": matmul, "torch": torch.matmul},
            tensors,
            reference=torch.matmul,
            rtol=2 * precision,
            atol=2 * precision * size**0.5,
            flops=2 * size**3,
        )
        ours, theirs = result["pyptx"].tflops, result["torch"].tflops
        print(f"{size:>10}  {ours:>8.1f}  {theirs:>8.1f}  {ours / theirs:>8.1%}")


if __name__ == "__main__":
    main()
