"""Comparisons of pictures as one HTML file that needs nothing else: failures first, the three pictures side by side."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from PIL import Image

from visualizer.diff import Comparison, DiffError, loaded

STYLE: Final = """
:root { color-scheme: light dark; --ground: #eef1f5; --card: #fff; --line: #dde2e9; --text: #1b2129; --muted: #5a6472;
  --good: #00704f; --bad: #b3400a; }
@media (prefers-color-scheme: dark) { :root { --ground: #0f1318; --card: #171c23; --line: #262d38; --text: #e7ebf0;
  --muted: #98a2b0; --good: #2bcb9b; --bad: #ff8a65; } }
body { background: var(--ground); color: var(--text); font: 15px/1.5 Inter, system-ui, sans-serif; margin: 2rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 0 0 .2rem; } p { margin: 0 0 .8rem; color: var(--muted); }
.good { color: var(--good); } .bad { color: var(--bad); }
section, details { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem;
  margin: 1rem 0; }
.three { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { color: var(--muted); font-size: .85rem; }
h2, p { overflow-wrap: anywhere; }
summary { cursor: pointer; }
figcaption { overflow-wrap: anywhere; }
img { display: block; width: auto; height: auto; max-width: 100%; max-height: 80vh; border: 1px solid var(--line); }
label { display: block; cursor: zoom-in; } label input { position: absolute; opacity: 0; }
input:focus-visible + img { outline: 2px solid var(--text); }
label:has(:checked) { position: fixed; inset: 0; z-index: 1; overflow: auto; background: var(--ground);
  cursor: zoom-out; }
:checked + img { max-width: none; max-height: none; margin: auto; }
.none { border: 1px dashed var(--line); color: var(--muted); padding: 2rem 1rem; text-align: center; }
@media (max-width: 50rem) { body { margin: 1rem; } .three { grid-template-columns: 1fr; } }
"""


def write(comparisons: Sequence[Comparison], path: Path, before: str = "before", after: str = "after") -> None:
    """Writes the report; `before` and `after` say what the two sides are. Raises DiffError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html(comparisons, before, after), encoding="utf-8")
    except OSError as error:
        raise DiffError(f"{path} cannot be written: {error.strerror or error}.") from error


def html(comparisons: Sequence[Comparison], before: str, after: str) -> str:
    """The report's text."""
    failures = sorted((c for c in comparisons if not c.same), key=lambda c: (-c.share, c.name))
    same = [c for c in comparisons if c.same]
    title = verdict(len(failures), len(comparisons))
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        f'<h1 class="{"bad" if failures else "good"}">{escape(title)}</h1>',
        f"<p>A, before: {escape(before)}<br>B, after: {escape(after)}</p>",
        *(_failure(c) for c in failures),
    ]
    if same:
        figures = "\n".join(_figure(c.name, c.after) for c in same)
        parts.append(
            f'<details><summary>{len(same):,} the same</summary>\n<div class="three">{figures}</div></details>'
        )
    return "\n".join([*parts, "</body>\n</html>\n"])


def verdict(differing: int, total: int) -> str:
    """One sentence on the whole."""
    if total == 1:
        return "The pictures differ." if differing else "The pictures are the same."
    if not differing:
        return f"All {total:,} pictures are the same."
    return f"{differing:,} of {total:,} pictures {'differs' if differing == 1 else 'differ'}."


def _failure(c: Comparison) -> str:
    none = "no such picture" if c.reason.startswith("only in") else "cannot be read"
    figures = "\n".join(
        _figure(name, image, words)
        for name, image, words in (
            ("before", c.before, none),
            ("after", c.after, none),
            ("difference", c.difference(), "nothing to compare"),
        )
    )
    head = f'<h2>{escape(c.name)}</h2>\n<p class="bad">{escape(c.reason)}</p>'
    return f'<section>{head}\n<div class="three">{figures}</div></section>'


def _figure(name: str, picture: Image.Image | Path | None, none: str = "") -> str:
    name = escape(name)
    if picture is None:
        return f'<figure><div class="none">{none}</div><figcaption>{name}</figcaption></figure>'
    image = loaded(picture)
    raw = io.BytesIO()
    image.save(raw, "PNG")
    data = base64.b64encode(raw.getvalue()).decode("ascii")
    tag = f'<img alt="{name}" width="{image.width}" height="{image.height}"'
    # no link, because browsers open no data: address; a switch that shows the picture alone, pixel for pixel
    switch = f'<label title="full size"><input type="checkbox" aria-label="{name}, full size">'
    picture_tag = f'{tag} src="data:image/png;base64,{data}">'
    return f"<figure>{switch}{picture_tag}</label><figcaption>{name}</figcaption></figure>"
