"""Tables kept in shape, after a run or on demand: compact, expire, remove files that nobody names."""
