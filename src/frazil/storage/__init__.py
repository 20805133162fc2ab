"""The files that sources deliver: list, stat and open them, on a local disk and in object stores.

Sources know the meaning of the files; nothing about it belongs here.
"""
