"""What kernels of other projects compute, in torch, by the word that the file of launches has.

A reference takes the inputs in their order and, by name, the launch's parameters; it returns the outputs in
theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["REFERENCES"]


def _layer_norm(x: Any, w: Any, b: Any) -> list[Any]:
    wide = x.float()
    mean, variance = wide.mean(1), wide.var(1, correction=0)
    rstd = (variance + 1e-5).rsqrt()
    y = (wide - mean[:, None]) * rstd[:, None] * w.float() + b.float()
    return [y.to(x.dtype), mean, rstd]


def _attention(q: Any, k: Any, v: Any, *, scale: float, heads: int, causal: bool) -> list[Any]:
    """Return the logarithm (to base 2) of each row's sum, and the output, as Triton's tutorial does."""
    import torch

    sums, outputs = [], []
    for one, two, three in zip(*(each.reshape(heads, -1, each.shape[1]) for each in (q, k, v)), strict=True):
        scores = (one.float() @ two.float().T) * scale
        if causal:
            scores += torch.full_like(scores, -1e6).triu(1)
        sums.append(torch.logsumexp(scores, 1) * 1.4426950408889634)
        outputs.append((torch.softmax(scores, 1) @ three.float()).to(q.dtype))
    return [torch.stack(sums), torch.cat(outputs)]


def _sum(x: Any, y: Any) -> Any:
    return x + y


def _rms_norm(x: Any, w: Any, *, eps: float) -> list[Any]:
    """Return the product with the weights, whose other factor is rounded, and the inverse of the root."""
    wide = x.float()
    rstd = ((wide * wide).mean(1) + eps).rsqrt()
    return [(wide * rstd[:, None]).to(x.dtype) * w, rstd]


def _fused_add_rms_norm(x: Any, residual: Any, w: Any, *, eps: float) -> list[Any]:
    y, rstd = _rms_norm(x + residual, w, eps=eps)
    return [y, x + residual, rstd]


def _group_norm(x: Any, w: Any, b: Any, *, eps: float) -> list[Any]:
    """Return what is normalized by image and group; ``x`` has images, groups and what a group has."""
    mean = x.mean(2)
    rstd = (x.var(2, correction=0) + eps).rsqrt()
    y = ((x - mean[..., None]) * rstd[..., None]).reshape(len(x), len(w), -1)
    return [(y * w[:, None] + b[:, None]).reshape(x.shape), mean, rstd]


def _poly_norm(x: Any, w: Any, b: Any, *, eps: float) -> list[Any]:
    import torch

    wide = x.float()
    powers = [wide**3, wide**2, wide]
    rstd = [((power * power).mean(1) + eps).rsqrt() for power in powers]
    terms = [factor * power * each[:, None] for factor, power, each in zip(w, powers, rstd, strict=True)]
    return [(sum(terms) + b).to(x.dtype), torch.stack(rstd, 1)]


def _gelu(x: Any) -> Any:
    import torch

    return torch.nn.functional.gelu(x.float(), approximate="tanh").to(x.dtype)


def _gelu_gradient(x: Any, dy: Any) -> Any:
    wide = x.float()
    scale, cubic = (2 / math.pi) ** 0.5, 0.044715
    tanh = (scale * (wide + cubic * wide**3)).tanh()
    slope = 0.5 * (1 + tanh) + 0.5 * wide * (1 - tanh**2) * scale * (1 + 3 * cubic * wide**2)
    return (slope * dy.float()).to(x.dtype)


def _layer_norm_of_sum(x: Any, y: Any, w: Any, b: Any) -> list[Any]:
    total = (x.float() + y.float()).to(x.dtype)
    normed, mean, rstd = _layer_norm(total, w, b)
    return [total, normed, mean.to(x.dtype), rstd.to(x.dtype)]


def _classifier(logits: Any, dlosses: Any, targets: Any) -> list[Any]:
    """Return the gradients of the logits, and the losses, as llm.c's fused classifier does."""
    import torch

    chosen = targets.long()[:, None]
    gradients = logits.softmax(1)
    losses = -torch.log(gradients.gather(1, chosen))[:, 0]
    gradients.scatter_add_(1, chosen, torch.full_like(dlosses, -1.0)[:, None])
    return [gradients * dlosses[:, None], losses]


