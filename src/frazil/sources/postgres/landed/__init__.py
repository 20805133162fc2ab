"""Landing files of a slot: initial rows and changes, written and read."""
