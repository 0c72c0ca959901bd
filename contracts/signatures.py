"""What bytes are, by our own table, and how that must agree with the other opinions.

Three opinions decide on a type: libmagic's, this table's and the decoder's. The decoder's comes last, because it is
the one that hostile bytes are after. A name or a declared type is no opinion.

Sources: PNG 3rd ed. §5.2, ISO/IEC 10918-1 §B.1.1.3, RFC 9649 (WebP), GIF89a §17, RFC 9639 (FLAC), RFC 3533 and 7845
(Ogg, Opus), ISO/IEC 14496-12 §4.3 (ftyp), ISO/IEC 23008-12 §10 (HEIF brands), AV1 Image File Format §8, RFC 9559
(Matroska), ISO/IEC 11172-3 §2.4.2.3 (MPEG audio header), ISO/IEC 13818-7 §6.2 (ADTS).
"""

from __future__ import annotations

from contracts.artifact import MEDIA_TYPES, MediaType, Modality
from contracts.errors import MediaRejected

HEAD_BYTES = 4_096
"""How much of a file both sniffers see. libmagic gave the same answer on 2 KiB as on the whole."""

_BRANDS = {
    **dict.fromkeys((b"isom", b"iso2", b"iso3", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42"), "video/mp4"),
    **dict.fromkeys((b"avc1", b"M4V ", b"MSNV", b"dash", b"hvc1"), "video/mp4"),
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix"), "image/heic"),
    **dict.fromkeys((b"hevc", b"hevx"), "image/heic-sequence"),
    **dict.fromkeys((b"M4A ", b"M4B "), "audio/mp4"),
    **dict.fromkeys((b"3gp4", b"3gp5", b"3gp6"), "video/3gpp"),
    b"qt  ": "video/quicktime",
}
_HEIF_BRANDS = frozenset({b"mif1", b"msf1"})
"""They say that there are pictures, not how these are coded: that is for the compatible brands to say."""
_QUICKTIME_ATOMS = frozenset({b"moov", b"mdat", b"wide"})
_OGG_CODECS = {b"\x01vorbis": "audio/ogg", b"OpusHead": "audio/ogg", b"\x7fFLAC": "audio/x-ogg-flac"}
_RIFF_FORMS = {b"WAVE": "audio/wav", b"WEBP": "image/webp", b"AVI ": "video/x-msvideo"}
_PREFIXES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"#!AMR", "audio/amr"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"8BPS", "image/vnd.adobe.photoshop"),
    (b"\0\0\1\0", "image/vnd.microsoft.icon"),
    (b"\0\0\0\x0cjP  ", "image/jp2"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "image/jxl"),
    (b"\xff\x0a", "image/jxl"),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "video/x-ms-asf"),
    (b"\0\0\1\xba", "video/mpeg"),
    (b"\0\0\1\xb3", "video/mpeg"),
    (b"RF64", "audio/x-rf64"),
    (b"FORM", "audio/aiff"),
    (b"FLV\1", "video/x-flv"),
    (b"%PDF", "application/pdf"),
    (b"%!PS", "application/postscript"),
    (b"PK\3\4", "application/zip"),
    (b"PK\5\6", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"MSCF\0\0\0\0", "application/vnd.ms-cab-compressed"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-elf"),
)
_TEXTS = (
    (b"#extm3u", "application/vnd.apple.mpegurl"),
    (b"ffconcat", "application/x-ffconcat"),
    (b"v=0", "application/sdp"),
    (b"<svg", "image/svg+xml"),
    (b"<!doctype html", "text/html"),
    (b"<html", "text/html"),
    (b"<script", "text/html"),
    (b"<mpd", "application/dash+xml"),
    (b"<smil", "application/smil+xml"),
    (b"<asx", "video/x-ms-asf"),
    (b"[playlist]", "audio/x-scpls"),
    (b"[reference]", "video/x-ms-asf"),
    (b"#!", "text/x-script"),
)
_MAGIC_NAMES = {
    "audio/x-wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/mp3": "audio/mpeg",
    "audio/mpegapplication/octet-stream": "audio/mpeg",
    "application/ogg": "audio/ogg",
    "video/ogg": "audio/ogg",
    "audio/opus": "audio/ogg",
    "video/x-m4v": "video/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/x-hx-aac-adts": "audio/aac",
    "video/avi": "video/x-msvideo",
    "video/vnd.avi": "video/x-msvideo",
}
"""libmagic's other names for types we accept."""
_FAMILIES = {"image/heif": frozenset({"image/heic", "image/avif"})}
"""What libmagic says of a file whose coding it does not look for, and what that may turn out to be."""
_SOUND_ALONE = {"video/mp4": "audio/mp4"}
"""What a part that is to be sound is taken for: most brands of MP4 do not say whether there is a picture. The decoder
refuses one that has."""
_NO_OPINION = frozenset({"application/octet-stream", "application/x-empty"})

_NAMED = {
    *(name for _, name in (*_PREFIXES, *_TEXTS)),
    *(*_RIFF_FORMS.values(), *_OGG_CODECS.values(), *_BRANDS.values(), "image/heif", "text/xml"),
}
REFUSED_NAMES = frozenset(_NAMED - set(MEDIA_TYPES))
"""What the table recognises and we do not accept."""


