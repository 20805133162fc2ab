"""The rules of a declaration, one module for each part of it; none looks at files or tables."""
