"""Write tables of the lake: transactions, data and delete files, branches, tags and orphan files.

Must not know what the rows mean.
"""

from __future__ import annotations
