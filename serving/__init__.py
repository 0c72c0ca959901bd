"""The worker's host: launch and supervise an engine, readiness, probes, and the calibration model."""
