"""What media may cost: the encoded bytes of a question, and what those of a question and of a bundle decode to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from contracts.artifact import Modality
from contracts.errors import MediaRejected
from contracts.limits import Limits


class DecodedBudget:
    """Decoded pixels and samples that are left, by the rule that bounds them. Each is spent and judged by itself."""

    def __init__(self, allowed: Mapping[str, int]) -> None:
        self._allowed = dict(allowed)
        self._left = dict(allowed)

    @classmethod
    def of_question(cls, limits: Limits) -> DecodedBudget:
        """What one question's media may decode to, decoded anew or not."""
        return cls({"question-pixels": limits.question_pixels, "question-samples": limits.question_samples})

    @classmethod
    def of_bundle(cls, limits: Limits) -> DecodedBudget:
        """What may be decoded for one bundle in one run."""
        return cls({"bundle-pixels": limits.bundle_pixels, "bundle-samples": limits.bundle_samples})

    def check(self) -> None:
        """Raise MediaRejected where so much was spent that nothing may be decoded any more."""
        for rule, left in self._left.items():
            if left < 0:
                self._refuse(rule)

    def spend(self, findings: Mapping[str, Any]) -> None:
        """Take off what a medium was decoded to. Raises MediaRejected by the rule of what is too much with it."""
        costs = (_product(findings, "width", "height", "frames"), _product(findings, "samples", "channels"))
        for rule, cost in zip(self._left, costs, strict=True):
            self._left[rule] -= cost
        self.check()

    def _refuse(self, rule: str) -> None:
        allowed, what = self._allowed[rule], rule.partition("-")[2]
        reason = f"expected at most {allowed} decoded {what}, got {allowed - self._left[rule]} with this part"
        raise MediaRejected(rule, reason)


class MediaBudget:
    """What the parts of one question may still have together: encoded bytes, decoded pixels, decoded samples."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = limits.question_bytes
        self._decoded = DecodedBudget.of_question(limits)

    def allowance(self, modality: Modality) -> int:
        """How many bytes the next part of `modality` may have. Raises MediaRejected when nothing is left."""
        if self._bytes <= 0:
            allowed = self._limits.question_bytes
            raise MediaRejected("question-bytes", f"the media before this one used up the question's {allowed} bytes")
        own: int = getattr(self._limits, f"{modality.value}_bytes")
        return min(own, self._bytes)

    def spend(self, size_bytes: int, findings: Mapping[str, Any]) -> None:
        """Take off a part's bytes and what they were decoded to. Raises as `DecodedBudget.spend` does."""
        self._bytes -= size_bytes
        self._decoded.spend(findings)


def _product(findings: Mapping[str, Any], *names: str) -> int:
    """The product of counts that a confined child found: 0 where one is none, so that no lie gives anything back."""
    counts = [value if isinstance(value := findings.get(name), int) and value > 0 else 0 for name in names]
    return math.prod(counts)
