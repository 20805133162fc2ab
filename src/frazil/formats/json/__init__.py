"""JSON: lines to objects, and values to the texts that silver reads."""
