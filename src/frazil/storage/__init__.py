"""The files that sources deliver: list, stat and open them, on a local disk and in object stores.

Nothing here knows what the files mean; sources do.
"""
