"""CSV files: their form, their lines, their records, and the bytes that give them back."""
