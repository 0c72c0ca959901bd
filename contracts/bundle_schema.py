"""The bundle's JSON Schema (draft 2020-12), made from the structs that parse it.

The structs cannot say that a part has one kind, or what a location looks like: that is added here. What no schema
can say (unique ids, the limits of a deployment, dates that exist) is said by the parser alone.

`python -m contracts.bundle_schema > schemas/bundle.v1.json` writes the file; a test fails when it is stale.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from contracts.artifact import Modality
from contracts.bundle_document import BundleDocument

SCHEMA_ID = "urn:mosaic-evidence:schema:bundle:v1"
_URL = r"^[hH][tT][tT][pP][sS]?://[^/?#\s]+\S*$(?!\n)"
_OBJECT = (
    r"^s3://(?![0-9.]+/)(?![^/]*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?!.*/\.{0,2}(?:[/?]|$))/"
    r"[^%?#\\\u0000-\u001f\u007f]+(?:\?versionId=[A-Za-z0-9._-]{1,1024})?$(?!\n)"
)
_BLOB = r"^sha256:[0-9a-f]{64}$(?!\n)"
_PATH = (
    r"^(?!/)(?![A-Za-z][A-Za-z0-9+.-]*:)(?!(?:.*/)?\.{1,2}(?:/|$))(?!.*//)(?!.*/$)"
    r"[^\\\u0000-\u001f\u007f]+$(?!\n)"
)


def bundle_schema() -> dict[str, Any]:
    """The schema as a value."""
    generated = msgspec.json.schema(BundleDocument, ref_template="#/$defs/{name}")
    definitions = {name.removesuffix("Document"): _renamed(value) for name, value in generated["$defs"].items()}
    part = definitions["Part"]
    media = [modality.value for modality in Modality]
    for kind in media:
        part["properties"][kind]["anyOf"] = [{"pattern": each} for each in (_URL, _OBJECT, _BLOB, _PATH)]
    part["properties"]["text"]["pattern"] = r"\S"
    provenance = [key for key in part["properties"] if key not in (*media, "text")]
    text_alone = {"required": ["text"], "not": {"anyOf": [{"required": [key]} for key in provenance]}}
    part["oneOf"] = [*({"required": [kind]} for kind in media), text_alone]
    definitions["Question"]["properties"]["parts"]["contains"] = {"required": ["text"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Mosaic Evidence bundle, version 1",
        **_renamed({"$ref": generated["$ref"]}),
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(bundle_schema(), indent=2, ensure_ascii=False) + "\n"


def _renamed(value: Any) -> Any:
    """`value` with the structs' names as the document calls them."""
    if isinstance(value, dict):
        return {key: _renamed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner) for inner in value]
    return value.removesuffix("Document") if isinstance(value, str) else value


if __name__ == "__main__":
    print(schema_text(), end="")
