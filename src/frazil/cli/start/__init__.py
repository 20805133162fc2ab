"""Commands to begin with: declarations and the machine."""
