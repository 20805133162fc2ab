"""What a run did and what failed, as values and as records of runs.

Nothing is done here.
"""
