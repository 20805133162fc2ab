"""Changes of key: the row of each delete, and the values that a row keeps under its new key."""
