"""Rules of subscribers: readers of the feed have each event once, webhooks have a message about each event at least once."""

import collections
import json
from typing import NamedTuple

# Messages about events by their types; no message is about an event of another type.
MESSAGE_TYPES = {
    "LinkCreated": "link.created", "LinkDestinationChanged": "link.updated", "LinkDetailsChanged": "link.updated",
    "LinkDisabled": "link.disabled", "LinkEnabled": "link.enabled", "LinkDeleted": "link.deleted",
    "CreditsGranted": "credits.granted", "CreditsAdjusted": "credits.adjusted", "CreditsRefunded": "credits.refunded",
    "CreditsRevoked": "credits.revoked", "AccountCreated": "account.created", "AccountChanged": "account.changed",
    "AccountSuspended": "account.suspended", "AccountResumed": "account.resumed", "WebhookDisabled": "webhook.disabled",
}
FOR_OPERATORS, TEST = {"account.created", "account.changed", "webhook.disabled"}, "webhook.test"
# Members of events that owners do not see.
HIDDEN = {
    **dict.fromkeys(("LinkDisabled", "LinkEnabled", "AccountSuspended", "AccountResumed", "CreditsCharged", "CreditsRefunded",
                     "CreditsRevoked"), {"reason"}),
    **dict.fromkeys(("CreditsGranted", "CreditsAdjusted"), {"reason", "reference"}),
}
ACCEPTED, REFUSED = (200, 204), 400
# Longest time from the signature to the arrival of a message: a dispatcher or a connection can stand still.
ON_THE_WAY_S = 60
# Difference of a time in whole seconds.
SECOND_S = 1


class Webhook(NamedTuple):
    """A webhook of the run. Of each shard: position after which a message about each event is demanded, and position after
    which a message is allowed."""

    client: str
    id: str
    account: str | None
    types: list
    in_order: bool
    demanded_after: dict
    allowed_after: dict

    def wants(self, event):
        """Returns true if a message about an event of the log is allowed."""
        kind = MESSAGE_TYPES.get(event["type"])
        return (kind is not None and self.account in (None, event["account"]) and (not self.types or kind in self.types)
                and (self.account is None or kind not in FOR_OPERATORS)
                and event["position"] > self.allowed_after.get(event["shard"], 0))

    def is_owed(self, event):
        """Returns true if a message about an event of the log is demanded."""
        return self.wants(event) and event["position"] > self.demanded_after.get(event["shard"], 0)


def by_client(operations):
    found = collections.defaultdict(list)
    for operation in operations:
        found[operation["client"]].append(operation)
    return found


def webhooks(evidence):
    """Returns the webhooks that were created. The log says where one of an owner begins; one of operators begins between the
    heads of the log before and after its creation."""
    heads = {(it["client"], it["when"]): {head["shard"]: head["head"] for head in it["heads"]} for it in evidence.of["webhook-heads"]}
    created = {it["payload"]["webhook_id"]: {it["shard"]: it["position"]} for it in evidence.log if it["type"] == "WebhookCreated"}
    found = []
    for client, operations in by_client(evidence.of["webhook"]).items():
        for operation in [it for it in operations if it["status"] == 201][:1]:
            webhook, sent, account = json.loads(operation["body"])["id"], operation["sent"], operation["account"]
            begin = created.get(webhook, {})
            demanded, allowed = (begin, begin) if account else (heads.get((client, "after"), {}), heads.get((client, "before"), {}))
            found.append(Webhook(client, webhook, account, sent.get("types", []), sent.get("in_order", False), demanded, allowed))
    return found


def messages(evidence):
    """Returns each webhook with its messages in the order of their arrival."""
    received = by_client(evidence.of["message"])
    return [(webhook, sorted(received[webhook.client], key=lambda it: it["arrival"])) for webhook in webhooks(evidence)]


def type_of(message):
    """Returns the type that a message tells; None if the body is no message."""
    try:
        return json.loads(message["body"])["type"]
    except (ValueError, KeyError, TypeError):
        return None


def seen_by_owner(event):
    hidden = HIDDEN.get(event["type"], ())
    return {name: value for name, value in event["payload"].items() if name not in hidden}


