"""Commands that remove personal data for good."""
