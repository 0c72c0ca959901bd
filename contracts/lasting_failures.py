"""Which failures of a fetch would be the same tomorrow, so that a rerun need not ask again.

A failure lasts if it lies in what was asked for, not in the moment: the URL itself, what the policy says of it, or an
answer that servers mean for good. Whatever depends on a name's addresses, on a certificate, on load or on a connection
may be different next time, and so may all that a temporary redirect led to, and what another version of ours says.

| rule | lasts |
| --- | --- |
| any of the policy | where it refused the URL itself, and no hop was made: not a name's addresses, nor a redirect |
| `http-status` | 400, 401, 404, 405, 406, 410, 414, 451 |
| `body-over-limit` | under the same cap |
| `content-encoding` | always |
| anything else | never |
"""

from __future__ import annotations

from contracts.errors import PolicyDenied
from contracts.records import AcquisitionRecord

LASTING_STATUS = frozenset({400, 401, 404, 405, 406, 410, 414, 451})
"""Statuses that speak of the request or the resource (RFC 9110 §15.5, RFC 7725). 403 is not among them: firewalls say
it to who asked too often."""

LASTING_RULES = frozenset({"body-over-limit", "content-encoding"})
_PERMANENT_REDIRECTS = frozenset({301, 308})


def lasts(record: AcquisitionRecord) -> bool:
    """Whether asking for the same again, under the same policy and the same cap, would end the same way."""
    failure = record.failure
    if failure is None or record.source != "url" or failure.can_pass:
        return False
    if failure.error == PolicyDenied.__name__:
        return not record.hops
    if any(hop.status not in _PERMANENT_REDIRECTS for hop in record.hops[:-1]):
        return False
    if failure.rule == "http-status":
        return bool(record.hops) and record.hops[-1].status in LASTING_STATUS
    return failure.rule in LASTING_RULES
