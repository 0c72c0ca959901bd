"""Retention and holds: the narrowest word counts, what none names is kept."""

from __future__ import annotations

import pytest

from contracts.digest import Digest
from contracts.errors import InputError
from contracts.retention import DAY_S, Holds, Retention, hold_subject, retention_of

KEEP = Retention({"*": 365, "acme": 30, "acme/case-1": 7, "beta": 0})


@pytest.mark.parametrize(
    ("tenant", "bundle", "days"),
    [("other", "case-1", 365), ("acme", "case-2", 30), ("acme", "case-1", 7), ("beta", "case-1", 0)],
)
def test_the_narrowest_subject_counts(tenant: str, bundle: str, days: int) -> None:
    """A bundle's days go before its tenant's, those before everybody's."""
    assert KEEP.is_over(tenant, bundle, 0.0, days * DAY_S)
    assert days == 0 or not KEEP.is_over(tenant, bundle, 0.0, days * DAY_S - 1)


def test_what_nobody_names_is_kept_for_ever() -> None:
    """Without `*` there is no default."""
    assert not Retention({"acme": 1}).is_over("beta", "b", 0.0, 1e12)
    assert not Retention().is_over("beta", "b", 0.0, 1e12)


@pytest.mark.parametrize("subject", ["", "Acme", "acme/", "/b", "acme/a/b", "a b", "sha256:00", "**"])
def test_what_is_no_subject_is_refused(subject: str) -> None:
    """Neither for retention nor for a hold."""
    with pytest.raises(InputError):
        Retention({subject: 1})
    with pytest.raises(InputError):
        hold_subject(subject)


@pytest.mark.parametrize("days", [-1, float("nan"), float("inf")])
def test_days_are_a_number_from_nought_on(days: float) -> None:
    """What is no number of days must not come to delete anything."""
    with pytest.raises(InputError):
        Retention({"acme": days})


def test_options_are_subjects_with_days() -> None:
    """`SUBJECT=DAYS`; halves of days too."""
    assert retention_of(["*=365", "acme/case-1=0.5"]) == {"*": 365.0, "acme/case-1": 0.5}
    for text in ("acme", "acme=", "acme=soon"):
        with pytest.raises(InputError):
            retention_of([text])


def test_a_hold_covers_a_tenant_a_bundle_or_a_blob() -> None:
    """And nothing else of the tenant."""
    digest = Digest.of(b"held")
    holds = Holds({"acme", "beta/case-1", str(digest)})
    assert holds.covers("acme", "anything")
    assert holds.covers("beta", "case-1")
    assert not holds.covers("beta", "case-2")
    assert holds.digests == {digest}
    assert hold_subject(str(digest)) == str(digest)
