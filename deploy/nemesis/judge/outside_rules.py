"""Rules of the stream, of clicks, of answers and of the operator's checks."""

import collections
import json

from .evidence import LINK_EVENTS, code
from .links import FOREVER, state_in
from .write_rules import suspended

UNAVAILABLE = {(503, "overloaded"), (503, "storage_unavailable"), (504, "deadline_exceeded")}
BEHIND, SUSPENDED, MISSING = (503, "read_model_behind"), (403, "account_suspended"), (404, "link_not_found")
EXTERNAL_ID_TAKEN, INVALID = (409, "external_id_taken"), (422, "validation_failed")
REFUSALS_OF_CREATES = {(402, "insufficient_credits"), (409, "slug_taken"), EXTERNAL_ID_TAKEN, INVALID,
                       (409, "idempotency_key_in_use"), (422, "idempotency_key_reused")}
# Every answer that the requests of the clients can have (docs/api.md#errors).
ANSWERS = {
    "create": {(201, None), *REFUSALS_OF_CREATES, SUSPENDED},
    "batch": {(207, None), (201, None), (200, None), *REFUSALS_OF_CREATES, SUSPENDED},
    "patch": {(200, None), (412, "etag_mismatch"), (403, "link_disabled_by_operator"), EXTERNAL_ID_TAKEN, INVALID, MISSING,
              SUSPENDED},
    "delete": {(204, None), (412, "etag_mismatch"), SUSPENDED},
    "get": {(200, None), MISSING, SUSPENDED, BEHIND},
    "redirect": {(302, None), (410, "short_link_gone"), MISSING, BEHIND},
    "list": {(200, None), SUSPENDED, BEHIND},
    "credits": {(200, None), BEHIND},
    "clicks": {(200, None)},
    "feed": {(200, None), SUSPENDED},
    "webhook": {(201, None), SUSPENDED, (409, "idempotency_key_in_use")},
    "webhook-secret": {(200, None), SUSPENDED, (409, "idempotency_key_in_use")},
    "webhook-state": {(200, None), SUSPENDED},
    "webhook-deliveries": {(200, None), SUSPENDED},
    # Of the deliveries that were accepted only the newest are kept.
    "webhook-retry": {(202, None), (404, "delivery_not_found"), SUSPENDED},
    "webhook-test": {(202, None), SUSPENDED},
}
# Time before a kill in which a click may not be a record yet.
UNPUBLISHED_S_MAX = 1
# proxy_next_upstream_tries of deploy/ingress.
NGINX_TRIES = 3
# Time that a stop may wait for the broker, and a little more.
STOP_S = 30


def answers_are_of_the_contract(evidence):
    """Each answer is one that the contract has for its request, with the headers of the contract."""
    for operation in evidence.operations:
        allowed = ANSWERS.get(operation["op"])
        if allowed is None or operation["status"] is None:
            continue
        found, headers = (operation["status"], code(operation)), operation["headers"]
        if found not in allowed | UNAVAILABLE:
            yield f"{operation['op']} {operation['id']} was answered {found}: {operation['body'][:200]}"
        if "X-Request-Id" not in headers:
            yield f"the answer to {operation['op']} {operation['id']} has no X-Request-Id"
        if found in (BEHIND, (503, "overloaded")) and "Retry-After" not in headers:
            yield f"the answer {found} to {operation['op']} {operation['id']} has no Retry-After"
        is_write = operation["op"] in ("create", "patch", "delete") and operation["status"] < 300
        if operation["op"] == "batch" and operation["status"] in (200, 201, 207):
            outcomes = json.loads(operation["body"])["items"]
            codes = {(it["status"], it.get("problem", {}).get("code")) for it in outcomes}
            if unknown := codes - ANSWERS["create"] - UNAVAILABLE:
                yield f"items of the batch {operation['id']} were answered {sorted(unknown)}"
            is_write = operation["mode"] != "dry_run" and (201, None) in codes
        if is_write and "Consistency-Token" not in headers:
            yield f"the acknowledged {operation['op']} {operation['id']} has no Consistency-Token"
        if found == SUSPENDED and not any(begin <= operation["end"] for begin, _ in suspended(evidence, operation["account"])):
            yield f"{operation['op']} {operation['id']} was answered 403, and nobody suspended {operation['account']}"


