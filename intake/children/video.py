"""Video, decoded to the last frame by FFmpeg, within bounds that are checked frame by frame."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import av
from av.sidedata.sidedata import Type
from PIL import Image

from contracts.artifact import MediaType
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children import ffmpeg
from intake.children import image as images
from intake.children.claims import container_claims
from intake.children.source import Source


class Render(Protocol):
    """A way to have a frame as an RGB image, upright; valid until the next frame is decoded."""

    def __call__(self, side_px: int | None = None) -> Image.Image:
        """The whole frame, or a small one of `side_px` x `side_px` that costs little."""


FrameSeen = Callable[[int, Fraction | None, Render], None]
"""Called with every frame's index, when it begins (seconds since the first; None if nobody says) and its rendering."""

CODECS = {
    "video/mp4": frozenset({"h264", "hevc", "av1", "mpeg4", "vp9"}),
    "video/quicktime": frozenset({"h264", "hevc", "mpeg4", "mjpeg", "prores"}),
    "video/webm": frozenset({"vp8", "vp9", "av1"}),
    "video/x-matroska": frozenset({"h264", "hevc", "av1", "mpeg4", "vp8", "vp9"}),
    "video/x-msvideo": frozenset({"h264", "mpeg4", "mjpeg"}),
}
"""What cameras, phones and the web write. Every other decoder of FFmpeg's stays unused."""
_ORIENTATIONS = {
    (1, 0, 0, 1): 1,
    (-1, 0, 0, 1): 2,
    (-1, 0, 0, -1): 3,
    (1, 0, 0, -1): 4,
    (0, 1, 1, 0): 5,
    (0, 1, -1, 0): 6,
    (0, -1, -1, 0): 7,
    (0, -1, 1, 0): 8,
}
_FIRST_SIDEWAYS = 5  # EXIF orientations 5 to 8 exchange width and height
_REDUCED = 8  # a small rendering begins with an eighth of each side
_TURNS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def prepare() -> None:
    """Warm what PyAV imports on first use, by way of a clip of one frame. Call once, before the confinement."""
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as container:
        stream = container.add_stream("mpeg4", rate=1)
        stream.width, stream.height, stream.pix_fmt, stream.thread_count = 16, 16, "yuv420p", 1
        container.mux(stream.encode(av.VideoFrame(16, 16, "yuv420p")))
        container.mux(stream.encode(None))
    out.seek(0)
    with ffmpeg.open_input(out, "video/x-matroska", Limits()) as container:
        for frame in container.decode(video=0):
            _picture(frame, 1)
            _picture(frame, 1, 16)


def decode_video(source: Source, media_type: MediaType, limits: Limits, seen: FrameSeen) -> dict[str, Any]:
    """Findings of a video: format, codec, width, height, frames, fps, duration_ms, streams, audio_streams; and
    orientation (EXIF, 1 to 8; already applied to what `seen` renders), shown_width and shown_height where it is not 1;
    frames_claimed where the header lied, and what `container_claims` finds.

    Raises MediaRejected: `video-streams`, `video-codec`, `video-orientation`, `video-duration`, `video-frames`,
    `frame-pixels`, `frame-side`, `video-truncated`, `video-undecodable`; for a GIF also as `images.frames` does.
    """
    if media_type.name == "image/gif":
        return _decode_gif(source, media_type, limits, seen)
    run = _Run(limits)
    with ffmpeg.refusals("video", source, lambda: f"{run.frames} frames"):
        source.seek(0)
        with ffmpeg.open_input(source, media_type.name, limits) as container:
            stream = _choose(container, media_type, limits)
            for frame in ffmpeg.decoded(container, stream, "video"):
                run.take(frame)
                seen(run.frames - 1, run.begin, partial(_picture, frame, run.orientation))
            return _describe(container, stream, media_type, run)


