"""Evidence of a run: the history of the clients, the log as SQL reads it, the stream as a consumer read it."""

import collections
import json
import re
import uuid

from .links import FOREVER, can_cause, next_state

BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
# Events by which accounts and their keys are made before the run.
SET_UP_EVENTS = ("AccountCreated", "ApiKeyIssued", "WebhookCreated")
# Events of which no request is the cause: the price of a link, facts about links, and a notice about a receiver.
UNASKED_EVENTS = ("CreditsCharged", "LinkExpired", "LinkFirstClicked", "LinksClicked", "WebhookFailing", *SET_UP_EVENTS)
LINK_EVENTS = ("LinkCreated", "LinkDestinationChanged", "LinkDetailsChanged", "LinkDeleted", "LinkDisabled", "LinkEnabled")
# A line of the console consumer's log, which it prints between or inside of records.
CONSUMER_LOG = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{3} (?:WARN|ERROR|INFO) [^\n]*\n")
# Values may contain commas too: the JSON of ce_linkstate has many.
NEXT_HEADER = re.compile(r",(?=(?:ce_[a-z]+|content-type):)")
# Difference of two readings of a clock, and time until a process knows the end of a fault of its clock.
CLOCK_ERROR_S, CLOCK_DELAY_S = 0.1, 2


def text_id(prefix, value):
    """Returns an id as the API writes it: the bits of a UUID in lower-case Crockford base32."""
    bits = uuid.UUID(value).int
    return f"{prefix}_" + "".join(BASE32[bits >> 5 * place & 31] for place in reversed(range(26)))


def panics(log):
    """Returns place and message of each panic in the log of a process."""
    lines = log.read_text(errors="replace").splitlines()
    return [f"{log.stem}: {line} {message}" for line, message in zip(lines, lines[1:] + [""]) if "panicked at" in line]


class Evidence:
    def __init__(self, operations, facts, stream):
        self.operations, self.facts, self.stream = operations, facts, stream
        self.log = [self.event(row) for row in facts["log"]]
        self.accounts = {text_id("acc", row["account"]): row for row in facts["accounts"]}
        self.heads = {row["shard"]: row["head"] for row in facts["heads"]}
        self.of, retries = collections.defaultdict(list), set(facts.get("nginx_retries", []))
        for operation in operations:
            self.of[operation["op"]].append(operation)
            operation["is_retried"] = operation.get("headers", {}).get("X-Request-Id") in retries
        for operation in self.of["batch"]:
            self.of["create"].extend(creates(operation))
        self.of_link, self.of_account = collections.defaultdict(list), collections.defaultdict(list)
        for event in self.log:
            self.of_account[event["account"]].append(event)
            if event["type"] in LINK_EVENTS:
                self.of_link[event["subject"]].append(event)
        self.states = {link: self.states_of(events) for link, events in self.of_link.items()}
        self.causes = self.causes_of_events()
        self.invoked_at = {event: min((it["start"] for it in found), default=None) for event, found in self.causes.items()}
        self.answered_at = self.answers_to_events()
        # First time at which somebody asked for the deletion of a link.
        self.delete_invoked_at = collections.defaultdict(lambda: FOREVER)
        for operation in self.of["delete"]:
            self.delete_invoked_at[operation["link"]] = min(self.delete_invoked_at[operation["link"]], operation["start"])

        self.first_redirect_ended_at = collections.defaultdict(lambda: FOREVER)
        for operation in self.of["redirect"]:
            if operation["status"] == 302:
                link, end = operation["link"], operation["end"]
                self.first_redirect_ended_at[link] = min(self.first_redirect_ended_at[link], end)

    @classmethod
    def read(cls, folder):
        operations = [json.loads(line) for line in (folder / "history.ndjson").read_text().splitlines()]
        facts = json.loads((folder / "facts.json").read_text())
        facts["panics"] = [found for log in sorted(folder.glob("*.log")) for found in panics(log)]
        return cls(operations, facts, records((folder / "stream.txt").read_text()))

    @staticmethod
    def event(row):
        kind = "lnk" if row["type"] in LINK_EVENTS else "acc"
        return {
            "shard": row["shard"], "position": row["position"], "version": row["version"], "type": row["type"],
            "subject": text_id(kind, row["stream"]), "account": text_id("acc", row["account"]),
            "id": text_id("evt", row["event"]), "raw": row["payload"], "payload": json.loads(row["payload"]),
            "key": row["key"], "recorded_s": row["recorded_s"],
        }

    @staticmethod
    def states_of(events):
        """Returns the state of a link after each of its events."""
        found = []
        for event in events:
            found.append(next_state(found[-1] if found else None, event))
        return found

    def causes_of_events(self):
        """Returns the requests that can have caused each event, by event id: none for unasked events."""
        creates, changes, deletes, commands, rotations = (collections.defaultdict(list) for _ in range(5))
        for operation in self.of["create"]:
            creates[operation["account"], operation["sent"]["destination_url"]].append(operation)
        for operation in self.of["patch"]:
            changes[operation["link"]].append(operation)
        for operation in self.of["delete"]:
            deletes[operation["link"]].append(operation)
        for operation in self.of["operate"]:
            commands[operation.get("reason")].append(operation)
        for operation in self.of["webhook-secret"]:
            rotations[operation["webhook"]].append(operation)
        found = {}
        for event in self.log:
            kind, payload, link = event["type"], event["payload"], event["subject"]
            if kind == "LinkCreated":
                found[event["id"]] = creates[event["account"], payload["destination_url"]]
            elif kind == "LinkDeleted":
                found[event["id"]] = deletes[link]
            elif kind in LINK_EVENTS and payload.get("by") == "owner" or kind.endswith("Changed"):
                found[event["id"]] = [it for it in changes[link] if can_cause(it["sent"], event)]
            elif kind == "WebhookSecretRotated":
                found[event["id"]] = rotations[payload["webhook_id"]]
            elif kind not in UNASKED_EVENTS:
                found[event["id"]] = commands[payload["reason"]]
        return found

    def answers_to_events(self):
        """Returns the end of the first answer that shows an event of a link to be in the log, by event id."""
        found = collections.defaultdict(lambda: FOREVER)

        def note(events, operation):
            for event in events:
                found[event["id"]] = min(found[event["id"]], operation["end"])

        for operation in self.of["patch"]:
            if operation["status"] == 200:
                note(self.of_link[operation["link"]][:etag_version(operation)], operation)
        for operation in self.of["delete"]:
            if operation["status"] == 204:
                note(self.of_link[operation["link"]], operation)
        for event in self.log:
            for operation in self.causes.get(event["id"], []):
                if operation.get("exit") == 0:
                    note([event], operation)
        return found

    def state(self, link, version):
        """Returns the state of a link at a version; None if there is no such version, or it is deleted."""
        states = self.states.get(link, [])
        return states[version - 1] if version and 1 <= version <= len(states) else None

    def clock_of_redirect(self, operation):
        """Returns the times of `clock` for the process that answers a redirect: any query-api behind nginx."""
        service = "query-api" if operation["service"] == "nginx" else operation["service"]
        return self.clock(service, operation["start"], operation["end"])

    def clock(self, kind, start, end):
        """Returns the earliest and the latest time that a clock of a kind of process can show between two moments."""
        jumps = [it["jump_s"] for it in self.of["fault"] if it["kind"] == "clock" and it["target"].startswith(kind)
                 and it["start"] <= end and it["end"] + CLOCK_DELAY_S >= start]
        wall = self.facts.get("wall_s", 0)
        return wall + start - CLOCK_ERROR_S + min([0, *jumps]), wall + end + CLOCK_ERROR_S + max([0, *jumps])

    def deletion(self, link):
        """Returns the event that deleted a link, or None."""
        events = self.of_link[link]
        return events[-1] if events and events[-1]["type"] == "LinkDeleted" else None

    def tokens(self):
        """Returns the event of each token that a write was answered with."""
        found = {}
        for operation in (*self.of["create"], *self.of["patch"]):
            token = operation.get("headers", {}).get("Consistency-Token")
            if token and operation["status"] in (200, 201):
                link = operation.get("link") or json.loads(operation["body"])["id"]
                events, version = self.of_link[link], etag_version(operation)
                if version and version <= len(events):
                    found[token] = events[version - 1]
        return found


