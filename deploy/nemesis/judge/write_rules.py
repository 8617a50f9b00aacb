"""Rules of writes: what was acknowledged is in the log once, and nothing else is."""

import collections
import json

from .evidence import UNASKED_EVENTS, code, etag_version
from .links import DETAILS, FOREVER, expiry, has_all

# Credits for a link, of services with default settings.
LINK_PRICE = 1


def acknowledged_writes_are_in_the_log(evidence):
    """Each 201 has its LinkCreated, each changed version its event, each 204 the deletion, with all that was sent."""
    for operation in evidence.of["create"]:
        if operation["status"] == 201:
            link = json.loads(operation["body"])
            state = evidence.state(link["id"], 1)
            if state is None or not has_all(state, operation["sent"]):
                yield f"the acknowledged create {operation['id']} of {link['id']} is not in the log"
    for operation in evidence.of["patch"]:
        if operation["status"] == 200:
            version = etag_version(operation)
            state = evidence.state(operation["link"], version)
            if state is None or not has_all(state, operation["sent"]):
                yield f"the acknowledged change {operation['id']} of {operation['link']} is not version {version} in the log"
    for operation in evidence.of["delete"]:
        if operation["status"] == 204 and not evidence.deletion(operation["link"]):
            yield f"the acknowledged deletion {operation['id']} of {operation['link']} is not in the log"


def each_key_has_one_effect(evidence):
    """All answers of success to one key are the same bytes, one of them the first; the log has the key once."""
    answers, created = collections.defaultdict(list), collections.Counter()
    for operation in evidence.of["create"]:
        if operation["status"] == 201:
            answers[operation["account"], operation["key"]].append(operation)
    for (_, key), operations in answers.items():
        kept = {(it["body"], it["headers"].get("ETag"), it["headers"].get("Consistency-Token"), it["headers"].get("Location"))
                for it in operations if "of_batch" not in it}
        links = {json.dumps(json.loads(it["body"]), sort_keys=True) for it in operations}
        firsts = [it for it in operations if it["headers"].get("Idempotent-Replayed") != "true"]
        if len(kept) > 1 or len(links) > 1 or len(firsts) > 1:
            different = max(len(kept), len(links))
            yield f"the key {key} was answered with {different} different successes, {len(firsts)} of them as the first"
    for event in evidence.log:
        if event["type"] == "LinkCreated":
            created[event["account"], event["payload"]["destination_url"]] += 1
        if event["key"]:
            created[event["account"], event["key"]] += 1
    for (_, effect), number in created.items():
        if number > 1:
            yield f"{effect} has {number} effects in the log"


def batches_keep_their_mode(evidence):
    """An atomic batch is in the log as a whole or not at all, a dry run never; a batch charges for its new links only."""
    created = {(it["account"], it["payload"]["destination_url"]) for it in evidence.log if it["type"] == "LinkCreated"}
    for operation in evidence.of["batch"]:
        wanted = [(operation["account"], item["sent"]["destination_url"]) for item in operation["items"]]
        found = sum(link in created for link in wanted)
        if operation["mode"] == "dry_run" and found:
            yield f"{found} links of the dry run {operation['id']} are in the log"
        if operation["mode"] == "atomic" and found not in (0, len(wanted)):
            yield f"{found} of {len(wanted)} links of the atomic batch {operation['id']} are in the log"
        if operation["mode"] != "dry_run" and operation["status"] in (201, 207):
            answer = json.loads(operation["body"])
            new = sum(it["status"] == 201 and not it["replayed"] for it in answer["items"])
            if answer["credits_charged"] != new * LINK_PRICE:
                yield f"the batch {operation['id']} created {new} links and was charged {answer['credits_charged']}"


def every_effect_was_asked_for(evidence):
    """No event exists without a request that asked for the event."""
    for event in evidence.log:
        if event["type"] not in UNASKED_EVENTS and evidence.invoked_at[event["id"]] is None:
            known = evidence.facts.get("set_up_reasons", ["test"])
            if event["payload"].get("reason") not in known:
                yield f"nobody asked for {event['type']} {event['id']} of {event['subject']}"


