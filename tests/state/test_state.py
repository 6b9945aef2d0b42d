import json
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.inputs import Inputs, file_problem
from kernel.problem import FIELDS, Problem
from tests.strategies import problems
from visualizer.presets import PRESETS
from visualizer.state import LSE_UNITS, MATRICES, OPENING, State, StateError, from_json, load, save, to_json


@given(
    st.builds(
        State,
        problem=problems(),
        step=st.integers(0, 10**9),
        row=st.integers(0, 300),
        lse_unit=st.sampled_from(LSE_UNITS),
        matrix=st.sampled_from(MATRICES),
    )
)
@settings(max_examples=50, deadline=None)
def test_a_session_file_is_the_state(state):
    assert from_json(to_json(state)) == state


def test_change_reaches_the_problem_by_name():
    state = OPENING.change(step=5, seqlen_q=512, causal=False)
    assert (state.step, state.problem.seqlen_q, state.problem.causal) == (5, 512, False)
    assert OPENING.problem.seqlen_q == 1024


def test_presets_differ_and_are_stored_as_they_are():
    assert len({preset.name for preset in PRESETS}) == len({preset.state for preset in PRESETS}) == len(PRESETS)
    assert PRESETS[0].state == OPENING
    for preset in PRESETS:
        assert from_json(to_json(preset.state)) == preset.state


def edited(**changes):
    data = json.loads(to_json(OPENING))
    problem = data["problem"] | {k: v for k, v in changes.items() if k in data["problem"]}
    return json.dumps(data | {k: v for k, v in changes.items() if k not in problem} | {"problem": problem})


