"""FFmpeg is given a hostile text directly, past the sniffers: the demuxer's own locks must hold alone."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path
from typing import Any

import av
import pytest

from contracts.artifact import MEDIA_TYPES, Modality
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children.audio import decode_audio
from intake.children.image import decode_image
from intake.children.lengths import walk
from intake.children.sniff import load_magic, sniff
from intake.children.source import Source, refuse_to_open
from intake.children.video import decode_video
from tests import media_samples

SCRIPTS = ["m3u8", "ffconcat", "sdp", "dash"]
BY_FFMPEG = [
    *("video/mp4", "video/quicktime", "video/webm", "video/x-matroska", "video/x-msvideo", "audio/mp4", "audio/aac"),
]
MAGIC = load_magic()
HEADS = media_samples.accepted()


def decode(data: bytes, media_type: str) -> dict[str, Any]:
    descriptor = os.memfd_create("clip")
    try:
        os.write(descriptor, data)
        with Source(descriptor) as source:
            if media_type.startswith("audio/"):
                return decode_audio(source, MEDIA_TYPES[media_type], Limits())
            return decode_video(source, MEDIA_TYPES[media_type], Limits(), _unseen)
    finally:
        os.close(descriptor)


def _unseen(*_: object) -> None:
    """Nothing is wanted of the frames but that they decode."""


@pytest.mark.parametrize("kind", SCRIPTS)
@pytest.mark.parametrize("media_type", BY_FFMPEG)
def test_a_playlist_is_no_video_and_dials_nobody(kind: str, media_type: str) -> None:
    """The format is fixed, so a playlist is only a damaged video; no connection is made to what it names."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/secret.ts"
        with pytest.raises(MediaRejected, match=r"^(video|audio)-"):
            decode(media_samples.texts_that_make_requests(url)[kind], media_type)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("media_type", BY_FFMPEG)
def test_a_concat_script_reads_no_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, media_type: str) -> None:
    """FFmpeg left to itself opens the file beside it (the control); ours does not."""
    (tmp_path / "secret.mp4").write_bytes(media_samples.mp4())
    monkeypatch.chdir(tmp_path)
    script = b"ffconcat version 1.0\nfile secret.mp4\n"
    with av.open(io.BytesIO(script)) as container:
        assert container.streams.video
    with pytest.raises(MediaRejected, match=r"^(video|audio)-"):
        decode(script, media_type)


@pytest.mark.parametrize("name", HEADS)
def test_a_script_behind_an_accepted_signature_reaches_nobody(name: str) -> None:
    """Every beginning that both sniffers accept, with a playlist or a page behind it, ends in a verdict, and nobody is
    dialled: here without the confinement, in which nobody could be."""
    media_type, data = HEADS[name]
    modality = Modality(media_type.partition("/")[0])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        texts = media_samples.texts_that_make_requests(f"http://127.0.0.1:{listener.getsockname()[1]}/secret.ts")
        for kind in SCRIPTS:
            for head in (data[:16], data[:64]):
                assert judged(head + b"\n" + texts[kind], modality)
            judged(data + b"\n" + texts[kind], modality)
        with pytest.raises(BlockingIOError):
            listener.accept()


def judged(data: bytes, modality: Modality) -> str | None:
    """The rule by which the decoder's own steps refuse `data`, or None."""
    descriptor = os.memfd_create("part")
    try:
        os.write(descriptor, data)
        with Source(descriptor) as source:
            media_type = sniff(source, MAGIC, modality)
            walk(media_type.name, source, Limits())
            decode = {Modality.IMAGE: decode_image, Modality.AUDIO: decode_audio}.get(modality)
            if decode is None:
                decode_video(source, media_type, Limits(), _unseen)
            else:
                decode(source, media_type, Limits())
    except MediaRejected as error:
        return error.rule
    finally:
        os.close(descriptor)
    return None


def test_nothing_can_be_opened_by_name() -> None:
    """The way to open another resource that FFmpeg is given refuses every name."""
    with pytest.raises(PermissionError):
        refuse_to_open("https://example.com/", 0, {})


def test_an_input_has_no_name(tmp_path: Path) -> None:
    """FFmpeg infers formats and protocols from names; the input has none, even for a file that had one."""
    path = tmp_path / "list.m3u8"
    path.write_bytes(b"#EXTM3U\n")
    descriptor = os.open(path, os.O_RDONLY)
    with Source(descriptor) as source:
        assert getattr(source, "name", None) is None
    os.close(descriptor)
