"""The steps of a plan, one module each: what one step does to one table, in one commit."""
