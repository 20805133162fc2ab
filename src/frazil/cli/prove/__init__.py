"""Commands that prove the tables of a lake, and test rules on them."""
