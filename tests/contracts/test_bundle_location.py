"""Where a medium is: four forms, each read one way, by the parser and the published schema alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from contracts.bundle import parse_bundle
from contracts.bundle_location import bucket_reason, key_reason, location_reason, source_of
from contracts.bundle_schema import bundle_schema
from contracts.digest import Digest
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.locator import BlobSource, FileSource, S3Source, Source, UrlSource

ONES = "1" * 64
PART = Draft202012Validator({"$ref": "#/$defs/Part", "$defs": bundle_schema()["$defs"]})

READ: dict[str, Source] = {
    "s3://evidence/case-7/frame 1.png": S3Source("evidence", "case-7/frame 1.png"),
    "s3://evidence.example.org/a+b@c:d=e&f.png": S3Source("evidence.example.org", "a+b@c:d=e&f.png"),
    "s3://evidence/\u00fcber/\u65e5\u672c.wav": S3Source("evidence", "\u00fcber/\u65e5\u672c.wav"),
    "s3://evidence/a.png?versionId=3HL4kqtJlcpXrof3": S3Source("evidence", "a.png", "3HL4kqtJlcpXrof3"),
    "s3://evidence/a.png?versionId=null": S3Source("evidence", "a.png", "null"),
    "s3://evidence/...": S3Source("evidence", "..."),
    f"s3://evidence/{'k' * 1_024}": S3Source("evidence", "k" * 1_024),
    f"sha256:{ONES}": BlobSource(Digest(ONES)),
    "HTTP://example.org/s3://a": UrlSource.of("HTTP://example.org/s3://a"),
    "media/sha256/a.png": FileSource("media/sha256/a.png"),
}

REFUSED = {
    "no bucket": "s3:///key",
    "no key": "s3://bucket/",
    "nothing after the bucket": "s3://bucket",
    "one slash": "s3:/bucket/key",
    "a folder": "s3://bucket/folder/",
    "an empty step": "s3://bucket/a//b",
    "a step back": "s3://bucket/open/../closed/a.png",
    "a step nowhere": "s3://bucket/./a.png",
    "an encoded step back": "s3://bucket/open/%2e%2e/closed/a.png",
    "an encoded character": "s3://bucket/a%20b.png",
    "a fragment": "s3://bucket/a#b.png",
    "another query": "s3://bucket/a.png?partNumber=1",
    "a version and more": "s3://bucket/a.png?versionId=v&partNumber=1",
    "a version without a value": "s3://bucket/a.png?versionId=",
    "two versions": "s3://bucket/a.png?versionId=v?versionId=w",
    "an encoded version": "s3://bucket/a.png?versionId=a%2Fb",
    "a query of another case": "s3://bucket/a.png?versionid=v",
    "a backslash": "s3://bucket/a\\b.png",
    "a control character": "s3://bucket/a\u0001.png",
    "a line feed at the end": "s3://bucket/a.png\n",
    "a bucket in capitals": "s3://Bucket/a.png",
    "a short bucket": "s3://bu/a.png",
    "a bucket with an underscore": "s3://buc_ket/a.png",
    "a bucket that is an address": "s3://127.0.0.1/a.png",
    "a bucket with a port": "s3://bucket:80/a.png",
    "two dots in a bucket": "s3://buc..ket/a.png",
    "a bucket that ends in a dot": "s3://bucket./a.png",
    "an access point": "s3://arn:aws:s3:::bucket/a.png",
    "the scheme in capitals": "S3://bucket/a.png",
    "a digest in capitals": f"sha256:{'A' * 64}",
    "a short digest": "sha256:" + "1" * 63,
    "a long digest": "sha256:" + "1" * 65,
    "a digest with slashes": f"sha256://{ONES}",
    "a digest of another kind": f"sha512:{ONES}",
    "a digest and a line feed": f"sha256:{ONES}\n",
}


@pytest.mark.parametrize(("location", "source"), READ.items(), ids=[f"form {n}" for n in range(len(READ))])
def test_a_location_names_one_source(location: str, source: Source) -> None:
    """Taken as it stands, nothing decoded; the schema takes it too."""
    assert location_reason(location) is None
    assert source_of(location) == source
    assert PART.is_valid({"image": location})


@pytest.mark.parametrize("location", REFUSED.values(), ids=REFUSED.keys())
def test_what_could_be_read_as_two_is_refused(location: str) -> None:
    """By the parser, at its line, and by the schema."""
    assert location_reason(location) is not None
    assert not PART.is_valid({"image": location})
    with pytest.raises(InputError, match=r"^bundle-location: b\.json:9: "):
        _parse(image=location)


def test_a_long_key_is_refused() -> None:
    """In bytes of UTF-8, which no schema counts."""
    assert key_reason("\u00fc" * 512) is None
    assert key_reason("\u00fc" * 512 + "a") == "expected a key of at most 1024 bytes, got 1025"


def test_a_refusal_of_an_object_shows_no_secret() -> None:
    """Neither what stands before an @ nor what follows a question mark."""
    for location in (
        "s3://AKIA:s3cret@bucket/a.png",
        "s3://AKIA:s3cret@bucket",
        "s3://bucket/a?X-Amz-Signature=s3cret",
    ):
        reason = location_reason(location)
        assert reason is not None
        assert "s3cret" not in reason


def test_a_digest_said_twice_is_said_alike() -> None:
    """A part that names bytes by digest may repeat the digest, and may not contradict it."""
    _parse(image=f"sha256:{ONES}", sha256=ONES)
    with pytest.raises(InputError, match=r"^bundle-digest: b\.json:10: "):
        _parse(image=f"sha256:{ONES}", sha256="2" * 64)


PIECES = st.lists(
    st.sampled_from(
        ["s3:", "//", "/", "bucket", "a", ".", "..", "%", "?", "#", "versionId=", " ", "\n", "sha256:", ONES]
    ),
    max_size=8,
).map("".join)


@given(PIECES | PIECES.map("s3://bucket/".__add__))
@example("s3://bucket/a.")
@example("s3://bucket/..a/b..")
def test_parser_and_schema_agree(location: str) -> None:
    """Whatever is put together from pieces of locations; and of an object that is read, key and bucket are within."""
    if not location:
        return
    accepted = location_reason(location) is None
    assert PART.is_valid({"image": location}) is accepted
    if accepted and isinstance(source := source_of(location), S3Source):
        assert bucket_reason(source.bucket) is None
        query = "" if source.version_id is None else f"?versionId={source.version_id}"
        assert source.url + query == location


def _parse(**part: Any) -> None:
    document = {"version": 1, "id": "b", "questions": [{"id": "q", "parts": [part, {"text": "?"}]}]}
    parse_bundle(json.dumps(document, indent=1).encode(), name="b.json", limits=Limits())
