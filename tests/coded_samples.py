"""Media that only FFmpeg's encoders can make, and HEIC, for which there is no encoder at hand: its boxes are written
here around a frame of HEVC. Deterministic for one set of library versions.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import av
import numpy as np
from PIL import Image

_WHOLE = {"ipod": "aac", "adts": "aac"}


def sound_by_ffmpeg(samples: Any, rate: int, form: str = "ipod", codec: str = "") -> bytes:
    """Samples (float32, shape (samples, channels)) as M4A (`ipod`; aac or alac) or ADTS."""
    out = io.BytesIO()
    layout = "mono" if samples.shape[1] == 1 else "stereo"
    with av.open(out, "w", format=form) as container:
        stream: Any = container.add_stream(codec or _WHOLE[form], rate=rate, layout=layout)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout=layout)
        frame.sample_rate, frame.pts = rate, 0
        resampler = av.AudioResampler(format=stream.format, layout=layout, rate=rate, frame_size=stream.frame_size)
        for each in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(each))
        container.mux(stream.encode(None))
    return out.getvalue()


def heic(
    image: Image.Image, *, exif: bytes = b"", quarter_turns: int = 0, claimed: tuple[int, int] | None = None
) -> bytes:
    """A HEIC (ISO/IEC 23008-12) of one picture; `quarter_turns` anticlockwise are the file's own rotation, `claimed`
    is the width and height that its header says."""
    config, data = _hevc(image)
    kind = _box(b"ftyp", b"heic", bytes(4), b"mif1heic")
    items = [(b"hvc1", data)] + ([(b"Exif", bytes(4) + exif)] if exif else [])
    properties = [config, _full(b"ispe", struct.pack(">II", *(claimed or image.size)))]
    properties += [_box(b"irot", bytes([quarter_turns]))] if quarter_turns else []
    before = len(kind) + len(_meta(items, properties, 0)) + 8
    return kind + _meta(items, properties, before) + _box(b"mdat", *(item for _, item in items))


def _meta(items: list[tuple[bytes, bytes]], properties: list[bytes], offset: int) -> bytes:
    names, places = [], []
    for number, (kind, data) in enumerate(items, 1):
        names.append(_full(b"infe", struct.pack(">HH", number, 0), kind, b"\0", version=2))
        places.append(struct.pack(">HHHII", number, 0, 1, offset, len(data)))
        offset += len(data)
    associations = bytes([len(properties), *(0x80 | index for index in range(1, len(properties) + 1))])
    return _full(
        b"meta",
        _full(b"hdlr", bytes(4), b"pict", bytes(13)),
        _full(b"pitm", struct.pack(">H", 1)),
        _full(b"iloc", b"\x44\x00", struct.pack(">H", len(items)), *places),
        _full(b"iinf", struct.pack(">H", len(items)), *names),
        *([_full(b"iref", _box(b"cdsc", struct.pack(">HHH", 2, 1, 1)))] if len(items) > 1 else []),
        _box(b"iprp", _box(b"ipco", *properties), _full(b"ipma", struct.pack(">IH", 1, 1), associations)),
    )


def _hevc(image: Image.Image) -> tuple[bytes, bytes]:
    """The `hvcC` box and the coded frame, as FFmpeg puts them into an MP4."""
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream: Any = container.add_stream("libx265", rate=1)
        stream.width, stream.height, stream.pix_fmt, stream.thread_count = *image.size, "yuv420p", 1
        stream.options = {"x265-params": "log-level=none:keyint=1:pools=none:frame-threads=1"}
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")))
        container.mux(stream.encode(None))
    file = out.getvalue()
    return _box_at(file, b"hvcC"), _box_at(file, b"mdat")[8:]


def _box_at(file: bytes, kind: bytes) -> bytes:
    begin = file.index(kind) - 4
    return file[begin : begin + int.from_bytes(file[begin : begin + 4], "big")]


def _box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I", len(body) + 8) + kind + body


def _full(kind: bytes, *parts: bytes, version: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", version << 24), *parts)
