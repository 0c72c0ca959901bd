"""Revisions of the ledger. What is here is history: it names no table of storage.schema, which moves on."""
