"""Locators: where bytes came from, without what must not be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.digest import Digest, canonical_digest
from contracts.locator import BlobSource, Derived, FileSource, Locator, S3Source, UrlSource, locator_digest, redact_url

URLS = {
    "https://user:pw@example.org:8443/a/b.png?token=s#frag": "https://example.org:8443/a/b.png",
    "https://example.org?token=s": "https://example.org",
    "https://example.org#frag?token=s": "https://example.org",
    "https://a@b@example.org/x@y": "https://example.org/x@y",
    "https://example.org/": "https://example.org/",
    "http://[2001:db8::1]/a": "http://[2001:db8::1]/a",
    "not a url?secret": "not a url",
    "https://user:se/cret@example.org/a": "https://example.org/a",
    "https://user:se\\cret/too@example.org/a": "https://example.org/a",
    "https://user:se?cret@example.org/a": "https://user",
    "https://user:se#cret@example.org/a": "https://user",
    "https://user:12#cret@example.org/a": "https://user",
    "https://example.org:8443/a?mail=me@example.org": "https://example.org:8443/a",
}


@pytest.mark.parametrize(("url", "redacted"), URLS.items(), ids=[f"case {number}" for number in range(len(URLS))])
def test_a_shown_url_has_no_query_fragment_or_userinfo(url: str, redacted: str) -> None:
    """What logs, records and errors may show."""
    assert redact_url(url) == redacted
    assert redact_url(redacted) == redacted


SECRET = st.from_regex(r"secret[a-z0-9]{1,8}", fullmatch=True)


@given(secret=SECRET, host=st.from_regex(r"[a-z]{1,8}\.example", fullmatch=True))
def test_no_secret_survives(secret: str, host: str) -> None:
    """In whichever of the three places it stands."""
    source = UrlSource.of(f"https://{secret}:{secret}@{host}/a?{secret}#{secret}")
    assert secret not in str(source.to_json())
    assert source.url == f"https://{host}/a"


def test_urls_that_differ_in_their_query_only_are_different_sources() -> None:
    """The query is part of the digest, not of what is shown."""
    one, two = (UrlSource.of(f"https://example.org/a?v={number}") for number in (1, 2))
    assert one.url == two.url
    assert locator_digest(one) != locator_digest(two)
    assert one.url_digest == Digest.of(b"https://example.org/a?v=1")


LOCATORS: list[Locator] = [
    UrlSource.of("https://example.org/a"),
    UrlSource.of("https://example.org/b"),
    FileSource("a"),
    FileSource("b"),
    S3Source("bucket", "key"),
    S3Source("bucket", "other"),
    S3Source("other", "key"),
    S3Source("bucket", "key", "v1"),
    BlobSource(Digest("1" * 64)),
    BlobSource(Digest("2" * 64)),
    Derived(Digest("1" * 64), {"frames": 8}),
    Derived(Digest("1" * 64), {"frames": 9}),
    Derived(Digest("2" * 64), {"frames": 8}),
]


def test_every_difference_is_another_digest() -> None:
    """Kind, place, parent and transformation; equal locators have equal digests."""
    digests = [locator_digest(locator) for locator in LOCATORS]
    assert len(set(digests)) == len(LOCATORS)
    assert locator_digest(FileSource("a")) == locator_digest(LOCATORS[2]) == canonical_digest(FileSource("a").to_json())


def test_every_kind_names_itself_in_its_json() -> None:
    """A receipt's reader can tell them apart."""
    kinds = dict.fromkeys(locator.to_json()["kind"] for locator in LOCATORS)
    assert list(kinds) == ["url", "file", "s3", "blob", "derived"]
    versioned = {"kind": "s3", "bucket": "b", "key": "k/1.png", "version_id": "v"}
    assert S3Source("b", "k/1.png", "v").to_json() == versioned
    assert BlobSource(Digest("1" * 64)).to_json() == {"kind": "blob", "digest": "sha256:" + "1" * 64}
    assert Derived(Digest("1" * 64), {"frames": 8}).to_json() == {
        "kind": "derived",
        "parent": "sha256:" + "1" * 64,
        "transformation": {"frames": 8},
    }
