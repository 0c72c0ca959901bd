"""The calibration model and the synthetic world that it was trained on. Not for evidence."""
