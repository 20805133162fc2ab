"""Commands that look at a lake and export from it."""