def _embedding(tokens: Any, wte: Any, wpe: Any) -> Any:
    return (wte[tokens.long()].float() + wpe.float()).to(wte.dtype)


def _swish(x: Any) -> Any:
    return (x.float() * x.float().sigmoid()).to(x.dtype)


def _cross_entropy(x: Any, target: Any) -> Any:
    """Return each row's part of the mean."""
    wide = x.float()
    return (wide.logsumexp(1) - wide.gather(1, target[:, None])[:, 0]) / len(x)


def _kl_divergence(y: Any, target: Any, *, eps: float) -> Any:
    """Return each row's sum; ``y`` is a logarithm, and the target is not."""
    return (target * (target.clamp(min=eps).log() - y)).sum(1)


def _total_variation(p: Any, q: Any) -> list[Any]:
    """Return each row's part of the mean, and the gradient of ``p``."""
    import torch

    half = torch.full_like(p, 0.5 / len(p))
    return [(p - q).abs().sum(1) * (0.5 / len(p)), torch.where(p > q, half, -half)]


def _seeded_dropout(x: Any, *, p: float, seed: int) -> Any:
    """Return what Triton's random numbers, which are those of Philox 4x32-10, leave of an array."""
    import torch

    # 64 bits hold a product's bits, as a signed number; a shift and a mask take the upper half of it.
    mask, multipliers = 0xFFFFFFFF, (0xD2511F53, 0xCD9E8D57)
    a = torch.arange(len(x), device=x.device)
    b, c, d = (torch.zeros_like(a) for _ in range(3))
    keys = [seed & mask, seed >> 32]
    for _ in range(10):
        one, two = a * multipliers[0], c * multipliers[1]
        a, c = (two >> 32 & mask) ^ b ^ keys[0], (one >> 32 & mask) ^ d ^ keys[1]
        b, d = two & mask, one & mask
        keys = [keys[0] + 0x9E3779B9 & mask, keys[1] + 0xBB67AE85 & mask]
    signed = a.to(torch.int32)
    drawn = torch.where(signed < 0, -signed - 1, signed).float() * 4.6566127342e-10
    return torch.where(drawn > p, x / (1 - p), 0.0)


# --- of the third set -----------------------------------------------------------------------------


def _blocks(x: Any, *, blocks: int, width: int) -> Any:
    """Return the sum of each CTA's runs of ``width``; the CTAs take the runs in turn."""
    return x.reshape(-1, blocks, width).sum((0, 2)).to(x.dtype)


def _sorted_rows(keys: Any, values: Any) -> list[Any]:
    keys, order = keys.sort(1)
    return [keys, values.gather(1, order)]


def _convolution_of_columns(x: Any, *, weights: Sequence[float]) -> Any:
    """Return the convolution of each column, whose ends zeros lie beyond."""
    import torch

    radius, rows = len(weights) // 2, len(x)
    wide = torch.nn.functional.pad(x, [0, 0, radius, radius])
    return sum(weight * wide[place : place + rows] for place, weight in enumerate(weights))


def _cosines(x: Any) -> Any:
    """Return the cosine transform of each block of 8x8."""
    import torch

    places = torch.arange(8, device=x.device, dtype=torch.float64)
    basis = torch.cos(math.pi * (places + 0.5) * places[:, None] / 8) / 2
    basis[0] /= 2**0.5
    blocks = x.double().reshape(x.shape[0] // 8, 8, x.shape[1] // 8, 8)
    return torch.einsum("ai,minj,bj->manb", basis, blocks, basis).reshape(x.shape).to(x.dtype)


def _walsh(x: Any) -> Any:
    """Return the transform of each row, in the order of Hadamard's matrix."""
    import torch

    rows, n = x.shape
    width = 1
    while width < n:
        pairs = x.reshape(rows, -1, 2, width)
        x = torch.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2)
        width *= 2
    return x.reshape(rows, n)


