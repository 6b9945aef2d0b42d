"""What the kernel is measured against, for some rows of one head: exact attention, and eager attention in its dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from kernel.inputs import Inputs
from kernel.problem import LOG2E, Problem
from kernel.reference import CHUNK, exact_rows

GPU_SCORES: Final = 1 << 24


class Expected(NamedTuple):
    """Some rows of one head: exact o (n, head_dim) and base-2 lse (n,), then the eager ones; all float64."""

    rows: np.ndarray
    o: np.ndarray
    lse: np.ndarray
    eager_o: np.ndarray
    eager_lse: np.ndarray


class Yardstick:
    """Exact values in NumPy's float64 where the kernel is interpreted, in torch's float64 on the GPU otherwise.

    Eager attention runs on the same device as the kernel. q (batch, heads, seqlen_q, head_dim), k, v: its tensors.
    """

    def __init__(self, problem: Problem, inputs: Inputs, q: Any, k: Any, v: Any) -> None:
        self.problem = problem
        self._inputs = inputs
        self._q, self._k, self._v = (x.flatten(0, 1) for x in (q, k, v))
        self.chunk_rows = max(1, (GPU_SCORES if q.is_cuda else CHUNK) // max(1, problem.seqlen_k))

    def expect(self, head: int, rows: np.ndarray) -> Iterator[Expected]:
        """What the rows of a query head should be, in chunks that each take well under a second."""
        p = self.problem
        if not self._q.is_cuda:
            for chunk, o, lse in exact_rows(self._inputs, p, head, rows):
                yield Expected(chunk, o, lse, *self._eager(head, chunk))
            return
        for start in range(0, len(rows), self.chunk_rows):
            chunk = rows[start : start + self.chunk_rows]
            yield Expected(chunk, *self._exact(head, chunk), *self._eager(head, chunk))

    def size_of_v(self) -> float:
        """The root mean square of the finite numbers in v."""
        v = self._v[self._v.isfinite()].double()
        return float(v.square().mean().sqrt()) if v.numel() else 0.0

    def _tensors(self, head: int, rows: np.ndarray) -> tuple[Any, Any, Any, Any]:
        """q of the rows, k, v, and which keys each row sees."""
        import torch

        p = self.problem
        index = torch.from_numpy(rows).to(self._q.device)
        keys = torch.arange(p.seqlen_k, device=self._q.device)
        limit = index + p.offset if p.causal else torch.full_like(index, p.seqlen_k - 1)
        kv = p.kv_head(head)
        return self._q[head][index], self._k[kv], self._v[kv], keys[None, :] <= limit[:, None]

    def _exact(self, head: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As kernel.reference.exact, on the GPU."""
        q, k, v, keep = self._tensors(head, rows)
        q, k, v = q.double(), k.double(), v.double()
        s = (q @ k.T * self.problem.scale).masked_fill_(~keep, -np.inf)
        m = s.amax(1) if s.shape[1] else s.new_full((len(s),), -np.inf)
        m_ref = m.masked_fill(m == -np.inf, 0.0)
        p = (s - m_ref[:, None]).exp_()
        total = p.sum(1)
        o = p @ v.nan_to_num(0.0, 0.0, 0.0)
        if not v.isfinite().all():
            seen = keep.double()
            for special, hit in ((np.inf, v == np.inf), (-np.inf, v == -np.inf), (np.nan, v.isnan())):
                o += (seen @ hit.double() > 0).double().masked_fill_(seen @ hit.double() > 0, special)
        o = o / total.masked_fill(total == 0, 1.0)[:, None]
        return o.cpu().numpy(), ((m_ref + total.log()) * LOG2E).cpu().numpy()

    def _eager(self, head: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """softmax(q·kᵀ·scale)·v with every tensor in the problem's dtype, as one would write it in torch."""
        q, k, v, keep = self._tensors(head, rows)
        s = (_product(q, k.T) * self.problem.scale).masked_fill_(~keep, -np.inf)
        p = s.softmax(1).masked_fill_(~keep, 0.0)
        lse = s.float().logsumexp(1) * LOG2E if s.shape[1] else s.new_full((len(s),), -np.inf)
        return _product(p, v).double().cpu().numpy(), lse.double().cpu().numpy()


def _product(a: Any, b: Any) -> Any:
    """a @ b in their dtype, summed in float32 as a GPU does; a CPU is ten times quicker at that in float32 itself."""
    return a @ b if a.is_cuda else (a.float() @ b.float()).to(a.dtype)
