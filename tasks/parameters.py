"""Parameter models: what Prefect's form shows and checks. No secret values; names only."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class BundleParameters(BaseModel):
    """Which evidence bundle to analyse."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(
        title="Bundle file",
        description="Path of the bundle (YAML or JSON) on the host that runs the flow. Its media paths are relative "
        "to the bundle's folder.",
        min_length=1,
        examples=["examples/first/bundle.yaml"],
    )


class AnalysisOptions(BaseModel):
    """How to analyse it."""

    model_config = ConfigDict(extra="forbid")

    again: bool = Field(
        default=False,
        title="Ask again",
        description="Submit questions that the ledger already answers for this release, instead of reusing the answer.",
    )
    limits: dict[str, float] = Field(
        default_factory=dict,
        title="Narrower limits",
        description="Limits to narrow for this run, by name, for example output_tokens: 256. Wider values are refused.",
    )
