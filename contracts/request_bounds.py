"""The bounds of a question that can be judged without its media's bytes. Each is its own check by its own name."""

from __future__ import annotations

from contracts.artifact import Modality
from contracts.errors import ContractRefused
from contracts.limits import Limits
from contracts.question import MediaPart, Question


def check_bounds(question: Question, limits: Limits) -> None:
    """Raise ContractRefused with every broken bound in its reason, by the name of the first: `question-empty`,
    `question-parts`, `question-images`, `question-audios`, `question-videos`, `prompt-text`, `prompt-bytes`,
    `output-tokens`."""
    broken = _broken(question, limits)
    if broken:
        others = "".join(f"; {rule}: {reason}" for rule, reason in broken[1:])
        raise ContractRefused(broken[0][0], broken[0][1] + others)


def counted(modality: Modality) -> str:
    """The name of the limit on how many parts of `modality` a question has."""
    return f"question_{modality.value}s"


def _broken(question: Question, limits: Limits) -> list[tuple[str, str]]:
    parts = question.parts
    broken = []
    if not parts:
        broken.append(("question-empty", "expected at least one part, got none"))
    if len(parts) > limits.question_parts:
        broken.append(("question-parts", f"expected at most {limits.question_parts} parts, got {len(parts)}"))
    for modality in Modality:
        name = counted(modality)
        most: int = getattr(limits, name)
        got = sum(part.artifact.modality is modality for part in question.media)
        if got > most:
            broken.append((name.replace("_", "-"), f"expected at most {most} {modality.value} parts, got {got}"))
    broken += _broken_text([part.text for part in parts if not isinstance(part, MediaPart)], limits)
    if not 1 <= question.max_output_tokens <= limits.output_tokens:
        reason = f"expected 1 to {limits.output_tokens} tokens, got {question.max_output_tokens}"
        broken.append(("output-tokens", reason))
    return broken


def _broken_text(texts: list[str], limits: Limits) -> list[tuple[str, str]]:
    try:
        size = sum(len(text.encode()) for text in texts)
    except UnicodeEncodeError as error:
        return [("prompt-text", f"a lone surrogate at character {error.start} of a text part")]
    if size > limits.prompt_bytes:
        return [("prompt-bytes", f"expected at most {limits.prompt_bytes} bytes, got {size}")]
    return []
