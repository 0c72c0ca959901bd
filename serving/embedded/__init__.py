"""The embedded worker's own process: the engine wheel behind a loopback HTTP server."""
