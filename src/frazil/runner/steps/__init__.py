"""The steps of a plan, one module each; a step makes one commit to one table."""
