"""The files that sources deliver: list, stat and open them, on a local disk and, one day, in object stores.

Nothing here knows what the files mean; sources do.
"""
