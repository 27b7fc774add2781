"""`python -m harness api --cases N`: generated requests against a node, held to its own OpenAPI document.

Every answer must have a status, a content type, headers and a body that the document describes; what the
document forbids must be refused, a command sent again must get its first answer, and a refusal must
tell what to correct. Cases are single requests, valid and broken ones, and chains in which one call uses
what the one before it made.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.checks import CHECKS
from schemathesis.core.failures import FailureGroup
from schemathesis.generation.modes import GenerationMode

from harness.cluster import Cluster
from harness.seeds import VARIABLE, seed_of_run
from keyload.codec.decoding import decode_request
from keyload.codec.schema import flags_schema
from keyload.contract import capabilities
from keyload.contract.formats import FORMATS, SCALARS
from keyload.contract.operations import OPERATIONS

STEPS = 8
PROGRESS = 1000
TIMEOUT_SECONDS = 60.0
_CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
_DEFINITE = (200, 404, 409, 422)
_ADMIN_BACKUP = "keyload_admin_backup"
_PARTITION = {
    "tenantId": "$request.body#/tenantId",
    "databaseId": "$request.body#/databaseId",
    "transactionDomainId": "$request.body#/definition/transactionDomainId",
    "partitionKey": "chain",
}
_PUT = {"kind": "putDocument", "collection": "$request.body#/definition/name", "id": "one", "json": "{}"}
_FIRST = "$request.body#/mutations/0"
LINKS: dict[str, dict[str, Any]] = {
    "keyload_resources_configure": {
        "keyload_documents_commit": {"partition": _PARTITION, "ownershipEpoch": 1, "mutations": [_PUT]},
        "keyload_admin_resources_list": {
            "tenantId": "$request.body#/tenantId",
            "databaseId": "$request.body#/databaseId",
        },
    },
    "keyload_documents_commit": {
        "keyload_documents_commit": "$request.body",
        "keyload_documents_get": {
            "reference": {
                "partition": "$request.body#/partition",
                "collection": f"{_FIRST}/collection",
                "id": f"{_FIRST}/id",
            }
        },
        "keyload_admin_partition_placement_read": {"version": 1, "partition": "$request.body#/partition"},
    },
    "keyload_admin_partition_placement_read": {
        "keyload_admin_partition_placement_bind": {
            "version": 1,
            "expectedRevision": "$response.body#/directoryRevision",
            "partition": "$request.body#/partition",
            "physicalShardId": "$response.body#/physicalShardId",
        }
    },
    "keyload_principals_configure": {
        "keyload_credentials_configure": {
            "apiKey": {"id": "chain", "principalId": "$request.body#/principal/id", "verifier": "0" * 64}
        }
    },
}
"""Which call may follow which, and what its body takes over from it; chains add these to the document."""


_CAPABILITIES = st.lists(st.sampled_from([flag.name for flag in capabilities.CAPABILITIES]), min_size=1)
_FORMATS = {
    "keyload-guid": (SCALARS["guid"].schema, st.uuids(allow_nil=True).map(str)),
    "keyload-sha256": (FORMATS["sha256Hex"].schema, st.binary(min_size=32, max_size=32).map(bytes.hex)),
    "keyload-flags": (flags_schema(), _CAPABILITIES.map(", ".join)),
}
_PATTERNS = {schema["pattern"]: name for name, (schema, _) in _FORMATS.items()}
for _name, (_, _strategy) in _FORMATS.items():
    schemathesis.openapi.format(_name, _strategy)


class Findings:
    """What a run saw: answers by status and code, and each kind of failure once."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.failures: dict[str, str] = {}

    @property
    def cases(self) -> int:
        """Requests that were answered."""
        return sum(self.answers.values())

    def lines(self) -> list[str]:
        """The findings for people."""
        table = [f"{count:7d}  {name}" for name, count in sorted(self.answers.items())]
        table += [f"{count:7d}  {name}" for name, count in sorted(self.operations.items())]
        failures = [f"FAILED {name}\n{text}" for name, text in self.failures.items()]
        return [f"{self.cases} cases, {len(self.failures)} kinds of failures", *table, *failures]


