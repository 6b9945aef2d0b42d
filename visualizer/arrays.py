"""Tensors of any library as files that the process that draws can read, without importing that library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def arrays(tensors: dict[str, Any], folder: Path) -> dict[str, str | None]:
    """Writes q, k, v to one file and o, lse to another; {"inputs": path, "outputs": path}, None for what is not given.

    Raises ValueError when only some of a group are given, or when one is no array.
    """
    paths: dict[str, str | None] = {}
    for key, names in (("inputs", ("q", "k", "v")), ("outputs", ("o", "lse"))):
        given = [name for name in names if tensors[name] is not None]
        missing = [name for name in names if tensors[name] is None]
        paths[key] = None
        if not given:
            continue
        if missing:
            raise ValueError(f"{' and '.join(given)} came without {' and '.join(missing)}; give all of {_list(names)}.")
        found = {name: to_numpy(tensors[name], name) for name in names}
        if key == "inputs":
            from safetensors.numpy import save_file

            path = folder / "qkv.safetensors"
            save_file({name: np.ascontiguousarray(x) for name, x in found.items()}, str(path))
        else:
            path = folder / "outputs.npz"
            wide = {name: x.astype(np.float32) if x.dtype.name == "bfloat16" else x for name, x in found.items()}
            np.savez(path, allow_pickle=False, **wide)
        paths[key] = str(path)
    return paths


def to_numpy(x: Any, name: str) -> np.ndarray:
    """An array of NumPy, or a tensor of torch (on any device), JAX or CuPy, as a NumPy array; bfloat16 stays bfloat16.

    Raises ValueError when x is none of these.
    """
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        if str(x.dtype) == "torch.bfloat16":
            from ml_dtypes import bfloat16

            return x.float().numpy().astype(bfloat16)
    elif hasattr(x, "get") and not hasattr(x, "__array__"):
        x = x.get()
    elif not hasattr(x, "__array__") and hasattr(x, "numpy"):
        x = x.numpy()
    array = np.asarray(x)
    if array.dtype.kind not in "fV" or array.ndim == 0:
        raise ValueError(f"{name} is {type(x).__name__} of {array.dtype}; give an array of floating-point numbers.")
    return array


def _list(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
