"""`python -m cli`: what the launcher runs."""

from cli.app import main

main()
