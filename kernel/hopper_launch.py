"""What the two Hopper kernels need to be compiled and launched: descriptors, barriers, a bounded cache of plans.

A launch here goes past Triton's own inspection of the arguments, which costs more than the kernel of a small call. That
is safe because a plan's key holds everything that inspection would look at, and because every pointer is checked.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernel.descriptors import strides

T = TypeVar("T")
BARRIERS: Final = 16  # hardware barriers of a program
_INLINE: Final = re.compile(r"// begin inline asm.*?// end inline asm", re.DOTALL)
_BARRIER: Final = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.(?:(?:sync|arrive)[.\w]*|red[.\w]*\s+[^,;]+,)\s+([^,;]+)")


def descriptor(x: torch.Tensor, rows: int, columns: int) -> Any:
    """A descriptor, as the compiler wants it, of (rows, columns) of a 16-bit (batch, heads, length, head_dim)."""
    swizzle = min(128, 2 * columns)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=swizzle, element_bitwidth=16, rank=4)
    found = strides(x)
    assert found is not None
    return TensorDescriptor(x, list(x.shape), list(found), [1, 1, rows, columns], layout)


def compiler_barriers(ptx: str) -> set[int]:
    """The ids of the hardware barriers in code that the compiler wrote; all of them where one cannot be read.

    The kernels' own hand-overs stand in inline assembly and are not counted. Where branches end in the same code, the
    id is in a register, which each of them sets to its own.
    """
    code = _INLINE.sub("", ptx)
    found: set[str] = set()
    for operand in {operand.strip() for operand in _BARRIER.findall(code)}:
        found.update([operand] if operand.isdigit() else _set_to(operand, code))
    if not all(operand.isdigit() for operand in found):
        return set(range(BARRIERS))
    return {int(operand) for operand in found}


def _set_to(register: str, code: str) -> list[str]:
    """What every instruction that writes the register sets it to, and "?" where that is no plain number."""
    writes = re.findall(rf"^\s*(?:@\S+\s+)?(\S+)\s+{re.escape(register)}\s*,\s*([^;]*);", code, re.MULTILINE)
    values = [value if name.startswith("mov.") else "?" for name, value in writes if not name.startswith("bar")]
    return values or ["?"]


def barriers_free(compiled: Any, first: int) -> bool:
    """Whether the compiler left hardware barriers `first` to 15 alone."""
    return max(compiler_barriers(compiled.asm["ptx"]), default=0) < first


class Plans(Generic[T]):
    """The last `limit` plans by key, each made once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._plans: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, key: Hashable) -> T | None:
        """The plan, if there is one."""
        return self._plans.get(key)

    def make(self, key: Hashable, build: Callable[[], T]) -> T:
        """The plan, built if need be; half of the old ones go when there are too many."""
        with self._lock:
            plan = self._plans.get(key)
            if plan is None:
                if len(self._plans) >= self.limit:
                    torch.cuda.synchronize()  # a launch under way may still read what goes
                    while len(self._plans) > self.limit // 2:
                        self._plans.popitem(last=False)
                plan = self._plans[key] = build()
            return plan
