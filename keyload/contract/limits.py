"""Every numeric limit of the contract: value, unit, the code of its breach and the reason it exists.

`LIMITS` is the whole table; the constants below it are those that code names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from keyload.contract.errors import ErrorCode


class Limit(msgspec.Struct, frozen=True):
    """One limit; exactly at it a call passes (CON-53). A configurable one is a setting's default."""

    key: str
    value: int | float
    unit: str | None
    meaning: str
    error: ErrorCode | None = None
    configurable: bool = False


_VALIDATION = ErrorCode.VALIDATION
_EXHAUSTED = ErrorCode.RESOURCE_EXHAUSTED
_BUDGET = ErrorCode.BUDGET_EXCEEDED
_TOKEN = ErrorCode.TOKEN_INVALIDATED
_CURSOR = ErrorCode.CURSOR_EXPIRED
_UNAUTHENTICATED = ErrorCode.UNAUTHENTICATED

_LIMITS = (
    Limit("identifier.maxBytes", 256, "UTF-8 bytes", "Longest identifier.", _VALIDATION),
    Limit("fieldPath.maxChars", 1024, "characters", "Longest field path.", _VALIDATION),
    Limit(
        "token.maxChars",
        16384,
        "characters",
        ("Longest cursor, batch token or delivery token; transfer tokens may be as long as batch.maxBytes."),
        _TOKEN,
    ),
    Limit("apiKey.maxBytes", 512, "UTF-8 bytes", "Longest API key text.", _UNAUTHENTICATED),
    Limit(
        "apiKey.minRootChars",
        32,
        "characters",
        "Shortest bootstrap key; the server refuses to start with a shorter one.",
    ),
    Limit("request.maxDepth", 64, "levels", "Nesting of a request.", _VALIDATION),
    Limit("jsonText.maxDepth", 32, "levels", "Nesting of a JSON text member.", _VALIDATION),
    Limit("jsonText.maxBytes", 1048576, "UTF-8 bytes", "Size of a JSON text member.", _EXHAUSTED),
    Limit("number.maxDigits", 34, "digits", "Significant digits of a number inside JSON text.", _VALIDATION),
    Limit("number.minExponent", -6144, "power of ten", "Lowest exponent in scientific form.", _VALIDATION),
    Limit("number.maxExponent", 6144, "power of ten", "Highest exponent in scientific form.", _VALIDATION),
    Limit(
        "batch.maxMutations",
        256,
        "mutations",
        "Mutations of one command, expanded effects included.",
        _EXHAUSTED,
    ),
    Limit("batch.maxBytes", 8388608, "bytes", "Encoded mutations of one command.", _EXHAUSTED),
    Limit("batch.maxPatchSteps", 256, "steps", "Steps of one patch.", _EXHAUSTED),
    Limit("batch.maxEvents", 256, "events", "Events of one append or publish.", _EXHAUSTED),
    Limit("batch.maxSamples", 256, "samples", "Samples of one append.", _EXHAUSTED),
    Limit("read.maxExaminedRecords", 10000, "records", "Records examined by one read.", _BUDGET),
    Limit("read.maxReadBytes", 67108864, "bytes", "Stored bytes read by one read.", _BUDGET),
    Limit("read.maxResultBytes", 8388608, "bytes", "Encoded result of one read.", _BUDGET),
    Limit("read.deadlineSeconds", 30, "seconds", "Time of one read.", _BUDGET),
    Limit("read.defaultPage", 100, "items", "Page size when none is given."),
    Limit(
        "read.maxPage",
        1000,
        "items",
        "Greatest page size; feeds and projections answer BudgetExceeded instead.",
        _VALIDATION,
    ),
    Limit(
        "read.maxConcurrentAnalytical",
        16,
        "calls",
        "Queries, live queries and searches running at once on a node.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit("query.maxTextBytes", 65536, "UTF-8 bytes", "Query text, comments included.", _BUDGET),
    Limit("query.maxTokens", 2048, "tokens", "Tokens of a query text.", _BUDGET),
    Limit("query.maxDepth", 32, "levels", "Nesting of conditions and of comments.", _BUDGET),
    Limit("query.maxPredicateNodes", 1024, "nodes", "Conditions and operands of one query.", _BUDGET),
    Limit("query.maxProjection", 256, "entries", "Output members.", _BUDGET),
    Limit("query.maxOrder", 16, "keys", "Sort keys.", _BUDGET),
    Limit("query.maxInValues", 1000, "values", "Values of one IN list.", _BUDGET),
    Limit("query.maxParameters", 256, "parameters", "Parameters of one call.", _BUDGET),
    Limit("query.defaultLimit", 100, "rows", "LIMIT when the text gives none."),
    Limit("query.maxLimit", 1000, "rows", "Greatest LIMIT.", _VALIDATION),
    Limit("query.maxPartitions", 8, "partitions", "Partitions of one query.", _VALIDATION),
    Limit("query.cursorLifetimeSeconds", 900, "seconds", "Life of a query cursor.", _CURSOR),
    Limit("search.defaultLimit", 10, "hits", "Hits when no limit is given."),
    Limit("search.maxLimit", 1000, "hits", "Greatest limit.", _VALIDATION),
    Limit("search.maxAllowedIds", 10000, "ids", "Ids of allowedIds.", _BUDGET),
    Limit("search.defaultFusionConstant", 60, None, "Constant K of the rank fusion."),
    Limit("search.bm25K1", 1.2, None, "Term saturation of the text score."),
    Limit("search.bm25B", 0.75, None, "Length weight of the text score."),
    Limit("search.maxDocumentTokens", 65536, "tokens", "Words of one searched field.", _BUDGET),
    Limit("search.maxTokenChars", 4096, "characters", "Longest word.", _BUDGET),
    Limit("search.maxCorpusTokens", 1048576, "tokens", "Words of all searched fields of one call.", _BUDGET),
    Limit("vector.maxDimension", 4096, "components", "Greatest vector dimension.", _VALIDATION),
    Limit("graph.maxDepth", 16, "hops", "Greatest depth of a walk; the lowest is 0.", _BUDGET),
    Limit("graph.maxVertices", 10000, "vertices", "Greatest vertex cap of a walk.", _BUDGET),
    Limit("graph.maxEdges", 50000, "edges", "Greatest edge cap of a walk.", _BUDGET),
    Limit("graph.maxLabels", 64, "labels", "Labels of one walk.", _VALIDATION),
    Limit(
        "graph.maxPendingReverseEdges",
        10000,
        "records",
        "Undelivered reverse-edge intents of one partition.",
        _EXHAUSTED,
    ),
    Limit("series.maxAggregateSamples", 10000, "samples", "Greatest sample cap of an aggregate.", _BUDGET),
    Limit("series.maxWindows", 1000, "windows", "Greatest window cap.", _BUDGET),
    Limit("series.defaultExpireDeletes", 128, "samples", "Samples removed by one expire when none is given."),
    Limit("series.maxExpireDeletes", 256, "samples", "Most samples removed by one expire.", _VALIDATION),
    Limit("events.cursorLifetimeHours", 24, "hours", "Life of an event cursor.", _CURSOR),
    Limit("messages.maxReceive", 100, "items", "Messages or events of one receive.", _VALIDATION),
    Limit("messages.examinePage", 256, "records", "Ready records that one receive looks at."),
    Limit("messages.defaultLeaseSeconds", 30, "seconds", "Lease when none is given."),
    Limit("messages.defaultRenewSeconds", 30, "seconds", "Renewal when none is given."),
    Limit("messages.maxLeaseSeconds", 3600, "seconds", "Greatest lease a policy may allow.", _VALIDATION),
    Limit("messages.maxRetryExponent", 20, None, "Greatest power of two in the retry delay."),
    Limit("subscriptions.maxWindow", 4096, "positions", "Greatest window a policy may allow.", _VALIDATION),
    Limit("subscriptions.maxAttempts", 1000, "attempts", "Most attempts a policy may allow.", _VALIDATION),
    Limit("subscriptions.maxEventTypes", 128, "types", "Event types of one filter.", _VALIDATION),
    Limit("schedules.minIntervalSeconds", 1, "seconds", "Shortest interval.", _VALIDATION),
    Limit("schedules.maxIntervalDays", 365, "days", "Longest interval.", _VALIDATION),
    Limit("schedules.maxTimeToLiveDays", 365, "days", "Longest message life.", _VALIDATION),
    Limit("schedules.maxOccurrences", 32, "occurrences", "Occurrences of one emit.", _VALIDATION),
    Limit(
        "coordination.maxRecordsPerLane",
        10000,
        "records",
        "Transfers, schedules and sagas kept by one lane, each kind counted apart.",
        _EXHAUSTED,
    ),
    Limit(
        "coordination.maxBytesPerLane",
        8388608,
        "bytes",
        "Bytes of those records, each kind counted apart.",
        _EXHAUSTED,
    ),
    Limit("resources.maxIndexes", 32, "indexes", "Indexes of one collection.", _VALIDATION),
    Limit("resources.maxIndexFields", 8, "fields", "Fields of one index.", _VALIDATION),
    Limit(
        "resources.maxFieldPolicies",
        256,
        "policies",
        "Field policies of one resource; header policies likewise.",
        _VALIDATION,
    ),
    Limit("resources.maxColumns", 256, "columns", "Columns of one relational schema.", _VALIDATION),
    Limit(
        "principals.maxGrants",
        256,
        "grants",
        "Grants of one principal; field grants and projects likewise.",
        _VALIDATION,
    ),
    Limit("changes.cursorLifetimeHours", 24, "hours", "Life of a change or live-query cursor.", _TOKEN),
    Limit("changes.defaultBytes", 4194304, "bytes", "Byte bound of a page when none is given."),
    Limit("changes.maxBytes", 8388608, "bytes", "Greatest byte bound of a page.", _BUDGET),
    Limit(
        "outbox.maxRecords",
        100000,
        "entries",
        "Entries kept by one partition.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "outbox.maxBytes", 1073741824, "bytes", "Bytes kept by one partition.", _EXHAUSTED, configurable=True
    ),
    Limit(
        "outbox.reservedRecords",
        16384,
        "entries",
        "Extra entries that only advancing projections may use.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "outbox.reservedBytes",
        2147483648,
        "bytes",
        "Extra bytes that only advancing projections may use.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit("outbox.maxPurge", 1000, "entries", "Entries removed by one purge.", _VALIDATION),
    Limit("projections.maxConsumers", 64, "consumers", "Active consumers of one partition.", _EXHAUSTED),
    Limit("projections.maxBatchBytes", 16777216, "bytes", "Greatest byte bound of a batch.", _BUDGET),
    Limit("projections.tokenLifetimeMinutes", 5, "minutes", "Life of a batch token.", _TOKEN),
    Limit("projections.maxResources", 256, "resources", "Resources of one filter.", _VALIDATION),
    Limit("projections.maxMutationKinds", 32, "kinds", "Kinds of one filter.", _VALIDATION),
    Limit("blobs.partBytes", 65536, "bytes", "Size of every part but the last.", _VALIDATION),
    Limit("blobs.maxParts", 16384, "parts", "Parts of one version.", _VALIDATION),
    Limit("blobs.maxRangeBytes", 65536, "bytes", "Bytes of one range read.", _VALIDATION),
    Limit("blobs.maxBlobBytes", 1073741824, "bytes", "Greatest blob any policy may allow.", _EXHAUSTED),
    Limit(
        "blobs.storeMaxReservedBytes",
        1073741824,
        "bytes",
        "Stored plus reserved bytes over all blob stores of one shard.",
        _EXHAUSTED,
    ),
    Limit("blobs.storeMaxObjectKeys", 8192, "ids", "Blob ids over all blob stores of one shard.", _EXHAUSTED),
    Limit(
        "blobs.storeMaxVersions", 16384, "versions", "Versions over all blob stores of one shard.", _EXHAUSTED
    ),
    Limit(
        "blobs.storeMaxUploads",
        1024,
        "uploads",
        "Active uploads over all blob stores of one shard.",
        _EXHAUSTED,
    ),
    Limit("blobs.maxReclaimParts", 128, "parts", "Parts removed by one reclaim.", _VALIDATION),
    Limit("blobs.maxList", 100, "blobs", "Blobs of one list page.", _VALIDATION),
    Limit("blobs.maxMetadataBytes", 16384, "bytes", "Stored metadata of one blob.", _EXHAUSTED),
    Limit("blobs.minUploadTtlSeconds", 60, "seconds", "Shortest upload life a policy may set.", _VALIDATION),
    Limit(
        "blobs.maxUploadTtlSeconds", 86400, "seconds", "Longest upload life a policy may set.", _VALIDATION
    ),
    Limit("placement.maxAssignments", 4096, "rows", "Explicit placement rows.", _BUDGET),
    Limit("placement.maxRecordBytes", 8192, "bytes", "Stored size of one placement row.", _VALIDATION),
    Limit("admin.defaultPage", 50, "items", "Page size of the administrator lists."),
    Limit("admin.maxPage", 100, "items", "Greatest page size of the administrator lists.", _VALIDATION),
    Limit("admin.maxFilesVisited", 2048, "files", "Files looked at by one dashboard call."),
    Limit("admin.maxFilesReturned", 200, "files", "Files returned by one dashboard call."),
    Limit("admin.fileBudgetMilliseconds", 250, "milliseconds", "Time of the file walk."),
    Limit("admin.maxRecentFailures", 100, "entries", "Failures kept for the dashboard."),
    Limit(
        "http.maxBodyBytes",
        8388608,
        "bytes",
        "Data body; may be set to 1..33554432.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "http.maxControlBodyBytes",
        65536,
        "bytes",
        "Control body; not above http.maxBodyBytes.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit("http.maxDataReplyBytes", 16777216, "bytes", "Data reply.", _BUDGET),
    Limit("http.maxControlReplyBytes", 65536, "bytes", "Control reply.", _BUDGET),
    Limit("http.maxClientProblemBytes", 65536, "bytes", "Problem body a client reads."),
    Limit(
        "admission.http.maxRequests",
        512,
        "requests",
        "Data requests held at once.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.maxReservedBytes",
        2147483648,
        "bytes",
        "Bytes reserved by data requests.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.maxTenantRequests",
        256,
        "requests",
        "Data requests of one tenant.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.maxPrincipalRequests",
        128,
        "requests",
        "Data requests of one principal.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.reservedControlRequests",
        64,
        "requests",
        "Control requests held at once.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.reservedControlBytes",
        33554432,
        "bytes",
        "Bytes reserved by control requests.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.maxTenantControlRequests",
        32,
        "requests",
        "Control requests of one tenant.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.maxPrincipalControlRequests",
        32,
        "requests",
        "Control requests of one principal.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.heavyReadReservedBytes",
        67108864,
        "bytes",
        "Working space reserved for a heavy read; 0..1073741824.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.http.otherReservedBytes",
        1048576,
        "bytes",
        "Working space reserved for other data requests; 0..1073741824.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.maxCommands",
        1024,
        "commands",
        "Data commands held at once.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.maxRetainedBytes",
        134217728,
        "bytes",
        "Bytes held by data commands.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.maxTenantCommands",
        512,
        "commands",
        "Data commands of one tenant.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.maxPrincipalCommands",
        256,
        "commands",
        "Data commands of one principal.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.reservedControlCommands",
        128,
        "commands",
        "Control commands held at once.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.reservedControlBytes",
        16777216,
        "bytes",
        "Bytes held by control commands.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.maxControlPayloadBytes",
        65536,
        "bytes",
        "Payload of one control command.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.maxTenantControlCommands",
        64,
        "commands",
        "Control commands of one tenant.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.maxPrincipalControlCommands",
        64,
        "commands",
        "Control commands of one principal.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "admission.command.writerQueue",
        1024,
        "commands",
        "Commands waiting in one shard.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "mcp.maxDataBytes",
        2147483648,
        "bytes",
        "Memory of data calls through MCP.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "mcp.maxControlBytes",
        134217728,
        "bytes",
        "Memory of control calls through MCP.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit(
        "mcp.maxIngressBytes",
        1073741824,
        "bytes",
        "Memory of MCP frames being received.",
        _EXHAUSTED,
        configurable=True,
    ),
    Limit("gateway.maxQueryBytes", 2048, "UTF-8 bytes", "Task text of search and route.", _VALIDATION),
    Limit("gateway.defaultResults", 3, "operations", "Matches of a search when none is given."),
    Limit("gateway.maxResults", 4, "operations", "Most matches of a search.", _VALIDATION),
    Limit(
        "gateway.maxCategories", 2, "categories", "Most categories of a route, also the default.", _VALIDATION
    ),
    Limit(
        "gateway.maxToolsPerCategory",
        2,
        "operations",
        "Most operations per category, also the default.",
        _VALIDATION,
    ),
    Limit("gateway.maxGuideBytes", 8192, "UTF-8 bytes", "Size of the guide and of the prompt."),
    Limit("gateway.maxOperations", 256, "operations", "Operations a catalog may hold."),
    Limit("gateway.maxMetadataBytes", 4194304, "bytes", "Size of all operation descriptions and schemas."),
    Limit("gateway.maxDescriptorChars", 4096, "characters", "Size of one operation description."),
    Limit(
        "replayWorker.maxEvents",
        4096,
        "events",
        "Events a client-side reducer folds in one run.",
        _BUDGET,
        configurable=True,
    ),
    Limit(
        "replayWorker.maxStateBytes",
        1048576,
        "bytes",
        "State of a client-side reducer.",
        _BUDGET,
        configurable=True,
    ),
    Limit(
        "replayWorker.maxInputBytes",
        16777216,
        "bytes",
        "Input of a client-side reducer.",
        _BUDGET,
        configurable=True,
    ),
    Limit(
        "replayWorker.maxJsonDepth",
        64,
        "levels",
        "Nesting of its state and input.",
        _BUDGET,
        configurable=True,
    ),
)

LIMITS: Mapping[str, Limit] = MappingProxyType({limit.key: limit for limit in _LIMITS})
"""All limits by key, in the order of the contract."""


def whole(key: str) -> int:
    """Value of a limit that is a whole number."""
    value = LIMITS[key].value
    assert isinstance(value, int)
    return value


IDENTIFIER_MAX_BYTES = whole("identifier.maxBytes")
TOKEN_MAX_CHARS = whole("token.maxChars")
REQUEST_MAX_DEPTH = whole("request.maxDepth")
JSON_TEXT_MAX_DEPTH = whole("jsonText.maxDepth")
JSON_TEXT_MAX_BYTES = whole("jsonText.maxBytes")
NUMBER_MAX_DIGITS = whole("number.maxDigits")
NUMBER_MIN_EXPONENT = whole("number.minExponent")
NUMBER_MAX_EXPONENT = whole("number.maxExponent")
BATCH_MAX_MUTATIONS = whole("batch.maxMutations")
BATCH_MAX_BYTES = whole("batch.maxBytes")
