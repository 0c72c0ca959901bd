"""Policies by settings: what a file defines, what the deployment denies everywhere, whose policy is in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import InputError
from contracts.network_policy import ALLOWLIST, PUBLIC_WEB, NetworkPolicy
from contracts.policy_verdict import judge
from settings.load import load
from settings.values import Settings

PUBLIC = ["93.184.216.34"]


def loaded(tmp_path: Path, toml: str, **environment: str) -> Settings:
    file = tmp_path / "mosaic.toml"
    file.write_text(toml, "utf-8")
    return load(None, environment, file)


def test_an_allowlist_without_entries_refuses_everything(tmp_path: Path) -> None:
    """The ready `allowlist` can be named before anything stands on it, and lets nothing through until then."""
    for toml in ('policy = "allowlist"\n', 'policy = "allowlist"\n[policies.allowlist]\nschemes = ["https"]\n'):
        policy = loaded(tmp_path, toml).network_policy()
        assert policy.allows_nothing
        assert judge(policy, "https://media.example.com/", PUBLIC).rule == "host-not-allowed"
        assert judge(policy, "https://93.184.216.34/", {}).rule == "host-not-allowed"


def test_an_allowlist_is_what_the_file_says(tmp_path: Path) -> None:
    """Its table gives it hosts and networks; a host must be one of them and its addresses in one of those."""
    toml = '[policies.allowlist]\nallowed_hosts = ["example.com"]\nallowed_networks = ["93.184.0.0/16"]\n'
    policy = loaded(tmp_path, toml).network_policy("allowlist")
    assert judge(policy, "https://media.example.com/", PUBLIC).verdict == "allow"
    assert judge(policy, "https://media.example.org/", PUBLIC).rule == "host-not-allowed"
    assert judge(policy, "https://media.example.com/", ["8.8.8.8"]).rule == "address-not-allowed"
    assert policy.digest() != ALLOWLIST.digest()


def test_the_deployments_deny_list_is_in_every_policy(tmp_path: Path) -> None:
    """Ready or defined, by file or by variable: what the deployment denies is denied, and the digest shows it."""
    toml = (
        '[deny]\nhosts = ["Bad.example.com"]\nnetworks = ["93.184.0.0/16"]\n'
        '[policies.lab]\ndeny_hosts = ["a.example"]\n'
    )
    settings = loaded(tmp_path, toml)
    for name in ("public-web", "public-https", "allowlist", "lab"):
        policy = settings.network_policy(name)
        assert policy.deny_hosts[-1] == "Bad.example.com"
        assert policy.deny_networks == ("93.184.0.0/16",)
        assert judge(policy, "https://x.bad.example.com/", ["8.8.8.8"]).rule == "host-denied-by-operator"
    assert settings.network_policy("lab").deny_hosts == ("a.example", "Bad.example.com")
    assert judge(settings.network_policy(), "http://media.example.com/", PUBLIC).rule == "address-denied-by-operator"
    assert settings.network_policy("public-web").digest() != PUBLIC_WEB.digest()
    by_variable = loaded(tmp_path, "", MOSAIC_DENY__HOSTS="bad.example.com, worse.example.com")
    assert by_variable.network_policy().deny_hosts == ("bad.example.com", "worse.example.com")
    assert ("deny.hosts", "bad.example.com,worse.example.com", "MOSAIC_DENY__HOSTS") in list(by_variable.describe())


def test_a_tenant_has_its_own_policy(tmp_path: Path) -> None:
    """A tenant's policy goes before `policy`; other tenants and who names a policy are not touched by it."""
    toml = (
        'policy = "public-https"\n[tenant_policies]\nnewsroom = "partners"\n'
        '[policies.partners]\nallowed_hosts = ["example.com"]\n'
    )
    assert loaded(tmp_path, toml).network_policy().name == "public-https"
    newsroom = loaded(tmp_path, toml, MOSAIC_TENANT="newsroom")
    assert newsroom.network_policy().name == "partners"
    assert newsroom.network_policy("public-web") == PUBLIC_WEB
    assert ("tenant_policies.newsroom", "partners", str(tmp_path / "mosaic.toml")) in list(newsroom.describe())


def test_retention_is_shown_by_subject(tmp_path: Path) -> None:
    """Days by tenant and bundle come from the file, and nothing is in force without one."""
    toml = '[retention_days]\n"*" = 365\n"newsroom/case-17" = 30\n'
    settings = loaded(tmp_path, toml)
    assert settings.retention_days.days == {"*": 365, "newsroom/case-17": 30}
    assert ("retention_days.newsroom/case-17", "30", str(tmp_path / "mosaic.toml")) in list(settings.describe())
    assert loaded(tmp_path, "").retention_days.days == {}


def test_flags_of_a_policy(tmp_path: Path) -> None:
    """What records keep of a URL, and whether mismatched bytes are kept, are the policy's to say, and shown."""
    toml = "[policies.lab]\nrecord_queries = true\nkeep_mismatched = true\n"
    settings = loaded(tmp_path, toml)
    assert settings.network_policy("lab") == NetworkPolicy("lab", record_queries=True, keep_mismatched=True)
    assert ("policies.lab.record_queries", "true", str(tmp_path / "mosaic.toml")) in list(settings.describe())


@pytest.mark.parametrize(
    ("toml", "rule", "words"),
    [
        ("[policies.lab]\nrecord_queries = 1", "settings-type", "expected true or false"),
        ("[policies.lab]\nrecord_querys = true", "settings-unknown", "did you mean record_queries?"),
        ('[policies.lab]\nallowed_networks = ["10.0.0.0/33"]', "policy-network", "10.0.0.0/33"),
        ('[policies.lab]\ndeny_hosts = ["*.example.com"]', "policy-host", "*.example.com"),
        ('[policies.lab]\ndeny_hosts = ["example.com."]', "policy-host", "trailing dot"),
        ('[policies.lab]\nallowed_hosts = ["10.0.0.1"]', "policy-host", "addresses are networks"),
        ("[policies.allowlist]\nports = [8080]", "policy-unsafe-name", "need the word unsafe"),
        ('[deny]\nhosts = ["exa mple.com"]', "policy-host", "deny.hosts"),
        ('[deny]\nnetworks = ["10.0.0.1/8"]', "policy-network", "deny.networks"),
        ("[deny]\nhosts = [1]", "settings-type", "expected a list of texts"),
        ("[deny]\nhost = []", "settings-unknown", "did you mean deny.hosts?"),
        ("deny = 3", "settings-type", "expected a table"),
        ("tenant_policies = 3", "settings-unknown", "no setting 'tenant_policies'"),
        ('[tenant_policies]\nnewsroom = "lab"', "policy-unknown", "no policy 'lab'"),
        ('[tenant_policies]\nNewsroom = "public-web"', "settings-type", "tenant_policies.Newsroom"),
        ("[tenant_policies]\nnewsroom = 3", "settings-type", "a policy's name"),
        ("[retention_days]\nnewsroom = true", "settings-type", "expected a number of days"),
        ("[retention_days]\nnewsroom = -1", "retention", "from 0 on"),
        ("[retention_days]\nNewsroom = 1", "retention", "Newsroom"),
    ],
)
def test_a_table_that_would_not_do_what_it_says_is_refused(tmp_path: Path, toml: str, rule: str, words: str) -> None:
    """A pattern that could never match, a bad network, a tenant that cannot be: refused when the file is read."""
    with pytest.raises(InputError) as refused:
        loaded(tmp_path, toml)
    assert refused.value.rule == rule
    assert words in refused.value.reason
