"""Commands that plan and do runs."""
