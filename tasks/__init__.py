"""Thin Prefect tasks around pipeline/, and the parameter models of the UI's forms."""