BAD = {
    "empty": ("", "not valid JSON"),
    "cut off": (to_json(OPENING)[:-40], "not valid JSON"),
    "a list": ("[1, 2]", "not a FlashScope session"),
    "another program's": ('{"version": 3}', "not a FlashScope session"),
    "a later format": (
        edited(flashscope=2),
        "session's format is 2, and this FlashScope reads 1; open it in a newer one",
    ),
    "a format that is no number": (edited(flashscope=True), "session's format is True"),
    "seqlen 10^9": (edited(seqlen_q=10**9), "seqlen_q is 1,000,000,000"),
    "seqlen -1": (edited(seqlen_q=-1), "seqlen_q is -1"),
    "seqlen many": (edited(seqlen_q="many"), "seqlen_q is 'many'"),
    "seqlen huge": (edited(seqlen_q=10**400), "seqlen_q is"),
    "scale NaN": (edited(sm_scale=float("nan")), "not valid JSON"),
    "unknown field": (edited(zoom=3), "unknown field, 'zoom'"),
    "problem is text": (json.dumps({"flashscope": 1, "problem": "big"}), '"problem" in the session must be'),
    "unknown problem field": (
        json.dumps({"flashscope": 1, "problem": {"exec": "rm"}}),
        "unknown problem field, 'exec'",
    ),
    "step is text": (edited(step="7"), "step in the session is '7'"),
    "step is negative": (edited(step=-1), "step in the session is -1"),
    "row is true": (edited(row=True), "row in the session is True"),
    "unit": (edited(lse_unit="log10"), "choose log2 or ln"),
    "unit is a list": (edited(lse_unit=[1]), "choose log2 or ln"),
    "unit is a long list": (edited(lse_unit=[["ln"] * 10_000]), "choose log2 or ln"),
    **{f"{f} is long": (edited(**{f: "many" * 100_000}), "cannot be") for f in FIELDS},
    **{f"{f} is a list": (edited(**{f: [1] * 10_000}), "cannot be") for f in FIELDS},
    "nested deep": ("[" * 100_000, "not valid JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_sessions_are_refused_in_one_sentence(name, tmp_path):
    text, words = BAD[name]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(StateError) as caught:
        load(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith("bad.json: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_files_that_are_no_text_or_too_large_or_missing(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StateError, match="is not text"):
        load(path)
    path.write_bytes(b" " * (2 << 20))
    with pytest.raises(StateError, match="larger than 1 MiB"):
        load(path)
    with pytest.raises(StateError, match="cannot be opened"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_ordinary_file_is_neither_read_nor_replaced(make, tmp_path):
    path = tmp_path / "s.json"
    make(path)
    before = os.stat(path).st_mode
    with pytest.raises(StateError, match=r"^s.json cannot be opened: it is "):
        load(path)
    with pytest.raises(StateError, match="cannot be written: it is "):
        save(OPENING, path)
    assert os.stat(path).st_mode == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]


@pytest.mark.parametrize("name", ["a" * 5000, "a" * 5000 + ".json", "a\0b.json"])
def test_names_that_no_file_can_have_are_refused(name, tmp_path):
    with pytest.raises(StateError, match="cannot be opened") as caught:
        load(tmp_path / name)
    assert len(str(caught.value)) < 200
    with pytest.raises(StateError, match="cannot be written"):
        save(OPENING, tmp_path / name)


def test_a_file_from_an_editor_that_marks_utf8_is_read(tmp_path):
    (tmp_path / "s.json").write_text(to_json(OPENING), encoding="utf-8-sig")
    assert load(tmp_path / "s.json") == OPENING


def test_saving_keeps_links_modes_and_long_names(tmp_path):
    target = tmp_path / ("n" * 240 + ".json")
    save(OPENING, target)
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask
    target.chmod(0o640)
    (tmp_path / "link.json").symlink_to(target)
    save(OPENING.change(step=9), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert load(target).step == 9
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_what_was_there(tmp_path):
    path = tmp_path / "s.json"
    save(OPENING, path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(StateError, match="cannot be written: File too large"):
            save(OPENING.change(step=9), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert load(path) == OPENING
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]


def test_saving_replaces_the_file_whole_and_leaves_no_parts(tmp_path):
    path = tmp_path / "s.json"
    save(OPENING, path)
    save(OPENING.change(step=9), path)
    assert load(path).step == 9
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]
    with pytest.raises(StateError, match="cannot be written"):
        save(OPENING, tmp_path / "no" / "such" / "folder.json")


def test_a_session_written_by_hand_may_leave_fields_out():
    state = from_json('{"flashscope": 1, "problem": {"seqlen_q": 256}}')
    assert state == State(problem=Problem(seqlen_q=256))


def test_tensors_of_a_session_are_found_from_every_folder(tmp_path, monkeypatch):
    for folder in ("talk", "elsewhere"):
        (tmp_path / folder).mkdir()
    tensors = {name: np.ones((1, 1, 40, 16), np.float16) for name in "qkv"}
    np.savez(tmp_path / "talk" / "mine.npz", **tensors)
    monkeypatch.chdir(tmp_path / "talk")
    state = OPENING.change(problem=file_problem("mine.npz", Problem()))
    assert state.problem.inputs == str(tmp_path / "talk" / "mine.npz")
    save(state, tmp_path / "talk" / "beside.json")
    save(state, tmp_path / "elsewhere" / "apart.json")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load(tmp_path / "talk" / "beside.json") == load(tmp_path / "elsewhere" / "apart.json") == state
    # what lies together moves together
    (tmp_path / "talk").rename(tmp_path / "moved")
    assert load(Path("../moved/beside.json")).problem.inputs == str(tmp_path / "moved" / "mine.npz")
    assert Inputs(load(tmp_path / "moved" / "beside.json").problem).q(0).shape == (40, 16)


def test_a_relative_path_written_by_hand_is_meant_from_the_session(tmp_path, monkeypatch):
    (tmp_path / "hand.json").write_text('{"flashscope": 1, "problem": {"inputs": "data/x.npz"}}')
    monkeypatch.chdir("/")
    assert load(tmp_path / "hand.json").problem.inputs == str(tmp_path / "data" / "x.npz")
