"""libmagic, from its wheel: the first opinion on a file's type. Parsing is native code, so it runs confined."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from pathlib import Path
from typing import Any

from contracts.artifact import MediaType, Modality
from contracts.signatures import HEAD_BYTES, agreed_type, signature_of
from intake.children.audio_lengths import id3_end
from intake.children.source import Source

_ADTS = "audio/aac"


def load_magic() -> Any:
    """python-magic over the wheel's library and database, whatever the system has. Call before the confinement.

    python-magic asks `find_library`, which starts a compiler or ldconfig; here it is answered with the wheel's file.
    """
    spec = importlib.util.find_spec("pylibmagic")
    if spec is None or spec.origin is None:
        raise ImportError("pylibmagic is not installed")
    folder = Path(spec.origin).parent
    find_library = ctypes.util.find_library
    ctypes.util.find_library = lambda name: str(folder / "libmagic.so.1")  # noqa: ARG005  (its signature)
    try:
        import magic
    finally:
        ctypes.util.find_library = find_library
    return magic.Magic(mime=True, magic_file=str(folder / "magic.mgc"))


def sniff(source: Source, magic: Any, modality: Modality) -> MediaType:
    """The accepted type on which libmagic and our table agree. Raises MediaRejected as `agreed_type` does.

    libmagic looks behind an ID3 tag for what it belongs to; one with a cover picture is longer than what libmagic is
    given, so then it is given what stands behind.
    """
    head = source.at(0, HEAD_BYTES)
    tag_end = id3_end(source, 0)
    behind = source.at(tag_end, HEAD_BYTES)
    judged = behind if tag_end >= len(head) else head
    if tag_end and signature_of(behind) == _ADTS:  # a tag is MP3's own; before AAC it is what it stands before
        head = judged = behind
    return agreed_type(head, magic.from_buffer(judged), modality)
