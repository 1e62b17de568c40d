"""What the attention kernels of this folder are compared with: inputs, a float64 reference, error bounds."""

from __future__ import annotations

import math

import numpy as np

from pyptx import bf16, e4m3, f16


def make_inputs(B, H, S, D, *, Sk=None, Hk=None, dtype=bf16, order="bshd", seed=0):
    """Return Q, K and V with random, normally distributed numbers; in e4m3 also their factors."""
    rng = np.random.default_rng(seed)
    shapes = [(B, S, H, D), *2 * [(B, Sk or S, Hk or H, D)]]
    if order == "bhsd":
        shapes = [(b, h, s, d) for b, s, h, d in shapes]
    arrays = [rng.standard_normal(shape, np.float32).astype(dtype.dtype) for shape in shapes]
    if dtype is e4m3:
        arrays.append(rng.uniform(0.5, 1.5, (B, Hk or H, 3)).astype(np.float32))
    return tuple(arrays)


def seen(S, Sk, causal=False, window=None):
    """Return which keys each query sees, a bool array [S, Sk]."""
    left, right = window or (None, None)
    right = min(right, 0) if causal and right is not None else 0 if causal else right
    distance = np.arange(Sk)[None] - np.arange(S)[:, None] - (Sk - S)
    low, high = -math.inf if left is None else -left, math.inf if right is None else right
    return (distance >= low) & (distance <= high)


def reference(q, k, v, factors=None, *, causal=False, window=None, scale=None, order="bshd"):
    """Return O, the log-sum-exp and a bound of the error of each, in float64.

    With A the sum of ``weight * |v|`` of a row: P is rounded, a relative error of u; a score has an error of
    ``(D + 4) * 2**-23 * scale * |q| |k|`` by wgmma's cut sums and the scaling, its exponential too; sums over
    keys and ``ex2.approx`` add ``(Sk + 8) * 2**-23``; O is rounded to 16 bits.  wgmma cuts sums of e4m3 at
    2**-13 of the largest addend.
    """
    bits, cut = {bf16.dtype: (8, 23), f16.dtype: (11, 23), e4m3.dtype: (4, 13)}[q.dtype]
    out_bits = max(bits, 8)
    q, k, v = (
        x.astype(np.float64).swapaxes(1, 2) if order == "bshd" else x.astype(np.float64) for x in (q, k, v)
    )
    D, Sk, group = q.shape[-1], k.shape[2], q.shape[1] // k.shape[1]
    if factors is not None:
        of_q, of_k, of_v = np.moveaxis(factors.astype(np.float64), -1, 0)[..., None, None]
        q, k, v = q * np.repeat(of_q, group, 1), k * of_k, v * of_v
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scale = D**-0.5 if scale is None else scale
    keep = seen(q.shape[2], Sk, causal, window)
    s = np.where(keep, scale * (q @ k.swapaxes(2, 3)), -np.inf)
    sizes = np.where(keep, scale * (abs(q) @ abs(k).swapaxes(2, 3)), 0)
    off = sizes.max(-1, keepdims=True) * (D + 4) * 2.0**-cut
    top = np.where(keep.any(-1)[:, None], s.max(-1, keepdims=True), 0)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    weight = p / np.where(total > 0, total, 1)
    o, size = weight @ v, weight @ abs(v)
    near = 2 * off + (Sk + 8) * 2.0**-23
    # A sum over keys is cut as one over elements is; exponentials in e4m3 are steps of 2**-9, times 2**-3.
    sums = 2.0**-bits + near + (Sk * 2.0**-cut if cut < 23 else 0)
    steps = 2.0**-12 * np.where(total > 0, abs(v).sum(2, keepdims=True) / np.where(total > 0, total, 1), 0)
    bound = sums * size + 2.0**-out_bits * (abs(o) + size * sums) + (steps if bits == 4 else 0)
    back = (lambda x: x.swapaxes(1, 2)) if order == "bshd" else (lambda x: x)
    return back(o), lse, back(bound), near[..., 0] + 2.0**-20 * (1 + abs(np.where(np.isinf(lse), 0, lse)))


