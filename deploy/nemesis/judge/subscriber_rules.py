"""Rules of subscribers: readers of the feed have each event once, webhooks have a message about each event at least once."""

import collections
import itertools
import json
import re
from typing import NamedTuple

from .links import FOREVER

# Messages about events by their types; no message is about an event of another type.
MESSAGE_TYPES = {
    "LinkCreated": "link.created", "LinkDestinationChanged": "link.updated", "LinkDetailsChanged": "link.updated",
    "LinkDisabled": "link.disabled", "LinkEnabled": "link.enabled", "LinkDeleted": "link.deleted",
    "LinkExpired": "link.expired", "LinkFirstClicked": "link.first_click", "LinksClicked": "link.clicks",
    "CreditsGranted": "credits.granted", "CreditsAdjusted": "credits.adjusted", "CreditsRefunded": "credits.refunded",
    "CreditsRevoked": "credits.revoked", "AccountCreated": "account.created", "AccountChanged": "account.changed",
    "AccountSuspended": "account.suspended", "AccountResumed": "account.resumed", "WebhookFailing": "webhook.failing",
    "WebhookDisabled": "webhook.disabled",
}
FOR_OPERATORS, TEST = {"account.created", "account.changed", "webhook.failing", "webhook.disabled"}, "webhook.test"
# Types that a webhook without types does not get.
TO_BE_NAMED = {"link.clicks"}
# Members of events that owners do not see.
HIDDEN = {
    **dict.fromkeys(("LinkDisabled", "LinkEnabled", "AccountSuspended", "AccountResumed", "CreditsCharged", "CreditsRefunded",
                     "CreditsRevoked"), {"reason"}),
    **dict.fromkeys(("CreditsGranted", "CreditsAdjusted"), {"reason", "reference"}),
}
# Body of a request with messages in order; a message has its own body, with its id before the other members.
LIST = re.compile(r'\{"type":"events","timestamp":"([^"]+)","data":\{"items":\[(.+)\]\}\}')
ITEM = re.compile(r'\{"id":"([^"]+)",(.+)')
ITEMS_MAX, LIST_BYTES_MAX = 100, 200_000
ACCEPTED, REFUSED = (200, 204), 400
# Longest time from the signature to the arrival of a message: a dispatcher or a connection can stand still.
ON_THE_WAY_S = 60
# Time from the answer to a rotation until no message has the signature of the secret before alone.
NEW_SECRET_S = 120
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
        is_wanted = kind in self.types if self.types else kind not in TO_BE_NAMED
        return (kind is not None and self.account in (None, event["account"]) and is_wanted
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


def requests(evidence):
    """Returns each webhook with its requests in the order of their arrival."""
    received = by_client(evidence.of["message"])
    return [(webhook, sorted(received[webhook.client], key=lambda it: it["arrival"])) for webhook in webhooks(evidence)]


def messages(evidence):
    """Returns each webhook with its messages in the order of their arrival: those of a list have the answer to the list."""
    return [(webhook, [{**it, "message": message, "body": body} for it in received for message, body in messages_in(it)])
            for webhook, received in requests(evidence)]


def messages_in(request):
    """Returns ids and bodies of the messages of a request: those of a list, or the one that is no list."""
    return items_in(request["body"]) or [(request["message"], request["body"])]


def items_in(body):
    """Returns ids and bodies of the messages of a list; nothing if the body is no list."""
    found, items = [], LIST.fullmatch(body)
    texts, at = items[2] if items else "", 0
    while at < len(texts):
        try:
            end = json.JSONDecoder().raw_decode(texts, at)[1]
        except ValueError:
            return []
        item = ITEM.fullmatch(texts, at, end)
        if not item or texts[end:end + 1] not in ("", ","):
            return []
        found.append((item[1], "{" + item[2]))
        at = end + 1
    return found


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


def requests_have_the_form_of_their_webhook(evidence):
    """A webhook in order has lists of messages in the order of the log, with the time of the last one, each list of several
    under an id of its own; one alone comes without a list only after its refusal, or as a test. Another webhook has no lists."""
    places = {event["id"]: (event["shard"], event["position"]) for event in evidence.log}
    for webhook, received in requests(evidence):
        refused = set()
        for request in received:
            items, name = items_in(request["body"]), f"the request {request['message']} to {webhook.client}"
            if items and not webhook.in_order:
                yield f"{name} is a list"
            elif items:
                yield from (f"{name} {fault}" for fault in faults_of_list(request, items, places))
            elif webhook.in_order and type_of(request) != TEST and request["message"] not in refused:
                yield f"{name} is no list, and was not refused before"
            if request["answer"] == REFUSED and len(items) == 1:
                refused.add(request["message"])


def id_of_list(items):
    """Returns the id of a request with a list: of one message its own, of several one that no other messages have."""
    (first, _), (last, _) = items[0], items[-1]
    return last if len(items) == 1 else f"{first}:{last}:{len(items)}"


def faults_of_list(request, items, places):
    _, body = items[-1]
    if (wanted := id_of_list(items)) != request["message"]:
        yield f"has messages whose request is {wanted}"
    if (time := LIST.fullmatch(request["body"])[1]) != json.loads(body).get("timestamp"):
        yield f"has the time {time}, which is not that of its last message"
    if len(items) > ITEMS_MAX or len(items) > 1 and len(request["body"].encode()) > LIST_BYTES_MAX:
        yield f"has {len(items)} messages in {len(request['body'])} characters"
    found = [places[message] for message, _ in items if message in places]
    if len({shard for shard, _ in found}) > 1 or any(one >= other for one, other in itertools.pairwise(found)):
        yield f"has messages about the places {found}, which are not in order"


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
    """The signature of each message is that of its secret, also of the newest one, and its time is that of the attempt, by the
    dispatcher's clock."""
    rotated_at = {it["client"]: it["end"] for it in evidence.of["webhook-secret"] if it["status"] == 200}
    for message in evidence.of["message"]:
        name = f"the message {message['message']} to {message['client']}"
        if message["is_signed"] is False:
            yield f"{name} has no valid signature"
        if message.get("is_of_newest") is False and message["start"] > rotated_at.get(message["client"], FOREVER) + NEW_SECRET_S:
            yield f"{name} has no signature of the secret that was made before"
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
    for webhook, received in requests(evidence):
        counts = collections.Counter(str(it["answer"]) for it in received)
        ids = [message for it in received for message, _ in messages_in(it)]
        repeats, begins = len(ids) - len(set(ids)), "in order" if webhook.in_order else "unordered"
        yield (f"webhook {webhook.client}, {begins}: {len(received)} requests with {len(ids)} messages, {repeats} repeats, "
               f"{counts[str(REFUSED)]} refused, {illnesses(received)} illnesses, by answer {dict(sorted(counts.items()))}; "
               f"{asked['webhook-retry'][webhook.client]} retries and {asked['webhook-test'][webhook.client]} tests by hand")


RULES = [feeds_equal_the_log, webhooks_are_in_the_log, webhooks_receive_each_event, messages_belong_to_their_webhook,
         messages_equal_their_events, requests_have_the_form_of_their_webhook,
         ordered_webhooks_keep_the_order, messages_are_signed, webhooks_end_healthy]
