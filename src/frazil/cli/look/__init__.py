"""Commands that read a lake and export from it."""
