"""Real media made in code: every accepted type, and files that mean harm. No vendored media anywhere.

All functions return the encoded bytes and are deterministic for one set of library versions.
"""

from __future__ import annotations

import io
import struct
import tempfile
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import soundfile
from PIL import Image, ImageDraw

from tests.coded_samples import heic, sound_by_ffmpeg

RED, BLUE, GREY = (215, 30, 30), (30, 60, 215), (40, 40, 44)
_SOUND = {"wav": ("WAV", "PCM_16"), "flac": ("FLAC", "PCM_16"), "mp3": ("MP3", None)}
_PIXELS = {"mjpeg": "yuvj420p", "prores_ks": "yuv422p10le"}
_OGG = {"vorbis": "VORBIS", "opus": "OPUS"}


def picture(size: tuple[int, int] = (96, 64), colour: tuple[int, int, int] = RED) -> Image.Image:
    """A disc on grey: a picture with edges, so that a codec has something to do."""
    image = Image.new("RGB", size, GREY)
    side = min(size)
    ImageDraw.Draw(image).ellipse((side // 8, side // 8, side * 7 // 8, side * 7 // 8), fill=colour)
    return image


def noise(size: tuple[int, int], seed: int = 1) -> Image.Image:
    """A picture that does not compress: its file is about as long as its pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def encode(image: Image.Image, form: str, **options: Any) -> bytes:
    """`image` as a file; `form` is Pillow's name (PNG, JPEG, WEBP, GIF, BMP, TIFF)."""
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def animation(form: str, frames: int = 5, size: tuple[int, int] = (48, 32), delay_ms: int = 120) -> bytes:
    """An animated GIF, WEBP or PNG whose frames all differ."""
    images = [picture(size, (index * 37 % 256, 60, 215)) for index in range(frames)]
    return encode(images[0], form, save_all=True, append_images=images[1:], duration=delay_ms, loop=0)


def moving_square(size: tuple[int, int], start: float, end: float, frames: int, axis: str = "x") -> list[Image.Image]:
    """Frames of a square whose centre goes from `start` to `end` (fractions of the picture) along `axis`."""
    images = []
    radius = min(size) // 6
    for index in range(frames):
        place = start + (end - start) * index / max(frames - 1, 1)
        x, y = (place, 0.5) if axis == "x" else (0.5, place)
        cx, cy = round(x * size[0]), round(y * size[1])
        image = Image.new("RGB", size, GREY)
        ImageDraw.Draw(image).rectangle((cx - radius, cy - radius, cx + radius, cy + radius), fill=RED)
        images.append(image)
    return images


def tone(seconds: float = 0.5, rate: int = 16_000, channels: int = 1, hertz: float = 440.0) -> Any:
    """A sine as float32 samples, shape (samples, channels), full scale 1.0."""
    time = np.arange(round(seconds * rate)) / rate
    wave = (0.4 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)
    return np.repeat(wave[:, None], channels, axis=1)


def sound(form: str = "wav", seconds: float = 0.5, rate: int = 16_000, channels: int = 1, subtype: str = "") -> bytes:
    """A tone as a file; `form` is wav, flac, mp3, vorbis or opus."""
    out = io.BytesIO()
    container, default = ("OGG", _OGG[form]) if form in _OGG else _SOUND[form]
    soundfile.write(out, tone(seconds, rate, channels), rate, format=container, subtype=subtype or default)
    return out.getvalue()


def clip(
    images: list[Image.Image],
    codec: str = "libx264",
    rate: int = 8,
    options: dict[str, str] | None = None,
    form: str = "",
) -> bytes:
    """A video file of `images` in `form`, FFmpeg's name of a muxer: where none is named, WebM for libvpx, else MP4.
    `options` are the muxer's."""
    form = form or ("webm" if codec.startswith("libvpx") else "mp4")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip"  # a real file: faststart reads back what it wrote
        with av.open(str(path), "w", format=form, options=options or {}) as container:
            stream: Any = container.add_stream(codec, rate=Fraction(rate))
            stream.width, stream.height = images[0].width, images[0].height
            stream.pix_fmt = _PIXELS.get(codec, "yuv420p")
            stream.thread_count = 1
            for image in images:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")))
            container.mux(stream.encode(None))
        return path.read_bytes()


def mp4(frames: int = 12, size: tuple[int, int] = (96, 64), movflags: str = "") -> bytes:
    """A square that moves right, H.264 in MP4. `movflags` "faststart" puts the index first."""
    options = {"movflags": movflags} if movflags else None
    return clip(moving_square(size, 0.25, 0.75, frames), "libx264", options=options)


def turned(data: bytes, matrix: tuple[int, int, int, int]) -> bytes:
    """An MP4 of ours with another display matrix (a, b, c, d), as a phone that was held upright writes it."""
    identity = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    a, b, c, d = (value << 16 for value in matrix)
    place = data.index(identity, data.index(b"tkhd"))
    return data[:place] + struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30) + data[place + len(identity) :]


def webm(frames: int = 12, size: tuple[int, int] = (96, 64), codec: str = "libvpx") -> bytes:
    """A square that moves right, VP8 or VP9 in WebM."""
    return clip(moving_square(size, 0.25, 0.75, frames), codec)


def moving(codec: str, form: str) -> bytes:
    """The same square, coded by `codec` in `form`."""
    return clip(moving_square((96, 64), 0.25, 0.75, 12), codec, form=form)


def accepted() -> dict[str, tuple[str, bytes]]:
    """One small file of every accepted form: name -> (media type, bytes)."""
    return {
        "png": ("image/png", encode(picture(), "PNG")),
        "jpeg": ("image/jpeg", encode(picture(), "JPEG")),
        "webp": ("image/webp", encode(picture(), "WEBP")),
        "gif": ("image/gif", encode(picture(), "GIF")),
        "avif": ("image/avif", encode(picture(), "AVIF")),
        "heic": ("image/heic", heic(picture())),
        "wav": ("audio/wav", sound("wav")),
        "flac": ("audio/flac", sound("flac")),
        "vorbis": ("audio/ogg", sound("vorbis")),
        "opus": ("audio/ogg", sound("opus")),
        "mp3": ("audio/mpeg", sound("mp3")),
        "m4a": ("audio/mp4", sound_by_ffmpeg(tone(), 16_000)),
        "alac": ("audio/mp4", sound_by_ffmpeg(tone(), 16_000, codec="alac")),
        "adts": ("audio/aac", sound_by_ffmpeg(tone(), 16_000, "adts")),
        "mp4": ("video/mp4", mp4()),
        "webm-vp8": ("video/webm", webm()),
        "webm-vp9": ("video/webm", webm(codec="libvpx-vp9")),
        "mov": ("video/quicktime", moving("libx264", "mov")),
        "mkv": ("video/x-matroska", moving("libx264", "matroska")),
        "avi": ("video/x-msvideo", moving("mpeg4", "avi")),
    }


def png_chunk(kind: bytes, data: bytes) -> bytes:
    """One PNG chunk with its right CRC."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_claiming(width: int, height: int, pixels: bytes = b"", extra: bytes = b"") -> bytes:
    """A PNG (8-bit grey) whose header claims `width` x `height`, whatever `pixels` holds."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    body = extra + png_chunk(b"IDAT", zlib.compress(pixels)) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + body


_TEXT_HEADS = {b"zTXt": b"k\0\0", b"iTXt": b"k\0\1\0\0\0", b"iCCP": b"k\0\0"}


def png_text_bomb(kind: bytes = b"zTXt", mebibytes: int = 200) -> bytes:
    """A 1x1 PNG whose compressed chunk of `kind` expands to `mebibytes`."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()
    return png_claiming(1, 1, b"\0\0", png_chunk(kind, _TEXT_HEADS[kind] + packed))


def png_of_many_texts(chunks: int = 80, size: int = 900_000) -> bytes:
    """A 1x1 PNG of compressed text chunks each of which is within Pillow's bound of 1 MiB."""
    return png_claiming(1, 1, b"\0\0", png_chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(size))) * chunks)


