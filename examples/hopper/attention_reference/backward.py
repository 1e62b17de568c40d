"""What the backward of attention is compared with: inputs, the formulas in float64, error bounds."""

from __future__ import annotations

import numpy as np

from pyptx import bf16

from . import library as forward_library
from . import make_inputs as forward_inputs
from . import reference as forward
from . import seen
from . import worst_error as worst_of_two


def make_inputs(B, H, S, D, *, Sk=None, Hk=None, dtype=bf16, causal=False, scale=None, order="bshd", seed=0):
    """Return Q, K, V and dO with normally distributed numbers, O and the log-sum-exp of them."""
    q, k, v = forward_inputs(B, H, S, D, Sk=Sk, Hk=Hk, dtype=dtype, order=order, seed=seed)
    do = np.random.default_rng(seed + 1).standard_normal(q.shape, np.float32).astype(q.dtype)
    o, lse, *_ = forward(q, k, v, causal=causal, scale=scale, order=order)
    return q, k, v, np.ascontiguousarray(o.astype(q.dtype)), lse.astype(np.float32), do


def reference(q, k, v, o, lse, do, *, causal=False, scale=None, order="bshd"):
    """Return dQ, dK and dV in float64, and a bound of the error of each.

    With ``e = 2**-23`` and u the unit of the 16-bit type: a score or an element of dP has an error of
    ``(D + 4) * e`` times its sum of absolute values by wgmma's cut sums, delta one of ``(D + 4) * e``, too;
    the exponent is off by that of the score and ``4 * e * |lse|``, the exponential by ``4 * e``; P and dS
    are rounded to u; sums over queries and keys add ``(S + 4) * e`` of their absolute values, and f32 sums of
    blocks one e each; the results are rounded to u.
    """
    unit, e = 2.0**-8 if q.dtype == bf16.dtype else 2.0**-11, 2.0**-23
    turned = order == "bshd"
    q, k, v, o, do = (
        x.astype(np.float64).swapaxes(1, 2) if turned else x.astype(np.float64) for x in (q, k, v, o, do)
    )
    lse = lse.astype(np.float64)[..., None]
    (B, H, S, D), Hk, Sk = q.shape, k.shape[1], k.shape[2]
    group = H // Hk
    wide_k, wide_v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scale = D**-0.5 if scale is None else scale
    keep = seen(S, Sk, causal) & np.isfinite(lse)
    size = abs(scale) * abs(q) @ abs(wide_k).swapaxes(2, 3)
    logarithm = np.where(np.isfinite(lse), lse, 0)
    p = np.exp(np.where(keep, scale * q @ wide_k.swapaxes(2, 3) - logarithm, -np.inf))
    p_off = p * e * ((D + 4) * size + 4 * abs(logarithm) + 4)
    dp = do @ wide_v.swapaxes(2, 3)
    delta = (do * o).sum(-1, keepdims=True)
    dp_off = (D + 5) * e * (abs(do) @ abs(wide_v).swapaxes(2, 3) + abs(do * o).sum(-1, keepdims=True))
    ds = p * (dp - delta)
    # P may be rounded, too, before it is multiplied.
    ds_off = p_off * abs(dp - delta) + (p + p_off) * dp_off + (2 * unit + 2 * e) * abs(ds)

    def product(left, left_off, right, terms, factor=1.0):
        """Return a product over the second last axis and a bound of its error."""
        value = factor * left.swapaxes(2, 3) @ right
        off = factor * (left_off + (terms + 4) * e * abs(left)).swapaxes(2, 3) @ abs(right)
        return value, off

    def grouped(x):
        return x.reshape(B, Hk, group, *x.shape[2:]).sum(2)

    found = [product(ds.swapaxes(2, 3), ds_off.swapaxes(2, 3), wide_k, Sk, scale)]
    for left, off, right, factor in ((ds, ds_off, q, scale), (p, p_off + unit * p, do, 1.0)):
        found.append(tuple(map(grouped, product(left, off, right, group * S, factor))))
    back = (lambda x: x.swapaxes(1, 2)) if turned else (lambda x: x)
    values = [back(value) for value, _ in found]
    # Results below the smallest normal number of f16 lose a constant.
    bounds = [back(off + unit * (abs(value) + off) + 2.0**-24) for value, off in found]
    return (*values, *bounds)


def worst_error(found, expected):
    """Return the largest error of dQ, dK and dV as a fraction of the bound."""
    each = zip(found, expected[:3], expected[3:], strict=True)
    return max(worst_of_two((value, value), (exact, exact, bound, bound)) for value, exact, bound in each)


def verify(build, cases, schedules=("eager", "late")):
    """Assemble and simulate each case under each schedule. Print a table; return True if all is right.

    A case is a shape, options of inputs and kernels, and options of the kernels alone.
    """
    good = True
    for shape, of_inputs, options in cases:
        backward = build(*shape, **of_inputs, **options)
        clean = not any(it.spills or it.warnings or it.notes for it in backward.assemble())
        inputs = make_inputs(*shape, **of_inputs)
        expected = reference(*inputs, causal=of_inputs.get("causal", False))
        for schedule in schedules:
            found, reports = backward.simulate(*inputs, schedule=schedule, sanitize="strict")
            error = worst_error(found, expected)
            right = clean and error <= 1 and all(report.verdict == "clean" for report in reports)
            good &= right
            what = " ".join(f"{name}={value}" for name, value in {**of_inputs, **options}.items())
            print(f"{shape} {what} {schedule}: error/bound {error:.3f}, {'ok' if right else 'WRONG'}")
            for report in reports:
                if report.verdict != "clean":
                    print(report)
    return good


def torch_inputs(torch, B, H, S, D, causal=False):
    """Return Q, K, V, O, the log-sum-exp and dO in bf16 on the GPU, with normally distributed numbers."""
    q, k, v, do = (torch.randn(B, S, H, D, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    parts = [x.transpose(1, 2) for x in (q, k, v)]
    o, lse = torch.ops.aten._scaled_dot_product_flash_attention(*parts, 0.0, causal)[:2]
    return q, k, v, o.transpose(1, 2).contiguous(), lse, do


def library(torch, backend, causal):
    """Return torch's backward by a member of ``SDPBackend``; the forward runs once for each set of inputs."""
    graphs, attention = {}, forward_library(torch, backend, causal)

    def run(q, k, v, o, lse, do):
        if q.data_ptr() not in graphs:
            parts = [x.detach().requires_grad_() for x in (q, k, v)]
            graphs[q.data_ptr()] = attention(*parts), parts
        out, parts = graphs[q.data_ptr()]
        return torch.autograd.grad(out, parts, do, retain_graph=True)

    return run


def measure(torch, backward, B, H, S, D, causal=False, protocol="burst"):
    """Time the bf16 kernels beside torch's backward by cuDNN and by FlashAttention; outputs are checked."""
    from pyptx import bench

    result = bench(
        {
            "cuDNN": library(torch, "CUDNN_ATTENTION", causal),
            "torch": library(torch, "FLASH_ATTENTION", causal),
            "pyptx": backward,
        },
        lambda copy: torch_inputs(torch, B, H, S, D, causal),
        reference=library(torch, "FLASH_ATTENTION", causal),
        rtol=2.0**-5,
        atol=2.0**-6,
        flops=10 * B * H * S * S * D // (2 if causal else 1),
        protocol=protocol,
    )
    print(f"\nbackward B{B} H{H} S{S} D{D}{' causal' if causal else ''}")
    result.show()
    return result
