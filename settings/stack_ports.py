"""The ports of the single-host stack that are yours to choose; 0 takes a free one and keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StackPorts:
    """Loopback ports of `mosaic up`."""

    prefect: int = 0  # API and UI
    worker: int = 0
    s3: int = 0
    postgres: int = 0

    @property
    def chosen(self) -> Mapping[str, int]:
        """Those that are not left to us."""
        return {name: port for name, port in asdict(self).items() if port}


def port(value: Any) -> int:
    """A port, or 0. Raises ValueError."""
    try:
        number = -1 if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= 65535:
        raise ValueError(f"expected a port, or 0 for a free one, got {value!r}")
    return number
