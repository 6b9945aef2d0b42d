"""The palette's search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.fuzzy import rank, score

TEXTS = ["Play or pause", "Next step", "Next tile", "Previous step", "Open preset: Ragged tail", "Presentation"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("play", "Play or pause"),
        ("step prev", "Previous step"),
        ("nt", "Next tile"),
        ("ragged", "Open preset: Ragged tail"),
        ("PRESENT", "Presentation"),
        ("rgtail", "Open preset: Ragged tail"),
    ],
)
def test_a_few_letters_find_what_is_meant(query: str, first: str) -> None:
    assert rank(query, TEXTS, str, 3)[0] == first


def test_what_does_not_fit_is_left_out() -> None:
    assert rank("xyz", TEXTS, str, 3) == []
    assert score("step zebra", "Next step") is None


def test_an_empty_query_keeps_the_order_and_the_limit() -> None:
    assert rank(" ", TEXTS, str, 4) == TEXTS[:4]


@given(st.sampled_from(TEXTS), st.data())
def test_a_text_is_found_by_any_letters_of_it_in_order(text: str, data: st.DataObject) -> None:
    letters = [c for c in text if c.isalnum()]
    chosen = data.draw(st.lists(st.integers(0, len(letters) - 1), min_size=1, max_size=5, unique=True).map(sorted))
    assert text in rank("".join(letters[i] for i in chosen), TEXTS, str, 10)


@given(st.text(max_size=20), st.text(max_size=40))
def test_any_text_can_be_searched(query: str, text: str) -> None:
    found = score(query, text)
    assert found is None or isinstance(found, float)