def signature_of(head: bytes) -> str | None:
    """The media type that the first bytes say, accepted or not; None when the table does not know them."""
    for prefix, name in _PREFIXES:
        if head.startswith(prefix):
            return name
    if head[:4] == b"RIFF":
        return _RIFF_FORMS.get(head[8:12], "application/x-riff")
    if head[:4] == b"OggS":
        return _ogg(head)
    if head[4:8] == b"ftyp":
        return _iso_media(head)
    if head[4:8] in _QUICKTIME_ATOMS:  # before 2001 QuickTime wrote no ftyp
        return "video/quicktime"
    if head[:4] == b"\x1aE\xdf\xa3":
        return _ebml(head)
    if _is_mpeg_audio(head):
        return "audio/mpeg"
    if _is_adts(head):
        return "audio/aac"
    return _text(head)


def possible_types(head: bytes, modality: Modality) -> frozenset[str]:
    """What a part of `modality` with these first bytes may be: with a tag before it the sound itself is not in them."""
    ours = signature_of(head)
    if ours is None:
        return frozenset()
    if modality is not Modality.AUDIO:
        return frozenset({ours})
    return frozenset({_SOUND_ALONE.get(ours, ours)} | ({"audio/aac"} if head.startswith(b"ID3") else set()))


def agreed_type(head: bytes, magic_name: str, modality: Modality) -> MediaType:
    """The accepted type on which our table and libmagic agree, for a part of `modality`.

    `magic_name` is libmagic's MIME type of the same bytes. Raises MediaRejected: `type-unknown`,
    `type-not-accepted` (named), `type-disagreement`, `type-modality`.
    """
    ours, theirs = signature_of(head), _MAGIC_NAMES.get(magic_name, magic_name)
    if ours is None and theirs in MEDIA_TYPES:
        raise MediaRejected("type-disagreement", f"libmagic says {theirs}, our table knows no such beginning")
    if ours is None and theirs in _NO_OPINION:
        raise MediaRejected("type-unknown", f"the first {len(head)} bytes are no format we know ({theirs})")
    if ours is None or ours not in MEDIA_TYPES:
        raise MediaRejected("type-not-accepted", f"{ours or theirs} is not an accepted media type")
    if ours != theirs and ours not in _FAMILIES.get(theirs, ()):
        raise MediaRejected("type-disagreement", f"our table says {ours}, libmagic says {theirs}")
    media_type = MEDIA_TYPES[_SOUND_ALONE.get(ours, ours) if modality is Modality.AUDIO else ours]
    if modality not in media_type.modalities:
        raise MediaRejected("type-modality", f"{ours} cannot be a part of kind {modality.value}")
    return media_type


def _ogg(head: bytes) -> str:
    """RFC 3533 §6: the first page's packet begins after its segment table and names the codec."""
    start = 27 + head[26] if len(head) > 26 else len(head)
    packet = head[start : start + 8]
    return next((name for magic, name in _OGG_CODECS.items() if packet.startswith(magic)), "application/ogg")


def _iso_media(head: bytes) -> str:
    """ISO/IEC 14496-12 §4.3: the major brand decides; compatible brands are claims about other readers, save where
    the major one leaves the coding open."""
    brand = head[8:12]
    if brand in _HEIF_BRANDS:
        others = head[16 : min(int.from_bytes(head[:4], "big"), len(head))]
        brands = {others[place : place + 4] for place in range(0, len(others), 4)}
        return next((_BRANDS[each] for each in (b"avif", b"heic", b"heix") if each in brands), "image/heif")
    return _BRANDS.get(brand, "application/x-iso-media")


def _ebml(head: bytes) -> str:
    """RFC 9559 §5: DocType (id 0x4282) stands in the EBML header, which is short."""
    place = head.find(b"\x42\x82", 4, 64)
    if place < 0 or len(head) < place + 3:
        return "application/x-ebml"
    length = head[place + 2] & 0x7F
    kind = head[place + 3 : place + 3 + length].rstrip(b"\0")
    return {b"webm": "video/webm", b"matroska": "video/x-matroska"}.get(kind, "application/x-ebml")


def _is_mpeg_audio(head: bytes) -> bool:
    """Sync word, layer III, a bitrate and a sampling rate that exist."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    bitrate, rate = head[2] >> 4, head[2] >> 2 & 3
    return version != 1 and layer == 1 and bitrate not in (0, 15) and rate != 3


def _is_adts(head: bytes) -> bool:
    """Sync word, layer 0, a sampling rate that exists, a frame longer than its header."""
    if len(head) < 7 or head[0] != 0xFF or head[1] & 0xF6 != 0xF0:
        return False
    length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    return head[2] >> 2 & 15 < 13 and length > 7


def _text(head: bytes) -> str | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for prefix, name in _TEXTS:
        if text.startswith(prefix):
            return name
    if text.startswith(b"<?xml"):
        return next((name for prefix, name in _TEXTS if prefix[:1] == b"<" and prefix in text), "text/xml")
    return None
