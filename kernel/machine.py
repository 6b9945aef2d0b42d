"""Where the kernel runs: on a CUDA GPU, else in Triton's interpreter; and what its failures mean to a person.

torch and triton are imported inside the functions, because TRITON_INTERPRET must be set before a kernel is defined.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import time
from typing import Any, Final

import numpy as np

from kernel.devices import cpu_name
from kernel.inputs import NUMPY_DTYPES
from kernel.problem import ProblemError
from kernel.results import Hello

PACKAGES: Final = ("torch", "triton", "numpy")
STICKY: Final = (
    "illegal memory access",
    "illegal instruction",
    "misaligned address",
    "device-side assert",
    "unspecified",
)


class CannotRun(RuntimeError):
    """There is no torch or triton here that could run a kernel; one sentence."""


def hello() -> Hello:
    """Looks for a GPU and decides where kernels run from now on; imports torch."""
    start = time.perf_counter()
    backend, device, reason = _find()
    return Hello(
        backend=backend,
        device=device,
        versions=versions(),
        reason=reason,
        seconds=round(time.perf_counter() - start, 3),
    )


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter to a run; a package that is missing is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    torch = sys.modules.get("torch")
    if torch is not None and torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def _find() -> tuple[str, str, str]:
    """(backend, device, reason)."""
    where = f"{platform.system()} {platform.machine()}"
    for name in ("torch", "triton"):
        if importlib.util.find_spec(name) is None:
            if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
                reason = f"{name} is not installed for {sys.executable}, so the kernel cannot run; install it with pip."
            else:
                reason = (
                    f"{name} is not installed, and there is no Triton for {where}, so the kernel cannot run here; "
                    "name a machine that has it with --worker."
                )
            return "none", cpu_name(), reason
    try:
        import torch
    except Exception as error:
        return "none", cpu_name(), f"torch cannot be imported ({one_line(error)}), so the kernel cannot run."
    asked = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on")
    if torch.cuda.is_available() and not asked:
        os.environ.pop("TRITON_INTERPRET", None)
        backend, device = "cuda", torch.cuda.get_device_name()
    else:
        os.environ["TRITON_INTERPRET"] = "1"
        # small products are many times quicker on one thread, and the window keeps a core for itself
        torch.set_num_threads(1)
        backend, device = "interpreter", cpu_name()
    if backend == "interpreter" and _release("triton") < (3, 7) and _release("numpy") >= (2, 4):
        here = f"Triton {importlib.metadata.version('triton')} and NumPy {importlib.metadata.version('numpy')}"
        return "none", device, f"Triton's interpreter needs Triton 3.7 or NumPy below 2.4; here are {here}."
    try:
        import kernel.attention  # noqa: F401
    except Exception as error:
        return "none", device, f"The kernel cannot be loaded with the Triton that is here ({one_line(error)})."
    return backend, device, ""


def _release(package: str) -> tuple[int, int]:
    """Major and minor version of an installed package."""
    major, minor = re.findall(r"\d+", importlib.metadata.version(package))[:2]
    return int(major), int(minor)


def tensor(array: np.ndarray, device: str) -> Any:
    """A torch tensor of an array, bfloat16 included."""
    import torch

    if array.dtype == NUMPY_DTYPES["bfloat16"]:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(array).to(device)


def array(x: Any) -> np.ndarray:
    """The array of a torch tensor, bfloat16 included."""
    import torch

    x = x.detach().cpu().contiguous()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(NUMPY_DTYPES["bfloat16"])
    return x.numpy()


def sentence(error: BaseException) -> tuple[str, bool]:
    """What went wrong, for a person, and whether this process can run no more kernels."""
    text = str(error)
    kind = type(error).__name__
    if isinstance(error, (ProblemError, CannotRun)):
        return text, False
    if kind == "OutOfMemoryError" or "out of memory" in text.lower():
        size = re.search(r"[Tt]ried to allocate ([\d.]+ \w+)", text)
        free = re.search(r"([\d.]+ \w+) is free", text)
        asked = f"{size[1]} more were asked" if size else "more was asked than there is"
        left = f" and {free[1]} were free" if free else ""
        return f"The GPU is out of memory: {asked}{left}. Make batch, heads, seqlen or head_dim smaller.", False
    if isinstance(error, MemoryError):
        size = re.search(r"[Uu]nable to allocate ([\d.]+ \w+)", text)
        asked = f" for {size[1]}" if size else ""
        return f"The worker has no memory{asked}. Make batch, heads, seqlen or head_dim smaller.", False
    if any(word in text for word in STICKY):
        return f"The GPU stopped the kernel ({one_line(error)}); the worker is started anew for the next run.", True
    if type(error) in (TypeError, ValueError) and text and "\n" not in text:
        return text, False
    if kind in ("CompilationError", "OutOfResources", "CompileTimeAssertionFailure", "PTXASError"):
        # Triton quotes the source first; what is wrong stands in the last line
        last = RuntimeError(text.strip().splitlines()[-1] if text.strip() else kind)
        return f"The kernel does not compile here ({one_line(last)}); try smaller blocks.", False
    return f"The run failed: {kind}: {one_line(error)}.", False


def one_line(error: BaseException, length: int = 200) -> str:
    """The first line of an error's text that says something, cut to `length`."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= length else text[: length - 1] + "…"