def _haar(x: Any, *, levels: int) -> list[Any]:
    """Return the details of some levels, each in its half of what is left, and the approximation."""
    import torch

    details = torch.zeros_like(x)
    for _ in range(levels):
        half = len(x) // 2
        details[half : 2 * half] = (x[0::2] - x[1::2]) * 0.5**0.5
        x = (x[0::2] + x[1::2]) * 0.5**0.5
    return [details, x]


def _stencil(x: Any, *, weights: Sequence[float]) -> Any:
    """Return the sums of an element and its neighbors along three axes, zero near the borders."""
    import torch

    radius = len(weights) - 1
    inner = [extent - 2 * radius for extent in x.shape]

    def moved(dim: int, by: int) -> Any:
        found = x
        for each, extent in enumerate(inner):
            found = found.narrow(each, radius + (by if each == dim else 0), extent)
        return found

    total = weights[0] * moved(0, 0)
    for distance, weight in enumerate(weights[1:], 1):
        total = total + weight * sum(moved(dim, by) for dim in range(3) for by in (-distance, distance))
    return torch.nn.functional.pad(total, [radius] * 6)


def _options(price: Any, strike: Any, years: Any, *, rate: float, volatility: float) -> list[Any]:
    """Return the prices of calls and puts by the formula of Black and Scholes."""
    import torch

    normal = torch.special.ndtr
    s, x, t = price.double(), strike.double(), years.double()
    spread = volatility * t.sqrt()
    d1 = ((s / x).log() + (rate + 0.5 * volatility**2) * t) / spread
    d2, paid = d1 - spread, x * (-rate * t).exp()
    call = s * normal(d1) - paid * normal(d2)
    put = paid * normal(-d2) - s * normal(-d1)
    return [call.to(price.dtype), put.to(price.dtype)]


def _sobol(directions: Any, *, vectors: int) -> Any:
    """Return a dimension's numbers: of the bits of each index's Gray code the directions, by exclusive or."""
    import torch

    index = torch.arange(vectors, device=directions.device)
    gray, found = index ^ (index >> 1), torch.zeros_like(index)
    found = found.repeat(len(directions), 1)
    for bit in range(32):
        found ^= (gray >> bit & 1) * directions[:, bit : bit + 1].long()
    return found.float() * 2.0**-32


def _scaled_product(a: Any, b: Any, c: Any, *, alpha: float, beta: float) -> Any:
    """Return the product with what is stored by columns, scaled, and a scaled sum; whole numbers exactly."""
    import torch

    wide = torch.float32 if c.dtype.is_floating_point else torch.float64
    return (alpha * (a.to(wide) @ b.to(wide).T) + beta * c.to(wide)).to(c.dtype)


def _product_with_scales(a: Any, b: Any, of_a: Any, of_b: Any) -> Any:
    """Return A B^T; scales of A are by blocks of 128 of K, of B by blocks of 128 both ways."""
    import torch

    a = a.float() * of_a.T.repeat_interleave(128, 1)
    b = b.float() * of_b.repeat_interleave(128, 0)[: len(b)].repeat_interleave(128, 1)
    return (a @ b.T).to(torch.bfloat16)


def _rotated(x: Any, angles: Any) -> Any:
    """Return pairs of neighbors turned by angles."""
    import torch

    one, two, cos, sin = x[..., 0::2], x[..., 1::2], angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.stack([one * cos - two * sin, one * sin + two * cos], -1).reshape(x.shape)


