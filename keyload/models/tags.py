"""The one byte that follows the partition number in every key: which model, or which record of the shard,
owns it.

One list for all models, so that two of them can never share a key range. Order matters to nobody.
"""

from __future__ import annotations

# In the shard's own space (partition number 0).
SHARD_META = b"m"
DIRECTORY = b"p"
CATALOG = b"r"
OUTCOME_LOG = b"l"
RESTORE = b"t"

# In the space of a partition, and of the global scope.
HEAD = b"h"
OUTCOME = b"o"
OUTBOX = b"x"
COLLECTION = b"c"
DOCUMENT = b"d"
INDEX = b"i"
