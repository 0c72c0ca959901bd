"""The demonstration: its own hostile-and-honest origin, real media made at start, the main job, a verified end."""

from cli.demo.command import demo

__all__ = ["demo"]
