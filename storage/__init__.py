"""Blobs on disk, staging and leases, the ledger (SQL) and its receipts. Knows no other package but contracts."""
