"""Commands on what a lake already has: cut, rollback, drop, corrected records."""
