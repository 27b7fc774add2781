"""Resource definitions, the dispatch switch, and the rows of the system shard that the catalog is fed
from."""

from keyload.models.catalog.rows import CATALOG_RANGE, FreshCatalog, parse_row_key, row_key

__all__ = ["CATALOG_RANGE", "FreshCatalog", "parse_row_key", "row_key"]
