"""Answers reads from one committed cut: rights first, then the handler, then the size of the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import whole
from keyload.contract.operations import OPERATIONS
from keyload.link import log
from keyload.link.log import Category
from keyload.link.messages import Read
from keyload.models import READS
from keyload.models.budget import Budget
from keyload.models.catalog import FreshCatalog
from keyload.models.context import CatalogView, NodeFacts, PartitionKey, ReadContext, ReadHandler
from keyload.models.partitions import load_meta
from keyload.models.partitions.head import NO_ENTRY, partition_entry
from keyload.models.security.identity import rights_of_call
from keyload.models.security.rights import Rights, rights_of
from keyload.storage.txn import Reader
from keyload.worker import answers
from keyload.worker.batch import Answer

MAX_RESULT_BYTES = whole("read.maxResultBytes")

_CLOSED = answers.again(
    KeyLoadError(ErrorCode.OWNERSHIP_LOST, "The partition is being placed; ask again later.")
)


class ReadAnswerer:
    """Answers the reads of one shard."""

    def __init__(
        self, *, shard: int, incarnation: str, data_shards: int, reads: Mapping[str, ReadHandler] = READS
    ) -> None:
        self._shard = shard
        self._incarnation = incarnation
        self._data_shards = data_shards
        self._reads = reads
        self._decoders = {name: _decoder(name) for name in reads}

    def answer(
        self,
        read: Read,
        reader: Reader,
        catalog: CatalogView,
        *,
        now: int,
        budget: Budget | None = None,
        node: NodeFacts | None = None,
    ) -> Answer:
        """Answer one read at the cut of `reader`; `now` is the node's clock in ticks.

        An unexpected failure is `OwnershipLost`: nothing was changed and the caller may ask again.
        """
        try:
            return self._answer(read, reader, catalog, now, budget or Budget(), node)
        except KeyLoadError as error:
            return answers.refusal(error)
        except Exception as error:
            log.failure(Category.READ_FAILED, error)
            return answers.refused(ErrorCode.OWNERSHIP_LOST, "The read met an internal failure.")

    def _answer(
        self,
        read: Read,
        reader: Reader,
        catalog: CatalogView,
        now: int,
        budget: Budget,
        node: NodeFacts | None,
    ) -> Answer:
        view = FreshCatalog(reader) if self._shard == 0 else catalog
        parse = Rights if self._shard == 0 else rights_of
        rights = rights_of_call(view, read.principal, read.credential, now, parse)
        if rights is None:
            return answers.refused(ErrorCode.UNAUTHENTICATED, "There is no valid current identity.")
        handler = self._reads.get(read.operation)
        if handler is None:
            return answers.refused(ErrorCode.NOT_FOUND, "There is no such read.")
        request = self._decoders[read.operation](read.payload)
        partition: PartitionKey | None = read.partition
        entry = NO_ENTRY if partition is None else partition_entry(reader, partition)
        if read.epoch <= entry.closed:
            return _CLOSED
        context = ReadContext(
            reader=reader,
            rights=rights,
            catalog=view,
            partition=partition,
            partition_number=entry.number,
            cut=load_meta(reader).position,
            now=now,
            incarnation=self._incarnation,
            data_shards=self._data_shards,
            budget=budget,
            node=node,
        )
        handler.authorize(context, request)
        answer = answers.success(handler.execute(context, request))
        if len(answer.payload) > MAX_RESULT_BYTES:
            return answers.refused(
                ErrorCode.BUDGET_EXCEEDED, "The result is larger than one read may return."
            )
        return answer


def _decoder(operation: str) -> Any:
    request = OPERATIONS[operation].request
    return msgspec.msgpack.Decoder(type(None) if request is None else request).decode
