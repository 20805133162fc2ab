"""Commands to start with: create and check declarations, and check the machine."""
