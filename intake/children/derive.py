"""The derivative of a medium, made after it was decoded to its end: one recipe, one file, one transformation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contracts.artifact import MediaType, Modality
from contracts.derivation import AudioDerivation, Derivation, ImageDerivation, VideoDerivation, derivation_of
from contracts.limits import Limits
from intake.children import audio, derive_audio, derive_image, derive_video, image, video
from intake.children.derive_frames import selection
from intake.children.derive_output import Output
from intake.children.source import Source
from intake.decoder_wire import DERIVATIVE_BYTES_MAX


def prepare() -> None:
    """Warm what the makers load on first use. Call once, before the confinement."""
    derive_image.prepare()
    derive_audio.prepare()


def decode_and_derive(
    request: dict[str, Any], source: Source, media_type: MediaType, output: Sequence[int], limits: Limits
) -> dict[str, Any]:
    """Decode a medium; findings, and where the request asks for a derivative, transformation and derivative_bytes.

    There is none for a medium that already is what the recipe would make of it. The derivative itself is in
    `output[0]`. Raises MediaRejected as the decoders do, `derivative-bytes`, `derivative-frames`, `derivative-times`.
    """
    modality = Modality(request["modality"])
    wanted = request.get("derive")
    recipe = None if wanted is None else derivation_of(modality, wanted)
    if modality is Modality.VIDEO:
        return _video(source, media_type, limits, recipe, output)
    decode = image.decode_image if modality is Modality.IMAGE else audio.decode_audio
    findings = decode(source, media_type, limits)
    if isinstance(recipe, ImageDerivation):
        return {"findings": findings} | _image(source, media_type, limits, recipe, findings, output)
    if isinstance(recipe, AudioDerivation):
        return {"findings": findings} | _audio(source, media_type, limits, recipe, findings, output)
    return {"findings": findings}


def _image(
    source: Source,
    media_type: MediaType,
    limits: Limits,
    recipe: ImageDerivation,
    findings: dict[str, Any],
    output: Sequence[int],
) -> dict[str, Any]:
    if derive_image.fits_already(findings, source, media_type, recipe):
        return {}
    turn = findings.get("orientation", 1)
    data, transformation = derive_image.image_normalised(source, media_type, limits, recipe, turn)
    return _made(data, transformation, output)


def _audio(
    source: Source,
    media_type: MediaType,
    limits: Limits,
    recipe: AudioDerivation,
    findings: dict[str, Any],
    output: Sequence[int],
) -> dict[str, Any]:
    if derive_audio.fits_already(findings, source, media_type, recipe):
        return {}
    form = (findings["sample_rate"], findings["channels"])
    into = Output(output[0], DERIVATIVE_BYTES_MAX)
    transformation = derive_audio.audio_to_wav(source, media_type, limits, recipe, form, into)
    return {"transformation": transformation, "derivative_bytes": into.size_bytes}


def _video(
    source: Source, media_type: MediaType, limits: Limits, recipe: Derivation | None, output: Sequence[int]
) -> dict[str, Any]:
    if not isinstance(recipe, VideoDerivation):
        return {"findings": video.decode_video(source, media_type, limits, _unseen)}
    chosen = selection(recipe)
    findings = video.decode_video(source, media_type, limits, chosen.take)
    if derive_video.fits_already(findings, source, media_type, recipe):
        return {"findings": findings}
    data, transformation = derive_video.frames_to_gif(chosen, recipe, findings.get("orientation", 1))
    return {"findings": findings} | _made(data, transformation, output)


def _made(data: bytes, transformation: dict[str, Any], output: Sequence[int]) -> dict[str, Any]:
    into = Output(output[0], DERIVATIVE_BYTES_MAX)
    into.append(data)
    return {"transformation": transformation, "derivative_bytes": into.size_bytes}


def _unseen(*_: object) -> None:
    """Nothing is wanted of the frames but that they decode."""
