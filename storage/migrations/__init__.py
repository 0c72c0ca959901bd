"""Migrations of the leases and of the ledger: one revision for each released version that changed a table."""
