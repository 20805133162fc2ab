"""Commands that change what a lake already has."""
