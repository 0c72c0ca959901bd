"""FFmpeg is given a hostile text directly, past the sniffers: the demuxer's own locks must hold alone."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest

from contracts.artifact import MEDIA_TYPES
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children.source import Source, refuse_to_open
from intake.children.video import decode_video
from tests import media_samples


def decode(data: bytes, media_type: str) -> dict[str, Any]:
    descriptor = os.memfd_create("clip")
    try:
        os.write(descriptor, data)
        with Source(descriptor) as source:
            return decode_video(source, MEDIA_TYPES[media_type], Limits(), _unseen)
    finally:
        os.close(descriptor)


def _unseen(index: int, render: Callable[[], object]) -> None:
    pass


@pytest.mark.parametrize("kind", ["m3u8", "ffconcat", "sdp", "dash"])
@pytest.mark.parametrize("media_type", ["video/mp4", "video/webm"])
def test_a_playlist_is_no_video_and_dials_nobody(kind: str, media_type: str) -> None:
    """The format is fixed, so a playlist is only a damaged video; no connection is made to what it names."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/secret.ts"
        with pytest.raises(MediaRejected, match="video-"):
            decode(media_samples.texts_that_make_requests(url)[kind], media_type)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("media_type", ["video/mp4", "video/webm"])
def test_a_concat_script_reads_no_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, media_type: str) -> None:
    """FFmpeg left to itself opens the file beside it (the control); ours does not."""
    (tmp_path / "secret.mp4").write_bytes(media_samples.mp4())
    monkeypatch.chdir(tmp_path)
    script = b"ffconcat version 1.0\nfile secret.mp4\n"
    with av.open(io.BytesIO(script)) as container:
        assert container.streams.video
    with pytest.raises(MediaRejected, match="video-"):
        decode(script, media_type)


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
