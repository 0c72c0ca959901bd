"""What a rerun need not ask again: failures that lie in what was asked for, not in the moment."""

from __future__ import annotations

import re

import pytest

from contracts import lasting_failures
from contracts.digest import Digest
from contracts.errors import EvidenceError, FetchError, FetchUnavailable, IntegrityError, PolicyDenied
from contracts.lasting_failures import LASTING_RULES, LASTING_STATUS, lasts
from contracts.records import AcquisitionRecord, Failure, Hop

DIGEST = Digest.of(b"http://example.org/")


def _record(error: type[EvidenceError], rule: str, *statuses: int | None, source: str = "url") -> AcquisitionRecord:
    """A failure after hops with these statuses; None is a hop without an answer."""
    hops = tuple(Hop("http://example.org/", DIGEST, status=status) for status in statuses)
    failure = Failure.of(error(rule, "reason"))
    return AcquisitionRecord(source, "http://example.org/", DIGEST, 0.0, 0.0, hops=hops, failure=failure)


LASTING = {
    "the URL cannot be read": _record(PolicyDenied, "url-userinfo"),
    "its port is denied": _record(PolicyDenied, "port"),
    "its address, written in it, is denied": _record(PolicyDenied, "address-denied"),
    "not there": _record(FetchError, "http-status", 404),
    "gone": _record(FetchError, "http-status", 410),
    "unavailable for legal reasons": _record(FetchError, "http-status", 451),
    "moved for good, and not there": _record(FetchError, "http-status", 301, 308, 404),
    "larger than the cap": _record(FetchError, "body-over-limit", 200),
    "encoded though not asked for": _record(FetchError, "content-encoding", 200),
}
PASSING = {
    "its name's addresses are denied": _record(PolicyDenied, "address-denied", None),
    "a redirect leads inside": _record(PolicyDenied, "address-denied", 302, None),
    "a redirect's target cannot be read": _record(PolicyDenied, "host-numeric-form", 302),
    "no address": _record(FetchError, "dns-no-answer", None),
    "certificate": _record(FetchError, "tls-certificate", None),
    "connect": _record(FetchUnavailable, "connect", None),
    "server error": _record(FetchUnavailable, "http-status", 500),
    "too many requests": _record(FetchUnavailable, "http-status", 429),
    "forbidden, which firewalls say for a while": _record(FetchError, "http-status", 403),
    "moved for now, and not there": _record(FetchError, "http-status", 302, 404),
    "too large where it is for now": _record(FetchError, "body-over-limit", 307, 200),
    "other bytes than expected": _record(IntegrityError, "sha256-mismatch", 200),
    "a file that is missing": _record(FetchError, "file-missing", source="file"),
    "an object over the cap": _record(FetchError, "body-over-limit", source="s3"),
}


@pytest.mark.parametrize("case", LASTING)
def test_what_lasts(case: str) -> None:
    """It would end the same way tomorrow."""
    assert lasts(LASTING[case])


@pytest.mark.parametrize("case", PASSING)
def test_what_may_change(case: str) -> None:
    """It may be otherwise the next time."""
    assert not lasts(PASSING[case])


def test_what_was_had_does_not_fail() -> None:
    """A record without a failure."""
    assert not lasts(AcquisitionRecord("url", "http://example.org/", DIGEST, 0.0, 0.0))


def test_the_table_says_what_is_done() -> None:
    """The documented statuses and rules are those of the code."""
    table = lasting_failures.__doc__ or ""
    row = next(line for line in table.splitlines() if line.startswith("| `http-status`"))
    assert {int(each) for each in re.findall(r"\d{3}", row)} == LASTING_STATUS
    assert set(re.findall(r"^\| `([a-z0-9-]+)`", table, re.MULTILINE)) == LASTING_RULES | {"http-status"}