def refused_writes_have_no_effect(evidence):
    """A write whose every attempt was answered with an error, other than an unknown outcome, is not in the log. After a
    retry by nginx the outcome of the first attempt is unknown, whatever the answer to the second one."""
    for event in evidence.log:
        causes = [it for it in evidence.causes.get(event["id"], []) if it["op"] != "operate"]
        statuses = {None if it["is_retried"] else it["status"] for it in causes}
        if statuses and all(status is not None and 400 <= status < 504 for status in statuses):
            yield f"{event['type']} of {event['subject']} is in the log, and its requests were answered {sorted(statuses)}"


def refusals_are_true(evidence):
    """A slug or an external id that is called taken belongs to another link; a balance that is called too low is below
    the price; an instant that is called past is past; a link that an operator is said to have disabled is disabled."""
    slugs = {it["payload"]["slug"].lower(): evidence.invoked_at[it["id"]] for it in evidence.log if it["type"] == "LinkCreated"}
    balances = collections.defaultdict(lambda: {0})
    for event in evidence.log:
        if "balance_after" in event["payload"]:
            balances[event["account"]].add(event["payload"]["balance_after"])
    external_ids, disabled = collections.defaultdict(list), collections.defaultdict(list)
    for event, state, begin, end in intervals(evidence):
        external_ids[event["account"], state.get("external_id")].append((event["subject"], begin, end))
        if "operator" in state["stops"]:
            disabled[event["subject"]].append((begin, end))
    for operation in (*evidence.of["create"], *evidence.of["patch"]):
        refusal, sent = code(operation) if operation["status"] else None, operation["sent"]
        if refusal == "slug_taken" and (slugs.get(sent.get("slug", "").lower()) or FOREVER) > operation["end"]:
            yield f"the slug {sent.get('slug')} was called taken, and no link had it"
        if refusal == "insufficient_credits":
            body = json.loads(operation["body"])
            if body["balance"] >= body["required"] or body["balance"] not in balances[operation["account"]]:
                yield f"{operation['account']} was refused with the balance {body['balance']} of {body['required']}"
        if refusal == "external_id_taken":
            others = external_ids[operation["account"], sent["external_id"]]
            if not lasts(operation, [it[1:] for it in others if it[0] != operation.get("link")]):
                yield f"the external id {sent['external_id']} was called taken, and no other link had it ({operation['id']})"
        if refusal == "link_disabled_by_operator" and not lasts(operation, disabled[operation["link"]]):
            yield f"{operation['link']} was called disabled by an operator, and it was not ({operation['id']})"
        if refusal == "validation_failed":
            faults = {it["code"] for it in json.loads(operation["body"])["errors"]}
            _, latest = evidence.clock("command-api", operation["start"], operation["end"])
            if faults != {"expires_at_in_the_past"} or expiry(sent) > latest:
                yield f"{operation['op']} {operation['id']} was refused: {operation['body'][:300]}"


def lasts(operation, intervals):
    """Returns true if one of the intervals and an operation have a moment in common."""
    return any(begin <= operation["end"] and end >= operation["start"] for begin, end in intervals)


def intervals(evidence):
    """Returns of each state of a link that is not deleted: event, state, earliest begin and latest end."""
    for link, states in evidence.states.items():
        events = evidence.of_link[link]
        for event, state, following in zip(events, states, [*events[1:], None]):
            if state:
                end = evidence.answered_at[following["id"]] if following else FOREVER
                yield event, state, evidence.invoked_at[event["id"]] or 0, end


def preconditions_hold(evidence):
    """A change with If-Match makes the version after the named one; 412 names another version than the named one."""
    for operation in evidence.of["patch"]:
        wanted = operation["if_match"]
        if wanted is None or operation["status"] not in (200, 412):
            continue
        version, named = etag_version(operation), int(wanted.strip('"'))
        # Destination, details and service are an event each; a change without effect makes no version.
        parts = len({"destination_url", "disabled"} & set(operation["sent"])) + bool(set(DETAILS) & set(operation["sent"]))
        if operation["status"] == 200 and not named <= version <= named + parts:
            yield f"the change {operation['id']} with If-Match {wanted} has made version {version}"
        if operation["status"] == 412 and version == named:
            yield f"the change {operation['id']} was refused, although {wanted} was current"


