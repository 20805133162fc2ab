"""The rules of each kind of source: what its settings mean for one another."""