def _rotated_pairs(x: Any) -> Any:
    """Return pairs turned by the position of their row, at rates that fall to 1/10000 along it."""
    import torch

    pairs = torch.arange(x.shape[1] // 2, device=x.device, dtype=torch.float64)
    places = torch.arange(x.shape[0], device=x.device, dtype=torch.float64)
    return _rotated(x, places[:, None] * 10000.0 ** (-2 * pairs / x.shape[1]))


def _rotated_halves(x: Any, angles: Any) -> Any:
    """Return each element with the one half a row away; of the first half it is subtracted."""
    import torch

    one, two = x.chunk(2, -1)
    angles = angles[:, None, None]
    return x * angles.cos() + torch.cat([-two, one], -1) * angles.sin()


def _causal_softmax(x: Any, *, scale: float) -> Any:
    import torch

    wide = x.float() * scale + torch.full(x.shape[1:], -math.inf, device=x.device).triu(1)
    return wide.softmax(2).to(x.dtype)


def _scaled_norm(x: Any, *, scale: float, shift: float) -> Any:
    wide = x.float()
    normed = (wide - wide.mean(1, keepdim=True)) * (wide.var(1, correction=0, keepdim=True) + 1e-5).rsqrt()
    return (normed * scale + shift).to(x.dtype)


def _chunked(x: Any, chunk: int) -> Any:
    """Return an array of batches, rows and heads with heads before chunks and their rows, in f32."""
    batches, rows, heads = x.shape[:3]
    parts = x.float().reshape(batches, rows // chunk, chunk, heads, *x.shape[3:])
    return parts.movedim(3, 2)


def _whole(x: Any) -> Any:
    """Return what :func:`_chunked` took apart."""
    x = x.movedim(2, 3)
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])


def _chunks_of_attention(q: Any, k: Any, v: Any, h: Any, g: Any, *, scale: float, chunk: int) -> Any:
    one, two, three, gates = (_chunked(each, chunk) for each in (q, k, v, g))
    scores = (one @ two.mT * (gates[..., :, None] - gates[..., None, :]).exp2()).tril()
    found = one @ h.float() * gates.exp2()[..., None] + scores @ three
    return _whole(found * scale).to(q.dtype)


def _products_of_keys(k: Any, g: Any, beta: Any, *, chunk: int) -> Any:
    keys, gates, factors = (_chunked(each, chunk) for each in (k, g, beta))
    found = keys @ keys.mT * (gates[..., :, None] - gates[..., None, :]).exp2() * factors[..., None]
    return _whole(found.tril(-1))


def _states_of_delta_rule(k: Any, v: Any, w: Any, g: Any, *, chunk: int) -> list[Any]:
    """Return the states before each chunk, and the values less what the state has of them."""
    import torch

    keys, values, weights, gates = (_chunked(each, chunk) for each in (k, v, w, g))
    state = torch.zeros((*keys.shape[:1], *keys.shape[2:3], k.shape[-1], v.shape[-1]), device=k.device)
    states, news = [], []
    for place in range(keys.shape[1]):
        states.append(state.to(k.dtype))
        new = values[:, place] - weights[:, place] @ states[-1].float()
        news.append(new.to(v.dtype))
        gate = gates[:, place]
        last = gate[..., -1:]
        state = state * last.exp2()[..., None]
        state = state + keys[:, place].mT @ (new * (last - gate).exp2()[..., None]).to(k.dtype).float()
    return [torch.stack(states, 1), _whole(torch.stack(news, 1))]


def _l2_norm(x: Any, *, eps: float) -> list[Any]:
    wide = x.float()
    rstd = ((wide * wide).sum(1) + eps).rsqrt()
    return [(wide * rstd[:, None]).to(x.dtype), rstd]


def _rotated_by_cosines(x: Any, cos: Any, sin: Any) -> Any:
    """Return the halves of each head turned by its row's angles."""
    import torch

    one, two = x.float().chunk(2, -1)
    cos, sin = cos.float()[:, None], sin.float()[:, None]
    return torch.cat([one * cos - two * sin, one * sin + two * cos], -1).to(x.dtype)


def _causal_convolution(x: Any, weight: Any) -> Any:
    import torch

    rows, width = x.shape[1], weight.shape[1]
    wide = torch.nn.functional.pad(x.float(), [0, 0, width - 1, 0])
    total = sum(wide[:, place : place + rows] * weight[:, place].float() for place in range(width))
    return _swish(total).to(x.dtype)


def _gated_rms_norm(x: Any, w: Any, z: Any, *, eps: float) -> list[Any]:
    wide, gate = x.float(), z.float()
    rstd = ((wide * wide).mean(1) + eps).rsqrt()
    return [(wide * rstd[:, None] * w.float() * _swish(gate)).to(x.dtype), rstd]


