"""Try engines on lakes of Frazil one by one, for the table of docs/engines.md.

    .venv/bin/python -m bench.engines               # everything: about 20 minutes on two cores
    .venv/bin/python -m bench.engines rest-s3-3     # one lake; results of the others are kept

The modules, in the order in which a cell of the table comes about::

    kinds     what is tried: lakes, engines, and what each is asked to do
    orders    what arrives at the source, and the rows that follow from it, by the oracle
    lakes     a lake for each catalog, store and format version, on servers of 127.0.0.1
    asking    the four engines, each asked for rows as its users ask it
    upkeep    maintenance by each engine that has any
    trial     the story of one lake: written, read, travelled, maintained, and written again
    page      the table between the markers of docs/engines.md, from bench/results/engines.json
"""