class _Run:
    """What has been decoded so far, against the bounds."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._first: Fraction | None = None
        self.begin: Fraction | None = None
        self.frames = 0
        self.duration = Fraction(0)
        self.width = self.height = 0
        self.orientation = 1

    @property
    def shown(self) -> tuple[int, int]:
        """Width and height of the first frame as it is meant to be shown."""
        size = (self.width, self.height)
        return size if self.orientation < _FIRST_SIDEWAYS else size[::-1]

    def take(self, frame: av.VideoFrame) -> None:
        """Count one decoded frame. Raises MediaRejected when it is one too many, too large, too late or damaged."""
        limits = self._limits
        self.frames += 1
        if self.frames > limits.video_frames:
            raise MediaRejected("video-frames", f"more than {limits.video_frames} frames")
        if frame.is_corrupt:
            raise MediaRejected("video-undecodable", f"frame {self.frames} is damaged")
        _check_size(frame.width, frame.height, limits)
        if self.frames == 1:
            self.width, self.height = frame.width, frame.height
            self.orientation = _orientation(frame)
        self._take_time(frame)

    def _take_time(self, frame: av.VideoFrame) -> None:
        self.begin = None
        if frame.pts is None or frame.time_base is None:
            return
        begin = frame.pts * frame.time_base
        self._first = begin if self._first is None else min(self._first, begin)
        self.begin = begin - self._first
        self.duration = max(self.duration, begin - self._first + (frame.duration or 0) * frame.time_base)
        if self.duration > self._limits.video_duration_s:
            raise MediaRejected("video-duration", f"longer than {self._limits.video_duration_s} s")


def _choose(container: av.container.InputContainer, media_type: MediaType, limits: Limits) -> av.VideoStream:
    if not container.streams.video:
        raise MediaRejected("video-streams", f"no video among {len(container.streams)} streams")
    stream = container.streams.video[0]
    codec = ffmpeg.codec_name(stream)
    if codec not in CODECS[media_type.name]:
        raise MediaRejected(
            "video-codec", f"stream {stream.index}: {codec} is not an accepted codec of {media_type.name}"
        )
    _check_size(stream.codec_context.width, stream.codec_context.height, limits)
    ffmpeg.prepare_decoder(stream, max_pixels=str(limits.video_frame_pixels))
    return stream


def _check_size(width: int, height: int, limits: Limits) -> None:
    if max(width, height) > limits.frame_side_px:
        raise MediaRejected("frame-side", f"{width} x {height}, the longest side allowed is {limits.frame_side_px}")
    if width * height > limits.video_frame_pixels:
        raise MediaRejected("frame-pixels", f"{width} x {height}, the bound is {limits.video_frame_pixels} pixels")


def _picture(frame: av.VideoFrame, orientation: int, side_px: int | None = None) -> Image.Image:
    """The frame as it is meant to be shown: phones write portrait as landscape with a matrix.

    `orientation` is the first frame's, as findings say; to ask each frame would tie it into a cycle with its side data,
    and it would stay in memory until the collector comes.
    """
    # One thread: left to itself swscale starts several, and on a busy host that failed now and then (EAGAIN).
    size: dict[str, Any] = {"threads": 1}
    if side_px is not None:  # swscale has a longest filter, so the last step is Pillow's
        width, height = (max(side // _REDUCED, side_px) for side in (frame.width, frame.height))
        size |= {"width": width, "height": height, "interpolation": "AREA"}
    image: Image.Image = frame.to_image(**size)  # type: ignore[no-untyped-call]
    image = image if side_px is None else image.resize((side_px, side_px), Image.Resampling.BOX)
    turn = _TURNS[orientation]
    return image if turn is None else image.transpose(turn)


def _shown(frame: Image.Image, side_px: int | None = None) -> Image.Image:
    """The frame of a GIF."""
    image = frame.convert("RGB")
    return image if side_px is None else image.resize((side_px, side_px), Image.Resampling.BOX)


def _orientation(frame: av.VideoFrame) -> int:
    """The frame's display matrix (ISO/IEC 14496-12 §6.2.2, a and b in the first row) as an EXIF orientation, 1 to 8."""
    side_data: Any = frame.side_data  # its stub is of an older form
    if Type.DISPLAYMATRIX not in side_data:
        return 1
    matrix = struct.unpack("=9i", bytes(side_data[Type.DISPLAYMATRIX])[:36])
    signs = tuple((value > 0) - (value < 0) for value in (matrix[0], matrix[1], matrix[3], matrix[4]))
    if signs not in _ORIENTATIONS:
        raise MediaRejected("video-orientation", "the display matrix is no quarter turn and no mirror image")
    return _ORIENTATIONS[signs]


def _describe(
    container: av.container.InputContainer, stream: av.VideoStream, media_type: MediaType, run: _Run
) -> dict[str, Any]:
    if run.frames == 0:
        raise MediaRejected("video-truncated", "not one frame")
    rate = stream.average_rate or stream.guessed_rate
    found: dict[str, Any] = {
        "format": media_type.extension,
        "codec": ffmpeg.codec_name(stream),
        "width": run.width,
        "height": run.height,
        "frames": run.frames,
        "fps": str(rate) if rate else "unknown",
        "duration_ms": int(run.duration * 1_000),
        "streams": len(container.streams),
        "audio_streams": len(container.streams.audio),
    }
    if run.orientation != 1:
        found["orientation"] = run.orientation
        found["shown_width"], found["shown_height"] = run.shown
    if stream.frames and stream.frames != run.frames:
        found["frames_claimed"] = stream.frames
    return found | container_claims(container.metadata)


def _decode_gif(source: Source, media_type: MediaType, limits: Limits, seen: FrameSeen) -> dict[str, Any]:
    duration = count = 0
    width = height = 0
    delays = set()
    for frame in images.frames(source, media_type, limits, limits.video_frames):
        width, height = frame.size
        begin = Fraction(duration, 1_000)
        delays.add(images.delay_ms(frame))
        duration += images.delay_ms(frame)
        if duration > limits.video_duration_s * 1_000:
            raise MediaRejected("video-duration", f"longer than {limits.video_duration_s} s")
        seen(count, begin, partial(_shown, frame))
        count += 1
    delay = delays.pop() if len(delays) == 1 else 0
    return {
        "format": "gif",
        "codec": "gif",
        "width": width,
        "height": height,
        "frames": count,
        "fps": str(Fraction(1_000, delay)) if delay else "unknown",
        "duration_ms": duration,
        **({"delay_ms": delay} if delay else {}),
    }
