"""The form of a run in Prefect's UI: strict, explained, and refused before anything is opened."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from contracts.limits import Limits
from flows.analyze_bundle import analyze_bundle
from tasks.parameters import AnalysisOptions, BundleParameters, NarrowerLimit, release_names

PASTED = """\
version: 1
id: pasted
questions:
  - id: q
    parts: [{image: "https://example.org/a.png"}, {text: What is it?}]
"""
TWICE = [{"name": "image_bytes", "value": 1}, {"name": "image_bytes", "value": 2}]


@pytest.mark.parametrize(
    ("model", "values", "expected"),
    [
        (BundleParameters, {"path": "a.yaml", "tenant": "x"}, "Extra inputs"),
        (BundleParameters, {"path": ""}, "expected a bundle file or object"),
        (BundleParameters, {}, "expected a bundle file or object"),
        (BundleParameters, {"path": "a.yaml", "text": PASTED}, "not both"),
        (BundleParameters, {"text": PASTED.replace("What is it?", "[")}, "bundle:5: "),
        (BundleParameters, {"text": PASTED.replace("image", "picture")}, "bundle:5: "),
        (BundleParameters, {"text": PASTED.replace("https://example.org/", "")}, "in no folder"),
        (AnalysisOptions, {"agian": True}, "Extra inputs"),
        (AnalysisOptions, {"release": "other"}, "release-unknown"),
        (AnalysisOptions, {"complete_share": 1.5}, "less than or equal to 1"),
        (AnalysisOptions, {"limits": [{"name": "image_bites", "value": 1}]}, "image_bytes"),
        (AnalysisOptions, {"limits": [{"name": "image_bytes", "value": "many"}]}, "valid number"),
        (AnalysisOptions, {"limits": TWICE}, "named twice"),
        (AnalysisOptions, {"tags": ["two\nlines"]}, "match pattern"),
    ],
)
def test_what_is_wrong_is_refused_with_what_was_expected(
    model: type[BaseModel], values: dict[str, Any], expected: str
) -> None:
    """Unknown names, two bundles or none, a pasted bundle with a fault (by its line), values of another type."""
    with pytest.raises(ValidationError) as refused:
        model.model_validate(values)
    assert expected in str(refused.value)


@pytest.mark.parametrize("model", [BundleParameters, AnalysisOptions, NarrowerLimit])
def test_every_field_is_explained(model: type[BaseModel]) -> None:
    """By a title and a sentence, and the schema is closed."""
    schema = model.model_json_schema()
    assert schema["additionalProperties"] is False
    assert schema["description"]
    for field in schema["properties"].values():
        assert field["title"]
        assert field["description"].endswith(".")


def test_the_form_offers_the_releases_and_limits_that_there_are() -> None:
    """Those of the settings, and every limit by its name."""
    schema = AnalysisOptions.model_json_schema()
    assert schema["properties"]["release"]["enum"] == ["", *release_names()]
    assert schema["$defs"]["LimitName"]["enum"] == list(Limits.__dataclass_fields__)


def test_options_become_what_the_settings_understand() -> None:
    """Limits by name; a run is called after its file or object, not after the folders that it lies in."""
    options = AnalysisOptions.model_validate({"limits": [{"name": "output_tokens", "value": 9}]})
    assert options.narrowed() == {"output_tokens": 9}
    assert BundleParameters(path="cases/7/bundle.yaml").name == "bundle.yaml"
    assert BundleParameters(path="s3://evidence/7.yaml").name == "s3://evidence/7.yaml"
    assert BundleParameters(text=PASTED).name == "pasted bundle"


def test_the_flow_takes_a_bundle_and_options() -> None:
    """The flow's own parameters have the descriptions of its docstring, and only the bundle is required."""
    schema = analyze_bundle.parameters.model_dump()
    assert schema["required"] == ["bundle"]
    assert set(schema["properties"]) == {"bundle", "options"}
    assert all(field["description"] for field in schema["properties"].values())
    assert (analyze_bundle.description or "").startswith("Acquire, inspect, store")
