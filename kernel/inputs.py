"""The tensors q, k and v of a problem: drawn from a seed head by head, or read from a file."""

from __future__ import annotations

import math
import os
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import IO, Final

import ml_dtypes
import numpy as np

from kernel.plain_file import is_there, open_plain, shown_name, shown_path
from kernel.problem import Problem, ProblemError, shown

NUMPY_DTYPES: Final = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
}
CACHED_BYTES: Final = 96 << 20
MAX_FILE_ELEMENTS: Final = 1 << 27
RISE: Final = 8.0
SPIKE_EVERY: Final = 61
DRAWN_ROWS: Final = 2048


class Inputs:
    """q, k and v of a problem, one head at a time.

    `q(head)` gives (seqlen_q, head_dim), `k(head)` and `v(head)` (seqlen_k, head_dim), in the problem's dtype; `head`
    is a query head of batch x heads, k and v resolve the head group themselves. Every head has a seed of its own, so
    any head can be drawn without the others. Raises ProblemError("inputs", ...) when the file does not fit. `tensors`
    gives q, k and v whole instead, (batch, heads or kv_heads, seqlen, head_dim) each.
    """

    def __init__(self, problem: Problem, tensors: dict[str, np.ndarray] | None = None) -> None:
        self.problem = problem
        self._heads: OrderedDict[tuple[str, int], np.ndarray] = OrderedDict()
        self._drawing: dict[tuple[str, int], Future[np.ndarray]] = {}
        self._file = tensors
        if tensors is None and problem.inputs is not None:
            self._file = _read_tensors(Path(problem.inputs), problem)

    def q(self, head: int) -> np.ndarray:
        return self._head("q", head)

    def k(self, head: int) -> np.ndarray:
        return self._head("k", self.problem.kv_head(head))

    def v(self, head: int) -> np.ndarray:
        return self._head("v", self.problem.kv_head(head))

    def _head(self, name: str, head: int) -> np.ndarray:
        if self._file is not None:
            return self._file[name][divmod(head, self._file[name].shape[1])]
        key = (name, head)
        if key not in self._heads:
            drawing = self._drawing.pop(key, None)
            self._heads[key] = _draw(self.problem, name, head) if drawing is None else drawing.result()
            while len(self._heads) > 3 and sum(x.nbytes for x in self._heads.values()) > CACHED_BYTES:
                self._heads.popitem(last=False)
        self._heads.move_to_end(key)
        return self._heads[key]

    def begin(self, head: int) -> None:
        """Draws what one head needs on another thread, and nothing else; whoever asks meanwhile waits for the rest."""
        missing = self._missing(head)
        for key in set(self._drawing) - set(missing):
            self._drawing.pop(key).cancel()
        for key in missing:
            if key not in self._drawing:
                self._drawing[key] = _drawers().submit(_draw, self.problem, *key)

    def cancel(self) -> None:
        """Gives up what `begin` has not yet drawn."""
        for drawing in self._drawing.values():
            drawing.cancel()
        self._drawing.clear()

    def wait(self, head: int, seconds: float = 0) -> bool:
        """Waits for what `begin` draws; True once q, k and v of the head can be had at once."""
        missing = self._missing(head)
        drawing = [self._drawing[key] for key in missing if key in self._drawing]
        return len(drawing) == len(missing) and not wait(drawing, seconds).not_done

    def _missing(self, head: int) -> list[tuple[str, int]]:
        kv = self.problem.kv_head(head)
        keys = () if self._file is not None else (("q", head), ("k", kv), ("v", kv))
        return [key for key in keys if key not in self._heads]

    def stacked(self, name: str) -> np.ndarray:
        """The whole tensor `q`, `k` or `v`: (batch, heads or kv_heads, seqlen, head_dim)."""
        if self._file is not None:
            return self._file[name]
        p = self.problem
        heads, seqlen = (p.heads, p.seqlen_q) if name == "q" else (p.kv_heads, p.seqlen_k)
        out = np.empty((p.batch, heads, seqlen, p.head_dim), NUMPY_DTYPES[p.dtype])
        for index in range(p.batch * heads):
            out[divmod(index, heads)] = _draw(p, name, index)
        return out


