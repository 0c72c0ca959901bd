"""Digests, the verifying reader and the two serialisers."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.digest import (
    MAX_CANONICAL_DEPTH,
    Digest,
    Hasher,
    VerifyingReader,
    canonical_digest,
    canonical_json,
    wire_json,
)
from contracts.errors import InputError, IntegrityError

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
SAFE = 2**53 - 1
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def test_a_digest_is_sha256() -> None:
    """FIPS 180-4: the digest of nothing, and of "abc"."""
    assert str(Digest.of(b"")) == f"sha256:{EMPTY}"
    assert Digest.of(b"abc").hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@given(st.binary(max_size=64))
def test_the_text_form_is_read_back(data: bytes) -> None:
    """`parse` inverts `str`."""
    assert Digest.parse(str(Digest.of(data))) == Digest.of(data)


@pytest.mark.parametrize(
    "text",
    ["", EMPTY, f"sha512:{EMPTY}", f"SHA256:{EMPTY}", f"sha256:{EMPTY.upper()}", f"sha256:{EMPTY[1:]}",
     f"sha256:{EMPTY}0", f"sha256:{EMPTY}\n", f"sha256: {EMPTY[1:]}", "sha256:" + "\u0661" * 64],
)  # fmt: skip
def test_other_forms_of_a_digest_do_not_exist(text: str) -> None:
    """One value, one text: anything else is an InputError that does not repeat it."""
    with pytest.raises(InputError, match="digest-") as refused:
        Digest.parse(text)
    assert EMPTY[:16] not in str(refused.value)


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_a_running_digest_is_that_of_the_whole(parts: list[bytes]) -> None:
    """However the bytes are cut, also as views."""
    hasher = Hasher()
    for part in parts:
        hasher.update(memoryview(part))
    whole = b"".join(parts)
    assert (hasher.digest().hex, hasher.size_bytes) == (hashlib.sha256(whole).hexdigest(), len(whole))


class Slow(io.BytesIO):
    """Gives at most three bytes at a time, as sockets do."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3 if size is None or size < 0 else min(3, size))


@given(data=st.binary(max_size=40), known=st.booleans())
def test_a_verifying_reader_gives_exactly_the_bytes(data: bytes, known: bool) -> None:
    """With and without a known size."""
    with VerifyingReader(Slow(data), Digest.of(data), len(data) if known else None) as reader:
        assert reader.read_all() == data


@given(data=st.binary(min_size=1, max_size=40), known=st.booleans(), draw=st.data())
def test_a_verifying_reader_refuses_other_bytes_before_the_end(data: bytes, known: bool, draw: st.DataObject) -> None:
    """Short, long and flipped streams never reach an empty read."""
    at = draw.draw(st.integers(0, len(data) - 1))
    flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    other = draw.draw(st.sampled_from([data[:at], data + b"x", flipped]))
    reader = VerifyingReader(Slow(other), Digest.of(data), len(data) if known else None)
    with pytest.raises(IntegrityError):
        reader.read_all()


def test_too_many_bytes_are_refused_when_the_first_of_them_is_read() -> None:
    """An endless stream behind a known digest is not read to its end."""
    reader = VerifyingReader(io.BytesIO(b"abcdef"), Digest.of(b"abc"), 3)
    with pytest.raises(IntegrityError, match="size"):
        reader.read(4)


def test_closing_the_reader_closes_the_stream() -> None:
    """Leaving the block closes what is underneath."""
    raw = io.BytesIO(b"")
    with VerifyingReader(raw, Digest.of(b"")) as reader:
        assert reader.read_to_end() == 0
        assert not raw.closed
    assert raw.closed


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_bytes_that_were_not_read_to_their_end_are_not_verified(limit: int) -> None:
    """Not even when all of them came: only the end tells that there are no more."""
    reader = VerifyingReader(io.BytesIO(b"abc"), Digest.of(b"abc"), 3)
    with pytest.raises(IntegrityError, match=f"unverified.*after {limit} bytes"), reader:
        reader.read(limit)
    assert not reader.verified


