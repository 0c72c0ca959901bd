"""What an object store refuses, and what boto3 and its HTTP library raise, in our words.

Of an error only its code, its status and the name of its class are repeated: messages hold URLs and request ids.
"""

from __future__ import annotations

import re
from typing import Any

from contracts.errors import FetchError, FetchUnavailable

_CODE = re.compile(r"[A-Za-z0-9.]{1,64}")
_MISSING = frozenset({"NoSuchKey", "NoSuchVersion", "MethodNotAllowed", "404"})  # 405: the version is a delete marker
_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem", "403"})
_CREDENTIALS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "RequestTimeTooSkewed"}
)
_ELSEWHERE = frozenset({"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "301", "307"})
_BUSY = frozenset({"SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "TooManyRequests"})


def refusal(error: Exception, what: str) -> FetchError:
    """The error of ours that says why `what` could not be read, for whatever boto3 and urllib3 let through."""
    from botocore import exceptions as boto
    from urllib3 import exceptions as http

    name = type(error).__name__
    if isinstance(error, boto.ClientError):
        return _answered(error.response, what)
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        return FetchError("s3-credentials", f"{what}: there are no storage credentials ({name})")
    if isinstance(error, boto.CredentialRetrievalError | boto.TokenRetrievalError):
        return FetchUnavailable("s3-credentials", f"{what}: storage credentials could not be had ({name})")
    if isinstance(error, boto.ReadTimeoutError | http.ReadTimeoutError):
        return FetchUnavailable("s3-idle-timeout", f"{what}: nothing came for too long")
    if isinstance(error, boto.HTTPClientError | http.HTTPError | OSError):
        return FetchUnavailable("s3-connection", f"{what}: the connection to the store failed ({name})")
    return FetchError("s3-client", f"{what}: the client or the answer is not usable ({name})")


def _answered(response: dict[str, Any], what: str) -> FetchError:
    said = str(response.get("Error", {}).get("Code", ""))
    code = said if _CODE.fullmatch(said) else "unreadable"
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    told = f"{what}: the store says {code} ({status})"
    if code == "NoSuchBucket":
        return FetchError("s3-bucket-missing", told)
    if code in _MISSING:
        return FetchError("s3-object-missing", told)
    if code in _CREDENTIALS:
        return FetchError("s3-credentials", told)
    if code in _DENIED:
        return FetchError("s3-access-denied", told)
    if code in _ELSEWHERE:
        return FetchError("s3-other-region", f"{told}; s3_region or s3_endpoint_url is another one's")
    if code == "InvalidObjectState":
        return FetchError("s3-archived", told)
    if code in _BUSY or status >= 500 or status == 429:
        return FetchUnavailable("s3-unavailable", told)
    return FetchError("s3-refused", told)
