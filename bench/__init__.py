"""Frazil side by side with its peers: same files in, same table out, or the number does not count.

The modules, in the order a number passes through them::

    cases        what is measured: sizes, shapes of change, contenders
    data         seeded DMS files of a case, kept in build/bench
    contenders   who is measured; one class, or family of classes, a file
    worker       one contender's run, in a process of its own
    meter        wall and CPU seconds of a process tree, and what others took meanwhile
    footprint    bytes that a table's folder gained and gave up
    truth        what the table must hold at the end, by DuckDB straight from the files
    process      starts a worker, watches its memory, waits until nothing of it is left
    turns        prepared tables, contenders in turn, rows of results
    works        the works that are not batches on a table: first load, many tables, start, watch
    results      bench/results/*.json, and what machine they come from
    summary      medians, ratios of pairs, and the bars
    draw, page   pictures, docs/benchmarks.md, docs/benchmarks/numbers.md, docs/benchmarks.html

Beside all that, ``engines`` tries what other engines do with lakes of Frazil: docs/engines.md.

Run ``python -m bench list`` to see the works and contenders, ``python -m bench run apply`` for one work.
"""
