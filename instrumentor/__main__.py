"""Runs the `instrument` command as `python -m instrumentor`."""

from instrumentor.cli import main

if __name__ == "__main__":
    main()
