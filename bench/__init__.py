"""Benchmarks of Frazil and its peers: the same files in, and a result counts only if the table is right.

The modules, in the order a number passes through them.

::

    cases        what is measured: sizes, shapes of change, contenders
    data         seeded DMS files of a case, kept in build/bench
    contenders   who is measured; one class, or family of classes, a file
    worker       one contender's run, in a process of its own
    meter        wall and CPU seconds of a process tree, and what others took meanwhile
    footprint    bytes added to and removed from a table's folder
    truth        the expected table, computed by DuckDB from the files
    process      starts a worker, measures its memory, waits until all its processes have ended
    turns        prepares tables, runs contenders in turn, returns rows of results
    works        works other than batches on a table: first load, many tables, start, watch
    results      bench/results/*.json, and what machine they come from
    summary      medians, ratios of pairs, and the bars
    draw, page   pictures, docs/benchmarks.md, docs/benchmarks/numbers.md, docs/benchmarks.html

Other modules are commands of their own: ``engines`` tries lakes of Frazil in other engines (docs/engines.md), ``folds``
folds small batches by DuckDB too, ``ui`` measures the page.

Run ``python -m bench list`` to see the works and contenders, ``python -m bench run apply`` for one work.
"""
