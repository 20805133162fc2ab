"""A script for ``spark-submit``: the command ``frazil``, on the cluster and with the settings of the submission."""

from __future__ import annotations

from frazil.cli import main

if __name__ == "__main__":
    main()
