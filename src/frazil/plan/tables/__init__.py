"""How tables change shape: which columns and layouts a plan alters, and which it builds again."""
