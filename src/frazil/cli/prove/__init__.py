"""Commands that prove a lake right."""
