"""A tiny random-weight bundle of the Gemma 4 architecture: the second identity of tests. Same seed, same bytes.

It proves preprocessing, templating, scheduling and streaming, and nothing about answers. 8 MB, because the engine's
loader hard-codes media ids near 258,880 and the embedding table must reach them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

_VOCABULARY = 258_885
_HIDDEN = 16
_SOFT_TOKENS = 16
_SPECIAL = {
    "<pad>": 0,
    "<eos>": 1,
    "<bos>": 2,
    "<unk>": 3,
    "<|turn>": 4,
    "<turn|>": 5,
    "<|image>": 255_999,
    "<|audio>": 256_000,
    "<|image|>": 258_880,
    "<|audio|>": 258_881,
    "<image|>": 258_882,
    "<audio|>": 258_883,
    "<|video|>": 258_884,
}
_FIRST_TEXT_ID = 6
_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    # Text between the placeholders: adjacent ones are taken for none ("0 image placeholders but 2 image inputs").
    "{% if p.type == 'image' %}{{ '\n\n<|image|>\n\n' }}{% elif p.type == 'audio' %}{{ '\n\n<|audio|>\n\n' }}"
    "{% elif p.type == 'video' %}{{ '\n\n<|video|>\n\n' }}{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}"
    "<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
_CORPUS = [
    "the image shows a red green blue square circle line on a white black background",
    "evidence bundle item photo video audio frame second left right top bottom caption object person",
    '{"label": "ok", "score": 0.5, "items": ["a", "b"], "summary": "text", "confidence": 1}',
    "describe compare what is in this picture and that clip? 0 1 2 3 4 5 6 7 8 9",
]

_Weights = dict[str, npt.NDArray[np.float16]]


def write_tiny_bundle(folder: Path, seed: int = 7) -> None:
    """Write the bundle of `seed` into the existing `folder`."""
    tokenizer, text_tokens = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(_Drawn(seed).bundle(text_tokens), str(folder / "model.safetensors"), metadata={"format": "pt"})
    documents = {
        "config.json": _config(),
        "generation_config.json": {"bos_token_id": 2, "eos_token_id": [1, 5], "pad_token_id": 0},
        "processor_config.json": {
            "processor_class": "Gemma4Processor",
            "audio_seq_length": 750,
            "video_max_soft_tokens": 4,
        },
        "preprocessor_config.json": _preprocessor(),
        "tokenizer_config.json": {
            "bos_token": "<bos>",
            "eos_token": "<turn|>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "chat_template": _TEMPLATE,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1))


def _tokenizer() -> tuple[Tokenizer, int]:
    """A byte-level BPE over a few sentences, and how many tokens of text it has."""
    trained = Tokenizer(models.BPE(unk_token=None))
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=448, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(_CORPUS * 8, trainer)
    model = json.loads(trained.to_str())["model"]
    vocabulary = {token: index + _FIRST_TEXT_ID for token, index in model["vocab"].items()}
    merges = [tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary | _SPECIAL, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    return tokenizer, len(vocabulary)


def _config() -> dict[str, Any]:
    shared = {"rms_norm_eps": 1e-6}
    text = shared | {
        "hidden_size": _HIDDEN,
        "intermediate_size": 2 * _HIDDEN,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "global_head_dim": 16,
        "num_hidden_layers": 2,
        "vocab_size": _VOCABULARY,
        "sliding_window": 512,
        "layer_types": ["sliding_attention", "full_attention"],
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "rope_theta": 1e6,
        "rope_parameters": {
            "full_attention": {"rope_theta": 1e6, "rope_type": "proportional", "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
        },
    }
    vision = shared | {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "patch_size": 16,
        "position_embedding_size": 256,
        "pooling_kernel_size": 3,
        "default_output_length": _SOFT_TOKENS,
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"},
    }
    return _ids() | {"text_config": text, "vision_config": vision, "audio_config": shared | _AUDIO}


_AUDIO: dict[str, Any] = {
    "hidden_size": 16,
    "output_proj_dims": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "conv_kernel_size": 5,
    "attention_chunk_size": 12,
    "attention_context_left": 13,
    "attention_context_right": 0,
    "subsampling_conv_channels": [8, 4],
    "use_clipped_linears": False,
}


def _ids() -> dict[str, Any]:
    return {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "torch_dtype": "float32",
        "eos_token_id": [1, 5],
        "bos_token_id": 2,
        "pad_token_id": 0,
        "image_token_id": _SPECIAL["<|image|>"],
        "audio_token_id": _SPECIAL["<|audio|>"],
        "video_token_id": _SPECIAL["<|video|>"],
        "boi_token_id": _SPECIAL["<|image>"],
        "eoi_token_id": _SPECIAL["<image|>"],
        "boa_token_id": _SPECIAL["<|audio>"],
        "eoa_token_id": _SPECIAL["<audio|>"],
        "vision_soft_tokens_per_image": _SOFT_TOKENS,
    }


def _preprocessor() -> dict[str, Any]:
    return {
        "do_convert_rgb": True,
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": False,
        "resample": 3,
        "patch_size": 16,
        "feature_size": 128,
        "frame_length": 320,
        "hop_length": 160,
        "sampling_rate": 16_000,
        "fft_overdrive": False,
        "min_frequency": 0.0,
        "max_frequency": 8000.0,
        "mel_floor": 0.001,
    }


class _Drawn:
    """Weights from one generator, in one order."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._weights: _Weights = {}

    def bundle(self, text_tokens: int) -> _Weights:
        """All weights, by the engine's names."""
        self._language(text_tokens)
        self._vision()
        self._audio()
        return self._weights

    def _normal(self, name: str, *shape: int, std: float | None = None) -> None:
        scale = shape[-1] ** -0.5 if std is None else std
        self._weights[f"{name}.weight"] = (self._rng.standard_normal(shape) * scale).astype(np.float16)

    def _constant(self, name: str, size: int, value: float = 1.0) -> None:
        self._weights[f"{name}.weight"] = np.full(size, value, np.float16)

    def _language(self, text_tokens: int) -> None:
        prefix = "model.language_model."
        self._weights[f"{prefix}embed_tokens.weight"] = self._embeddings(text_tokens)
        for index in range(2):
            layer = f"{prefix}layers.{index}."
            for name, rows in (("q", 32), ("k", 16), ("v", 16)):
                self._normal(f"{layer}self_attn.{name}_proj", rows, _HIDDEN)
            self._normal(f"{layer}self_attn.o_proj", _HIDDEN, 32)
            for name in "qk":
                self._constant(f"{layer}self_attn.{name}_norm", 16, 0.7)
            for name in ("gate", "up"):
                self._normal(f"{layer}mlp.{name}_proj", 2 * _HIDDEN, _HIDDEN)
            self._normal(f"{layer}mlp.down_proj", _HIDDEN, 2 * _HIDDEN)
            for name in ("input", "pre_feedforward"):
                self._constant(f"{layer}{name}_layernorm", _HIDDEN)
            for name in ("post_attention", "post_feedforward"):
                self._constant(f"{layer}{name}_layernorm", _HIDDEN, 4.0)
                self._weights[f"{layer}{name}_layernorm.weight"][0] = 0
        self._constant(f"{prefix}norm", _HIDDEN, 1.5)

    def _embeddings(self, text_tokens: int) -> npt.NDArray[np.float16]:
        """Dimension 0 is a lane that no layer writes: +1 for text and ends, -8 for all others, whose tied logits it
        pushes far down."""
        table = np.zeros((_VOCABULARY, _HIDDEN), np.float16)
        table[:, 0] = -8
        texts = slice(_FIRST_TEXT_ID, _FIRST_TEXT_ID + text_tokens)
        table[texts] = self._rng.standard_normal((text_tokens, _HIDDEN)) * 0.7
        table[texts, 0] = 1
        for token in ("<bos>", "<|turn>", "<|image>", "<image|>", "<|audio>", "<audio|>", "<eos>", "<turn|>"):
            table[_SPECIAL[token]] = self._rng.standard_normal(_HIDDEN) * 0.7
            table[_SPECIAL[token], 0] = 1 if token in ("<eos>", "<turn|>") else -8
        return table

    def _vision(self) -> None:
        tower = "model.vision_tower."
        self._normal(f"{tower}patch_embedder.input_proj", 16, 16 * 16 * 3, std=0.2)
        positions = (self._rng.standard_normal((2, 256, 16)) * 0.3).astype(np.float16)
        self._weights[f"{tower}patch_embedder.position_embedding_table"] = positions
        layer = f"{tower}encoder.layers.0."
        for name in "qkvo":
            self._normal(f"{layer}self_attn.{name}_proj", 16, 16)
        for name in "qk":
            self._constant(f"{layer}self_attn.{name}_norm", 8)
        for name in ("gate", "up"):
            self._normal(f"{layer}mlp.{name}_proj", 32, 16)
        self._normal(f"{layer}mlp.down_proj", 16, 32)
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            self._constant(f"{layer}{name}_layernorm", 16)
        self._normal("model.embed_vision.embedding_projection", _HIDDEN, 16)

    def _audio(self) -> None:
        tower = "model.audio_tower."
        sampling = f"{tower}subsample_conv_projection."
        for index, (outputs, inputs) in enumerate(((8, 1), (4, 8))):
            self._normal(f"{sampling}layer{index}.conv", outputs, inputs, 3, 3, std=0.3)
            self._constant(f"{sampling}layer{index}.norm", outputs)
        self._normal(f"{sampling}input_proj_linear", 16, 4 * 32)
        layer = f"{tower}layers.0."
        for name in ("q_proj", "k_proj", "v_proj", "relative_k_proj", "post"):
            self._normal(f"{layer}self_attn.{name}", 16, 16)
        self._weights[f"{layer}self_attn.per_dim_scale"] = np.full(8, 0.5, np.float16)
        for name in ("norm_pre_attn", "norm_post_attn", "norm_out"):
            self._constant(f"{layer}{name}", 16)
        for name in ("feed_forward1", "feed_forward2"):
            self._constant(f"{layer}{name}.pre_layer_norm", 16)
            self._constant(f"{layer}{name}.post_layer_norm", 16)
            self._normal(f"{layer}{name}.ffw_layer_1", 64, 16)
            self._normal(f"{layer}{name}.ffw_layer_2", 16, 64)
        self._constant(f"{layer}lconv1d.pre_layer_norm", 16)
        self._constant(f"{layer}lconv1d.conv_norm", 16)
        self._normal(f"{layer}lconv1d.linear_start", 32, 16)
        self._normal(f"{layer}lconv1d.depthwise_conv1d", 16, 1, 5, std=0.4)
        self._normal(f"{layer}lconv1d.linear_end", 16, 16)
        self._normal(f"{tower}output_proj", 16, 16)
        self._weights[f"{tower}output_proj.bias"] = (self._rng.standard_normal(16) * 0.1).astype(np.float16)
        self._normal("model.embed_audio.embedding_projection", _HIDDEN, 16)
