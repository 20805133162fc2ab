"""One table that is spread over several sources of one kind."""