def feeds_equal_the_log(evidence):
    """Each reader of a feed has each event of its account and its types once, in order, with its data, and nothing else."""
    for reader, pages in by_client(evidence.of["feed"]).items():
        account, types = pages[0]["account"], pages[0]["types"]
        wanted = [(it["id"], it["type"], it["position"], seen_by_owner(it)) for it in evidence.of_account[account]
                  if not types or it["type"] in types]
        items = [item for page in pages if page["status"] == 200 for item in json.loads(page["body"])["items"]]
        found = [(item["id"], item["type"], item["sequence"], item["data"]) for item in items]
        if found != wanted:
            at = next((number for number, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), min(len(found), len(wanted)))
            yield (f"{reader} has {len(found)} events of {account}, and the log has {len(wanted)}; the first difference is at "
                   f"{at + 1}: {found[at:at + 1]}, not {wanted[at:at + 1]}")


def webhooks_are_in_the_log(evidence):
    """Each receiver has one webhook, and the log has its creation, with all that was sent."""
    created = {it["payload"]["webhook_id"]: it for it in evidence.log if it["type"] == "WebhookCreated"}
    for client, operations in by_client(evidence.of["webhook"]).items():
        ids = {json.loads(it["body"])["id"] for it in operations if it["status"] == 201}
        if len(ids) != 1:
            yield f"{client} has {len(ids)} webhooks after {len(operations)} requests with one key"
        for webhook in ids:
            payload, sent = created.get(webhook, {}).get("payload", {}), operations[0]["sent"]
            if any(payload.get(name) != value for name, value in sent.items()):
                yield f"the acknowledged webhook {webhook} of {client} is not in the log as it was sent"
            if payload.get("all_accounts", False) != (operations[0]["account"] is None):
                yield f"the webhook {webhook} of {client} has another audience than it was asked for"


def webhooks_receive_each_event(evidence):
    """Each webhook has accepted a message about each event of its types after its creation: one of an owner about those of
    its account, one of operators about those of all accounts."""
    for webhook, received in messages(evidence):
        accepted = {it["message"] for it in received if it["answer"] in ACCEPTED}
        for event in evidence.log:
            if webhook.is_owed(event) and event["id"] not in accepted:
                yield f"{webhook.client} has accepted no message about {event['type']} {event['id']} of {event['account']}"


def messages_belong_to_their_webhook(evidence):
    """Each message is about an event that the webhook wants: of its account, of its types, after its creation; and a test was
    asked for."""
    events = {event["id"]: event for event in evidence.log}
    asked = collections.Counter(it["client"] for it in evidence.of["webhook-test"])
    for webhook, received in messages(evidence):
        tests = {it["message"] for it in received if type_of(it) == TEST}
        if len(tests) > asked[webhook.client]:
            yield f"{webhook.client} has received {len(tests)} tests, and asked for {asked[webhook.client]}"
        for message in sorted({it["message"] for it in received} - tests):
            event = events.get(message)
            if event is None:
                yield f"{webhook.client} has received {message}, which is no event of the log"
            elif not webhook.wants(event):
                yield f"{webhook.client} has received {event['type']} {message} of {event['account']}, which it must not"


def messages_equal_their_events(evidence):
    """The data of a message are those of its event, with the charge of a created link, and a repeat has the same bytes."""
    events = {event["id"]: event for event in evidence.log}
    following = {(it["shard"], it["position"] - 1): it for it in evidence.log}
    for webhook, received in messages(evidence):
        bodies = collections.defaultdict(set)
        for message in received:
            bodies[message["message"]].add(message["body"])
        for message, different in bodies.items():
            if len(different) > 1:
                yield f"{webhook.client} has received {message} with {len(different)} bodies"
            if event := events.get(message):
                charge = following.get((event["shard"], event["position"])) if event["type"] == "LinkCreated" else None
                if any(told(body) != wanted_body(webhook, event, charge) for body in different):
                    yield f"{webhook.client} has received another message than {event['type']} {message} is: {min(different)[:300]}"


def told(body):
    """Returns type and data of a body."""
    try:
        found = json.loads(body)
        return found["type"], found["data"]
    except (ValueError, KeyError, TypeError):
        return None


