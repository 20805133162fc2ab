"""Messages to people: one when something becomes wrong, one when it is over."""
