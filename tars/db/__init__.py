"""The index. All SQL is here.

A chunk has the same rowid in `chunks`, `vec_chunks` and `chunks_fts`. Rowids are never used again, so a
rowid that a reader has seen always means the same passage or none.
"""

from tars.db.connection import DAMAGE, UNUSABLE, UNWRITABLE, connect, shred, transaction, trouble
from tars.db.rows import (
    HAS_VECTOR,
    NO_VECTOR,
    PENDING,
    WITHHELD,
    FileStamp,
    Filters,
    Identity,
    Passage,
    StoredChunk,
    StoredFile,
    link_name,
    names_of,
)
from tars.db.schema import SCHEMA_VERSION, init_db
from tars.db.store import FEW_SLOTS, Store
from tars.db.writing import delete_chunks_for_file, delete_file, insert_chunks

__all__ = [
    "DAMAGE",
    "FEW_SLOTS",
    "HAS_VECTOR",
    "NO_VECTOR",
    "PENDING",
    "SCHEMA_VERSION",
    "UNUSABLE",
    "UNWRITABLE",
    "WITHHELD",
    "FileStamp",
    "Filters",
    "Identity",
    "Passage",
    "Store",
    "StoredChunk",
    "StoredFile",
    "connect",
    "delete_chunks_for_file",
    "delete_file",
    "init_db",
    "insert_chunks",
    "link_name",
    "names_of",
    "shred",
    "transaction",
    "trouble",
]
