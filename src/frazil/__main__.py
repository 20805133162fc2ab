"""Run the command line as ``python -m frazil``, for example where the script is not on the path."""

from __future__ import annotations

from frazil.cli import main

if __name__ == "__main__":
    main()
