"""Fixtures of the whole session: servers that are started once, for whichever test asks first."""

from __future__ import annotations

from tests.services.postgres import postgres
from tests.services.rclone import rclone
from tests.services.seaweed import seaweed

__all__ = ["postgres", "rclone", "seaweed"]
