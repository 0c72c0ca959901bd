"""Media by path or by bytes: the same question either way, and a body that the engine takes."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest
from contracts.errors import ContractRefused, IntegrityError
from contracts.limits import Limits
from contracts.locator import FileSource, UrlSource
from contracts.profile import PROFILES, profile
from contracts.question import MediaPart, Question, TextPart
from contracts.request import ChatRequest, build_request
from contracts.transport import DataUrls, MediaUrls, body_bound, check_room, media_urls
from tests.contracts.questions import staged_url
from tests.contracts.wire_chunks import ROUTE

PICTURE, SOUND = b"a picture", b"a sound, as it were"
BYTES = {Digest.of(data): data for data in (PICTURE, SOUND)}
IMAGE = Artifact(Digest.of(PICTURE), len(PICTURE), "image/png", Modality.IMAGE)
AUDIO = Artifact(Digest.of(SOUND), len(SOUND), "audio/wav", Modality.AUDIO)
ASKED = Question(
    (
        MediaPart(AUDIO, FileSource("a.wav")),
        TextPart("What is heard, and what is seen?"),
        MediaPart(IMAGE, UrlSource.of("https://example.org/a.png")),
    ),
    max_output_tokens=8,
)


def read_bytes(artifact: Artifact) -> bytes:
    return BYTES[artifact.digest]


def build(urls: MediaUrls, version: str = "0.9.2", limits: Limits | None = None) -> ChatRequest:
    return build_request(ASKED, profile=profile(version), route=ROUTE, staged_url=urls, limits=limits or Limits())


@pytest.mark.parametrize("version", PROFILES)
def test_the_transport_is_no_part_of_the_question(version: str) -> None:
    """Question, ordered artifacts, ordered locators and form are the same; only the bytes on the wire differ."""
    paths, data = build(staged_url, version), build(DataUrls(read_bytes), version)
    assert paths.question_digest == data.question_digest
    assert paths.artifact_digests == data.artifact_digests == (AUDIO.digest, IMAGE.digest)
    assert paths.locator_digests == data.locator_digests
    assert paths.ordering_form == data.ordering_form
    assert paths.digest != data.digest


def test_a_data_url_holds_the_type_and_the_bytes() -> None:
    """RFC 2397, in base64, in the place where the path would be."""
    messages = json.loads(build(DataUrls(read_bytes)).body)["messages"]
    (found,) = [part["audio_url"]["url"] for each in messages for part in each["content"] if "audio_url" in part]
    assert found == "data:audio/wav;base64," + base64.b64encode(SOUND).decode()
    assert len(found) == DataUrls.size_bytes(AUDIO)


def test_what_an_engine_takes_is_the_profiles_say() -> None:
    """Paths where it opens them, else bytes; an engine that takes neither is refused."""
    for version, transport in {"0.8.2": "file", "0.8.17": "file", "0.9.2": "data", "0.9.5": "file"}.items():
        urls = media_urls(profile(version), staged_url=staged_url, read_bytes=read_bytes)
        assert urls(IMAGE).startswith(f"{transport}:")
    blind = replace(profile("0.9.2"), media_transports=())
    with pytest.raises(ContractRefused, match="media-transport"):
        media_urls(blind, staged_url=staged_url, read_bytes=read_bytes)


def test_each_transport_has_its_own_bound_of_the_body() -> None:
    """Exactly the bound is allowed, one byte less is not; the other transport's bound does not matter."""
    for urls, name in ((staged_url, "request_bytes"), (DataUrls(read_bytes), "request_data_bytes")):
        other = {"request_bytes": 10, "request_data_bytes": 10}
        size = len(build(urls).body)
        assert len(build(urls, limits=Limits().changed(other | {name: size})).body) == size
        with pytest.raises(ContractRefused) as refused:
            build(urls, limits=Limits().changed({name: size - 1}))
        assert refused.value.rule == "request-bytes"


def test_media_beyond_the_bound_are_refused_before_they_are_read() -> None:
    """Their sizes tell: nothing is read that could not be sent."""
    read = list[Artifact]()

    def reading(artifact: Artifact) -> bytes:
        read.append(artifact)
        return read_bytes(artifact)

    with pytest.raises(ContractRefused, match=r"request-bytes: .* the media alone"):
        build(DataUrls(reading), limits=Limits().changed({"request_data_bytes": 60}))
    assert read == []


@pytest.mark.parametrize("version", PROFILES)
def test_a_medium_that_the_engine_would_refuse_is_not_sent(version: str) -> None:
    """Exactly the engine's bound of a medium is allowed, one byte more is not; 0.8.x has none."""
    row, asked = profile(version), replace(ASKED.media[0].artifact, size_bytes=64 << 20)
    wide = Limits().changed({"request_data_bytes": 1 << 30})
    check_room(staged_url, (asked,), row, wide)
    larger = replace(asked, size_bytes=asked.size_bytes + 1)
    if row.media_part_bytes is None:
        check_room(staged_url, (larger,), row, wide)
        return
    with pytest.raises(ContractRefused, match="media-part-bytes"):
        check_room(staged_url, (larger,), row, wide)


def test_the_engines_bound_of_a_body_holds_also_where_the_limit_is_wider() -> None:
    """A deployment cannot make an engine take more than it takes."""
    row = replace(profile("0.9.2"), body_bytes=60)
    assert body_bound(DataUrls(read_bytes), row, Limits()) == 60
    assert body_bound(DataUrls(read_bytes), row, Limits().changed({"request_data_bytes": 50})) == 50
    assert body_bound(staged_url, row, Limits()) == Limits().request_bytes


def test_other_bytes_than_the_artifacts_are_never_sent() -> None:
    """What is read is held against the digest."""
    with pytest.raises(IntegrityError, match="artifact-digest"):
        build(DataUrls(lambda _: b"other"))
