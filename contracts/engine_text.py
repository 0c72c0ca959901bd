"""What may be shown of a text that an engine sent about itself: a bounded prefix without paths, URLs and payloads."""

from __future__ import annotations

import re

MAX_SHOWN = 200
"""Characters: enough to name the error's family, too few for a document."""

_NAME = r"""[^\s"'`,;:)\]<>]|[,;:](?=[^\s"'`)\]<>])"""  # a mark ends a path only where it ends a word
_SEGMENT = r"[\w.~@+%$-]"
_MASKS = (
    (re.compile(r"""[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s"'`<>)\]]*|(?i:data:)[^\s"'`<>)\]]+"""), "<url>"),
    (re.compile(r"(?i)\bbearer [^\s\"']+|\b[\w-]{0,40}(?:token|secret|password|key)=[^\s\"',;]+"), "<secret>"),
    (re.compile(r"""(?<=["'`])~?/[^"'`\n]{1,1024}(?=["'`])"""), "<path>"),  # in quotes it may have spaces
    (re.compile(rf"(?<!\w)(?!(?<=<)/\w+>)(?:[A-Za-z]:[\\/]|\\\\|~?/)(?:{_NAME})+"), "<path>"),
    (re.compile(rf"(?<!{_SEGMENT}){_SEGMENT}{{1,255}}/{_SEGMENT}{{1,255}}/(?:{_NAME})*"), "<path>"),  # a relative one
    (re.compile(r"[A-Za-z0-9+/=_-]{40,}"), "<opaque>"),
)
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+"
)  # also those that show nothing and those that turn text around (UAX 9)


def shown(text: str) -> str:
    """`text` on one line, masked, at most `MAX_SHOWN` characters; longer ones end with an ellipsis."""
    head = text[: 20 * MAX_SHOWN]
    for pattern, mask in _MASKS:
        head = pattern.sub(mask, head)
    head = _CONTROL.sub(" ", head).strip()
    return head if len(head) <= MAX_SHOWN else f"{head[: MAX_SHOWN - 1]}\u2026"
