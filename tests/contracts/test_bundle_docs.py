"""The bundle's page: its example is a bundle, and it names every key and every rule there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from contracts.bundle import parse_bundle
from contracts.bundle_document import BundleDocument, PartDocument, QuestionDocument
from contracts.limits import Limits
from contracts.locator import Source

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "bundle.md").read_text("utf-8")


def test_the_examples_of_the_page_are_bundles() -> None:
    """What a reader copies from the page is accepted, and the page shows every kind of source."""
    examples = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    bundles = [parse_bundle(example.encode(), name="example.yaml", limits=Limits()) for example in examples]
    ids = [question.id for bundle in bundles for question in bundle.questions]
    assert ids == ["vehicle", "siren", "same-scene"]
    sources = {type(part.source) for part in bundles[1].questions[0].media}
    assert sources == set(get_args(Source))


def test_the_page_names_every_key() -> None:
    """A key that is read is a key that is explained."""
    for document in (BundleDocument, QuestionDocument, PartDocument):
        assert [key for key in document.__struct_fields__ if f"`{key}`" not in PAGE] == []


def test_the_page_names_every_rule() -> None:
    """A rule that can refuse a bundle is a rule that the page gives a reason for."""
    sources = "".join(path.read_text("utf-8") for path in sorted((ROOT / "contracts").glob("bundle*.py")))
    rules = set(re.findall(r'"(bundle-[a-z0-9-]+)"', sources))
    assert len(rules) > 15
    assert sorted(rule for rule in rules if f"`{rule}`" not in PAGE) == []