def test_a_failure_before_the_end_is_told_and_not_that_the_end_was_not_reached() -> None:
    """What raised in the block passes; so does the block after the reader refused the bytes."""
    reader = VerifyingReader(io.BytesIO(b"abc"), Digest.of(b"abc"))
    with pytest.raises(LookupError), reader:
        raise LookupError
    with VerifyingReader(io.BytesIO(b"abd"), Digest.of(b"abc")) as reader:
        with pytest.raises(IntegrityError, match="digest"):
            reader.read_to_end()
        assert not reader.verified


def test_only_the_end_verifies() -> None:
    """Then, and from then on, the reader says so."""
    reader = VerifyingReader(io.BytesIO(b"abc"), Digest.of(b"abc"))
    assert reader.read_to_end() == 3
    assert reader.verified
    assert reader.read() == b""


def test_wire_json_keeps_the_order_of_insertion() -> None:
    """Compact, UTF-8, floats as floats."""
    assert wire_json({"b": 1, "a": ["ä", None, True, 0.0]}) == '{"b":1,"a":["ä",null,true,0.0]}'.encode()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_neither_serialiser_writes_what_is_not_json(number: float) -> None:
    """NaN and infinities have no JSON form."""
    with pytest.raises(ValueError, match="JSON"):
        wire_json([number])
    with pytest.raises(InputError, match="canonical-json"):
        canonical_json([number])


@given(JSON)
def test_both_serialisers_write_json_that_reads_back(value: Any) -> None:
    """No value is lost."""
    assert json.loads(wire_json(value)) == value
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(max_size=4), st.integers(-SAFE, SAFE), max_size=6))
def test_canonical_json_does_not_depend_on_insertion_order(value: dict[str, int]) -> None:
    """RFC 8785: equal values have equal bytes, so equal digests."""
    turned = dict(reversed(value.items()))
    assert canonical_json(turned) == canonical_json(value)
    assert canonical_digest(turned) == canonical_digest(value)


def test_canonical_json_sorts_by_utf16_code_units() -> None:
    """The example of RFC 8785, section 3.2.3."""
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    order = list(json.loads(canonical_json(dict.fromkeys(names, 0))))
    assert order == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize("value", [2**53, -(2**53), 1e16, -1e21, 2.0**53, "\ud800", b"bytes", {1: 2}, {1}, object()])
def test_what_has_no_canonical_form_is_an_input_error(value: object) -> None:
    """Integers that readers round, lone surrogates, and types that JSON does not have."""
    with pytest.raises(InputError, match="canonical-json"):
        canonical_json({"x": value} if not isinstance(value, dict) else value)


@pytest.mark.parametrize("number", [2.0**53, -1e16, 1e300])
def test_a_float_that_reads_back_as_another_integer_is_named(number: float) -> None:
    """RFC 8785 writes 1e16 as an integer beyond 2^53: an identity that its own reader would refuse."""
    with pytest.raises(InputError, match="2\\^53 or beyond"):
        canonical_json({"maximum": [number]})


def test_an_identity_is_nested_within_a_bound() -> None:
    """The same one however deep the caller is."""
    value: Any = 0
    for _ in range(MAX_CANONICAL_DEPTH):
        value = [value]
    assert canonical_json(value)
    with pytest.raises(InputError, match="levels"):
        canonical_json([value])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)


@given(ANYTHING)
@example(1e16)
@example([5e-324, 1e-7, 0.000001, 9007199254740991.0, -0.0, 123456.5])
def test_what_is_canonical_stays_so_when_it_is_read_and_written_again(value: Any) -> None:
    """The law of an identity: whoever reads it comes to the same bytes."""
    try:
        written = canonical_json(value)
    except InputError:
        return
    assert canonical_json(json.loads(written)) == written
