"""Commands that maintain, mark, roll back and drop the tables of a lake."""
