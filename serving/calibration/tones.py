"""Tones of the calibration world: one second, mono, 16 kHz."""

from __future__ import annotations

import io
import math
import wave
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RATE_HZ = 16_000
Samples = npt.NDArray[np.float64]

_BANDS_HZ = {"low": (100, 400), "high": (1200, 4000)}


@dataclass(frozen=True, slots=True)
class Tone:
    """`samples` in [-1, 1] at `RATE_HZ`; `kind` is low (100-400 Hz), high (1200-4000 Hz) or silence."""

    samples: Samples
    kind: str

    def encode(self) -> bytes:
        """The tone's file: 16-bit PCM WAV."""
        out = io.BytesIO()
        with wave.open(out, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE_HZ)
            file.writeframes((np.round(np.clip(self.samples, -1, 1) * 32767)).astype("<i2").tobytes())
        return out.getvalue()


def draw_tone(rng: np.random.Generator, kind: str) -> Tone:
    """One second of `kind`."""
    time = np.arange(RATE_HZ) / RATE_HZ
    if kind == "silence":
        return Tone(rng.normal(0, 1, RATE_HZ) * rng.choice([0, 1e-4, 5e-4]), kind)
    low, high = np.log(_BANDS_HZ[kind])
    phase = 2 * np.pi * math.exp(rng.uniform(low, high)) * time + rng.uniform(0, 6.28)
    wave_form = np.sin(phase)
    if rng.integers(2) and kind == "low":  # overtones would make a high tone higher still
        wave_form = wave_form + 0.3 * np.sin(2 * phase) + 0.15 * np.sin(3 * phase)
    wave_form = wave_form * rng.uniform(0.08, 0.7)
    if rng.integers(2):
        wave_form = wave_form * np.minimum(1, np.minimum(time, 1 - time) / 0.05)
    noise = rng.normal(0, 1, RATE_HZ) * rng.choice([0, 5e-4, 2e-3])
    return Tone(np.clip(wave_form + noise, -1, 1), kind)
