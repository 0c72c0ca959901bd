"""Environment and files to frozen settings, once. The only reader of `os.environ`; knows no Prefect."""
