"""What known GPUs can do at most, from their makers' data sheets, and what this machine's processor is called."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final, NamedTuple


class Device(NamedTuple):
    """Peak rates of one GPU.

    tflops16: dense float16 or bfloat16 products with float32 sums, in TFLOP/s; tflops32: float32 without tensor cores,
    in TFLOP/s; bandwidth: of the memory, in TB/s. pattern: what CUDA's name of the device holds.
    """

    name: str
    pattern: str
    tflops16: float
    tflops32: float
    bandwidth: float

    def tflops(self, dtype: str) -> float:
        """The roof for a dtype of Problem; full-precision float32 runs without tensor cores."""
        return self.tflops32 if dtype == "float32" else self.tflops16


# NVIDIA data sheets, without sparsity: H200 SXM, H100 SXM, A100 80GB SXM; Ada whitepaper for the RTX 4090
DEVICES: Final = (
    Device("H200 SXM", "H200", 989.0, 67.0, 4.8),
    Device("H100 SXM", "H100 80GB HBM3", 989.0, 67.0, 3.35),
    Device("A100 SXM 80GB", "A100-SXM4-80GB", 312.0, 19.5, 2.039),
    Device("RTX 4090", "RTX 4090", 165.2, 82.6, 1.008),
)
EXAMPLE: Final = DEVICES[0]


def find(device: str | None) -> Device | None:
    """The device whose name, as CUDA gives it, holds a known pattern ("NVIDIA H200"); None when it is not known."""
    return next((known for known in DEVICES if device and known.pattern.lower() in device.lower()), None)


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
