"""The command line: a thin face. A command imports what it needs when it runs, and Prefect only where it is used."""
