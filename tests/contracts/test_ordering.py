"""Order is meaning: the form of a request keeps the bundle's order on every engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import ContractRefused
from contracts.ordering import Label, OrderingForm, Placed, lay_out, ordering_form, part_kinds, regrouped
from contracts.profile import PROFILES, Profile, profile
from contracts.question import Ordering
from tests.contracts.questions import question

ONE, PER_PART = OrderingForm.ONE_MESSAGE, OrderingForm.MESSAGE_PER_PART
KINDS = st.lists(st.sampled_from(["image", "audio", "video", "text"]), min_size=1, max_size=8).map(tuple)
ENGINES = st.sampled_from(list(PROFILES.values()))

FORMS = {
    ("text",): (ONE, ONE),
    ("text", "text"): (ONE, ONE),
    ("image", "text"): (ONE, ONE),
    ("image", "image", "text", "text"): (ONE, ONE),
    ("video", "text"): (ONE, ONE),
    ("audio", "text"): (ONE, PER_PART),
    ("text", "audio"): (PER_PART, ONE),
    ("image", "audio", "video", "text"): (ONE, PER_PART),
    ("image", "video", "text", "audio"): (PER_PART, ONE),
    ("text", "image"): (PER_PART, PER_PART),
    ("image", "text", "image", "text"): (PER_PART, PER_PART),
    ("image",): (PER_PART, PER_PART),
    ("image", "image"): (ONE, ONE),
}


def seen_by_model(
    kinds: tuple[str, ...], form: OrderingForm, engine: Profile, order: tuple[str, ...]
) -> list[int | str]:
    """The parts' indices and the labels as an engine that regroups by `order` shows them."""
    seen: list[int | str] = []
    for message in lay_out(kinds, form, engine):
        slots = [
            (kinds[slot.index], slot.index) if isinstance(slot, Placed) else ("text", slot.text) for slot in message
        ]
        seen.extend(slots[index][1] for index in regrouped(tuple(kind for kind, _ in slots), order))
    return seen


@pytest.mark.parametrize(("kinds", "forms"), FORMS.items(), ids=["-".join(kinds) for kinds in FORMS])
def test_one_message_is_used_exactly_where_the_engine_keeps_the_order(
    kinds: tuple[str, ...], forms: tuple[OrderingForm, OrderingForm]
) -> None:
    """0.8.x shows images, audios, videos, text; 0.9.5 images, videos, text, audios."""
    for versions in (("0.8.2", "0.9.5"), ("0.8.17", "0.9.5")):
        assert tuple(ordering_form(kinds, profile(version), Ordering.AUTO) for version in versions) == forms


@pytest.mark.parametrize(("kinds", "forms"), FORMS.items(), ids=["-".join(kinds) for kinds in FORMS])
def test_where_the_order_depends_on_the_model_one_message_has_to_keep_it_for_every_model(
    kinds: tuple[str, ...], forms: tuple[OrderingForm, OrderingForm]
) -> None:
    """0.9.2 moves audio behind the text for some models and not for others."""
    expected = ONE if set(forms) == {ONE} else PER_PART
    assert ordering_form(kinds, profile("0.9.2"), Ordering.AUTO) is expected


@given(kinds=KINDS, engine=ENGINES)
def test_the_model_sees_the_parts_in_the_bundles_order(kinds: tuple[str, ...], engine: Profile) -> None:
    """Whatever the kinds and the engine, the chosen form survives regrouping; no message is a lone medium."""
    form = ordering_form(kinds, engine, Ordering.AUTO)
    for order in engine.regroup_orders:
        seen = [slot for slot in seen_by_model(kinds, form, engine, order) if isinstance(slot, int)]
        assert seen == list(range(len(kinds)))
    for message in lay_out(kinds, form, engine):
        assert len(message) > 1 or kinds[message[0].index] == "text"  # type: ignore[union-attr]


@given(kinds=KINDS, engine=ENGINES)
def test_what_is_on_the_wire_is_what_the_model_sees(kinds: tuple[str, ...], engine: Profile) -> None:
    """Nothing is left for the engine to rearrange, labels included; where the order depends on the model, that of the
    model that we know."""
    form = ordering_form(kinds, engine, Ordering.AUTO)
    sent = [
        slot.index if isinstance(slot, Placed) else slot.text
        for message in lay_out(kinds, form, engine)
        for slot in message
    ]
    assert sent == seen_by_model(kinds, form, engine, engine.regroup_orders[-1])


@given(kinds=KINDS, engine=ENGINES)
def test_strict_takes_one_message_or_refuses(kinds: tuple[str, ...], engine: Profile) -> None:
    """`strict` agrees with `auto` on one message and refuses every other form by name."""
    if ordering_form(kinds, engine, Ordering.AUTO) is ONE:
        assert ordering_form(kinds, engine, Ordering.STRICT) is ONE
        return
    with pytest.raises(ContractRefused) as refused:
        ordering_form(kinds, engine, Ordering.STRICT)
    assert refused.value.rule == "ordering-strict"
    assert engine.version in refused.value.reason


def test_labels_count_media_within_their_kind() -> None:
    """Image 1, Audio 1, Image 2; texts have none."""
    kinds = ("image", "audio", "text", "image")
    messages = lay_out(kinds, PER_PART, profile("0.9.5"))
    assert messages == (
        (Placed(0), Label("Image 1")),
        (Label("Audio 1"), Placed(1)),
        (Placed(2),),
        (Placed(3), Label("Image 2")),
    )


def test_a_questions_kinds_are_in_its_order() -> None:
    """Modality by modality, text for text."""
    assert part_kinds(question("video", "What?", "image")) == ("video", "text", "image")
