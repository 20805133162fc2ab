"""Changes of key: which row a delete is for, and the values that a row keeps under its new key."""
