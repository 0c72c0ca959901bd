"""The engine in this process: `mistralrs` 0.9.5 on the CPU, one bundle, streams only.

Runner methods borrow the runner mutably, so two calls at once raise: one lock around `send`, which returns at once
because every request streams. Dropping the iterator that it returns cancels the sequence in the engine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mistralrs import ChatCompletionRequest, ModelDType, MultimodalArchitecture, Runner, Which

from contracts.artifact import Modality
from contracts.errors import EngineError
from serving.embedded.chat_body import AudioPart, ChatBody, ImagePart, Message, Part, TextPart
from serving.embedded.staged_media import StagedMedia

MESSAGE_CHARACTERS = 2_000

_USAGE = (
    *("completion_tokens", "prompt_tokens", "total_tokens", "avg_tok_per_sec", "avg_prompt_tok_per_sec"),
    *("avg_compl_tok_per_sec", "total_time_sec", "total_prompt_time_sec", "total_completion_time_sec"),
)


class Engine:
    """A loaded model. `route` is what its answers say as `model`."""

    def __init__(self, bundle: Path, route: str, media: StagedMedia, *, slots: int) -> None:
        """Load the bundle; at most `slots` sequences run at once, further ones queue in the engine."""
        self.route = route
        self._bundle = str(bundle)
        self._media = media
        self._lock = threading.Lock()
        which = Which.MultimodalPlain(model_id=self._bundle, arch=MultimodalArchitecture.Gemma4, dtype=ModelDType.F32)
        # The stub's Which has no subclasses; "none" is where a hub token comes from: nowhere.
        # No prefix cache: questions seldom share media, and an answer does not depend on what was asked before
        # (900 distinct pictures: 128-136 MB resident without, 145-152 MB with it, level from 300 on in both).
        self._runner = Runner(which=which, max_seqs=slots, token_source="none", prefix_cache_n=0)  # type: ignore[arg-type]  # noqa: S106

    def start(self, body: ChatBody) -> Iterator[Any]:
        """Read the media and submit; returns the iterator of chunks. Blocks while media are decoded.

        Raises EvidenceError for media that cannot be had, EngineError for what the engine refuses.
        """
        messages = [self._message(message) for message in body.messages]
        try:
            request = ChatCompletionRequest(
                messages=messages,
                model="default",
                stream=True,
                max_tokens=body.max_tokens,
                temperature=body.temperature,
                top_p=body.top_p,
                enable_thinking=body.enable_thinking,
                grammar=body.grammar,
                grammar_type=None if body.grammar is None else "json_schema",
            )
            with self._lock:
                chunks: Any = self._runner.send_chat_completion_request(request)
        except Exception as error:
            raise EngineError("engine-refused", self.said(error)) from None
        return iter(chunks)

    def said(self, error: Exception) -> str:
        """The engine's own words, bounded, without this host's path of the bundle."""
        return str(error).replace(self._bundle, self.route)[:MESSAGE_CHARACTERS]

    def chunk_json(self, chunk: Any) -> dict[str, Any]:
        """A chunk as the engine's own server writes it: its key order, and nulls where it writes nulls."""
        usage = chunk.usage
        return {
            "id": chunk.id,
            "choices": [_choice_json(choice) for choice in chunk.choices],
            "created": chunk.created,
            "model": self.route,
            "system_fingerprint": chunk.system_fingerprint,
            "object": chunk.object,
            "usage": None if usage is None else {name: getattr(usage, name) for name in _USAGE},
        }

    def _message(self, message: Message) -> dict[str, Any]:
        content: Any = message.content
        if not isinstance(content, str):
            content = [self._part(part) for part in content]
        return {"role": message.role, "content": content}

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, TextPart):
            return {"type": "text", "text": part.text}
        if isinstance(part, ImagePart):
            url, modality = part.image_url.url, Modality.IMAGE
        elif isinstance(part, AudioPart):
            url, modality = part.audio_url.url, Modality.AUDIO
        else:
            url, modality = part.video_url.url, Modality.VIDEO
        kind = f"{modality.value}_url"
        return {"type": kind, kind: {"url": self._media.data_url(url, modality)}}


def _choice_json(choice: Any) -> dict[str, Any]:
    delta = {"content": choice.delta.content, "role": choice.delta.role, "tool_calls": None}
    if choice.delta.reasoning_content:
        delta["reasoning_content"] = choice.delta.reasoning_content
    return {"finish_reason": choice.finish_reason, "index": choice.index, "delta": delta, "logprobs": None}
