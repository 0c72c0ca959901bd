"""Order, seen through the real engine: permuting a question's parts changes the prompt exactly when the layout says so.

What an engine's prompt was is seen by its length and by the greedy text of the random bundle, which follows from it.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from contracts.artifact import Modality
from contracts.digest import Digest, wire_json
from contracts.ordering import Label, OrderingForm, Placed, lay_out, part_kinds, regrouped
from contracts.question import MediaPart, Part, Question, TextPart
from contracts.request import ChatRequest
from serving.embedded_worker import EmbeddedWorker
from serving.model_bundle import measured
from tests.engine_worker import client_of, request_for
from tests.tiny_bundle import write_tiny_bundle
from tests.world import TENANT, golden_cases, media_part, stage

pytestmark = [pytest.mark.engine]

Sight = tuple[tuple[str, ...], ...]
"""What the layout says that the model sees: messages, each with its parts and labels in the engine's order."""


class Prompt(NamedTuple):
    """What is seen of the prompt that the engine made."""

    tokens: int
    text: str


def parts_of(worker: EmbeddedWorker) -> tuple[Part, ...]:
    """Two images, a sound and a text."""
    found: dict[Modality, dict[Digest, MediaPart]] = {Modality.IMAGE: {}, Modality.AUDIO: {}, Modality.VIDEO: {}}
    for case in golden_cases():
        for media in case.draw().media:
            part, data = media_part(media)
            found[part.artifact.modality][part.artifact.digest] = part
            stage(worker.staging_root, part.artifact, data)
    images, sounds = list(found[Modality.IMAGE].values()), list(found[Modality.AUDIO].values())
    return images[0], images[1], sounds[0], TextPart("What is it?")


def sight(question: Question, form: OrderingForm, worker: EmbeddedWorker) -> Sight:
    """What the profile's regrouping and the layout say."""
    kinds, engine = part_kinds(question), worker.release.engine_profile()
    (order,) = engine.regroup_orders
    messages = []
    for message in lay_out(kinds, form, engine):
        shown = [kinds[slot.index] if isinstance(slot, Placed) else "text" for slot in message]
        messages.append(tuple(_name(message[place], question) for place in regrouped(tuple(shown), order)))
    return tuple(messages)


def _name(slot: Placed | Label, question: Question) -> str:
    if isinstance(slot, Label):
        return slot.text
    part = question.parts[slot.index]
    return part.text if isinstance(part, TextPart) else str(part.artifact.digest)


def in_form(question: Question, form: OrderingForm, worker: EmbeddedWorker) -> ChatRequest:
    """The builder's request, laid out in `form` whatever the builder chose."""
    built = request_for(worker, question)
    messages = []
    for message in lay_out(part_kinds(question), form, worker.release.engine_profile()):
        content = [_content(slot, question, worker) for slot in message]
        messages.append({"role": "user", "content": content})
    body = wire_json(json.loads(built.body) | {"messages": messages})
    assert (body == built.body) == (form is built.ordering_form)
    return replace(built, body=body, digest=Digest.of(body))


def _content(slot: Placed | Label, question: Question, worker: EmbeddedWorker) -> dict[str, object]:
    part = TextPart(slot.text) if isinstance(slot, Label) else question.parts[slot.index]
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kind = f"{part.artifact.modality.value}_url"
    return {"type": kind, kind: {"url": (worker.staging_root / TENANT / part.artifact.staged_name).as_uri()}}


async def test_the_prompt_changes_exactly_when_the_layout_says_so(tmp_path: Path) -> None:
    """All orders of four parts, each in both forms: equal sights are equal prompts, and different ones differ. The
    builder takes one message exactly where that shows the parts in their order."""
    (tmp_path / "bundle").mkdir()
    write_tiny_bundle(tmp_path / "bundle")
    prompts: dict[Sight, set[Prompt]] = {}
    bundle = measured(tmp_path / "bundle")
    async with EmbeddedWorker(tmp_path, tmp_path / "staging", bundle=bundle) as worker, client_of(worker) as client:
        for order in itertools.permutations(parts_of(worker)):
            question = Question(order, max_output_tokens=16)
            for form in OrderingForm:
                request = in_form(question, form, worker)
                got = await client.submit(request, request_id="order")
                assert got.usage is not None, got.reason
                seen = sight(question, form, worker)
                prompts.setdefault(seen, set()).add(Prompt(got.usage.prompt_tokens, got.text or ""))
            asked = (tuple(_name(Placed(place), question) for place in range(len(order))),)
            one = sight(question, OrderingForm.ONE_MESSAGE, worker) == asked
            assert (request_for(worker, question).ordering_form is OrderingForm.ONE_MESSAGE) == one
    assert len(prompts) == 2 + 24  # one message keeps only the images' order, a message per part keeps all
    assert all(len(seen) == 1 for seen in prompts.values())
    assert len({prompt for seen in prompts.values() for prompt in seen}) == len(prompts)