@cache
def _drawers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "inputs")  # a second one would take the core that the window draws on


def _draw(problem: Problem, name: str, head: int) -> np.ndarray:
    """One head of one tensor, (seqlen, head_dim); see README for what each distribution shows."""
    p = problem
    seqlen = p.seqlen_q if name == "q" else p.seqlen_k
    rng = np.random.default_rng([p.seed, "qkv".index(name), head])
    out = np.empty((seqlen, p.head_dim), NUMPY_DTYPES[p.dtype])
    # q and k share a direction, and k's part along it grows, so every tile brings a larger score
    direction = np.float32(p.std / np.sqrt(p.head_dim) * 2) * np.float32(1 if p.scale >= 0 or name == "q" else -1)
    growth = np.linspace(0, RISE, seqlen, dtype=np.float32) if name == "k" else np.ones(seqlen, np.float32)
    # a few rows at a time: a large head in float32 would take twice the memory of the rest
    for start in range(0, seqlen, DRAWN_ROWS):
        x = rng.standard_normal((min(DRAWN_ROWS, seqlen - start), p.head_dim), np.float32)
        x *= np.float32(p.std)
        if p.distribution == "rising" and name != "v":
            x += direction * growth[start : start + len(x), None]
        elif p.distribution == "spiky" and name == "k":
            x[(SPIKE_EVERY // 2 - start) % SPIKE_EVERY :: SPIKE_EVERY] *= np.float32(RISE)
        out[start : start + len(x)] = x
    return out


def file_problem(path: str, base: Problem) -> Problem:
    """`base` with the shapes and dtype of the tensors in a .npz or .safetensors file, not yet reading their data.

    The path becomes absolute: the problem means the same file in every folder.
    """
    shapes = {name: (shape, dtype) for name, (shape, dtype, _) in _open_tensors(Path(path)).items()}
    (q, dtype), (k, _) = shapes["q"], shapes["k"]
    problem = base.change(
        batch=q[0],
        heads=q[1],
        kv_heads=k[1],
        seqlen_q=q[2],
        seqlen_k=k[2],
        head_dim=q[3],
        dtype=dtype,
        inputs=os.path.abspath(path),
    )
    _check_shapes(shapes, problem)
    return problem


Tensors = dict[str, tuple[tuple[int, ...], str, Callable[[], np.ndarray]]]


def _read_tensors(path: Path, problem: Problem) -> dict[str, np.ndarray]:
    tensors = _open_tensors(path)
    shapes = {name: (shape, dtype) for name, (shape, dtype, _) in tensors.items()}
    _check_shapes(shapes, problem)
    try:
        read = {name: np.asarray(load()) for name, (_, _, load) in tensors.items()}
    except Exception as error:
        raise ProblemError(
            "inputs", f"{shown_name(path)} cannot be read ({_one_line(error)}); save the tensors again."
        ) from error
    # the file may have been written anew in between
    _check_shapes({name: (x.shape, x.dtype.name) for name, x in read.items()}, problem)
    return {name: np.ascontiguousarray(x, x.dtype.newbyteorder("=")) for name, x in read.items()}


def _open_tensors(path: Path) -> Tensors:
    """Shape, dtype and loader of q, k and v; reads headers only, never pickles."""
    suffix, name = path.suffix.lower(), shown_name(path)
    if suffix not in (".npz", ".safetensors"):
        raise ProblemError("inputs", f"{name} is neither .npz nor .safetensors; save q, k and v in one of these.")
    if not is_there(path):
        raise ProblemError("inputs", f"There is no file {shown_path(path)}; choose one that holds q, k and v.")
    try:
        open_plain(path).close()
    except OSError as error:
        raise ProblemError(
            "inputs", f"{name} cannot be opened ({error.strerror}); choose a file that holds q, k and v."
        ) from error
    try:
        tensors = _open_npz(path) if suffix == ".npz" else _open_safetensors(path)
    except ProblemError:
        raise
    except Exception as error:
        raise ProblemError(
            "inputs", f"{name} is not a readable {suffix} file ({_one_line(error)}); save the tensors again."
        ) from error
    for tensor, (shape, dtype, _) in tensors.items():
        which = f"{tensor} in {name}"
        if dtype not in NUMPY_DTYPES:
            raise ProblemError(
                "inputs", f"{which} is {_word(dtype)}; it must be float16, bfloat16 (safetensors) or float32."
            )
        if len(shape) != 4:
            raise ProblemError(
                "inputs", f"{which} has shape {shown(shape)}; it must be (batch, heads, seqlen, head_dim)."
            )
        if math.prod(shape) > MAX_FILE_ELEMENTS:
            raise ProblemError(
                "inputs", f"{which} has shape {shown(shape)}; at most {MAX_FILE_ELEMENTS:,} numbers are read."
            )
    return tensors


def _open_npz(path: Path) -> Tensors:
    tensors: Tensors = {}
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        _need(path, {name.removesuffix(".npy") for name in names if name.endswith(".npy")}, names)
        for name in "qkv":
            with archive.open(f"{name}.npy") as member:
                shape, dtype = _npy_header(member)
                present = archive.getinfo(f"{name}.npy").file_size - member.tell()
            which = f"{name} in {shown_name(path)}"
            if dtype.hasobject:
                raise ProblemError("inputs", f"{which} holds Python objects; it must hold numbers.")
            if len(shape) == 4 and present < dtype.itemsize * math.prod(shape) <= dtype.itemsize * MAX_FILE_ELEMENTS:
                raise ProblemError("inputs", f"{which} is shorter than its shape {shown(shape)}; save it again.")
            tensors[name] = (shape, dtype.name, lambda name=name: _load_npy(path, name))
    return tensors


def _npy_header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of a .npy file whose beginning `member` stands at; leaves it at the data."""
    version = np.lib.format.read_magic(member)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"its .npy files have version {version[0]}.{version[1]}, which plain tensors do not need")
    shape, _, dtype = read(member)
    return shape, dtype


def _load_npy(path: Path, name: str) -> np.ndarray:
    # not np.load: it reads another member where one is named q and one q.npy
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _open_safetensors(path: Path) -> Tensors:
    from safetensors import safe_open

    names = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}
    tensors: Tensors = {}
    with safe_open(path, framework="numpy") as file:
        _need(path, set(file.keys()), file.keys())
        for name in "qkv":
            view = file.get_slice(name)
            dtype = names.get(view.get_dtype(), str(view.get_dtype()))
            tensors[name] = (tuple(view.get_shape()), dtype, lambda name=name: _load_safetensor(path, name))
    return tensors


def _load_safetensor(path: Path, name: str) -> np.ndarray:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return file.get_tensor(name)


def _need(path: Path, names: set[str], there: list[str]) -> None:
    missing = [name for name in "qkv" if name not in names]
    if missing:
        has = ", ".join(_word(name) for name in sorted(there)[:6]) or "nothing"
        raise ProblemError(
            "inputs", f"{shown_name(path)} lacks {' and '.join(missing)} (it has {has}); save q, k and v in it."
        )


def _check_shapes(tensors: dict[str, tuple[tuple[int, ...], str]], problem: Problem) -> None:
    p = problem
    q = (p.batch, p.heads, p.seqlen_q, p.head_dim)
    kv = (p.batch, p.kv_heads, p.seqlen_k, p.head_dim)
    for name, (shape, dtype) in tensors.items():
        want = q if name == "q" else kv
        if tuple(shape) != want:
            raise ProblemError(
                "inputs", f"{name} in the file has shape {shown(tuple(shape))}, but the problem needs {want}."
            )
        if dtype != p.dtype:
            raise ProblemError("inputs", f"{name} in the file is {dtype}, but the problem's dtype is {p.dtype}.")


def _one_line(error: Exception) -> str:
    lines = [line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()]
    return lines[0][:120] if lines else type(error).__name__


def _word(text: str) -> str:
    """A word from a file, short enough for a sentence."""
    return text if len(text) <= 24 and text.isprintable() else f"{text[:20]!r}…"
