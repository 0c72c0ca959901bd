"""The derivative of a recording: PCM of 16 bits in a WAV of 44 header bytes and samples, written as it is decoded.

Every step is whole numbers, so that no processor rounds otherwise: samples are rounded to 16 bits once (exact for PCM
of 16 bits), channels are averaged, and libswresample filters with 32-bit integers in one thread, without dithering.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import av
import numpy
import soundfile
from av.filter import Graph

from contracts.artifact import MediaType
from contracts.derivation import AudioDerivation
from contracts.errors import MediaRejected
from contracts.limits import Limits
from intake.children import audio_ffmpeg
from intake.children.bare import is_bare
from intake.children.derive_output import Output
from intake.children.source import Source

_BLOCK_SAMPLES = 1 << 16
_HEADER_BYTES = 44
_LAYOUTS = ("", "mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1")  # FFmpeg's default for each number
_MOST = 1 << 15
TOOLS = f"soundfile {version('soundfile')}, libsndfile {soundfile.__libsndfile_version__}, av {version('av')}"


def prepare() -> None:
    """Warm the resampler. Call once, before the confinement."""
    resampler = _Resampler(44_100, "5.1", 16_000, "stereo")
    for block in (numpy.zeros((1_000, 6), numpy.int16), None):
        resampler.resampled(block)


def fits_already(findings: dict[str, Any], source: Source, media_type: MediaType, derivation: AudioDerivation) -> bool:
    """Whether a recording is already what the derivation would make of it, with nothing beside."""
    return (
        media_type.name == derivation.media_type
        and findings["codec"] == "pcm_s16"
        and findings["sample_rate"] == derivation.rate_hz
        and findings["channels"] == derivation.channels
        and is_bare(media_type.name, source)
    )


def audio_to_wav(
    source: Source,
    media_type: MediaType,
    limits: Limits,
    derivation: AudioDerivation,
    form: tuple[int, int],
    output: Output,
) -> dict[str, Any]:
    """Write the WAV into `output`; returns its transformation. `form` is rate (Hz) and channels of the original.

    Raises MediaRejected `derivative-bytes` as soon as there is too much, and as decoding does.
    """
    rate, channels = form
    mix = _mix(channels, derivation.channels)
    layout = _LAYOUTS[channels if mix == "ffmpeg-layout" else derivation.channels]
    asis = rate == derivation.rate_hz and mix != "ffmpeg-layout"
    resampler = None if asis else _Resampler(rate, layout, derivation.rate_hz, _LAYOUTS[derivation.channels])
    output.append(bytes(_HEADER_BYTES))
    for block in _blocks(source, media_type, limits):
        mixed = _mixed(block, mix)
        output.append((mixed if resampler is None else resampler.resampled(mixed)).astype("<i2").tobytes())
    if resampler is not None:
        output.append(resampler.resampled(None).astype("<i2").tobytes())
    samples = (output.size_bytes - _HEADER_BYTES) // (2 * derivation.channels)
    output.overwrite(_header(derivation, output.size_bytes))
    return {
        **derivation.fixed(),
        "samples": samples,
        "from_rate_hz": rate,
        "from_channels": channels,
        "mix": mix,
        "resampler": "none" if asis else "swresample s32p",
        "tool": TOOLS,
    }


def _blocks(source: Source, media_type: MediaType, limits: Limits) -> Iterator[Any]:
    """The samples in 16 bits, shape (samples, channels), block by block."""
    try:
        if media_type.name in audio_ffmpeg.MEDIA_TYPES:
            for frame in audio_ffmpeg.frames(source, media_type, limits):
                yield _in_16_bits(_interleaved(frame))
            return
        source.seek(0)
        with soundfile.SoundFile(source) as sound:
            while len(block := sound.read(_BLOCK_SAMPLES, dtype="float32", always_2d=True)):
                yield _in_16_bits(block)
    except (MediaRejected, MemoryError, ImportError):
        raise
    except Exception as error:
        raise MediaRejected("audio-undecodable", f"{type(error).__name__} in the second decode") from error


def _interleaved(frame: av.AudioFrame) -> Any:
    samples = frame.to_ndarray()
    return samples.T if frame.format.is_planar else samples.reshape(-1, frame.layout.nb_channels)


def _in_16_bits(samples: Any) -> Any:
    """Full scale is 1.0, or what the integer type holds; halves go to the even neighbour, what is beyond is clipped."""
    if samples.dtype == numpy.int16:
        return samples
    if samples.dtype.kind == "i":
        samples = samples.astype(numpy.float64) / (1 << 8 * samples.dtype.itemsize - 1)
    scaled = numpy.rint(numpy.nan_to_num(samples.astype(numpy.float64)) * _MOST)
    return numpy.clip(scaled, -_MOST, _MOST - 1).astype(numpy.int16)


def _mix(channels: int, wanted: int) -> str:
    if channels == wanted:
        return "none"
    if wanted == 1:
        return "mean"
    return "copy" if channels == 1 else "ffmpeg-layout"


def _mixed(block: Any, mix: str) -> Any:
    if mix == "mean":
        channels = block.shape[1]
        total = block.astype(numpy.int32).sum(axis=1, keepdims=True)
        return ((2 * total + channels) // (2 * channels)).astype(numpy.int16)
    return numpy.repeat(block, 2, axis=1) if mix == "copy" else block


class _Resampler:
    """libswresample in a filter graph of one thread; PyAV's own resampler starts a pool of them."""

    def __init__(self, rate_in: int, layout_in: str, rate_out: int, layout_out: str) -> None:
        self._rate, self._layout, self._position = rate_in, layout_in, 0
        self._channels = av.AudioLayout(layout_out).nb_channels
        self._graph = Graph()
        self._graph.threads = 1
        begin = {"sample_rate": str(rate_in), "sample_fmt": "s16", "channel_layout": layout_in}
        change = {"sample_rate": str(rate_out), "out_chlayout": layout_out, "out_sample_fmt": "s16"}
        exact = {"internal_sample_fmt": "s32p", "dither_method": "0"}
        end = {"sample_rates": str(rate_out), "sample_fmts": "s16", "channel_layouts": layout_out}
        self._graph.link_nodes(
            self._graph.add("abuffer", time_base=f"1/{rate_in}", **begin),
            self._graph.add("aresample", **change, **exact),
            self._graph.add("aformat", **end),
            self._graph.add("abuffersink"),
        ).configure()

    def resampled(self, block: Any) -> Any:
        """What comes out after `block` (int16, shape (samples, channels)) went in; None is the end."""
        self._graph.push(None if block is None else self._frame(block))
        pieces: list[Any] = [numpy.empty((0, self._channels), numpy.int16)]
        while True:
            try:
                frame = self._graph.pull()
            except (av.error.BlockingIOError, av.error.EOFError):
                return numpy.concatenate(pieces)
            pieces.append(frame.to_ndarray().reshape(-1, self._channels))

    def _frame(self, block: Any) -> av.AudioFrame:
        packed = numpy.ascontiguousarray(block).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, format="s16", layout=self._layout)
        frame.sample_rate, frame.pts, frame.time_base = self._rate, self._position, Fraction(1, self._rate)
        self._position += len(block)
        return frame


def _header(derivation: AudioDerivation, size_bytes: int) -> bytes:
    """RIFF, WAVE, a PCM format of 16 bytes, and the data's length."""
    block = 2 * derivation.channels
    form = struct.pack(
        "<IHHIIHH", 16, 1, derivation.channels, derivation.rate_hz, derivation.rate_hz * block, block, 16
    )
    riff = b"RIFF" + struct.pack("<I", size_bytes - 8) + b"WAVEfmt " + form
    return riff + b"data" + struct.pack("<I", size_bytes - _HEADER_BYTES)
