"""Resource definitions and the administrator list of them (spec documents.md, relational.md)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from keyload.contract.base import Choice, Member, Record
from keyload.contract.blobs import BlobPolicy
from keyload.contract.errors import ErrorCode
from keyload.contract.operation import Operation, RequiredGrant


class ResourceKind(Choice):
    """What a resource holds."""

    COLLECTION = "Collection", "Documents, vectors and graph vertices."
    STREAM_SET = "StreamSet", "Event streams."
    WORK_QUEUE = "WorkQueue", "Queue messages, schedules, sagas and transfers."
    TOPIC = "Topic", "Published events."
    GRAPH = "Graph", "Edges."
    TIME_SERIES = "TimeSeries", "Series of samples."
    BLOB_STORE = "BlobStore", "Large objects."


class DocumentAuthority(Choice):
    """What may change the documents of a collection."""

    DOCUMENT = "Document", "Document mutations."
    EVENT_STREAM = "EventStream", "Effects of projections and of subscription processing only."


class RelationalColumnType(Choice):
    """Type of a relational column."""

    TEXT = "Text", "JSON string."
    BOOLEAN = "Boolean", "JSON boolean."
    WHOLE_NUMBER = "WholeNumber", "Signed 64-bit integer."
    FIXED_POINT = "FixedPoint", "Exact decimal."
    UTC_TIMESTAMP = "UtcTimestamp", "Timestamp text with offset zero."


class IndexDefinition(Record, frozen=True, kw_only=True):
    """One secondary index of a collection."""

    name: Annotated[str, Member(format="identifier", meaning="Name, unique inside the resource.")]
    fields: Annotated[
        tuple[str, ...],
        Member(min_items=1, max_items=8, item_format="fieldPointer", meaning="Indexed fields in key order."),
    ]
    unique: Annotated[
        bool, Member(meaning="Refuses two live documents with equal keys in one partition (Conflict).")
    ] = False
    include_null: Annotated[
        bool, Member(meaning="Whether a document with an explicit null in a key field is indexed.")
    ] = True
    include_missing: Annotated[bool, Member(meaning="Whether a document without a key field is indexed.")] = (
        False
    )


class SensitiveFieldPolicy(Record, frozen=True, kw_only=True):
    """Names the field grants that protect one path."""

    path: Annotated[str, Member(format="policyPointer", meaning="Protected path.")]
    classification: Annotated[
        str, Member(format="identifier", meaning="Label of the protection, for people.")
    ]
    raw_read_grant: Annotated[
        str, Member(format="identifier", meaning="Field grant needed to see the value.")
    ] = "pii.read"
    raw_use_grant: Annotated[
        str,
        Member(
            format="identifier",
            meaning="Field grant needed to filter, sort, index, match or label by the value.",
        ),
    ] = "pii.use"
    write_grant: Annotated[
        str, Member(format="identifier", meaning="Field grant needed to write or remove the value.")
    ] = "pii.write"
    required_for_processing: Annotated[
        bool,
        Member(
            meaning=(
                "True = a worker without the read grant gets PermissionDenied on receive instead of a "
                "shortened payload."
            )
        ),
    ] = False


class QueuePolicy(Record, frozen=True, kw_only=True):
    """Limits of one queue lane."""

    max_attempts: Annotated[
        int, Member(scalar="int32", min=1, meaning="Deliveries of one message before it is dead-lettered.")
    ] = 5
    max_stored_messages: Annotated[
        int,
        Member(
            scalar="int64",
            min=1,
            meaning="Messages with a stored body in one lane; above it enqueue is ResourceExhausted.",
        ),
    ] = 100000
    max_stored_bytes: Annotated[
        int,
        Member(
            scalar="int64",
            min=1,
            meaning=(
                "Bytes of stored payload and headers in one lane; above it enqueue is ResourceExhausted."
            ),
        ),
    ] = 1073741824
    max_in_flight_messages: Annotated[
        int,
        Member(
            scalar="int32",
            min=1,
            meaning="Leased messages in one lane; at the limit receive hands out nothing more.",
        ),
    ] = 1000
    max_in_flight_bytes: Annotated[
        int,
        Member(
            scalar="int64",
            min=1,
            meaning="Bytes of leased messages in one lane; at the limit receive hands out nothing more.",
        ),
    ] = 67108864
    max_lease_seconds: Annotated[
        int, Member(scalar="int32", min=1, max=3600, meaning="Longest lease a worker may ask for.")
    ] = 300
    retry_base_milliseconds: Annotated[int, Member(scalar="int32", min=1, meaning="First retry delay.")] = (
        1000
    )
    retry_max_milliseconds: Annotated[
        int, Member(scalar="int32", min=1, meaning="Longest retry delay; not below retryBaseMilliseconds.")
    ] = 300000


class EventRetentionPolicy(Record, frozen=True, kw_only=True):
    """Retention of a topic (CON-112, CON-113)."""

    max_events: Annotated[int, Member(scalar="int64", min=1, meaning="Most retained events.")] = 100000
    max_bytes: Annotated[
        int, Member(scalar="int64", min=1, meaning="Most retained bytes of payload and headers.")
    ] = 1073741824


class RelationalColumn(Record, frozen=True, kw_only=True):
    """One column."""

    name: Annotated[
        str,
        Member(
            format="identifier",
            meaning=(
                "Top-level member name, case-sensitive; not revision, not *, not starting with @; id "
                "only as the primary key."
            ),
        ),
    ]
    type: Annotated[
        RelationalColumnType, Member(meaning="Value type; a number that does not fit exactly is Validation.")
    ]
    nullable: Annotated[
        bool, Member(meaning="True allows the member to be absent or null; false refuses both (Validation).")
    ] = False


class RelationalSchema(Record, frozen=True, kw_only=True):
    """Closed typed rows on top of a document collection."""

    primary_key: Annotated[
        str,
        Member(
            format="identifier",
            meaning="Name of a non-nullable Text column whose value equals the document id.",
        ),
    ]
    columns: Annotated[
        tuple[RelationalColumn, ...],
        Member(
            min_items=1, max_items=256, meaning="Columns with unique names; a row may hold no other member."
        ),
    ]


class ResourceDefinition(Record, frozen=True, kw_only=True):
    """A configured resource."""

    name: Annotated[str, Member(format="identifier", meaning="Name, unique inside the database.")]
    kind: Annotated[ResourceKind, Member(meaning="What the resource holds; fixed after creation.")]
    transaction_domain_id: Annotated[
        str,
        Member(
            format="identifier", meaning="Transaction domain of all its partitions; fixed after creation."
        ),
    ]
    indexes: Annotated[
        tuple[IndexDefinition, ...],
        Member(
            min_items=0,
            max_items=32,
            meaning=(
                "Secondary indexes with unique names; Collection only (otherwise Validation when not "
                "empty); fixed after creation."
            ),
        ),
    ] = ()
    field_policies: Annotated[
        tuple[SensitiveFieldPolicy, ...],
        Member(
            min_items=0,
            max_items=256,
            meaning=(
                "Protected fields of documents, payloads, attributes or tags; replaceable. Validation "
                "when not empty on a BlobStore."
            ),
        ),
    ] = ()
    header_policies: Annotated[
        tuple[SensitiveFieldPolicy, ...],
        Member(
            min_items=0,
            max_items=256,
            meaning=(
                "Protected fields of event and message headers; replaceable. Validation when not empty "
                "on a BlobStore."
            ),
        ),
    ] = ()
    queue_policy: Annotated[
        QueuePolicy,
        Member(meaning="Limits of a WorkQueue; kept without effect on other kinds; fixed after creation."),
    ] = QueuePolicy()
    event_retention: Annotated[
        EventRetentionPolicy,
        Member(meaning="Retention of a Topic; kept without effect on other kinds; fixed after creation."),
    ] = EventRetentionPolicy()
    authority: Annotated[
        DocumentAuthority,
        Member(
            meaning=(
                "EventStream refuses direct document mutations with PermissionDenied; only a "
                "Collection may use it, else Validation; fixed after creation."
            )
        ),
    ] = DocumentAuthority.DOCUMENT
    schema_version: Annotated[
        int,
        Member(
            scalar="int64",
            min=1,
            meaning="1 on creation; exactly expectedSchemaVersion + 1 on replacement, else Validation.",
        ),
    ] = 1
    paused: Annotated[
        bool,
        Member(
            meaning=(
                "Replaceable. On a WorkQueue stops receive and enqueue, on a Topic stops publish and "
                "subscription receive, on a StreamSet stops subscription receive (DispatchPaused); "
                "without effect on other kinds."
            )
        ),
    ] = False
    blob_policy: Annotated[
        BlobPolicy | UnsetType,
        Member(
            meaning=(
                "Limits of a BlobStore, null = the default limits; Validation on other kinds; fixed "
                "after creation."
            )
        ),
    ] = UNSET
    relational_schema: Annotated[
        RelationalSchema | UnsetType,
        Member(
            meaning=(
                "Typed rows; only for a Collection with Document authority, else Validation; fixed "
                "after creation."
            )
        ),
    ] = UNSET


class ConfigureResourceRequest(Record, frozen=True, kw_only=True):
    """Creates a resource or replaces its policy."""

    tenant_id: Annotated[str, Member(format="identifier", meaning="Tenant of the resource.")]
    database_id: Annotated[str, Member(format="identifier", meaning="Database of the resource.")]
    definition: Annotated[ResourceDefinition, Member(meaning="Wanted definition.")]
    expected_schema_version: Annotated[
        int | UnsetType,
        Member(
            scalar="int64",
            min=1,
            meaning=(
                "Null creates the resource, or returns it when an identical one exists; a differing "
                "existing one is then UnsupportedCapability. A number replaces the policy and must be "
                "the current schemaVersion, else RevisionConflict."
            ),
        ),
    ] = UNSET


class AdminResourcesRequest(Record, frozen=True, kw_only=True):
    """Asks for a page of resources."""

    tenant_id: Annotated[str, Member(format="identifier", meaning="Tenant.")]
    database_id: Annotated[str, Member(format="identifier", meaning="Database.")]
    after_name: Annotated[str | None, Member(format="identifier", meaning="Exclusive start name.")] = None
    limit: Annotated[int, Member(scalar="int32", min=1, max=100, meaning="Most resources to return.")] = 50


class AdminResourceInfo(Record, frozen=True, kw_only=True):
    """Metadata of one resource."""

    name: Annotated[str, Member(format="identifier", meaning="Name.")]
    kind: Annotated[ResourceKind, Member(meaning="Kind.")]
    transaction_domain_id: Annotated[str, Member(format="identifier", meaning="Transaction domain.")]
    schema_version: Annotated[int, Member(scalar="int64", min=1, meaning="Schema version.")]
    index_count: Annotated[int, Member(scalar="int32", min=0, max=32, meaning="Number of indexes.")]
    paused: Annotated[bool, Member(meaning="Whether it is paused.")]


class AdminResourcesPage(Record, frozen=True, kw_only=True):
    """A page of resources."""

    items: Annotated[tuple[AdminResourceInfo, ...], Member(meaning="Resources in name order.")]
    next_after_name: Annotated[
        str | None, Member(format="identifier", meaning="Start of the next page; null on the last.")
    ]
    cut_position: Annotated[
        int, Member(scalar="int64", min=0, meaning="Position of the system shard at the read.")
    ]


RESOURCES_CONFIGURE = Operation(
    name="keyload_resources_configure",
    title="Configure a resource",
    description=(
        "Creates a collection, stream set, topic, queue, graph, series set or blob store, or "
        "replaces its policies."
    ),
    feature="catalog",
    aliases=(
        "create a collection",
        "create a queue",
        "create a topic or stream set",
        "add an index to a new collection",
        "define a table schema",
        "protect a sensitive field",
        "pause a queue",
    ),
    stage=1,
    kind="command",
    capability="ConfigureResource",
    request=ConfigureResourceRequest,
    result=ResourceDefinition,
    outer_command_id=True,
    write_identity="commandId",
    http_method="POST",
    http_route="/v1/admin/resources",
    lane="data",
    admission_class="data-other",
    read_only=False,
    destructive=False,
    idempotent=True,
    required_grants=(
        RequiredGrant(
            any_of=("ClusterAdministrator", "SchemaManage"),
            on="request.databaseId and request.definition.name",
        ),
    ),
    notable_errors=(
        ErrorCode.UNSUPPORTED_CAPABILITY,
        ErrorCode.REVISION_CONFLICT,
        ErrorCode.CONFLICT,
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
    ),
)
"""Configure a resource."""

ADMIN_RESOURCES_LIST = Operation(
    name="keyload_admin_resources_list",
    title="List resources",
    description="Returns a page of the resources of one database with kind, schema version and pause state.",
    feature="catalog",
    aliases=(
        "list collections",
        "show all queues and topics",
        "what is in this database",
        "browse the catalog",
        "list tables",
    ),
    stage=1,
    kind="read",
    capability="AdminResources",
    request=AdminResourcesRequest,
    result=AdminResourcesPage,
    http_method="POST",
    http_route="/v1/admin/dashboard/resources",
    lane="data",
    admission_class="data-other",
    read_only=True,
    destructive=False,
    idempotent=True,
    required_grants=(RequiredGrant(any_of=("ClusterAdministrator",), on="caller"),),
    notable_errors=(ErrorCode.PERMISSION_DENIED,),
)
"""List resources."""
