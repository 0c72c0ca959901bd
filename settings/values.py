"""The settings in force: frozen values, each knowing where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from contracts.limits import Limits
from contracts.locator import redact_url
from contracts.network_policy import NetworkPolicy
from contracts.retention import Retention
from settings.policies import DenyList, named_policy
from settings.secret import Secret
from settings.stack_ports import StackPorts

REPOSITORY = Path(__file__).resolve().parent.parent
DEFAULT_HOME = REPOSITORY / ".mosaic"
_TABLES = frozenset({"limits", "policies", "tenant_policies", "retention_days", "deny", "ports", "provenance"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What this deployment runs with. `provenance` says of each dotted name where its value came from: `default`,
    a file's path, an environment variable's name, or `--set`."""

    home: Path = DEFAULT_HOME  # everything that is kept, below
    database_url: Secret | None = None  # of the leases and the ledger, in PostgreSQL; None: two SQLite files in `home`
    host: str | None = None  # this host's name among those that share a database; None: as the machine calls itself
    tenant: str = "default"  # whose media and receipts these are
    policy: str = "public-web"  # name of the network policy
    release: str = "calibration-0.9.5"  # where a bundle names none
    worker_url: str | None = None  # None: an embedded worker is started
    worker_slots: int = 4  # questions a worker answers at a time
    prefect_api_url: str | None = None  # None: Prefect's server is started as our child
    prefect_api_auth_string: Secret | None = None  # `user:password` of that server
    reports_url: str | None = None  # where `reports` is served, for links to it; None: only paths are told
    fetch_concurrency: int = 64  # sources fetched at a time, over all hosts
    fetch_per_host: int = 6  # of them from one host, which is what browsers ask of one
    fetch_tries: int = 3  # for what another try can help: connect, 5xx, 429
    fetch_dedupe: bool = True  # parts of one run that name the same URL share one fetch
    unsafe_isolation: bool = False  # start confined children also where neither Landlock nor seccomp can be had
    strict_decoders: bool = False  # a decoder of its own for each item, at some milliseconds more
    decode_workers: int = 2  # confined decoders kept warm; a decoder uses one core
    lookahead_questions: int = 8  # questions prepared ahead of the one being answered
    s3_endpoint_url: str | None = None  # None: Amazon's, of the region
    s3_region: str = "us-east-1"
    s3_access_key_id: Secret | None = None  # None: where AWS's own tools look (environment, profile, role)
    s3_secret_access_key: Secret | None = None
    s3_session_token: Secret | None = None
    s3_source_buckets: tuple[str, ...] = ()  # `bucket` or `bucket/prefix`: what bundles may name in s3:// sources
    s3_request_checksums: str = "when_supported"  # botocore's words; some servers of others refuse what it adds then
    s3_response_checksums: str = "when_required"  # what we read is verified against its digest anyway
    blob_store: str = "disk"  # or s3://bucket/prefix
    s3_store_per_tenant: bool = False  # each tenant's blobs below a prefix of its own
    s3_store_encryption: str | None = None  # of the server: AES256 or aws:kms; None leaves it to the bucket
    s3_store_kms_key: str | None = None
    s3_store_lock_mode: str | None = None  # object lock: GOVERNANCE or COMPLIANCE; None leaves it to the bucket
    s3_store_lock_days: int = 0
    unsafe_s3_store: bool = False  # store blobs also on a server that does not enforce what the probe asks
    staging_layout: str = "tenant"  # or flat: what one tenant stages every worker of the host can read
    staging_mode: str = "0440"  # of staged files, or 0444
    staging_group: int | None = None  # group of staged files and folders: that of the worker's user
    staging_cache_bytes: int = 0  # kept after their last lease, for the next; the longest unused go first
    limits: Limits = field(default_factory=Limits)
    policies: Mapping[str, NetworkPolicy] = field(default_factory=dict)
    tenant_policies: Mapping[str, str] = field(
        default_factory=dict
    )  # the policy's name by tenant; goes before `policy`
    retention_days: Retention = field(default_factory=Retention)  # of media; none: kept for ever
    deny: DenyList = field(default_factory=DenyList)  # for every policy
    ports: StackPorts = field(default_factory=StackPorts)
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def staging(self) -> Path:
        """Leased read-only files that workers open."""
        return self.home / "staging"

    @property
    def reports(self) -> Path:
        """Reports of runs."""
        return self.home / "reports"

    def report_url(self, run: str) -> str | None:
        """Where the report of `run` is served, if reports are."""
        return None if self.reports_url is None else f"{self.reports_url.rstrip('/')}/{run}.html"

    @property
    def logs(self) -> Path:
        """Logs of our children."""
        return self.home / "logs"

    @property
    def engine(self) -> Path:
        """Unpacked model bundles."""
        return self.home / "engine"

    @property
    def prefect(self) -> Path:
        """The home of Prefect's server, when it is our child."""
        return self.home / "prefect"

    def network_policy(self, name: str | None = None) -> NetworkPolicy:
        """The policy called `name`, or the tenant's, or `policy`; with what this deployment denies.

        Raises InputError (policy-unknown) naming those there are.
        """
        chosen = self.tenant_policies.get(self.tenant, self.policy) if name is None else name
        return named_policy(chosen, self.policies).denying(self.deny.hosts, self.deny.networks)

    def describe(self) -> Iterator[tuple[str, str, str]]:
        """Each setting in force as (dotted name, value, where from). URLs are shown without query and userinfo."""
        for name, value in self._named():
            shown = redact_url(value) if isinstance(value, str) and name.endswith("_url") else value
            yield name, _shown(shown), self.provenance.get(name, "default")

    def _named(self) -> Iterator[tuple[str, object]]:
        for each in fields(self):
            if each.name not in _TABLES:
                yield each.name, getattr(self, each.name)
        for table in ("limits", "deny", "ports"):
            values = getattr(self, table)
            for each in fields(values):
                yield f"{table}.{each.name}", getattr(values, each.name)
        for tenant, policy in self.tenant_policies.items():
            yield f"tenant_policies.{tenant}", policy
        for subject, days in self.retention_days.days.items():
            yield f"retention_days.{subject}", days
        for name, value in self.policies.items():
            for each in fields(value):
                if each.name != "name":
                    yield f"policies.{name}.{each.name}", getattr(value, each.name)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value) or "-"
    return "-" if value is None else str(value)
