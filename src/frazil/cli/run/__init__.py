"""Commands that plan and run."""
