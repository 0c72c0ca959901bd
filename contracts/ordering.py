"""Order is meaning: which form of request keeps the bundle's order on an engine that regroups parts.

Engines rebuild the parts of one message by kind (see `Profile.regroup_orders`); messages keep their order. So a
question goes as one message where no regrouping that its version is known for changes anything, and else as one user
message per part. Each medium then comes with a label, because an engine refuses a message that is a lone medium.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from contracts.errors import ContractRefused
from contracts.profile import Profile
from contracts.question import MediaPart, Ordering, Question


class OrderingForm(str, Enum):
    """How the parts of a question are laid out in messages. The name is part of the question's identity."""

    ONE_MESSAGE = "one-message"
    MESSAGE_PER_PART = "message-per-part"


@dataclass(frozen=True, slots=True)
class Placed:
    """The part of the question at `index` goes here."""

    index: int


@dataclass(frozen=True, slots=True)
class Label:
    """A text of our own goes here."""

    text: str


Layout = tuple[tuple[Placed | Label, ...], ...]
"""Messages in order, each with its content in the order in which the model sees it."""

TEXT = "text"


def part_kinds(question: Question) -> tuple[str, ...]:
    """The kinds of the question's parts in order: `image`, `audio`, `video` or `text`."""
    return tuple(part.artifact.modality.value if isinstance(part, MediaPart) else TEXT for part in question.parts)


def regrouped(kinds: tuple[str, ...], order: tuple[str, ...]) -> tuple[int, ...]:
    """The indices of one message's parts as an engine shows them to the model that regroups by `order`."""
    rank = {kind: place for place, kind in enumerate(order)}
    return tuple(sorted(range(len(kinds)), key=lambda index: rank[kinds[index]]))


def ordering_form(kinds: tuple[str, ...], profile: Profile, ordering: Ordering) -> OrderingForm:
    """The form in which `kinds` keep their order.

    Raises ContractRefused (`ordering-strict`) where `strict` asks for one message and one would not keep it.
    """
    obstacle = _obstacle(kinds, profile)
    if obstacle is None:
        return OrderingForm.ONE_MESSAGE
    if ordering is Ordering.STRICT:
        raise ContractRefused("ordering-strict", obstacle)
    return OrderingForm.MESSAGE_PER_PART


def _obstacle(kinds: tuple[str, ...], profile: Profile) -> str | None:
    if len(kinds) == 1 and kinds[0] != TEXT:
        return f"{profile.version} refuses a message that is a lone {kinds[0]}; it needs a text"
    for order in profile.regroup_orders:
        seen = regrouped(kinds, order)
        if seen != tuple(range(len(kinds))):
            shown = ", ".join(kinds[index] for index in seen)
            may = "shows" if len(profile.regroup_orders) == 1 else "may show"
            return f"{profile.version} {may} one message's parts as {shown}; the question has {', '.join(kinds)}"
    return None


def lay_out(kinds: tuple[str, ...], form: OrderingForm, profile: Profile) -> Layout:
    """The messages of a question. A label counts its medium within its kind: `Image 1`, `Image 2`, `Audio 1`."""
    if form is OrderingForm.ONE_MESSAGE:
        return (tuple(Placed(index) for index in range(len(kinds))),)
    messages: list[tuple[Placed | Label, ...]] = []
    for index, kind in enumerate(kinds):
        if kind == TEXT:
            messages.append((Placed(index),))
            continue
        label = Label(f"{kind.capitalize()} {kinds[: index + 1].count(kind)}")
        label_first = regrouped((TEXT, kind), profile.regroup_orders[-1])[0] == 0
        messages.append((label, Placed(index)) if label_first else (Placed(index), label))
    return tuple(messages)
