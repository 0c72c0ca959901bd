"""The release manifest's JSON Schema (draft 2020-12), made from the structs that parse it.

The structs cannot say which versions there are, nor that the host is loopback and the UI off: that is added here.
What no schema can say (a folder named by its digest, one size of a pool) is said by the parser alone.

`python -m contracts.release_schema > schemas/release.v1.json` writes the file; a test fails when it is stale.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from contracts.profile import PROFILES
from contracts.release_document import SECTIONS, ReleaseDocument
from contracts.release_rules import HOST
from contracts.release_words import FIELD_WORDS

SCHEMA_ID = "urn:mosaic-evidence:schema:release:v1"


def release_schema() -> dict[str, Any]:
    """The schema as a value."""
    generated = msgspec.json.schema(ReleaseDocument, ref_template="#/$defs/{name}")
    definitions: dict[str, Any] = generated["$defs"]
    release = definitions.pop(ReleaseDocument.__name__)
    release["properties"]["engine"] |= {"enum": list(PROFILES)}
    for section, struct in SECTIONS.items():
        properties = (definitions[struct.__name__] if section else release)["properties"]
        for name, value in properties.items():
            words = FIELD_WORDS.get(".".join((*section, name)))
            if words is not None:
                value["description"] = words
    launch = definitions["Launch"]["properties"]
    launch["host"] |= {"const": HOST}
    launch["ui"] |= {"const": False}
    one_build = [{"properties": {kind: {"type": "null"}}} for kind in ("binary", "wheel")]
    definitions["Build"]["oneOf"] = one_build
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **release,
        "title": "Mosaic Evidence release, version 1",
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(release_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
