"""What a batch must keep before it is published: rules, limits and brakes.

They stop or count; they change no row.
"""
