"""`mosaic inspect` on playlists and scripts under every name that a medium may have: nothing they name is touched."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import pytest

from contracts.artifact import MEDIA_TYPES, Modality
from tests import media_samples
from tests.command import Mosaic

NEIGHBOUR = "secret.ts"
EXTENSIONS = sorted({each.extension for each in MEDIA_TYPES.values()} | {"m3u8", "ffconcat", "sdp", "mpd"})
_IN_OPEN = 0x20
_EVENT = struct.Struct("iIII")  # inotify(7)


@contextmanager
def watched(path: Path) -> Iterator[int]:
    """A descriptor that is readable once any process has opened `path`."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert descriptor >= 0
    assert libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_OPEN) >= 0
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(folder: Path, host: str) -> list[Path]:
    """Scripts that name a server or the file beside them, alone and before and behind real media."""
    near = {
        "m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{NEIGHBOUR}\n#EXT-X-ENDLIST\n".encode(),
        "ffconcat": f"ffconcat version 1.0\nfile {NEIGHBOUR}\n".encode(),
        "dash": f'<?xml version="1.0"?><MPD><BaseURL>{NEIGHBOUR}</BaseURL></MPD>'.encode(),
    }
    far = media_samples.texts_that_make_requests(f"http://{host}/secret.ts")
    far["sdp"] = far["sdp"].replace(
        b"m=video 5004 RTP/AVP 96", b"a=control:rtsp://%s/\r\nm=video 5004 RTP/AVP 96" % host.encode()
    )
    scripts = [*near.values(), *(far[kind] for kind in ("m3u8", "ffconcat", "sdp", "dash"))]
    media = [data for _, data in media_samples.accepted().values()]
    files = []
    for extension in EXTENSIONS:
        for number, script in enumerate(scripts):
            files.append(folder / f"alone-{number}.{extension}")
            files[-1].write_bytes(script)
    for number, script in enumerate(scripts):
        for turn, medium in enumerate(media):
            for place, data in (("behind", medium + script), ("before", script + medium), ("in", medium[:32] + script)):
                files.append(folder / f"{place}-{number}-{turn}")
                files[-1].write_bytes(data)
    return files


@pytest.mark.parametrize("modality", Modality)
def test_nothing_that_a_script_names_is_touched(mosaic: Mosaic, tmp_path: Path, modality: Modality) -> None:
    """No connection, no file opened beside it; alone it is refused by its type whatever its name says."""
    folder = tmp_path / "in"
    folder.mkdir()
    secret = folder / NEIGHBOUR
    secret.write_bytes(media_samples.mp4())
    with socket.create_server(("127.0.0.1", 0)) as listener, watched(secret) as opened:
        listener.setblocking(False)
        files = _write(folder, f"127.0.0.1:{listener.getsockname()[1]}")
        rows = mosaic("inspect", *files, "--as", modality.value, "--json").objects
        with pytest.raises(BlockingIOError):
            listener.accept()
        with pytest.raises(BlockingIOError):
            os.read(opened, _EVENT.size)
    assert [row["file"] for row in rows] == [str(file) for file in files]
    alone = {row["rule"] for row in rows if Path(row["file"]).name.startswith(("alone", "before"))}
    assert alone == {"type-not-accepted"}
    assert not any((row["rule"] or "").startswith("decoder-") for row in rows)


def test_the_watch_is_real(tmp_path: Path) -> None:
    """FFmpeg by itself opens what the same script names, and the watch says so."""
    secret = tmp_path / NEIGHBOUR
    secret.write_bytes(media_samples.mp4())
    script = tmp_path / "list.ffconcat"
    script.write_bytes(f"ffconcat version 1.0\nfile {NEIGHBOUR}\n".encode())
    with watched(secret) as opened:
        with av.open(str(script)) as container:
            assert container.streams.video
        assert len(os.read(opened, _EVENT.size)) == _EVENT.size