def cache_inputs(
    B, H, Sk, D, *, Hk=None, Sq=1, dtype=bf16, order="bshd", page=None, pages=None, lengths=None, seed=0
):
    """Return Q, K, V, the lengths, and with ``page`` a table; what lies behind a sequence's end is NaN.

    ``lengths`` are Sk by default; with ``page``, K and V are pools, whose pages the table permutes.
    """
    q, *caches = make_inputs(B, H, Sk, D, Hk=Hk, dtype=dtype, seed=seed)
    lengths = np.array([Sk] * B if lengths is None else lengths, np.int32)
    rng = np.random.default_rng(seed + 1)
    count = 0 if page is None else Sk // page
    table = rng.permutation(pages or 1)[: B * count].reshape(B, count).astype(np.int32)
    found = []
    for cache in caches:
        for b, length in enumerate(lengths):
            cache[b, length:] = np.nan
        if page is not None:
            pool = np.full((pages, page, *cache.shape[2:]), np.nan, cache.dtype)
            pool[table.ravel()] = cache.reshape(B * count, page, *cache.shape[2:])
            cache = pool
        found.append(cache)
    if page is not None:
        for b, length in enumerate(lengths):
            table[b, -(-length // page) :] = 1 << 30  # entries that must not be read
    arrays = [q[:, :Sq], *found]
    if order == "bhsd":
        arrays = [x.swapaxes(1, 2) for x in arrays]
    return (*map(np.ascontiguousarray, arrays), lengths, *([] if page is None else [table]))


def cache_reference(q, k, v, lengths, table=None, *, causal=True, window=None, scale=None, order="bshd"):
    """Return what :func:`reference` does, for the inputs of :func:`cache_inputs`."""
    if order == "bhsd":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    rows = []
    for b, length in enumerate(lengths):
        own = [
            x[b] if table is None else x[table[b, : -(-length // x.shape[1])]].reshape(-1, *x.shape[2:])
            for x in (k, v)
        ]
        if length:
            some = [x[None, :length] for x in own]
            rows.append(
                reference(
                    q[b : b + 1],
                    *some,
                    causal=causal,
                    window=None if window is None else (window, None),
                    scale=scale,
                )
            )
        else:
            zero, none = np.zeros((1, *q.shape[1:])), np.full((1, q.shape[2], q.shape[1]), -np.inf)
            rows.append((zero, none, zero, abs(none)))
    o, lse, near, sums = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return (o.swapaxes(1, 2), lse, near.swapaxes(1, 2), sums) if order == "bhsd" else (o, lse, near, sums)


def ragged_inputs(H, D, queries, keys, *, Hk=None, dtype=bf16, seed=0):
    """Return Q, K and V of sequences one behind the other, of so many queries and keys, and where they begin.

    Behind the last sequence K and V have five more rows, which are NaN.
    """
    begins = [np.cumsum([0, *counts]).astype(np.int32) for counts in (queries, keys)]
    total_q, total_k = (int(each[-1]) for each in begins)
    q, k, v = make_inputs(1, H, total_q, D, Sk=total_k + 5, Hk=Hk, dtype=dtype, seed=seed)
    for x in (k, v):
        x[:, total_k:] = np.nan
    return q, k, v, *begins


def ragged_reference(q, k, v, begins_q, begins_k, **masks):
    """Return what :func:`reference` does, for the inputs of :func:`ragged_inputs`."""
    found = []
    for a, b, c, d in zip(begins_q, begins_q[1:], begins_k, begins_k[1:], strict=False):
        if d > c and b > a:
            found.append(reference(q[:, a:b], k[:, c:d], v[:, c:d], **masks))
        elif b > a:
            zero, none = 0 * q[:, a:b].astype(np.float64), np.full((1, q.shape[2], b - a), -np.inf)
            found.append((zero, none, zero, abs(none)))
    o, lse, near, sums = zip(*found, strict=True)
    return (*(np.concatenate(parts, axis) for parts, axis in ((o, 1), (lse, 2), (near, 1), (sums, 2))),)


def worst_error(found, expected):
    """Return the largest error of O and the log-sum-exp as a fraction of the bound."""
    worst = 0.0
    for value, exact, bound in zip(found, expected[:2], expected[2:], strict=True):
        value = np.asarray(value).astype(np.float64)
        same = (value == exact) | (np.isnan(value) & np.isnan(exact))
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0, abs(value - exact) / bound)
        worst = max(worst, float(np.max(np.where(np.isnan(error), np.inf, error))))
    return worst


MASKS = ("causal", "window", "scale", "order")


def verify(build, cases, inputs_of=make_inputs, expected_of=reference, schedules=("eager", "late")):
    """Assemble and simulate each case under each schedule. Print a table; return True if all is right.

    A case is a shape, options of inputs and kernel (lengths are of the inputs alone), and options of the
    kernel alone.
    """
    good = True
    for shape, of_inputs, options in cases:
        known = {name: value for name, value in of_inputs.items() if name != "lengths"}
        attention = build(*shape, **known, **options)
        assembly = attention.assemble()
        # If ptxas ignored setmaxnreg or serialized wgmma, its notes say so.
        clean = not (assembly.spills or assembly.warnings or assembly.notes)
        inputs = inputs_of(*shape, **of_inputs)
        given = {**of_inputs, **options}
        expected = expected_of(*inputs, **{name: given[name] for name in MASKS if name in given})
        for schedule in schedules:
            report = attention.simulate(*inputs, schedule=schedule, sanitize="strict")
            error = worst_error(report.outputs, expected)
            right = clean and report.verdict == "clean" and error <= 1
            good &= right
            what = " ".join(f"{name}={value}" for name, value in {**of_inputs, **options}.items())
            print(f"{shape} {what} {schedule}: error/bound {error:.3f}, {'ok' if right else 'WRONG'}")
            if report.verdict != "clean":
                print(report)
    return good


def hopper():
    """Return torch if it sees a GPU that runs sm_90a, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0) else None


def library(torch, backend, causal):
    """Return torch's attention by a member of ``SDPBackend``, of and to arrays [B, S, H, D]."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run(q, k, v):
        parts = (x.transpose(1, 2) for x in (q, k, v))
        with sdpa_kernel(getattr(SDPBackend, backend)):
            o = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=causal)
        return o.transpose(1, 2)

    return run


def measure(torch, attention, B, H, S, D, causal=False, protocol="burst"):
    """Time a bf16 kernel beside torch's attention by cuDNN and by FlashAttention; outputs are checked."""
    from pyptx import bench

    result = bench(
        {
            "cuDNN": library(torch, "CUDNN_ATTENTION", causal),
            "torch": library(torch, "FLASH_ATTENTION", causal),
            "pyptx": lambda q, k, v: attention(q, k, v)[0],
        },
        lambda copy: tuple(torch.randn(B, S, H, D, device="cuda", dtype=torch.bfloat16) for _ in range(3)),
        reference=library(torch, "FLASH_ATTENTION", causal),
        rtol=2.0**-6,
        atol=2.0**-7,
        flops=4 * B * H * S * S * D // (2 if causal else 1),
        protocol=protocol,
    )
    print(f"\nB{B} H{H} S{S} D{D}{' causal' if causal else ''}")
    result.show()
    return result