def changes_are_linearizable(evidence):
    """Changes, their answers and their refusals agree with one order of each link, which respects real time.

    The log orders all writes of a link by version, so no search for an order is needed, unlike for a register whose
    order of writes is unknown: a history is linearizable exactly if no operation that ended before another one began
    has seen a higher version, and none has seen a write that began later. One pass over the sorted ends decides this.
    """
    seen = collections.defaultdict(list)
    for operation in (*evidence.of["create"], *evidence.of["patch"], *evidence.of["delete"]):
        status = operation["status"]
        if status == 201 and operation["headers"].get("Idempotent-Replayed") != "true":
            seen[json.loads(operation["body"])["id"]].append((operation, 1))
        elif operation["op"] in ("patch", "delete") and status in (200, 412) and etag_version(operation):
            seen[operation["link"]].append((operation, etag_version(operation)))
        elif operation["op"] == "delete" and status == 204 or operation["op"] == "patch" and status == 404:
            deletion = evidence.deletion(operation["link"])
            if deletion is None:
                yield f"{operation['op']} {operation['id']} was answered as for a deleted link, and {operation['link']} is not"
            else:
                seen[operation["link"]].append((operation, deletion["version"]))
    for link, operations in seen.items():
        yield from out_of_order(evidence, link, operations)


def out_of_order(evidence, link, operations):
    events = evidence.of_link[link]
    for operation, version in operations:
        invoked = evidence.invoked_at.get(events[version - 1]["id"]) if version <= len(events) else None
        if version > len(events) or (invoked is not None and invoked > operation["end"]):
            yield f"operation {operation['id']} has seen version {version} of {link} before it was asked for"
    # Earliest possible moment of each version: its write cannot take effect before its invocation.
    begins = [(evidence.invoked_at.get(event["id"]) or 0, event["version"], True) for event in events]
    begins += [(operation["start"], version, False) for operation, version in operations]
    ends = sorted((operation["end"], version, operation["id"]) for operation, version in operations)
    highest, by, next_end = 0, None, 0
    for start, version, is_write in sorted(begins):
        while next_end < len(ends) and ends[next_end][0] < start:
            if ends[next_end][1] > highest:
                highest, by = ends[next_end][1], ends[next_end][2]
            next_end += 1
        if version < highest or is_write and version == highest:
            yield f"version {version} of {link} came after operation {by} had seen version {highest}"


def operators_commands_happen_once(evidence):
    """Each command on credits or links that ended well is in the log once, with its amount, unless it changed nothing; none
    is there twice."""
    events, kinds = collections.defaultdict(list), ("CreditsGranted", "CreditsAdjusted", "LinkDisabled", "LinkEnabled")
    for event in evidence.log:
        if event["type"] in kinds and event["payload"].get("by") != "owner":
            events[event["payload"]["reason"]].append(event)
    for operation in evidence.of["operate"]:
        if operation.get("kind") in ("grant", "adjust") and operation["exit"] == 0:
            found = events[operation["reason"]]
            if [it["payload"]["amount"] for it in found] != [operation["amount"]]:
                yield f"{operation['kind']} {operation['reason']} has {len(found)} events"
        if operation.get("kind") in ("disable", "enable") and operation["exit"] == 0 and json.loads(operation["out"])["changed"]:
            if not events[operation["reason"]]:
                yield f"{operation['kind']} {operation['reason']} of {operation['link']} has no event"
    for reason, found in events.items():
        if len(found) > 1 and reason not in evidence.facts.get("set_up_reasons", ["test"]):
            yield f"{reason} has {len(found)} events"


def suspended(evidence, account):
    """Returns the intervals in which an account can have been suspended."""
    begin, intervals = None, []
    for operation in sorted(evidence.of["operate"], key=lambda it: it["start"]):
        if operation.get("account") != account:
            continue
        if operation["kind"] == "suspend" and begin is None:
            begin = operation["start"]
        if operation["kind"] == "resume" and operation["exit"] == 0 and begin is not None:
            intervals.append((begin, operation["end"]))
            begin = None
    return intervals + ([(begin, FOREVER)] if begin is not None else [])


RULES = [acknowledged_writes_are_in_the_log, each_key_has_one_effect, batches_keep_their_mode, every_effect_was_asked_for,
         refused_writes_have_no_effect, refusals_are_true, preconditions_hold, changes_are_linearizable,
         operators_commands_happen_once]