def gif_bomb(frames: int = 300, side: int = 2_000) -> bytes:
    """A small GIF whose frames each cover the whole picture: cheap to send, dear to decode."""
    one = encode(Image.new("P", (side, side), 7), "GIF")
    start = one.index(b"\x2c")
    header, block = one[:start], one[start:-1]
    return header + block * frames + b";"


def wav_claiming(rate: int, channels: int, data_bytes: int, data: bytes, bits: int = 16) -> bytes:
    """A PCM WAV whose header says what it is told to say."""
    block = channels * bits // 8
    head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * block & 0xFFFFFFFF, block & 0xFFFF, bits)
    return (
        b"RIFF"
        + struct.pack("<I", (data_bytes + 36) & 0xFFFFFFFF)
        + head
        + b"data"
        + struct.pack("<I", data_bytes)
        + data
    )


def flac_claiming_endless(seconds: float = 0.5) -> bytes:
    """A FLAC whose STREAMINFO claims 2^36 - 1 samples."""
    data = bytearray(sound("flac", seconds))
    data[21] |= 0x0F
    data[22:26] = b"\xff\xff\xff\xff"
    return bytes(data)


def mp3_claiming(*, frames_claimed: int | None = None, bytes_claimed: int | None = None) -> bytes:
    """An MP3 whose Xing or Info header claims so many frames and bytes."""
    data = bytearray(sound("mp3"))
    place = max(data.find(b"Xing", 0, 200), data.find(b"Info", 0, 200)) + 8
    for offset, value in ((place, frames_claimed), (place + 4, bytes_claimed)):
        if value is not None:
            data[offset : offset + 4] = struct.pack(">I", value)
    return bytes(data)


def still_video(frames: int, size: tuple[int, int] = (64, 64)) -> bytes:
    """An MP4 of one grey frame again and again: kilobytes that decode to megapixels."""
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream: Any = container.add_stream("libx264", rate=Fraction(30), options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt, stream.thread_count = *size, "yuv420p", 1
        frame = av.VideoFrame(*size, "yuv420p")
        for plane in frame.planes:
            plane.update(bytes([128]) * plane.buffer_size)
        for index in range(frames):
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return out.getvalue()


def without_index(data: bytes) -> bytes:
    """An MP4 of ours, whose index stands last, without it."""
    return data[: data.rindex(b"moov") - 4]


def texts_that_make_requests(url: str) -> dict[str, bytes]:
    """Playlists and scripts that make a naive decoder open `url` or a neighbour file."""
    return {
        "m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{url}\n#EXT-X-ENDLIST\n".encode(),
        "ffconcat": f"ffconcat version 1.0\nfile '{url}'\n".encode(),
        "sdp": b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 5004 RTP/AVP 96\r\n",
        "dash": f'<?xml version="1.0"?><MPD><BaseURL>{url}</BaseURL></MPD>'.encode(),
        "svg": f"<svg xmlns='http://www.w3.org/2000/svg'><image href='{url}'/></svg>".encode(),
        "html": f"<!DOCTYPE html><html><img src='{url}'></html>".encode(),
        "pdf": b"%PDF-1.7\n1 0 obj<<>>endobj\n",
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n",
    }
