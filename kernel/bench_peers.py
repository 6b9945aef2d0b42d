"""What the kernel benchmark times: a shape of its grid, our kernels, and what one would use instead."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TOKENS: Final = 16384
WIDTH: Final = 2048
Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """One cell of the grid; direction is "forward" or "backward"."""

    direction: str
    head_dim: int
    causal: bool
    seqlen: int

    @property
    def batch(self) -> int:
        return TOKENS // self.seqlen

    @property
    def heads(self) -> int:
        return WIDTH // self.head_dim

    @property
    def flops(self) -> float:
        """4 B H S S D, halved when causal; 2.5 times that backward."""
        ahead = 4.0 * self.batch * self.heads * self.seqlen * self.seqlen * self.head_dim
        return ahead * (2.5 if self.direction == "backward" else 1.0) / (2 if self.causal else 1)


class Peers:
    """Calls by name for a shape's tensors; a text instead of a call says why there is none."""

    def __init__(self, original: Path | None, flex: Sequence[int]) -> None:
        self._original = _load_original(original) if original else None
        self._flex = flex

    def forward(self, shape: Shape, q: Any, k: Any, v: Any) -> Iterator[tuple[str, Call | str]]:
        from kernel.attention import flash_attn_triton

        scale = shape.head_dim**-0.5
        for name, backend in (("hopper", "hopper"), ("portable", "triton")):
            yield name, lambda b=backend: flash_attn_triton(q, k, v, shape.causal, scale, return_lse=True, backend=b)
        for name, call in _sdpa(shape, q, k, v).items():
            yield name, call
        timed = shape.seqlen in self._flex
        yield "FlexAttention", self._flex_attention(shape, q, k, v) if timed else "left out at this seqlen"
        if self._original is None:
            yield "original", "needs its file, see --original"
        elif shape.head_dim > 128:
            yield "original", "takes head_dim up to 128"
        else:
            original: Any = self._original
            yield "original", lambda: original(q, k, v, shape.causal, scale)

    def backward(self, shape: Shape, q: Any, k: Any, v: Any, do: Any) -> Iterator[tuple[str, Call | str]]:
        import torch

        from kernel.attention import flash_attn_triton

        def gradients(o: Any, fixed: bool = False) -> Call:
            def call() -> Any:
                before = torch.are_deterministic_algorithms_enabled()
                torch.use_deterministic_algorithms(fixed)
                try:
                    return torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
                finally:
                    torch.use_deterministic_algorithms(before)

            return call

        scale = shape.head_dim**-0.5
        for name, backend, fixed in (
            ("hopper", "hopper", False),
            ("hopper, fixed order", "hopper", True),
            ("portable", "triton", False),
        ):
            try:
                yield name, gradients(flash_attn_triton(q, k, v, shape.causal, scale, backend=backend), fixed)
            except ValueError as error:
                yield name, str(error)
        for name, call in _sdpa(shape, q, k, v).items():
            yield name, gradients(call())

    def _flex_attention(self, shape: Shape, q: Any, k: Any, v: Any) -> Call:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        torch.compiler.reset()  # it gives up after a few shapes otherwise
        compiled = torch.compile(flex_attention, dynamic=False)
        mask = None
        if shape.causal:
            mask = create_block_mask(_causal, None, None, shape.seqlen, shape.seqlen, device=q.device)
        return lambda: compiled(q, k, v, block_mask=mask)


def _causal(batch: Any, head: Any, row: Any, key: Any) -> Any:
    return row >= key


def _sdpa(shape: Shape, q: Any, k: Any, v: Any) -> dict[str, Call]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def by(backend: SDPBackend) -> Call:
        def call() -> Any:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=shape.causal)

        return call

    return {"SDPA cuDNN": by(SDPBackend.CUDNN_ATTENTION), "SDPA FlashAttention": by(SDPBackend.FLASH_ATTENTION)}


def _load_original(path: Path) -> Call | None:
    """The original kernel, where this Triton still has block pointers."""
    import triton.language as tl

    if not hasattr(tl, "make_block_ptr"):
        return None
    spec = importlib.util.spec_from_file_location("original_kernel", path)
    if spec is None or spec.loader is None:
        raise OSError(f"{path} is no Python file; --original takes one that defines flash_attn_triton.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.flash_attn_triton
