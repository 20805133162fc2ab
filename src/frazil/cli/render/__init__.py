"""What functions of :mod:`frazil.api` return, as text for a terminal."""
