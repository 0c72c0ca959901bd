"""Starts children that die with us and have no rights. Standard library only; knows nothing of media or networks."""
