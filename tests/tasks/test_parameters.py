"""The form of a run in Prefect's UI: strict, and explained."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from flows.analyze_bundle import analyze_bundle
from tasks.parameters import AnalysisOptions, BundleParameters


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (BundleParameters, {"path": "a.yaml", "tenant": "x"}),
        (BundleParameters, {"path": ""}),
        (BundleParameters, {}),
        (AnalysisOptions, {"agian": True}),
        (AnalysisOptions, {"limits": {"image_bytes": "many"}}),
    ],
)
def test_refused(model: type[BaseModel], values: dict[str, Any]) -> None:
    """Unknown names, empty paths and values of another type are refused by the form."""
    with pytest.raises(ValidationError):
        model.model_validate(values)


@pytest.mark.parametrize("model", [BundleParameters, AnalysisOptions])
def test_explained(model: type[BaseModel]) -> None:
    """Every field of the form has a title and a description, and the schema is closed."""
    schema = model.model_json_schema()
    assert schema["additionalProperties"] is False
    assert schema["description"]
    for field in schema["properties"].values():
        assert field["title"]
        assert field["description"].endswith(".")


def test_flow_schema() -> None:
    """The flow's own parameters have the descriptions of its docstring, and only the bundle is required."""
    schema = analyze_bundle.parameters.model_dump()
    assert schema["required"] == ["bundle"]
    assert set(schema["properties"]) == {"bundle", "options"}
    assert all(field["description"] for field in schema["properties"].values())
    assert (analyze_bundle.description or "").startswith("Acquire, inspect, store")
