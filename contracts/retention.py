"""How long media are kept, and what a legal hold covers. Pure: time is an argument.

Both name the same subjects: `TENANT`, `TENANT/BUNDLE`, and for retention `*`, which is everybody; a hold can also name
one blob by its digest. Retention is of media only: what was asked and answered stays with its receipt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from contracts.digest import Digest
from contracts.errors import InputError

EVERYBODY = "*"
DAY_S = 86_400.0
_SUBJECT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}(?:/[^\s/]{1,128})?")


@dataclass(frozen=True, slots=True)
class Retention:
    """Days by subject. The narrowest that names something goes before the wider ones; what none names is kept."""

    days: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InputError (`retention`) for what is no subject, or no number of days."""
        for subject, days in self.days.items():
            if subject != EVERYBODY and not _SUBJECT.fullmatch(subject):
                raise InputError("retention", f"expected *, TENANT or TENANT/BUNDLE, got {subject!r}")
            if not 0 <= days < float("inf"):
                raise InputError("retention", f"{subject}: expected a number of days from 0 on, got {days}")

    def is_over(self, tenant: str, bundle_id: str, created_at: float, now: float) -> bool:
        """Whether media of a receipt that was made at `created_at` are to go. Times are epoch seconds."""
        for subject in (f"{tenant}/{bundle_id}", tenant, EVERYBODY):
            if subject in self.days:
                return now - created_at >= self.days[subject] * DAY_S
        return False


@dataclass(frozen=True, slots=True)
class Holds:
    """The legal holds in force: nothing that one covers is removed, whatever retention says."""

    subjects: Collection[str] = ()

    def covers(self, tenant: str, bundle_id: str) -> bool:
        """Whether the media of this bundle of this tenant are held."""
        return tenant in self.subjects or f"{tenant}/{bundle_id}" in self.subjects

    @property
    def digests(self) -> frozenset[Digest]:
        """The blobs that are held by themselves."""
        return frozenset(Digest.parse(subject) for subject in self.subjects if subject.startswith("sha256:"))


def hold_subject(text: str) -> str:
    """`text`, if a hold can name it. Raises InputError."""
    if text.startswith("sha256:"):
        return str(Digest.parse(text))
    if not _SUBJECT.fullmatch(text):
        raise InputError("hold-subject", f"expected TENANT, TENANT/BUNDLE or sha256:<hex>, got {text!r}")
    return text


def retention_of(texts: Collection[str]) -> dict[str, float]:
    """Read `SUBJECT=DAYS`, as options give it. Raises InputError."""
    days = {}
    for text in texts:
        subject, _, number = text.rpartition("=")
        try:
            days[subject] = float(number)
        except ValueError:
            raise InputError("retention", f"expected SUBJECT=DAYS, got {text!r}") from None
    return days
