"""The embedded worker opens staged files only, and hands on only bytes that are what their name says."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from contracts.artifact import Modality
from contracts.digest import Digest
from contracts.errors import EvidenceError
from serving.embedded.staged_media import MEDIA_BYTES, StagedMedia
from serving.embedded_worker import EmbeddedWorker

_DATA = b"not really a picture"
_NAME = f"{Digest.of(_DATA).hex}.png"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A staging root with one file in the tenant `a`, and a secret beside the root."""
    staging = tmp_path / "staging root"
    (staging / "a").mkdir(parents=True)
    (staging / "a" / _NAME).write_bytes(_DATA)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / _NAME).write_bytes(_DATA)
    return staging


def test_verified_bytes(root: Path) -> None:
    """A staged file becomes a data URL of exactly its bytes, whether or not the path was percent-encoded, in either
    layout of the root."""
    expected = "data:image/png;base64," + base64.b64encode(_DATA).decode()
    path = root / "a" / _NAME
    assert StagedMedia(root).data_url(path.as_uri(), Modality.IMAGE) == expected
    assert StagedMedia(root).data_url(f"file://{path}", Modality.IMAGE) == expected
    (root / _NAME).write_bytes(_DATA)
    assert StagedMedia(root).data_url(f"file://{root}/{_NAME}", Modality.IMAGE) == expected


_FORMS = {
    "a web address": "https://example.org/x.png",
    "a data URL": "data:image/png;base64,AAAA",
    "a bare path": "{root}/a/{name}",
    "a file outside the root": "file://{root}/../secret/{name}",
    "a traversal inside the root": "file://{root}/a/../a/{name}",
    "an encoded traversal": "file://{root}/a%2f..%2f..%2fsecret/{name}",
    "a hidden tenant": "file://{root}/../{name}",
    "a nested folder": "file://{root}/a/b/{name}",
    "a name that is no digest": "file://{root}/a/picture.png",
    "a digest in capitals": "file://{root}/a/{upper}.png",
    "a query": "file://{root}/a/{name}?x",
    "a NUL": "file://{root}/a/{name}\0",
    "another host": "file://host{root}/a/{name}",
    "a line feed after the name": "file://{root}/a/{name}\n",
}


@pytest.mark.parametrize("form", _FORMS.values(), ids=_FORMS.keys())
def test_other_urls(root: Path, form: str) -> None:
    """Any other form of URL is refused before anything is opened."""
    url = form.format(root=root, name=_NAME, upper=_NAME[:64].upper())
    with pytest.raises(EvidenceError) as caught:
        StagedMedia(root).data_url(url, Modality.IMAGE)
    assert caught.value.rule == "staged-url"
    assert str(root) not in str(caught.value)


def _nothing(_root: Path) -> None:
    pass


def _link_file(root: Path) -> None:
    (root / "b").mkdir()
    (root / "b" / _NAME).symlink_to(root / "a" / _NAME)


def _link_tenant(root: Path) -> None:
    (root / "b").symlink_to(root.parent / "secret")


def _folder(root: Path) -> None:
    (root / "b" / _NAME).mkdir(parents=True)


def _pipe(root: Path) -> None:
    (root / "b").mkdir()
    os.mkfifo(root / "b" / _NAME)


def _other_bytes(root: Path) -> None:
    (root / "b").mkdir()
    (root / "b" / _NAME).write_bytes(_DATA[:-1] + b"!")


def _huge(root: Path) -> None:
    (root / "b").mkdir()
    with (root / "b" / _NAME).open("wb") as file:
        file.truncate(MEDIA_BYTES + 1)


_TRAPS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing file": (_nothing, "staged-missing"),
    "a link in the file's place": (_link_file, "staged-missing"),
    "a link in the tenant's place": (_link_tenant, "staged-missing"),
    "a folder in the file's place": (_folder, "staged-missing"),
    "a pipe in the file's place": (_pipe, "staged-missing"),
    "bytes that are not what the name says": (_other_bytes, "digest"),
    "a file over the bound": (_huge, "staged-size"),
}


@pytest.mark.parametrize(("prepare", "rule"), _TRAPS.values(), ids=_TRAPS.keys())
def test_traps(root: Path, prepare: Callable[[Path], None], rule: str) -> None:
    """What is not a whole regular file under its digest is refused with a reason that names the digest only."""
    prepare(root)
    with pytest.raises(EvidenceError) as caught:
        StagedMedia(root).data_url(f"file://{root}/b/{_NAME}", Modality.IMAGE)
    assert caught.value.rule == rule
    assert Digest.of(_DATA).hex in caught.value.reason
    assert str(root) not in str(caught.value)


@pytest.mark.parametrize(
    ("extension", "modality"), [("mp4", Modality.VIDEO), ("wav", Modality.IMAGE), ("png", Modality.AUDIO)]
)
def test_types(root: Path, extension: str, modality: Modality) -> None:
    """A type that the engine does not take as that modality by itself is refused."""
    with pytest.raises(EvidenceError, match="staged-type"):
        StagedMedia(root).data_url(f"file://{root}/a/{'0' * 64}.{extension}", modality)


@pytest.mark.engine
@pytest.mark.asyncio(loop_scope="session")
async def test_refusal_on_the_wire(worker: EmbeddedWorker) -> None:
    """A missing staged file is answered 422 with a message that names the digest and no path."""
    url = (worker.staging_root / "nobody" / f"{'a' * 64}.png").as_uri()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}]
    body = {"model": "default", "messages": [{"role": "user", "content": content}], "max_tokens": 4, "stream": True}
    async with httpx.AsyncClient(base_url=worker.url, trust_env=False) as client:
        response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 422
    message = response.json()["message"]
    assert "a" * 64 in message
    assert str(worker.staging_root) not in message
