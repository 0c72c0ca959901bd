"""Revisions of the leases. What is here is history: it names no table of storage.schema, which moves on."""
