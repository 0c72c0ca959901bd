"""Thin Prefect flows: parameters, sharding, artifacts. No classes: a path entrypoint would give them two identities."""
