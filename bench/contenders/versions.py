"""Coordinates of the jars that contenders bring beside Frazil's own."""

from __future__ import annotations

from typing import Final

DELTA: Final = "io.delta:delta-spark_4.1_2.13:4.4.0"
