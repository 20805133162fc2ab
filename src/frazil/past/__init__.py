"""Commands on an existing lake: cut, rollback, drop, corrected records."""
