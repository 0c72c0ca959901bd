"""The types of the ledger's columns, each what it should be on SQLite and on PostgreSQL."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Integer, Text

TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared by code point on both: no order that depends on the server's locale, no index that a new libc breaks."""

BIG = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits: sizes in bytes, clock ticks, positions and fences. SQLite counts rows in INTEGER columns only."""

FLAG = Boolean().with_variant(Integer(), "sqlite")
"""True or false, which SQLite keeps as 1 or 0."""
