"""Which kernel takes a call: the portable one, or on a Hopper GPU the one in Gluon where it applies and is faster."""

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch
import triton

from kernel.checks import INTERPRETED, told
from kernel.launch import gpu


def backend_of(backend: str | None, asked: tuple[int, ...]) -> str:
    """ "triton", "hopper", or "" where the tensors decide. asked: blocks, warps and stages, 0 where not given."""
    if backend is not None and not (isinstance(backend, str) and backend in ("triton", "hopper")):
        raise ValueError(f'backend is {told(backend)}; it must be "triton", "hopper" or None.')
    if backend == "hopper" and any(asked):
        raise ValueError('backend="hopper" chooses its own blocks, warps and stages; leave them out.')
    return "triton" if any(asked) else backend or ""


def is_hopper(q: torch.Tensor) -> bool:
    """Whether the tensor is on a Hopper GPU, and kernels are compiled."""
    return not INTERPRETED and gpu(q.device.index).capability == (9, 0)


@lru_cache(maxsize=1)
def load_hopper() -> tuple[ModuleType | None, ModuleType | None, str]:
    """kernel.hopper and kernel.hopper_backward, or why they cannot be had; called only where a GPU can run them.

    A Triton that nobody has tried yet may lack any of the names that they use; the portable kernels need none of them.
    """
    try:
        from kernel import hopper, hopper_backward
    except Exception as error:
        return None, None, f"it cannot be loaded with Triton {triton.__version__} ({type(error).__name__}: {error})"
    return hopper, hopper_backward, ""


def hopper_plan(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, backend: str) -> Any:
    """The Hopper kernel's plan for a problem, or None where the portable kernel is to take it.

    Raises ValueError where backend is "hopper" and that kernel cannot take it.
    """
    refusal = "this is no Hopper GPU"
    if backend != "triton" and is_hopper(q):
        hopper, _, refusal = load_hopper()
        if hopper is not None:
            if not backend and not hopper.pays(q, k, causal):
                return None
            plan = hopper.plan(q, k, v, causal, scale)
            if not plan.refusal:
                return plan
            refusal = plan.refusal
    if backend == "hopper":
        raise ValueError(f'backend="hopper" cannot take this: {refusal}; leave backend out for the portable kernel.')
    return None


def hopper_gradients(q: torch.Tensor, k: torch.Tensor, causal: bool, backend: str) -> Callable[..., Any] | None:
    """The Hopper backward, which gives dq, dk and dv or, where it does not apply, None; None where it does not pay."""
    if backend == "triton" or not is_hopper(q):
        return None
    hopper, hopper_backward, _ = load_hopper()
    if hopper is None or hopper_backward is None or not (backend or hopper.pays(q, k, causal)):
        return None
    return hopper_backward.backward
