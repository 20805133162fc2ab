"""The page in the browser: HTML rendered by the server from what ``frazil.api`` returns.

One process on this machine, without a JVM and without requests to other machines. A page asks ``frazil.api`` and
decides nothing; what is drawn is computed in ``draw``, written in ``templates``, and moved by plain modules in
``static``.
"""
