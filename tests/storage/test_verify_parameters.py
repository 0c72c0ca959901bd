"""What a request left out is what the engine ignores; what it carried is the artifacts' bytes or their staged paths."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from contracts.artifact import Artifact
from contracts.parameters import NotHonoured, ParametersDocument
from contracts.profile import profile
from contracts.question import Question
from contracts.receipt import Receipt
from contracts.request import ChatRequest, build_request, question_document
from contracts.transport import DataUrls
from storage.disk_blobs import DiskBlobStore
from storage.verify import VerdictName
from tests.contracts.wire_chunks import ROUTE
from tests.receipt_samples import DERIVED, IMAGE, LIMITS, changed, question, receipt, request_for
from tests.storage.verifying import rules, verify, with_body

SEEDED = replace(question(), parameters=ParametersDocument(seed=7), not_honoured=NotHonoured.RECORD)


@pytest.fixture
def blobs(tmp_path: Path) -> DiskBlobStore:
    """A store."""
    return DiskBlobStore(tmp_path)


def recorded(blobs: DiskBlobStore, asked: Question, request: ChatRequest, noted: tuple[str, ...] = ()) -> Receipt:
    """The receipt of `asked`, put with `request`; `noted` is what it says was not honoured."""
    document = with_body(blobs, receipt(blobs), request.body)
    assert document.request is not None
    record = msgspec.structs.replace(document.request, requested_not_honoured=noted or msgspec.UNSET)
    form = question_document(asked, request.ordering_form)
    return changed(document, request=record, question=form, question_digest=str(request.question_digest))


def test_what_was_not_honoured_is_in_the_receipt(blobs: DiskBlobStore) -> None:
    """A seed that was recorded verifies: it is part of the question and not of the body."""
    request = request_for(SEEDED)
    document = recorded(blobs, SEEDED, request, request.not_honoured)
    assert b'"requested_not_honoured":["seed"]' in document.to_bytes()
    assert verify(document, blobs).findings == ()
    assert b"requested_not_honoured" not in receipt(blobs).to_bytes()


def test_a_receipt_that_hides_what_was_not_honoured_is_invalid(blobs: DiskBlobStore) -> None:
    """Nor may it claim that something was ignored that nobody asked for."""
    silent = recorded(blobs, SEEDED, request_for(SEEDED))
    boasting = recorded(blobs, question(), request_for(question()), ("seed",))
    for document in (silent, boasting):
        verdict = verify(document, blobs)
        assert rules(verdict) == {"request-not-honoured"}
        assert verdict.verdict is VerdictName.INVALID


def test_a_body_that_holds_what_the_engine_ignores_is_invalid(blobs: DiskBlobStore) -> None:
    """A seed on the wire is one that the builder never sends."""
    body = request_for(SEEDED).body.replace(b'"stream":true', b'"seed":7,"stream":true')
    sent = replace(request_for(SEEDED), body=body)
    assert rules(verify(recorded(blobs, SEEDED, sent, ("seed",)), blobs)) == {"request-fields"}


def carried(artifact: Artifact) -> bytes:
    """The samples' bytes."""
    return IMAGE if artifact.media_type == "image/png" else DERIVED


def data_request() -> ChatRequest:
    """The samples' request, its media carried in it."""
    return build_request(question(), profile=profile("0.9.5"), route=ROUTE, staged_url=DataUrls(carried), limits=LIMITS)


def test_a_request_that_carries_its_media_verifies(blobs: DiskBlobStore) -> None:
    """Its bytes are the artifacts', by digest."""
    assert verify(with_body(blobs, receipt(blobs), data_request().body), blobs).findings == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (base64.b64encode(IMAGE), base64.b64encode(IMAGE + b"!")),
        (base64.b64encode(IMAGE), base64.b64encode(DERIVED)),
        (b"data:image/png", b"data:image/jpeg"),
        (b";base64,", b","),
        (b"data:image/gif;base64,", b"file:///srv/evidence/acme/"),
    ],
    ids=["other bytes", "another artifact's bytes", "another type", "no base64", "one of them a path"],
)
def test_other_bytes_in_a_request_are_invalid(blobs: DiskBlobStore, old: bytes, new: bytes) -> None:
    """Whatever is carried and is not the artifact is found, without the store's help."""
    body = data_request().body
    assert old in body
    verdict = verify(with_body(blobs, receipt(blobs), body.replace(old, new)), blobs)
    assert verdict.verdict is VerdictName.INVALID
    assert rules(verdict) <= {"request-artifacts", "request-refused"}
