"""Rules over a declaration, one module for each part of it; they read neither files nor tables."""