def creates(batch):
    """Returns the creates that a batch asks for, with the outcome of each; a dry run asks for none."""
    if batch["mode"] == "dry_run":
        return
    outcomes = [{"status": batch["status"]}] * len(batch["items"])
    if batch["status"] in (201, 207):
        outcomes = json.loads(batch["body"])["items"]
    for item, outcome in zip(batch["items"], outcomes, strict=True):
        found = {name: batch[name] for name in ("client", "service", "process", "account", "start", "end", "id", "is_retried")}
        headers, body = {}, outcome.get("link") or outcome.get("problem")
        if outcome.get("replayed"):
            headers["Idempotent-Replayed"] = "true"
        if "problem" in outcome:
            headers["Content-Type"] = "application/problem+json"
        yield {**found, **item, "op": "create", "of_batch": True, "status": outcome["status"], "headers": headers,
               "body": json.dumps(body)}


def etag_version(operation):
    """Returns the version of an entity tag, or None."""
    tag = operation.get("headers", {}).get("ETag", "").strip('"')
    return int(tag) if tag.isdigit() else None


def code(operation):
    """Returns the code of a problem, or None."""
    if "problem+json" not in operation.get("headers", {}).get("Content-Type", ""):
        return None
    return json.loads(operation["body"])["code"]


def records(printed):
    """Returns the records that the console consumer has printed."""
    lines = CONSUMER_LOG.sub("", printed).splitlines()
    return [record(line) for line in lines if line.startswith("Partition:") or "\tPartition:" in line]


def record(line):
    """Returns a record as the console consumer prints it."""
    partition, offset, headers, key, value = line[line.index("Partition:"):].split("\t", 4)
    pairs = (header.split(":", 1) for header in NEXT_HEADER.split(headers.removeprefix("Headers:")))
    return {"partition": int(partition.split(":")[1]), "offset": int(offset.split(":")[1]), "key": key,
            "headers": dict(pairs), "value": value}
