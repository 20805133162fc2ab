"""The pages: one module a subject, with a ``Page`` for each path, which names its template and what it shows."""
