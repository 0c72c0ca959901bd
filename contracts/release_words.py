"""What each field of a release says, in one sentence: for `release show`, the schema and docs/releases.md.

`python -m contracts.release_words` prints the table of that page; a test fails when it is stale.
"""

from __future__ import annotations

from collections.abc import Mapping

FIELD_WORDS: Mapping[str, str] = {
    "document": "the form of this manifest",
    "name": "what bundles and people call the release",
    "engine": "version of mistral.rs; it must have a profile, and nothing that moves (`latest`) has one",
    "build.binary": "digest of the server's binary; null where the engine comes from a wheel",
    "build.wheel": "the Python distribution that holds the engine; null for a server's binary",
    "build.wheel.distribution": "its name",
    "build.wheel.version": "its version, which is the engine's",
    "build.wheel.library": "digest of its compiled library",
    "build.target": "the compiler's target triple, where known",
    "build.features": "features it was compiled with, where known; those of the backend must be among them",
    "build.toolchain": "compiler and native toolkit it was built with, where known",
    "build.driver": "driver and runtime seen on the target, where known",
    "backend": "where it computes; `cpu` is said to the engine, never left to chance",
    "route": "the model's name on the wire; for a server, the folder named by the bundle's digest",
    "model.public_id": "what people call the model; it names nothing that can be fetched",
    "model.revision": "the upstream commit, 40 digits; null where there is none",
    "model.bundle": "digest of the reviewed folder: weights, configuration and all the following",
    "model.tokenizer": "digest of the tokenizer",
    "model.processor": "digest of the processor's configuration: how media become tokens",
    "model.chat_template": "digest of the chat template as resolved",
    "model.licences": "digests of the licence files",
    "model.format": "how weights are stored: `plain` (safetensors), `gguf`, `ggml`",
    "model.dtype": "type to compute in; null leaves the engine's default",
    "model.quantisation": "how weights are quantised; null where they are not",
    "model.quantisation.method": "`isq` while loading, or from files: `uqff`, `gguf`, `ggml`",
    "model.quantisation.level": "level for `isq`, for example `q4k`; null for the others",
    "model.quantisation.files": "the quantised files, in the model's folder",
    "model.quantisation.digest": "digest of the record of how it was made: algorithm, groups, calibration, exemptions",
    "model.topology": "where layers are placed; null leaves it to the backend",
    "model.topology.file": "file in the model's folder that places layers on devices",
    "model.topology.digest": "its digest",
    "launch": "where the server listens; null for the engine in the box",
    "launch.host": "loopback only: the engine has no authentication",
    "launch.port": "port of that address",
    "launch.ui": "always false: the engine's own UI is off",
    "launch.access_log": "`json`, or null for the engine's default; the log of payloads cannot be asked for",
    "kv.paged_attention": "`off`, or the pool of paged blocks",
    "kv.paged_attention.context_tokens": "pool for so many tokens; exactly one of three sizes is given",
    "kv.paged_attention.memory_mb": "pool of so many megabytes",
    "kv.paged_attention.memory_percent": "pool of that share of the accelerator's memory",
    "kv.paged_attention.block_tokens": "tokens in a block; null leaves the engine's default",
    "kv.paged_attention.cache_type": "`auto` or `f8e4m3`",
    "kv.prefix_cache_n": "prefixes kept; 0 keeps none",
    "kv.tenants": "`one`: a worker of their own for each tenant; `shared`: then no prefix may be kept",
    "modalities": "media we accept, which may be fewer than the engine takes",
    "limits.context_tokens": "longest prompt and answer together",
    "limits.max_seqs": "sequences the engine runs at once; admission before it is ours",
    "limits.max_seq_len": "length the device mapping plans for; refuses nothing",
    "limits.max_batch_size": "batch the device mapping plans for; refuses nothing",
    "limits.max_num_images": "images the device mapping plans for; refuses nothing",
    "limits.max_edge": "longest edge of an image, for model families that heed it",
    "limits.max_image_length": "image size the device mapping plans for; refuses nothing",
    "calibration_model": "true only for the model in the box, which is not for evidence",
    "derivatives": "what is made of media before the engine has them; left out, videos become 8 frames in a GIF",
    "derivatives.image": "how images are normalised; null takes them as they are",
    "derivatives.image.max_side_px": "longest side; nothing is enlarged",
    "derivatives.image.format": "`png`, `jpeg` or `webp`",
    "derivatives.image.quality": "1 to 95 for `jpeg` and lossy `webp`; null is lossless",
    "derivatives.image.alpha": "`flatten` onto the background, or `keep`",
    "derivatives.image.background": "RRGGBB; null where alpha is kept",
    "derivatives.audio": "how recordings become PCM; null takes them as they are",
    "derivatives.audio.rate_hz": "samples a second",
    "derivatives.audio.channels": "1 or 2",
    "derivatives.video": "which frames of a video are given; null gives the video as it is",
    "derivatives.video.select": "`even`, `every`, `times` or `scenes`",
    "derivatives.video.frames": "how many for `even`, at most how many for the others",
    "derivatives.video.every": "step in frames for `every`, else null",
    "derivatives.video.times_ms": "rising times for `times`, else null",
    "derivatives.video.scene_threshold": "levels of 255 for `scenes`, else null",
    "derivatives.video.max_side_px": "longest side; nothing is enlarged",
    "derivatives.video.frame_delay_ms": "between frames of the result; engines write it into the prompt",
    "derivatives.video.container": "`gif`, which engines decode themselves",
    "derivatives.video.allow_square": "false takes 8 px off a square's height, for engines that mistake such frames",
}


def field_table() -> str:
    """The fields as a table of Markdown."""
    rows = [f"| `{field}` | {words} |" for field, words in FIELD_WORDS.items()]
    return "\n".join(["| field | says |", "|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    print(field_table(), end="")
