import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.problem import Problem
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
    "a later format": (edited(flashscope=2), "not a FlashScope session"),
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
    "step is negative": (edited(step=-1), "step in the session is '-1'"),
    "row is true": (edited(row=True), "row in the session is 'True'"),
    "unit": (edited(lse_unit="log10"), "choose log2 or ln"),
    "unit is a list": (edited(lse_unit=[1]), "choose log2 or ln"),
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