def stream_equals_the_log(evidence):
    """By the rule of docs/events.md, a consumer applies each event of the log once, in order, without a hole."""
    applied, wanted = collections.Counter(), collections.defaultdict(list)
    for event in evidence.log:
        wanted[event["shard"]].append(event)
    after = {event["id"]: state for link, states in evidence.states.items()
             for event, state in zip(evidence.of_link[link], states)}
    for found in evidence.stream:
        partition, headers = found["partition"], found["headers"]
        sequence = int(headers["ce_sequence"])
        if sequence > applied[partition] + 1:
            yield f"partition {partition} has sequence {sequence} after {applied[partition]}"
        if sequence > len(wanted[partition]) or sequence < 1:
            yield f"partition {partition} has sequence {sequence}, and the log ends before"
            continue
        applied[partition] = max(applied[partition], sequence)
        event = wanted[partition][sequence - 1]
        told = (headers["ce_id"], headers["ce_subject"], found["key"], headers["ce_type"].split(".")[1], found["value"],
                int(headers["ce_streamversion"]))
        if told != (event["id"], event["subject"], event["account"], event["type"], event["raw"], event["version"]):
            yield f"the record {partition}/{found['offset']} differs from event {event['id']}"
        is_change = event["type"] in LINK_EVENTS and event["type"] != "LinkCreated"
        if is_change != ("ce_linkstate" in headers) or is_change and state_in(headers["ce_linkstate"]) != after[event["id"]]:
            yield f"the record {partition}/{found['offset']} tells another state of {event['subject']} than its events"
    for partition, events in wanted.items():
        if applied[partition] != len(events):
            yield f"partition {partition} ends at {applied[partition]}, and the log at {len(events)}"


def clicks_are_counted(evidence):
    """No link has more clicks than visits; all together lack at most what a killed query-api may lose."""
    made, possible, counted = collections.Counter(), collections.Counter(), collections.Counter()
    for operation in evidence.of["redirect"]:
        link = operation["link"]
        is_click = operation["status"] == 302 and any(
            state and state["destination_url"] == operation["headers"]["Location"] for state in evidence.states.get(link, []))
        made[link] += is_click
        possible[link] += clicks_max(operation, is_click)
    for operation in {it["link"]: it for it in evidence.of["clicks"]}.values():
        if operation["status"] != 200:
            yield f"the clicks of {operation['link']} were answered {operation['status']}"
            continue
        totals = json.loads(operation["body"])["totals"]
        counted[operation["link"]] = totals["clicks"] + totals["bots"]
    for link, number in counted.items():
        if number > possible[link]:
            yield f"{link} has {number} clicks, and had {possible[link]} visits"
    if evidence.of["clicks"]:
        missing = sum(max(0, made[link] - counted[link]) for link in counted)
        if missing > (allowed := losable_clicks(evidence)):
            yield f"{missing} of {sum(made.values())} clicks are missing, and at most {allowed} may be lost"


def clicks_max(operation, is_click):
    """Returns how many clicks a visit can be: one of each process that nginx has sent the visit to."""
    if operation["service"] == "nginx" and (operation["is_retried"] or operation["status"] in (None, 503)):
        return NGINX_TRIES
    return is_click or operation["status"] is None


def losable_clicks(evidence):
    """Returns how many clicks the faults may have lost: those of killed query-apis that were no acknowledged records,
    and any number if the broker was away at a stop, or if nobody could ask a process before its kill."""
    allowed = 0
    for fault in evidence.of["fault"]:
        if not fault["target"].startswith("query-api") or fault["kind"] not in ("kill", "restart", "upgrade"):
            continue
        if fault["kind"] == "kill":
            if fault.get("unacknowledged") is None:
                return FOREVER
            recent = (it for it in evidence.of["redirect"] if it["process"] in (fault["process"], None) and it["status"] == 302)
            allowed += fault["unacknowledged"] + sum(it["end"] > fault["start"] - UNPUBLISHED_S_MAX for it in recent)
        elif any("broker" in it["target"] and it["start"] < fault["end"] and it["end"] > fault["start"] - STOP_S
                 for it in evidence.of["fault"]):
            return FOREVER
    return allowed


def operators_checks_are_clean(evidence):
    """`log verify` and `projector verify` find nothing, neither at the end nor while they run beside the services."""
    last = [it for it in evidence.of["operate"] if it["kind"] == "last-verify"]
    if len(last) != 2:
        yield f"{len(last)} of 2 last checks were made"
    for operation in last:
        if operation["exit"] != 0:
            yield f"{operation['program']} {' '.join(operation['arguments'])}: {operation['out'][:500]} {operation['error'][:500]}"
    for operation in evidence.of["operate"]:
        # Without a result the command could not finish: the fault of a database that is away.
        if operation["kind"] in ("verify", "log-verify") and operation["exit"] == 1 and operation["out"].strip():
            yield f"during the run {operation['program']} has found: {operation['out'][:500]}"


def services_recover(evidence):
    """Each process is ready again by itself, and everything is published and applied."""
    for fact, limit in (("ready_after_s", 60), ("quiet_after_s", 150)):
        if evidence.facts.get(fact, 0) > limit:
            yield f"{fact} is {evidence.facts[fact]:.0f}, more than {limit}"


def no_task_panics(evidence):
    """No task of a process panics, even if the process starts the task again."""
    yield from evidence.facts.get("panics", [])


RULES = [answers_are_of_the_contract, stream_equals_the_log, clicks_are_counted, operators_checks_are_clean, services_recover,
         no_task_panics]
