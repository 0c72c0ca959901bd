"""What an object store refuses, and what boto3 and its HTTP library raise, in our words.

Of an error only its code, its status and the name of its class are repeated: messages hold URLs and request ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from contracts.errors import BlobMissing, FetchError, FetchUnavailable, StorageError, StorageRefused

_CODE = re.compile(r"[A-Za-z0-9.]{1,64}")
CONDITION = "s3-condition"
"""The rule of a request whose condition did not hold (412), or that met another of the same key (409)."""

_RULES = {
    "s3-bucket-missing": frozenset({"NoSuchBucket"}),
    # 405: the version is a delete marker
    "s3-object-missing": frozenset({"NoSuchKey", "NoSuchVersion", "MethodNotAllowed", "404"}),
    "s3-credentials": frozenset(
        {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "RequestTimeTooSkewed"}
    ),
    "s3-access-denied": frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem", "403"}),
    "s3-other-region": frozenset(
        {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "301", "307"}
    ),
    "s3-archived": frozenset({"InvalidObjectState"}),
    CONDITION: frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412"}),
    "s3-checksum": frozenset({"BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"}),
}
_BUSY = frozenset({"SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "TooManyRequests"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the store did not do it. `passing` says whether a retry can help; `status` is of its answer, 0 without."""

    rule: str
    reason: str
    passing: bool = False
    status: int = 0

    def fetch_error(self) -> FetchError:
        """As the failure of a source."""
        return (FetchUnavailable if self.passing else FetchError)(self.rule, self.reason)

    def storage_error(self) -> StorageError:
        """As the failure of a store of ours."""
        if self.rule == "s3-object-missing":
            return BlobMissing(self.rule, self.reason)
        return (StorageError if self.passing else StorageRefused)(self.rule, self.reason)


def refusal(error: Exception, what: str) -> Refusal:
    """Why `what` could not be had or done, for whatever boto3 and urllib3 let through."""
    from botocore import exceptions as boto
    from urllib3 import exceptions as http

    name = type(error).__name__
    if isinstance(error, boto.ClientError):
        return _answered(error.response, what)
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        return Refusal("s3-credentials", f"{what}: there are no storage credentials ({name})")
    if isinstance(error, boto.CredentialRetrievalError | boto.TokenRetrievalError):
        return Refusal("s3-credentials", f"{what}: storage credentials could not be had ({name})", passing=True)
    if isinstance(error, boto.ReadTimeoutError | http.ReadTimeoutError):
        return Refusal("s3-idle-timeout", f"{what}: nothing came for too long", passing=True)
    if isinstance(error, boto.HTTPClientError | http.HTTPError | OSError):
        return Refusal("s3-connection", f"{what}: the connection to the store failed ({name})", passing=True)
    return Refusal("s3-client", f"{what}: the client or the answer is not usable ({name})")


def _answered(response: dict[str, Any], what: str) -> Refusal:
    said = str(response.get("Error", {}).get("Code", ""))
    code = said if _CODE.fullmatch(said) else "unreadable"
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    told = f"{what}: the store says {code} ({status})"
    rule = next((rule for rule, codes in _RULES.items() if code in codes), None)
    if rule is not None:
        advice = "; s3_region or s3_endpoint_url is another one's" if rule == "s3-other-region" else ""
        return Refusal(rule, told + advice, rule == CONDITION, status)
    passing = code in _BUSY or status >= 500 or status == 429
    return Refusal("s3-unavailable" if passing else "s3-refused", told, passing, status)
