"""A process that follows a source, as other programs see it: metrics and probes over HTTP."""