def wanted_body(webhook, event, charge):
    def data(of):
        return {**(seen_by_owner(of) if webhook.account else of["payload"]), "sequence": of["position"]}

    return MESSAGE_TYPES.get(event["type"]), {**data(event), **({"charge": data(charge)} if charge else {})}


def ordered_webhooks_keep_the_order(evidence):
    """The first arrivals at a webhook in order are in the order of the log."""
    events = {event["id"]: event for event in evidence.log}
    for webhook, received in messages(evidence):
        if not webhook.in_order:
            continue
        last = collections.defaultdict(int)
        for message in dict.fromkeys(it["message"] for it in received):
            if event := events.get(message):
                if event["position"] < last[event["shard"]]:
                    yield (f"{webhook.client} has received {message} at {event['shard']}/{event['position']} first after "
                           f"{event['shard']}/{last[event['shard']]}")
                last[event["shard"]] = max(last[event["shard"]], event["position"])


def messages_are_signed(evidence):
    """The signature of each message is that of its secret, and its time is that of the attempt, by the dispatcher's clock."""
    for message in evidence.of["message"]:
        name = f"the message {message['message']} to {message['client']}"
        if message["is_signed"] is False:
            yield f"{name} has no valid signature"
        earliest, latest = evidence.clock("webhooks", message["start"] - ON_THE_WAY_S, message["start"])
        time = message["timestamp"]
        if not time.isdigit() or not earliest - SECOND_S <= int(time) <= latest + SECOND_S:
            yield f"{name} was signed at {time}, not from {earliest:.0f} to {latest:.0f}"


def webhooks_end_healthy(evidence):
    """After the run each webhook is enabled and healthy, nothing waits or has failed, and its cursors are at the ends of its
    events, in the database and for its owner."""
    facts = evidence.facts.get("webhooks", {})
    states = {it["client"]: it for it in evidence.of["webhook-state"]}
    for client in by_client(evidence.of["webhook"]):
        if client not in states:
            yield f"nobody has read the webhook of {client} at the end"
    for webhook in webhooks(evidence):
        if facts.get(webhook.id) != {"enabled": True, "ill": False, "waiting": 0, "failed": 0, "behind": 0}:
            yield f"the webhook of {webhook.client} ends as {facts.get(webhook.id)}"
        state = states.get(webhook.client)
        if state and not is_at_rest(state):
            yield f"the webhook of {webhook.client} was last read as {state['status']}: {state.get('body')}"


def is_at_rest(operation):
    """Returns true if an owner has read a webhook as enabled and healthy, with nothing that waits or has failed."""
    if operation["status"] != 200:
        return False
    found = json.loads(operation["body"])
    return (found["enabled"], found["health"]["state"], found["waiting"], found["failed"]) == (True, "healthy", 0, 0)


def illnesses(received):
    """Returns how often a receiver has begun to give answers that make it ill."""
    ill = [it["answer"] not in (*ACCEPTED, REFUSED) for it in received]
    return sum(now and not before for before, now in zip([False, *ill], ill))


def summary(evidence):
    """Yields a sentence about the feeds, and one about each webhook."""
    pages = [it for it in evidence.of["feed"] if it["status"] == 200]
    items = [len(json.loads(it["body"])["items"]) for it in pages]
    yield f"feeds: {len(by_client(pages))} readers, {len(pages)} pages, {items.count(0)} of them empty, {sum(items)} events"
    asked = {op: collections.Counter(it["client"] for it in evidence.of[op]) for op in ("webhook-retry", "webhook-test")}
    for webhook, received in messages(evidence):
        counts = collections.Counter(str(it["answer"]) for it in received)
        different, begins = len({it["message"] for it in received}), "in order" if webhook.in_order else "unordered"
        yield (f"webhook {webhook.client}, {begins}: {len(received)} messages received, {len(received) - different} repeats, "
               f"{counts[str(REFUSED)]} refused, {illnesses(received)} illnesses, by answer {dict(sorted(counts.items()))}; "
               f"{asked['webhook-retry'][webhook.client]} retries and {asked['webhook-test'][webhook.client]} tests by hand")


RULES = [feeds_equal_the_log, webhooks_are_in_the_log, webhooks_receive_each_event, messages_belong_to_their_webhook,
         messages_equal_their_events, ordered_webhooks_keep_the_order, messages_are_signed, webhooks_end_healthy]
