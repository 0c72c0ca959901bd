"""What may be shown of a text that an engine sent about itself: a bounded prefix without paths, URLs and payloads."""

from __future__ import annotations

import re

MAX_SHOWN = 200
"""Characters: enough to name the error's family, too few for a document."""

_MASKS = (
    (re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,15}:(?://|[^\s,]{0,64};base64,)[^\s\"'`<>)\]]*"), "<url>"),
    (re.compile(r"(?<![\w<])(?:[A-Za-z]:\\|~?/)[^\s\"'`,;:)\]<>]+"), "<path>"),
    (re.compile(r"[A-Za-z0-9+/=_-]{40,}"), "<opaque>"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]+")


def shown(text: str) -> str:
    """`text` on one line, masked, at most `MAX_SHOWN` characters; longer ones end with an ellipsis."""
    head = text[: 20 * MAX_SHOWN]
    for pattern, mask in _MASKS:
        head = pattern.sub(mask, head)
    head = _CONTROL.sub(" ", head).strip()
    return head if len(head) <= MAX_SHOWN else f"{head[: MAX_SHOWN - 1]}\u2026"
