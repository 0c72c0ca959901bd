"""The signature table, and how two opinions become one type or a named refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.artifact import MEDIA_TYPES, Modality
from contracts.errors import MediaRejected
from contracts.signatures import agreed_type, signature_of
from tests import media_samples

ACCEPTED = media_samples.accepted()

REFUSED_BY_NAME = {
    "m3u8": (b"#EXTM3U\n#EXT-X-VERSION:3\n", "application/vnd.apple.mpegurl"),
    "m3u8 behind a byte order mark": (b"\xef\xbb\xbf\n #EXTM3U\n", "application/vnd.apple.mpegurl"),
    "ffconcat": (b"ffconcat version 1.0\n", "application/x-ffconcat"),
    "sdp": (b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\n", "application/sdp"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
    "svg behind an xml declaration": (b"<?xml version='1.0'?><svg/>", "image/svg+xml"),
    "dash": (b"<?xml version='1.0'?><MPD/>", "application/dash+xml"),
    "html": (b"<!DOCTYPE html><html>", "text/html"),
    "pdf": (b"%PDF-1.7\n", "application/pdf"),
    "zip": (b"PK\3\4" + bytes(26), "application/zip"),
    "tiff": (b"II*\0" + bytes(12), "image/tiff"),
    "bmp": (b"BM" + bytes(12), "image/bmp"),
    "xml": (b"<?xml version='1.0'?><note/>", "text/xml"),
    "gzip": (b"\x1f\x8b\x08" + bytes(12), "application/gzip"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4", "application/x-7z-compressed"),
    "rar": (b"Rar!\x1a\x07\0", "application/vnd.rar"),
    "xz": (b"\xfd7zXZ\0\0\4", "application/x-xz"),
    "bzip2": (b"BZh91AY&SY", "application/x-bzip2"),
    "pls": (b"[playlist]\nFile1=http://example.com/\n", "audio/x-scpls"),
    "asx": (b"<ASX version='3.0'>", "video/x-ms-asf"),
    "a script": (b"#!/bin/sh\n", "text/x-script"),
    "heic sequence": (b"\0\0\0\x18ftyphevc\0\0\0\0hevcmsf1", "image/heic-sequence"),
    "heif of unknown coding": (b"\0\0\0\x18ftypmif1\0\0\0\0mif1miaf", "image/heif"),
    "jpeg xl": (b"\xff\x0a\xfa\x1f", "image/jxl"),
    "mpeg ps": (b"\0\0\1\xba\x44\0", "video/mpeg"),
    "unknown brand": (b"\0\0\0\x14ftypzzzz\0\0\0\0zzzz", "application/x-iso-media"),
    "ogg with theora": (b"OggS" + bytes(22) + b"\x01\x2a\x80theora", "application/ogg"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_real_file_of_every_accepted_form_is_recognised(name: str) -> None:
    """The table names real encoders' output by its first bytes alone."""
    media_type, data = ACCEPTED[name]
    assert signature_of(data[:64]) == media_type


@pytest.mark.parametrize("name", REFUSED_BY_NAME)
def test_what_is_not_accepted_is_refused_by_its_name(name: str) -> None:
    """A refusal says what the bytes are, also where libmagic only sees text or takes them for an accepted type."""
    head, media_type = REFUSED_BY_NAME[name]
    assert signature_of(head) == media_type
    for magic_name in ("text/plain", "application/octet-stream", "image/png"):
        with pytest.raises(MediaRejected) as caught:
            agreed_type(head, magic_name, Modality.IMAGE)
        assert caught.value.rule == "type-not-accepted"
        assert media_type in caught.value.reason


@pytest.mark.parametrize(
    ("head", "magic_name", "rule"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/jpeg", "type-disagreement"),
        (b"\xff\xd8\xff\xe0", "text/html", "type-disagreement"),
        (b"ID3\3\0\0\0\0\0\0\x89PNG\r\n\x1a\n", "image/png", "type-disagreement"),
        (b"\n\n\x89PNG", "image/png", "type-disagreement"),
        (b"", "application/x-empty", "type-unknown"),
        (bytes(16), "application/octet-stream", "type-unknown"),
        (b"hello", "text/plain", "type-not-accepted"),
        (b"fLaC\0\0\0\x22", "audio/flac", "type-modality"),
    ],
)
def test_two_opinions_that_differ_are_a_refusal(head: bytes, magic_name: str, rule: str) -> None:
    """Neither opinion wins over the other: no agreement, no type."""
    with pytest.raises(MediaRejected) as caught:
        agreed_type(head, magic_name, Modality.IMAGE)
    assert caught.value.rule == rule


@pytest.mark.parametrize("alias", ["audio/x-wav", "audio/vnd.wave", "audio/wav"])
def test_names_of_one_type_agree(alias: str) -> None:
    """libmagic versions name RIFF/WAVE differently; the type is one."""
    assert agreed_type(b"RIFF\0\0\0\0WAVEfmt ", alias, Modality.AUDIO) is MEDIA_TYPES["audio/wav"]


@pytest.mark.parametrize(("brand", "media_type"), [(b"heic", "image/heic"), (b"avif", "image/avif")])
def test_a_picture_that_leaves_its_coding_open_is_what_it_says_it_is_compatible_with(
    brand: bytes, media_type: str
) -> None:
    """The brand mif1 says that there is a picture; libmagic stops there, the compatible brands go on."""
    head = b"\0\0\0\x18ftypmif1\0\0\0\0mif1" + brand
    assert agreed_type(head, "image/heif", Modality.IMAGE).name == media_type


def test_quicktime_before_its_file_type_box_is_recognised() -> None:
    """Old QuickTime begins with its index or its data."""
    for kind in (b"moov", b"mdat", b"wide"):
        assert signature_of(b"\0\0\2\0" + kind + bytes(8)) == "video/quicktime"


def test_a_gif_is_an_image_or_a_video_by_its_part() -> None:
    """Modality follows the part's kind where the type allows both."""
    for modality in (Modality.IMAGE, Modality.VIDEO):
        assert agreed_type(b"GIF89a\1\0\1\0", "image/gif", modality).name == "image/gif"


@given(head=st.binary(max_size=64), magic_name=st.sampled_from([*MEDIA_TYPES, "text/plain", "application/x-empty"]))
def test_any_bytes_give_a_type_on_which_both_agree_or_a_refusal(head: bytes, magic_name: str) -> None:
    """No bytes make the table fail, and none are accepted that libmagic calls something else."""
    ours = signature_of(head)
    if ours == magic_name and ours in MEDIA_TYPES and Modality.IMAGE in MEDIA_TYPES[ours].modalities:
        assert agreed_type(head, magic_name, Modality.IMAGE).name == ours
    else:
        with pytest.raises(MediaRejected, match=r"^type-"):
            agreed_type(head, magic_name, Modality.IMAGE)
