"""Parameter models: what Prefect's form shows and checks. No secret values; names only.

The form's own check is that of the JSON schema. What a schema cannot say, the models say when the flow begins, before
anything is opened: a wrong bundle is refused with its line.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from contracts.errors import InputError
from contracts.limits import Limits
from pipeline.loading import is_object, load_text
from settings.load import load

PASTED_CHARACTERS = 262_144  # parameters are kept in Prefect's database; a larger bundle is a file
MAX_TAGS = 16
_TAG = r"^[A-Za-z0-9][A-Za-z0-9 ._:/-]{0,63}$"

LimitName = Enum("LimitName", {each.name: each.name for each in fields(Limits)}, type=str)  # type: ignore[misc]  # made
"""The limits by name, as the form lists them."""


def release_names() -> tuple[str, ...]:
    """The releases that this deployment's settings offer."""
    return (load().release,)


def _offer_releases(schema: dict[str, Any]) -> None:
    schema["enum"] = ["", *release_names()]


class BundleParameters(BaseModel):
    """Which evidence bundle to analyse: a file, an object in S3, or the bundle itself."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(
        default="",
        title="Bundle file or S3 object",
        description="Path of the bundle (YAML or JSON) on the host that runs the flow, or s3://bucket/key. A file's "
        "media paths are relative to its folder; an object has no folder.",
        max_length=4_096,
        examples=["examples/first/bundle.yaml", "s3://evidence/case-7/bundle.yaml"],
    )
    text: str = Field(
        default="",
        title="Or the bundle itself",
        description="YAML or JSON, pasted. Its media are URLs, s3:// objects or sha256: digests of the store.",
        max_length=PASTED_CHARACTERS,
    )

    @model_validator(mode="after")
    def _one_bundle(self) -> BundleParameters:
        if bool(self.path.strip()) == bool(self.text.strip()):
            raise ValueError("expected a bundle file or object, or the bundle itself, and not both")
        if self.text.strip():
            try:
                load_text(self.text, load())
            except InputError as error:
                raise ValueError(f"{error.rule}: {error.reason}") from error
        return self

    @property
    def name(self) -> str:
        """What a run of it is called."""
        if self.text.strip():
            return "pasted bundle"
        return self.path if is_object(self.path) else self.path.rpartition("/")[2]


class NarrowerLimit(BaseModel):
    """One limit, narrowed for this run."""

    model_config = ConfigDict(extra="forbid")

    name: LimitName = Field(title="Limit", description="Which limit; docs/tables.md explains each.")
    value: float = Field(
        title="Value", description="In the unit that the name says; wider than what is in force is refused.", ge=0
    )


class AnalysisOptions(BaseModel):
    """How to analyse it."""

    model_config = ConfigDict(extra="forbid")

    release: str = Field(
        default="",
        title="Release",
        description="Which release to ask where the bundle names none; empty means the deployment's.",
        json_schema_extra=_offer_releases,
    )
    again: bool = Field(
        default=False,
        title="Ask again",
        description="Submit questions that the ledger already answers for this release, instead of reusing the answer.",
    )
    complete_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        title="Least share of complete answers",
        description="The flow run fails when fewer than this share of the questions is complete. Every outcome is in "
        "the ledger either way.",
    )
    limits: list[NarrowerLimit] = Field(
        default_factory=list,
        max_length=len(LimitName),
        title="Narrower limits",
        description="Limits to narrow for this run, for example output_tokens to 256.",
    )
    tags: list[Annotated[str, Field(pattern=_TAG)]] = Field(
        default_factory=list,
        max_length=MAX_TAGS,
        title="Tags",
        description="Tags that this run gets in Prefect, to find it by, for example case-7.",
    )

    @field_validator("release")
    @classmethod
    def _is_offered(cls, release: str) -> str:
        names = release_names()
        if release and release not in names:
            raise ValueError(f"release-unknown: expected {' or '.join(names)}, got {release[:64]!r}")
        return release

    @field_validator("limits")
    @classmethod
    def _each_once(cls, limits: list[NarrowerLimit]) -> list[NarrowerLimit]:
        if len({each.name for each in limits}) != len(limits):
            raise ValueError("a limit is named twice")
        return limits

    def narrowed(self) -> dict[str, float]:
        """The limits to narrow, by name."""
        return {each.name.value: each.value for each in self.limits}