class Run:
    """Sends generated cases to one node and judges its answers. All choices come from `seed`."""

    def __init__(self, url: str, key: str, seed: int) -> None:
        self.findings = Findings()
        self._url = url
        self._key = key
        self._seed = seed
        self._session = requests.Session()
        self._headers = {"Authorization": f"Bearer {key}"}
        answer = self._session.get(f"{url}/openapi.json", headers=self._headers, timeout=TIMEOUT_SECONDS)
        answer.raise_for_status()
        self.document: dict[str, Any] = answer.json()
        self._schema = schemathesis.openapi.from_dict(_linked(self.document))
        self._checks = [CHECKS.get_one(name) for name in _CHECKS]

    def close(self) -> None:
        """Close the connections to the node."""
        self._session.close()

    def single(self, cases: int) -> None:
        """Single requests: for each operation half of them valid, half of them broken."""
        operations = [found.ok() for found in self._schema.get_all_operations()]  # pyright: ignore
        each = max(1, cases // (2 * len(operations)))
        for operation in operations:
            name = operation.definition.raw["operationId"]
            modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
            for mode in modes if operation.body or operation.headers or operation.query else modes[:1]:
                count = 1 if name == _ADMIN_BACKUP else each
                self._generate(operation.as_strategy(generation_mode=mode), count)

    def chains(self, cases: int) -> None:
        """Chains of calls; stops when there were as many as wanted."""
        run, wanted = self, self.findings.cases + cases

        class Chain(self._schema.as_state_machine()):  # type: ignore[misc]
            def call(self, case: Any, **options: Any) -> Any:
                return run.send(case)

            def validate_response(self, response: Any, case: Any, **options: Any) -> None:
                pass  # it was judged when it was sent

        number = 0
        while self.findings.cases < wanted:
            before = self.findings.cases
            profile = _profile(max(1, (wanted - before) // STEPS), stateful_step_count=STEPS)
            hypothesis.seed(self._seed + number)(Chain)
            run_state_machine_as_test(Chain, settings=profile)
            number += 1
            if self.findings.cases == before:
                raise RuntimeError("no chain could be made")

    def without_key(self) -> None:
        """Every operation once without and once with a wrong key."""
        for operation in OPERATIONS.values():
            for headers in ({}, {"Authorization": "Bearer nobody.secret"}):
                answer = self._session.request(
                    operation.http_method,
                    self._url + operation.http_route,
                    headers=headers,
                    timeout=TIMEOUT_SECONDS,
                )
                if answer.status_code != 401:
                    self.findings.failures[f"{operation.name} without key"] = f"status {answer.status_code}"

    def options(self) -> dict[str, Any]:
        """How a case is sent."""
        return {
            "base_url": self._url,
            "session": self._session,
            "headers": self._headers,
            "timeout": TIMEOUT_SECONDS,
        }

    def send(self, case: Any) -> Any:
        """The judged answer to a case; a command is sent a second time and must get the same one (CON-58)."""
        response = case.call(**self.options())
        self.judge(case, response)
        operation = OPERATIONS[case.operation.definition.raw["operationId"]]
        if operation.write_identity is not None and response.status_code in _DEFINITE:
            repeated = case.call(**self.options())
            self.judge(case, repeated)
            if (response.status_code, response.content) != (repeated.status_code, repeated.content):
                self._failed(
                    f"{operation.name}: another answer", f"{response.content!r}\n{repeated.content!r}"
                )
        return response

    def judge(self, case: Any, response: Any) -> None:
        """Count an answer and keep what is wrong with it."""
        name = case.operation.definition.raw["operationId"]
        problem = response.json() if response.status_code != 200 else None
        code = "" if problem is None else f" {problem.get('errorCode')}"
        self.findings.answers[f"{response.status_code}{code}"] += 1
        self.findings.operations[name] += 1
        if self.findings.cases % PROGRESS == 0:
            print(f"{self.findings.cases} cases, {len(self.findings.failures)} kinds of failures", flush=True)
        try:
            case.validate_response(response, checks=self._checks, transport_kwargs={"base_url": self._url})
            if problem is not None and code == " Validation":
                check_actionable(name, problem)
        except FailureGroup as group:
            for failure in group.exceptions:
                self._failed(f"{name}: {type(failure).__name__} {response.status_code}", str(group))
        except AssertionError as failure:
            self._failed(f"{name}: {failure}", repr(problem))

    def _failed(self, kind: str, text: str) -> None:
        self.findings.failures.setdefault(kind, text[:4000])

    def _generate(self, strategy: Any, count: int) -> None:
        def one(case: Any) -> None:
            self.send(case)

        test: Callable[[], None] = hypothesis.given(strategy)(one)
        hypothesis.seed(self._seed)(_profile(count)(test))()


def check_actionable(name: str, problem: dict[str, Any]) -> None:
    """A refused request is told place and expectation, and gets an example that would be decoded."""
    operation = OPERATIONS[name]
    assert isinstance(problem.get("path"), str), "no path"
    assert problem.get("expected"), "nothing expected"
    assert problem.get("retry") == "never", "retry"
    if operation.request is not None:
        decode_request(operation, problem["example"])


def _profile(count: int, **more: Any) -> Any:
    return hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),  # pyright: ignore
        **more,
    )


def _linked(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the links of `LINKS`; keys are tried by `Run.without_key`, not with every case."""
    document = {**_quick(document), "security": []}
    by_name = {each["operationId"]: each for path in document["paths"].values() for each in path.values()}
    for name, targets in LINKS.items():
        by_name[name]["responses"]["200"]["links"] = {
            target: {"operationId": target, "requestBody": body} for target, body in targets.items()
        }
    return document


def _quick(tree: Any) -> Any:
    """The document with costly patterns as formats: `_FORMATS` makes their texts at once instead of letter
    by letter, which is two thirds of the time of a run.
    """
    if isinstance(tree, list):
        return [_quick(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    name = _PATTERNS.get(tree["pattern"]) if isinstance(tree.get("pattern"), str) else None
    kept = {key: _quick(value) for key, value in tree.items() if name is None or key != "pattern"}
    return kept if name is None else kept | {"format": name}


def run_cases(url: str, key: str, cases: int, seed: int) -> Findings:
    """Send about so many cases, a quarter of them in chains; what was seen."""
    run = Run(url, key, seed)
    try:
        run.without_key()
        run.single(cases * 3 // 4)
        run.chains(max(1, cases - run.findings.cases))
    finally:
        run.close()
    return run.findings


def command(cases: int, nodes: int) -> int:
    """Run so many cases against a fresh cluster; exit code 0 when every answer was as the document says."""
    seed = seed_of_run()
    print(f"{VARIABLE}={seed}")
    directory = Path(tempfile.mkdtemp(prefix="keyload-api-"))
    began = time.monotonic()
    try:
        with Cluster(directory, nodes=nodes) as cluster:
            findings = run_cases(cluster.urls[0], cluster.key, cases, seed)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(*findings.lines(), sep="\n")
    print(f"{time.monotonic() - began:.0f} s")
    return int(bool(findings.failures))
