"""The one error tree.

Every class says whether a retry can help (`retryable`); every instance carries the name of the rule that was
broken (`rule`, kebab-case) and a reason with ids and sizes: what was expected, what came. Never a body, a header,
a token or a query string. Errors of libraries do not cross a package: the package that called the library
translates.
"""

from __future__ import annotations

from typing import ClassVar

from contracts.outcome import Outcome


class EvidenceError(Exception):
    """Base of everything we raise on purpose.

    `outcome` is what an attempt ends with when this error ends it.
    """

    retryable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = Outcome.REFUSED

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = rule
        self.reason = reason


class InputError(EvidenceError):
    """A bundle, a setting or an argument is not what it must be. `reason` names the line where there is one."""


class ContractRefused(EvidenceError):
    """A question cannot be put into a request that the release honours."""


class PolicyDenied(EvidenceError):
    """The network policy denies a URL or an address."""


class MediaRejected(EvidenceError):
    """The bytes are not an accepted medium within bounds."""


class FetchError(EvidenceError):
    """A source could not be had, and asking again will not change that (404, over the cap, digest mismatch)."""

    outcome = Outcome.SOURCE_FAILED


class FetchUnavailable(FetchError):
    """A source could not be had now (connect, timeout, 5xx)."""

    retryable = True


class IntegrityError(EvidenceError):
    """Bytes do not have the digest or size they are named by."""

    outcome = Outcome.SOURCE_FAILED


class StreamViolation(EvidenceError):
    """A rule or bound of the stream contract was broken."""

    outcome = Outcome.PROTOCOL_VIOLATION


class EngineError(EvidenceError):
    """The engine said so itself, in the stream or by status."""

    outcome = Outcome.ENGINE_ERROR


class WorkerUnavailable(EvidenceError):
    """No ready worker, or it did not admit the request in time."""

    retryable = True
    outcome = Outcome.UNAVAILABLE


class LeaseError(EvidenceError):
    """A hold on a staged file was lost or cannot be had."""

    retryable = True
    outcome = Outcome.LEASE_LOST


class StorageError(EvidenceError):
    """The store or the ledger cannot do its work (disk full, unreadable, foreign schema)."""

    retryable = True
    outcome = Outcome.UNAVAILABLE


class StorageRefused(StorageError):
    """The store does not do it, and asking again will not change that (credentials, no bucket, what it keeps)."""

    retryable = False


class BlobMissing(StorageError):
    """The store does not hold the bytes that are asked for."""

    retryable = False


class ChildFailed(EvidenceError):
    """A confined child died or broke its protocol. That is no verdict on what it held: others may have been in it."""

    retryable = True
    outcome = Outcome.UNAVAILABLE


class NeedMissing(EvidenceError):
    """Something the machine must provide is missing. `reason` says what and how to get it (exit code 3)."""
