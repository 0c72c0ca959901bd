"""Hostile URLs and hostile bytes: the parent side, and children/ that run confined."""
