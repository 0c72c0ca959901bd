"""What a policy says of a URL where the answers of its names are given: the same rules, without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contracts.errors import InputError, PolicyDenied
from contracts.network_policy import NetworkPolicy, check_addresses, check_redirect, check_url
from contracts.url_grammar import Target


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policy says of a URL: `verdict` is `allow` or `deny`."""

    url: str
    verdict: str
    rule: str
    reason: str


def judge(
    policy: NetworkPolicy,
    url: str,
    answers: Mapping[str, Sequence[str]] | Sequence[str],
    *,
    then: Sequence[str] | None = None,
    location: str | None = None,
) -> Verdict:
    """Judge `url` and its first redirect without a network.

    `answers` are the addresses by lower-case host name, or those of every name. `then` is what a second resolution
    says: the first hop is dialled as it was vetted, so it matters to the redirect's hop only. A name without an answer
    is denied.
    """
    try:
        target = check_url(policy, url)
        _vet(policy, target, answers)
        if location is not None:
            target = check_redirect(policy, target, [location.encode()])
            _vet(policy, target, answers if then is None else then)
    except PolicyDenied as denied:
        return Verdict(url, "deny", denied.rule, denied.reason)
    return Verdict(url, "allow", policy.name, "every hop passes every rule")


def judge_case(policy: NetworkPolicy, case: Mapping[str, Any]) -> Verdict:
    """Judge a case of a case file: `url`, and optionally `dns`, `dns_then` and `location`. Raises InputError."""
    answers, then, location = case.get("dns", []), case.get("dns_then"), case.get("location")
    for name, value in (("dns", answers), ("dns_then", then or [])):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError("case-form", f"expected `{name}` to be a list of addresses")
    if not isinstance(case.get("url"), str) or not isinstance(location, str | None):
        raise InputError("case-form", "expected `url` and `location` to be texts")
    return judge(policy, case["url"], answers, then=then, location=location)


def _vet(policy: NetworkPolicy, target: Target, answers: Mapping[str, Sequence[str]] | Sequence[str]) -> None:
    if target.literal is None:
        found = answers.get(target.host, ()) if isinstance(answers, Mapping) else answers
        check_addresses(policy, target.host, found)
