"""alembic's environment, run by storage.migrations.upgrading: the connection and its transaction are the caller's.

SQLite cannot alter most of a table in place, hence batches (alembic's documentation, "Running Batch Migrations").
"""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes["metadata"],
    render_as_batch=True,
)
context.run_migrations()
