"""What attention should give, in torch: exact in float64, and eager in the dtype of its inputs."""

import math

import torch

LN2 = math.log(2)


def attention(q, k, v, causal, scale, *, first_row=0, seqlen_q=None):
    """o (batch, heads, rows, head_dim) and base-2 lse (batch * heads, rows), computed in the tensors' own dtype.

    q may hold only some rows of a sequence of seqlen_q, from first_row on. A value that is not finite reaches the rows
    that see it.
    """
    group = q.shape[1] // max(1, k.shape[1])
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    rows = first_row + torch.arange(q.shape[2], device=q.device)[:, None]
    keys = torch.arange(k.shape[2], device=q.device)[None, :]
    keep = torch.ones_like(rows >= 0) & (keys >= 0)
    if causal:
        keep = keys <= rows + k.shape[2] - (seqlen_q or q.shape[2])
    s = ((q @ k.transpose(-1, -2)) * scale).masked_fill(~keep, -torch.inf)
    high = s if s.dtype == torch.float64 else s.float()
    p = torch.softmax(high, -1).masked_fill(~keep.any(-1, keepdim=True), 0.0).to(q.dtype)
    finite = v.isfinite()
    o = p @ torch.where(finite, v, 0)
    if not finite.all():
        for special, hit in ((torch.inf, v == torch.inf), (-torch.inf, v == -torch.inf), (torch.nan, v.isnan())):
            o = o + torch.where(keep.to(q.dtype) @ hit.to(q.dtype) > 0, special, 0.0)
    return o, torch.logsumexp(high, -1).flatten(0, 1) / LN2


def exact(q, k, v, causal, scale, **rows):
    return attention(q.double(), k.double(), v.double(), causal, scale, **rows)


def error(x, y):
    """The largest difference; infinities and NaNs must stand in the same places, and then differ by nothing."""
    x, y = x.double(), y.double()
    if x.shape != y.shape or not torch.equal(x.isnan(), y.isnan()):
        return math.inf
    return torch.where((x == y) | x.isnan(), 0.0, (x - y).abs()).max().item() if x.numel() else 0.0


def assert_right(o, lse, q, k, v, causal, scale, *, lse_bound=1e-3, few=False, **rows):
    """DESIGN.md section 6: at most 2 x the error of eager attention in the same dtype + 1e-5, and lse within 1e-3.

    few: where eager attention of a few numbers happens to hit them, one rounding of o itself counts as its error.
    An lse of more than 4,000 is allowed the spacing of float32 at its size, 2^-22 of it.
    """
    want, want_lse = exact(q, k, v, causal, scale, **rows)
    eager, _ = attention(q, k, v, causal, scale, **rows)
    bound = 2 * max(error(eager, want), _rounding(want, q.dtype) if few else 0.0) + 1e-5
    if not math.isfinite(bound):  # eager attention itself overflows
        bound = 1e-2 * max(1.0, want.abs().nan_to_num(0.0).max().item())
    assert error(o, want) <= bound
    size = torch.where(want_lse.isfinite(), want_lse.abs() / 4096, 0.0).clamp(min=1.0)
    assert error(lse / size, want_lse / size) <= lse_bound


def assert_gradients_right(got, do, q, k, v, causal, scale, *, few=False):
    """Gradients of (o * do).sum(): at most twice as far from float64's as eager attention's, + 1e-5.

    Where a row sees one key, eager attention's gradient is exactly 0, and ours what the float32 sums of do·v differ by.
    few: as in assert_right.
    """

    def gradients(dtype):
        inputs = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
        o, _ = attention(*inputs, causal, scale)
        return o, torch.autograd.grad((o * do.to(dtype)).sum(), inputs)

    _, wanted = gradients(torch.float64)
    size = abs(scale) * max(_largest(q), _largest(k))
    slack = 1e-5 + float((_largest(do, -2) * _largest(v, -2)).sum() * size * 2**-22)
    for name, x, want, eager in zip("qkv", got, wanted, gradients(q.dtype)[1], strict=True):
        own = max(error(eager, want), _rounding(want, q.dtype) if few else 0.0)
        assert error(x, want) <= 2 * own + slack, f"d{name}"


def _rounding(want, dtype):
    """The error of rounding the largest of the numbers to the dtype."""
    return _largest(want.nan_to_num(0.0, 0.0, 0.0)).item() * torch.finfo(dtype).eps / 2


def _largest(x, dim=None):
    x = x.detach().double().abs()
    if not x.numel():
        return x.new_zeros(())
    return x.max() if dim is None else x.amax((0, 1, dim))