def _exact_geglu(e: Any, g: Any) -> Any:
    import torch

    return torch.nn.functional.gelu(e.float()).to(e.dtype) * g


def _blocks_with_scales(x: Any, s: Any, *, block: int) -> Any:
    import torch

    scales = s.repeat_interleave(block, 0).repeat_interleave(block, 1)
    return (x.float() * scales[: x.shape[0], : x.shape[1]]).to(torch.bfloat16)


def _greatest_of_windows(x: Any) -> list[Any]:
    import torch

    return list(torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True))


#: Of the inputs, in their order, by the word that the file of launches has.
REFERENCES: Mapping[str, Callable[..., Any]] = {
    "sum": _sum,
    "softmax": lambda x: x.softmax(1),
    "layer norm": _layer_norm,
    "product": lambda a, b: a @ b,
    "product of transposed": lambda a, b: a @ b.T,
    # fast.cu's C by columns; its last kernels also read a list of tiles.
    "product by columns": lambda a, b, tiles=None: b @ a.T,
    "attention": lambda q, k, v, **given: _attention(q, k, v, causal=False, **given),
    "causal attention": lambda q, k, v, **given: _attention(q, k, v, causal=True, **given),
    "output of attention": lambda q, k, v, **given: _attention(q, k, v, causal=False, **given)[1],
    "sums of rows": lambda x: x.sum(1),
    "product with a vector": lambda x, w: (w.float() @ x.float()).to(x.dtype),
    "gelu": _gelu,
    "gradient of gelu": _gelu_gradient,
    "layer norm of a sum": _layer_norm_of_sum,
    "fused classifier": _classifier,
    "embedding": _embedding,
    "permutation": lambda x: x.permute(3, 2, 0, 1).contiguous(),
    "seeded dropout": _seeded_dropout,
    "rms norm": _rms_norm,
    "fused add rms norm": _fused_add_rms_norm,
    "group norm": _group_norm,
    "poly norm": _poly_norm,
    "dynamic tanh": lambda x, alpha, gamma, beta: (x.float() * alpha).tanh() * gamma + beta,
    "swiglu": lambda a, b: _swish(a) * b,
    "geglu": lambda a, b: _gelu(a) * b,
    "relu squared": lambda x: x.relu() ** 2,
    "softmax backward": lambda dy, y: y * (dy - (dy * y).sum(1, keepdim=True)),
    "relu squared backward": lambda dy, x: dy * 2 * x.relu(),
    "cross entropy": _cross_entropy,
    "kl divergence": _kl_divergence,
    "total variation": _total_variation,
    "transposed": lambda x: x.T.contiguous(),
    "sums of blocks": _blocks,
    "exclusive sums of rows": lambda x: (x.cumsum(1) - x).to(x.dtype),
    "sorted rows": _sorted_rows,
    "convolution of columns": _convolution_of_columns,
    "cosines of blocks": _cosines,
    "walsh transform": _walsh,
    "haar transform": _haar,
    "stencil": _stencil,
    "prices of options": _options,
    "sobol numbers": _sobol,
    "scaled product and sum": _scaled_product,
    "product with scales of blocks": _product_with_scales,
    "product with scales of rows": lambda a, b, of_a, of_b: _product_with_scales(a, b, of_a.T, of_b),
    "rotation of pairs": _rotated_pairs,
    "rotation of halves": _rotated_halves,
    "scaled causal softmax": _causal_softmax,
    "scaled norm": _scaled_norm,
    "chunks of attention": _chunks_of_attention,
    "products of keys": _products_of_keys,
    "states of the delta rule": _states_of_delta_rule,
    "l2 norm": _l2_norm,
    "rotation by cosines": _rotated_by_cosines,
    "causal convolution": _causal_convolution,
    "gated rms norm": _gated_rms_norm,
    "exact geglu": _exact_geglu,
    "product of blocks with scales": _blocks_with_scales,
    "log softmax": lambda x: x.float().log_softmax(1).to(x.dtype),
    "greatest of windows": _greatest_of_windows,
}
