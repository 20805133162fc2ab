"""Geometry of the drawings, as values: no HTML, no queries."""
