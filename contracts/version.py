"""The product's version: in every receipt, and what `--version` prints."""

VERSION = "0.1.0"
