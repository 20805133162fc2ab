"""A table whose rows are spread over several sources of one kind."""
