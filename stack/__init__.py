"""The single-host stack: database, object storage, Prefect and workers under one supervisor; imports no Prefect."""
