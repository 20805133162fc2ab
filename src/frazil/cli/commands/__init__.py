"""The commands: one module for each kind, in which every command is a function of its name."""
