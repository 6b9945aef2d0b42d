"""How well a few typed letters fit a text, for the command palette."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def score(query: str, text: str) -> float | None:
    """None when some word of the query does not fit; the higher, the better the fit.

    Words fit in any order. What starts a word of the text, or is the first letters of its words, beats what stands in
    the middle of one, and that beats letters that are scattered.
    """
    text = text.lower()
    total = 0.0
    for word in query.lower().split():
        found = _word_score(word, text)
        if found is None:
            return None
        total += found
    return total


def rank(query: str, items: Iterable[T], text: Callable[[T], str], limit: int) -> list[T]:
    """The items that fit, best first, equal ones in their own order."""
    scored = [(score(query, text(item)), item) for item in items]
    fitting = [(s, item) for s, item in scored if s is not None]
    if query.strip():
        fitting.sort(key=lambda pair: -pair[0])
    return [item for _, item in fitting[:limit]]


def _word_score(word: str, text: str) -> float | None:
    starts = re.findall(r"\w+", text)
    if any(start.startswith(word) for start in starts):
        return 15.0 + len(word)
    if len(word) > 1 and word in "".join(start[0] for start in starts):
        return 14.0 + len(word)
    if word in text:
        return 10.0 + len(word)
    total, at, run = 0.0, -1, 0
    for letter in word:
        found = text.find(letter, at + 1)
        if found < 0:
            return None
        run = run + 1 if found == at + 1 else 0
        total += run + (2.0 if found == 0 or not text[found - 1].isalnum() else 0.0)
        at = found
    return total / 4
