import io
import os
import warnings
import zipfile

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from kernel.inputs import NUMPY_DTYPES, Inputs, file_problem
from kernel.problem import DISTRIBUTIONS, DTYPES, Problem, ProblemError


def tensors(dtype=np.float16, q=(1, 4, 20, 8), kv=(1, 2, 30, 8)):
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal(q if name == "q" else kv).astype(dtype) for name in "qkv"}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_values_do_not_depend_on_how_many_rows_are_drawn_at_a_time(distribution, monkeypatch):
    p = Problem(seqlen_q=300, seqlen_k=311, head_dim=24, distribution=distribution)
    at_once = Inputs(p)
    whole = [getattr(at_once, name)(1) for name in "qkv"]
    monkeypatch.setattr("kernel.inputs.DRAWN_ROWS", 50)
    in_pieces = Inputs(p)
    for name, x in zip("qkv", whole, strict=True):
        np.testing.assert_array_equal(getattr(in_pieces, name)(1), x)


def test_a_head_drawn_on_other_threads_is_the_same():
    p = Problem(batch=2, heads=4, kv_heads=2, seqlen_q=50, seqlen_k=70)
    plain, begun = Inputs(p), Inputs(p)
    assert not begun.wait(5)
    for head in (5, 5, 2):  # 5 is given up for 2, and drawn when it is asked for
        begun.begin(head)
    assert begun.wait(2, 60) and begun.wait(2)
    assert not begun.wait(5)
    for head in (5, 2, 0):
        for name in "qkv":
            np.testing.assert_array_equal(getattr(begun, name)(head), getattr(plain, name)(head))
    assert begun.wait(5)
    begun.begin(1)
    begun.cancel()
    np.testing.assert_array_equal(begun.q(1), plain.q(1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_seeded_heads_do_not_depend_on_each_other(dtype):
    p = Problem(batch=2, heads=4, kv_heads=2, seqlen_q=50, seqlen_k=70, dtype=dtype)
    one, other = Inputs(p), Inputs(p)
    assert one.q(7).dtype == NUMPY_DTYPES[dtype]
    assert one.q(7).shape == (50, 64)
    assert one.k(7).shape == (70, 64)
    other.q(3)
    np.testing.assert_array_equal(one.q(7), other.q(7))
    np.testing.assert_array_equal(one.k(6), one.k(7))
    assert (one.k(5) != one.k(6)).any()
    for name in "qkv":
        whole = one.stacked(name)
        assert whole.shape == (2, 4 if name == "q" else 2, 50 if name == "q" else 70, 64)
        head = 5 if name == "q" else p.kv_head(5)
        np.testing.assert_array_equal(whole[divmod(head, whole.shape[1])], getattr(one, name)(5))


def test_seed_and_std_and_distribution_matter():
    base = Problem(seqlen_q=512, seqlen_k=512)
    q = Inputs(base).q(0).astype(np.float32)
    assert abs(q.std() - 0.5) < 0.01
    assert (Inputs(base.change(seed=21)).q(0) != q).any()
    np.testing.assert_allclose(Inputs(base.change(std=1.0)).q(0).astype(np.float32), 2 * q, rtol=2e-3, atol=1e-3)


def test_rising_scores_rise_and_spiky_keys_stick_out():
    p = Problem(seqlen_q=64, seqlen_k=512, distribution="rising", causal=False)
    for scale in (0.5, -0.5):
        inputs = Inputs(p.change(sm_scale=scale))
        s = inputs.q(0).astype(np.float32) @ inputs.k(0).astype(np.float32).T * scale
        eighths = s.reshape(64, 8, 64).max(axis=2).mean(axis=0)
        assert (np.diff(eighths) > 0).all()
    norms = np.linalg.norm(Inputs(p.change(distribution="spiky")).k(0).astype(np.float32), axis=1)
    assert (norms > 3 * np.median(norms)).sum() == 8


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_npz_is_read(tmp_path, dtype):
    saved = tensors(dtype)
    np.savez(tmp_path / "t.npz", **saved)
    p = file_problem(str(tmp_path / "t.npz"), Problem())
    assert (p.batch, p.heads, p.kv_heads, p.seqlen_q, p.seqlen_k, p.head_dim) == (1, 4, 2, 20, 30, 8)
    assert p.dtype == np.dtype(dtype).name
    inputs = Inputs(p)
    np.testing.assert_array_equal(inputs.q(2), saved["q"][0, 2])
    np.testing.assert_array_equal(inputs.v(3), saved["v"][0, 1])
    np.testing.assert_array_equal(inputs.stacked("k"), saved["k"])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_safetensors_is_read(tmp_path, dtype):
    saved = tensors(dtype)
    save_file(saved, tmp_path / "t.safetensors")
    p = file_problem(str(tmp_path / "t.safetensors"), Problem())
    assert p.dtype == np.dtype(dtype).name
    np.testing.assert_array_equal(Inputs(p).k(3), saved["k"][0, 1])


class Evil:
    def __reduce__(self):
        return (open, ("/tmp/flashscope-was-here", "w"))


def npz_of_objects(path):
    np.savez(path, q=np.array([Evil()], dtype=object), k=np.zeros(1), v=np.zeros(1))


def npz_shorter_than_its_shape(path):
    np.savez(path, **tensors())
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["k.npy"] = members["k.npy"][:-100]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def npz_cut_off(path):
    np.savez(path, **tensors())
    path.write_bytes(path.read_bytes()[:-200])


def npz_of_a_giant(path):
    header = b"{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 1099511627776, 64), }"
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    giant = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(path, "w") as archive:
        for name in "qkv":
            archive.writestr(f"{name}.npy", giant)


BAD_FILES = {
    "objects": (npz_of_objects, "holds Python objects"),
    "short member": (npz_shorter_than_its_shape, "shorter than its shape"),
    "cut off": (npz_cut_off, "not a readable .npz file"),
    "giant": (npz_of_a_giant, "at most 134,217,728 numbers are read"),
    "empty": (lambda path: path.write_bytes(b""), "not a readable .npz file"),
    "no v": (lambda path: np.savez(path, q=np.zeros(1), k=np.zeros(1)), "lacks v (it has k.npy, q.npy)"),
    "three dimensions": (lambda path: np.savez(path, **tensors(q=(4, 20, 8))), "must be (batch, heads, seqlen"),
    "float64": (lambda path: np.savez(path, **tensors(np.float64)), "is float64; it must be float16"),
    "head_dim differs": (lambda path: np.savez(path, **tensors(kv=(1, 2, 30, 9))), "needs (1, 2, 30, 8)"),
    "5 heads over 2": (lambda path: np.savez(path, **tensors(q=(1, 5, 20, 8))), "kv_heads must divide heads"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_npz_is_refused_in_one_sentence(tmp_path, name):
    write, words = BAD_FILES[name]
    path = tmp_path / "bad.npz"
    write(path)
    with pytest.raises(ProblemError) as caught:
        Inputs(file_problem(str(path), Problem()))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_no_longer_fits_the_problem_is_refused(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, **tensors())
    p = file_problem(str(path), Problem())
    with pytest.raises(ProblemError, match=r"q in the file has shape \(1, 4, 20, 8\), but the problem needs"):
        Inputs(p.change(seqlen_q=21))
    with pytest.raises(ProblemError, match="float16, but the problem's dtype is float32"):
        Inputs(p.change(dtype="float32"))


@pytest.mark.parametrize(("name", "words"), [("t.pt", "neither .npz nor .safetensors"), ("t.npz", "There is no file")])
def test_other_and_missing_files_are_refused(tmp_path, name, words):
    with pytest.raises(ProblemError, match=words):
        file_problem(str(tmp_path / name), Problem())


def test_truncated_safetensors_is_refused(tmp_path):
    path = tmp_path / "t.safetensors"
    save_file(tensors(), path)
    for data in (path.read_bytes()[:-10], b"\xff" * 64, b""):
        path.write_bytes(data)
        with pytest.raises(ProblemError, match=r"not a readable \.safetensors file"):
            file_problem(str(path), Problem())


def members(path, *pairs):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")  # of a name that comes twice
        for name, data in pairs:
            archive.writestr(name, data)


def npy(x):
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def test_tensors_of_another_byte_order_or_layout_come_in_this_machines(tmp_path):
    saved = tensors(np.float32)
    np.savez(tmp_path / "t.npz", q=saved["q"].astype(">f4"), k=np.asfortranarray(saved["k"]), v=saved["v"])
    inputs = Inputs(file_problem(str(tmp_path / "t.npz"), Problem()))
    for name in "qkv":
        found = inputs.stacked(name)
        assert found.dtype == NUMPY_DTYPES["float32"] and found.dtype.isnative and found.flags.c_contiguous
        np.testing.assert_array_equal(found, saved[name])


def test_the_member_that_was_checked_is_the_one_that_is_read(tmp_path):
    saved = tensors()
    q, k, v = (npy(saved[name]) for name in "qkv")
    path = tmp_path / "t.npz"
    members(path, ("q", b"raw"), ("q.npy", q), ("k", npy(saved["q"])), ("k.npy", k), ("v.npy", q), ("v.npy", v))
    inputs = Inputs(file_problem(str(path), Problem()))
    for name in "qkv":
        np.testing.assert_array_equal(inputs.stacked(name), saved[name])
    members(path, ("q", b"raw"), ("k.npy", k), ("../v.npy", v))
    with pytest.raises(ProblemError, match=r"lacks q and v \(it has ../v.npy, k.npy, q\)"):
        file_problem(str(path), Problem())


def test_a_file_that_changes_between_its_header_and_its_data_is_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "t.npz", **tensors())
    p = file_problem(str(tmp_path / "t.npz"), Problem())
    monkeypatch.setattr("kernel.inputs._load_npy", lambda path, name: np.zeros((1, 2, 3, 4), np.float16))
    with pytest.raises(ProblemError, match="has shape"):
        Inputs(p)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".NPZ"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_ordinary_file_is_not_opened(tmp_path, suffix, make):
    path = tmp_path / f"t{suffix}"
    make(path)
    with pytest.raises(ProblemError, match=r"cannot be opened \(it is "):
        file_problem(str(path), Problem())


@pytest.mark.parametrize("name", ["a" * 300 + ".npz", "a\0b.npz", "t.npz" + "/x" * 3000 + ".npz"])
def test_names_that_no_file_can_have_are_refused(tmp_path, name):
    with pytest.raises(ProblemError, match=r"There is no file|cannot be opened|must be the path"):
        Problem().change(inputs=file_problem(str(tmp_path / name), Problem()).inputs)


def test_what_a_file_says_of_itself_stays_short(tmp_path):
    path = tmp_path / ("t" * 200 + ".npz")
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2, {'9' * 4000}, 4)}}".encode()
    huge = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    for pairs in ([("q" * 5000, b"")] * 3, [(f"{name}.npy", huge) for name in "qkv"]):
        members(path, *pairs)
        with pytest.raises(ProblemError) as caught:
            file_problem(str(path), Problem())
        assert len(str(caught.value)) < 300
