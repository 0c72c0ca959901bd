"""The one table of limits: unit in the name, a reason beside each number.

A deployment may set any of them; a bundle may only narrow them. The digest of the limits in force goes into every
receipt. Bounds are checked while bytes arrive, never after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from contracts.digest import EXACT_NUMBERS, Digest, canonical_digest
from contracts.errors import InputError

KIB, MIB = 1 << 10, 1 << 20
_STREAM_EVENTS_BASE = 64  # keep-alives carry no event, so what is left over is slack for chunks without text
_STREAM_EVENTS_PER_TOKEN = 2  # the engine holds bytes back rather than splitting a token, so 1 would do


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound in force. All are inclusive maxima, save the minimum rate."""

    # The bundle and its questions.
    bundle_bytes: int = 256 * MIB  # a million questions of a few lines each
    bundle_questions: int = 1_000_000  # beyond it a bundle is split: one ledger range per bundle
    question_parts: int = 16  # engines plan device memory for a handful of media; more is another question
    question_images: int = 16  # as many as parts; a deployment with less device memory narrows it
    question_audios: int = 8  # a recording is hundreds of tokens, a still some seventy
    question_videos: int = 4  # each is frames: eight stills' worth
    prompt_bytes: int = 64 * KIB  # far over any context we run, far under the body limit
    labels: int = 32  # labels are keys for people, not a payload
    label_bytes: int = 1 * KIB  # one line of text
    schema_bytes: int = 64 * KIB  # an answer form larger than its prompt is a mistake
    request_bytes: int = 1 * MIB  # a file:// request is prompt + paths; engines take 50 MiB
    request_data_bytes: int = 50 * MIB  # media as data: URLs; engines cap the body there and have no flag for it
    output_tokens: int = 4_096  # under half the engine's 10,000-response channel, which blocks when full

    # Encoded bytes.
    image_bytes: int = 64 * MIB  # a 64 Mpx camera JPEG is 20-40 MiB
    audio_bytes: int = 256 * MIB  # 20 min of 48 kHz stereo PCM; two hours compressed
    video_bytes: int = 512 * MIB  # 10 min at 7 Mbit/s
    question_bytes: int = 768 * MIB  # one video and its stills, not sixteen videos

    # Decoded work.
    question_pixels: int = 40_000_000_000  # frames x pixels of all stills and clips: 10 min of 1080p at 30 fps
    question_samples: int = 1_500_000_000  # of all channels: four hearings of two hours at 24 kHz, stereo
    bundle_pixels: int = 1_000_000_000_000_000  # in one run: eighty million 12 Mpx pictures, or weeks of decoding
    bundle_samples: int = 100_000_000_000_000  # in one run: ten years of stereo at 160 kHz; nobody waits for more
    frame_pixels: int = 64_000_000  # Pillow warns at 89 Mpx; a phone has 50
    frame_side_px: int = 20_000  # a scan, not a strip that makes a decoder allocate rows for nothing
    animation_pixels: int = 256_000_000  # frames x pixels: a 1 MB GIF can cost 14 s without it
    audio_duration_s: int = 7_200  # a hearing
    audio_channels: int = 8  # 7.1; libsndfile takes 1,024 from a header
    audio_rate_min_hz: int = 4_000  # half of telephone
    audio_rate_max_hz: int = 192_000  # studio; libsndfile takes 2^31-1 from a header
    video_duration_s: int = 600  # a body-camera segment
    video_frames: int = 18_000  # 10 min at 30 fps
    video_frame_pixels: int = 36_000_000  # 8K
    media_streams: int = 8  # video, audio tracks, subtitles
    trailing_bytes: int = 512 * MIB  # behind a container's end: recorded up to here, as phones append clips; 0 refuses
    decode_wall_s: float = 30.0  # a 24 Mpx JPEG takes 0.6 s
    decode_cpu_s: int = 20  # less than wall: waiting is not work
    decode_memory_bytes: int = 512 * MIB  # over the warmed baseline; a 64 Mpx RGBA frame is 256 MiB

    # Fetching.
    fetch_connect_s: float = 5.0  # DNS included
    fetch_tls_s: float = 5.0  # a handshake is two round trips
    fetch_head_s: float = 20.0  # from the request to the end of the head, 1xx answers included: a drip never idles
    fetch_idle_s: float = 10.0  # between two reads
    fetch_total_s: float = 120.0  # DNS + TLS + headers + body, all hops: no per-read timeout bounds a drip
    fetch_rate_min_bytes_s: int = 1 * KIB  # slower is a drip
    fetch_rate_grace_s: float = 5.0  # before the rate is judged
    fetch_redirects: int = 3  # more is a loop or a game
    fetch_retry_after_s: float = 60.0  # a Retry-After that asks for longer ends the tries: others want the run's end
    fetch_tries_s: float = 300.0  # tries and pauses of one source together, not counting the wait for a slot
    fetch_header_bytes: int = 64 * KIB  # of a hop's heads, 1xx answers included; a CDN sends 2 KiB
    fetch_headers: int = 128  # a CDN sends 40
    fetch_interim: int = 8  # 1xx answers before the real one; a server with early hints sends one
    fetch_framing_bytes: int = 64 * KIB  # chunk lines and trailers, over and above as many bytes as the body has
    dns_answers: int = 16  # each is vetted; a hundred is a trick

    # The answer stream.
    response_headers: int = 64  # the engine sends 5, a proxy some more
    response_header_bytes: int = 16 * KIB  # what nginx and h11 allow
    stream_line_bytes: int = 1 * MIB  # one chunk is under 1 KiB
    stream_event_bytes: int = 1 * MIB  # several data lines make one event
    stream_wire_bytes: int = 8 * MIB  # 4,096 tokens x 400 B of framing, five times over
    stream_comments: int = 10_000  # a keep-alive each 10 s for a day
    answer_bytes: int = 1 * MIB  # 4,096 tokens are 20 KiB of text
    first_event_s: float = 300.0  # the engine queues without telling
    idle_gap_s: float = 60.0  # six missed keep-alives
    total_s: float = 1_800.0  # 4,096 tokens at 2.3 tokens/s

    # Trying again.
    question_attempts: int = 5  # a fault that outlasts five tries is no passing one
    retry_delay_s: float = 10.0  # longest pause before a try; a restarted engine is back by then

    # Staging.
    lease_ttl_s: float = 120.0  # renewed at a third; a dead holder's file stays at most this long

    def stream_events(self, max_tokens: int) -> int:
        """How many events a stream of at most `max_tokens` tokens may have."""
        return _STREAM_EVENTS_PER_TOKEN * max_tokens + _STREAM_EVENTS_BASE

    def narrowed(self, wanted: Mapping[str, float]) -> Limits:
        """These limits with some narrowed.

        Raises InputError for an unknown name, a value that is none (`limits-value`), or a wider one.
        """
        for name, value in wanted.items():
            current = self._value(name)
            _checked(name, value, current)
            if value < current if name in _MINIMA else value > current:
                raise InputError("limits-only-narrow", f"limits.{name}: {value} is wider than {current} in force")
        return self.changed(wanted)

    def changed(self, wanted: Mapping[str, float]) -> Limits:
        """These limits with some set, by who runs the deployment.

        Raises InputError for an unknown name (`limits-unknown`) and a value that is none (`limits-value`): negative,
        not finite, or a fraction where things are counted.
        """
        typed: dict[str, Any] = {name: _checked(name, value, self._value(name)) for name, value in wanted.items()}
        return replace(self, **typed)

    def digest(self) -> Digest:
        """The identity of the limits in force."""
        return canonical_digest(asdict(self))

    def _value(self, name: str) -> int | float:
        if name not in _NAMES:
            raise InputError("limits-unknown", f"limits.{name} does not exist")
        value: int | float = getattr(self, name)
        return value


_NAMES = frozenset(field.name for field in fields(Limits))
_MINIMA = frozenset({"audio_rate_min_hz", "fetch_rate_min_bytes_s"})


def _checked(name: str, value: float, current: float) -> int | float:
    """`value` in the type of `current`. NaN fails the comparison too, as nothing compares with it."""
    if isinstance(value, bool) or not 0 <= value < EXACT_NUMBERS:
        raise InputError("limits-value", f"limits.{name}: expected a number from 0 to below 2^53")
    if isinstance(current, float):
        return float(value)
    if value != int(value):
        raise InputError("limits-value", f"limits.{name}: expected a whole number, got a fraction")
    return int(value)
