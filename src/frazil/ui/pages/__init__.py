"""The pages: one module a page, with a ``Page`` that says its path, its template and what it shows."""
