"""Proves the judge on a small sound run, and on the same run with one fault put in for each rule.

    cd deploy/nemesis && python3 -m unittest
"""

import json
import pathlib
import tempfile
import unittest
import uuid

import judge
from judge import minima
from judge.evidence import Evidence, panics, records, text_id
from judge.subscriber_rules import id_of_list, items_in
from clients.subscribers import is_signed
from sound_run import (
    A, ACCOUNT, B, EXPIRED_S, FIRST, L1, L2, OF_B, PROBLEM, RECORDED_AT, SECOND, Run, address, instant_of, list_of)

# Numbers of the events that no request causes.
EXPIRED, FIRST_CLICKED, CLICKED, CLICKED_LATE = 21, 22, 23, 24


def edit(operation, **changes):
    """Changes members of the body of an answer."""
    operation["body"] = json.dumps({**json.loads(operation["body"]), **changes})


def edit_event(run, position, **changes):
    event = run.log[position - 1]
    event["payload"] = json.dumps({**json.loads(event["payload"]), **changes})


def lose_event(run, position):
    del run.log[position - 1]


def copy_event(run, position, **changes):
    version = max(it["version"] for it in run.log if it["stream"] == run.log[position - 1]["stream"]) + 1
    run.log.append({**run.log[position - 1], "position": len(run.log) + 1, "version": version,
                    "event": str(uuid.UUID(int=200)), **changes})


def swap_ends(run):
    """The change to c was answered before the change to b was asked for."""
    run.change_c["start"], run.change_c["end"] = run.first["end"] + 1, run.change_b["start"] - 1


def edit_message(message, **changes):
    """Changes members of the data of a message, as it came, or of the last message of a list."""
    items = items_in(message["body"])
    body = json.loads(items[-1][1] if items else message["body"])
    changed = json.dumps({**body, "data": {**body["data"], **changes}})
    message["body"] = list_of([*items[:-1], (items[-1][0], changed)]) if items else changed


def edit_page(page, number, **changes):
    """Changes members of an item of a page of a feed."""
    items = json.loads(page["body"])["items"]
    items[number].update(changes)
    edit(page, items=items)


def swap_messages(run):
    """The message about the adjustment came before that about the grant."""
    run.both.update(body=list_of(run.items[::-1]), message=id_of_list(run.items[::-1]))


def forge_fact(run, **changes):
    """Changes what the database tells of the other account's webhook at the end."""
    facts = run.facts

    def forged():
        found = facts()
        found["webhooks"][OF_B].update(changes)
        return found

    run.facts = forged


# Each fault with the rule that must notice it: (rule, name, change of the run).
FAULTS = [
    ("positions_are_contiguous", "a hole in the log", lambda run: lose_event(run, 4)),
    ("each_link_is_charged_once", "a second charge", lambda run: copy_event(run, 3)),
    ("each_link_is_charged_once", "a link that nobody paid", lambda run: lose_event(run, 6)),
    ("balances_are_sums", "a lost credit", lambda run: edit_event(run, 6, balance_after=7)),
    ("balances_are_sums", "a negative balance", lambda run: edit_event(run, 1, amount=0, balance_after=0)),
    ("slugs_are_unique", "a slug given twice", lambda run: edit_event(run, 5, slug="ONE")),
    ("nothing_follows_a_deletion", "a change after a deletion",
     lambda run: copy_event(run, 4, stream=SECOND, version=3)),
    ("acknowledged_writes_are_in_the_log", "a lost create", lambda run: edit(run.first, id=text_id("lnk", ACCOUNT))),
    ("acknowledged_writes_are_in_the_log", "a lost change", lambda run: edit_event(run, 4, destination_url=address("z"))),
    ("acknowledged_writes_are_in_the_log", "a lost deletion", lambda run: lose_event(run, 8)),
    ("each_key_has_one_effect", "a replay that creates", lambda run: run.replay["headers"].pop("Idempotent-Replayed")),
    ("each_key_has_one_effect", "a replay with other bytes", lambda run: edit(run.replay, more=1)),
    ("each_key_has_one_effect", "a key with two links", lambda run: copy_event(run, 2, stream=ACCOUNT)),
    ("each_key_has_one_effect", "a batch that replays another link",
     lambda run: edit(run.batch, items=[{"status": 201, "replayed": True, "link": {"id": L1}}])),
    ("batches_keep_their_mode", "a batch that charges a replay", lambda run: edit(run.batch, credits_charged=1)),
    ("batches_keep_their_mode", "a dry run with an effect",
     lambda run: run.dry_run["items"][0]["sent"].update(destination_url=address("x"))),
    ("batches_keep_their_mode", "half of an atomic batch", lambda run: run.dry_run.update(
        mode="atomic", items=[*run.batch["items"], *run.dry_run["items"]], status=504, body="{}")),
    ("answers_are_of_the_contract", "an item with an internal error", lambda run: edit(
        run.dry_run, items=[{"status": 500, "replayed": False, "problem": {"code": "internal_error"}}])),
    ("every_effect_was_asked_for", "a change that nobody asked for",
     lambda run: copy_event(run, 4, payload=json.dumps({"destination_url": address("nobody")}))),
    ("refused_writes_have_no_effect", "a refusal with an effect", lambda run: run.change_c.update(status=503)),
    ("refusals_are_true", "a free slug called taken", lambda run: run.replay.update(
        status=409, sent={"destination_url": address("n"), "slug": "free"},
        headers={"Content-Type": "application/problem+json"}, body='{"code": "slug_taken"}')),
    ("preconditions_hold", "a change despite a stale tag", lambda run: run.change_c.update(if_match='"1"')),
    ("preconditions_hold", "a refusal of the current tag", lambda run: run.refused.update(if_match='"3"')),
    ("changes_are_linearizable", "changes against real time", swap_ends),
    ("changes_are_linearizable", "an older version after a newer one",
     lambda run: run.refused["headers"].update(ETag='"1"')),
    ("operators_commands_happen_once", "a doubled grant", lambda run: copy_event(run, 1)),
    ("answers_show_versions_of_the_log", "a read of another address", lambda run: edit(run.read_b, destination_url=address("q"))),
    ("reads_include_their_token", "a read older than its token", lambda run: (
        run.read_b["headers"].update(ETag='"1"'), edit(run.read_b, destination_url=address("a")))),
    ("reads_include_their_token", "a balance older than its token", lambda run: edit(run.balance, balance=9)),
    ("created_links_are_never_missing", "a created link that is 404", lambda run: run.read_b.update(status=404)),
    ("created_links_are_never_missing", "a redirect that is 404", lambda run: run.redirect_a.update(status=404)),
    ("redirects_are_of_a_version", "a redirect that nobody stopped",
     lambda run: run.redirect_a.update(status=410)),
    ("redirects_are_never_older", "a lost invalidation", lambda run: (
        run.redirect_a.update(headers=run.redirect_b["headers"]), run.redirect_a.update(start=80, end=81),
        run.redirect_b.update(headers={**run.redirect_b["headers"], "Location": address("a")}))),
    ("redirects_are_of_a_version", "a redirect to nowhere",
     lambda run: run.redirect_b["headers"].update(Location=address("never"))),
    ("redirects_are_never_older", "an older redirect through nginx", lambda run: (
        run.redirect_b.update(service="nginx", process=None, headers={**run.redirect_b["headers"], "Location": address("a")}),
        run.read_b.update(op="redirect", status=302, headers=run.redirect_c["headers"] | {"Location": address("b")}, process=7))),
    ("scans_are_exact", "a link twice in a scan", lambda run: edit(run.listed, items=json.loads(run.listed["body"])["items"] * 2)),
    ("scans_are_exact", "a link missing in a scan", lambda run: edit(run.listed, items=json.loads(run.listed["body"])["items"][:1])),
    ("scans_are_exact", "an entry missing in the ledger", lambda run: edit(run.ledger, items=json.loads(run.ledger["body"])["items"][::2])),
    ("last_reads_equal_the_log", "a read table that is wrong", lambda run: run.last["headers"].update(ETag='"2"')),
    ("last_reads_equal_the_log", "a deleted link in the last list",
     lambda run: edit(run.last_list, items=json.loads(run.listed["body"])["items"])),
    ("last_reads_equal_the_log", "a wrong last balance", lambda run: edit(run.last_balance, balance=9)),
    ("answers_are_of_the_contract", "an internal error", lambda run: run.read_b.update(
        status=500, headers={"X-Request-Id": "r", "Content-Type": "application/problem+json"}, body='{"code": "internal_error"}')),
    ("answers_are_of_the_contract", "a write without a token", lambda run: run.deleted["headers"].pop("Consistency-Token")),
    ("clicks_are_counted", "a click twice", lambda run: edit(run.clicks, totals={"clicks": 4, "bots": 0})),
    ("clicks_are_counted", "a lost click", lambda run: edit(run.clicks, totals={"clicks": 2, "bots": 0})),
    ("changes_begin_at_the_state_before", "another value before", lambda run: edit_event(
        run, 9, changes={"title": {"from": "Never", "to": "New"}})),
    ("changes_begin_at_the_state_before", "a link said to be in service", lambda run: edit_event(run, 12, disabled_by=None)),
    ("changes_begin_at_the_state_before", "a change of nothing", lambda run: copy_event(run, 13)),
    ("expiries_are_ahead", "an expiry that was past", lambda run: edit_event(run, 5, expires_at="1970-01-01T00:00:01.000Z")),
    ("expiries_are_ahead", "an address without an expiry", lambda run: edit_event(
        run, 9, changes={"expired_url": {"to": address("over")}})),
    ("external_ids_are_unique", "an external id of two links", lambda run: edit_event(run, 2, external_id="x1")),
    ("acknowledged_writes_are_in_the_log", "a lost detail", lambda run: run.details["sent"].update(title="Lost")),
    ("acknowledged_writes_are_in_the_log", "an enabled link that stays disabled", lambda run: lose_event(run, 13)),
    ("every_effect_was_asked_for", "details that nobody asked for", lambda run: run.details.update(sent={"title": "Other"})),
    ("every_effect_was_asked_for", "a link that nobody disabled", lambda run: run.disabled.update(sent={"title": None})),
    ("refused_writes_have_no_effect", "refused details with an effect", lambda run: run.details.update(status=409)),
    ("refusals_are_true", "a free external id called taken", lambda run: run.taken["sent"].update(external_id="free")),
    ("refusals_are_true", "an external id called taken after its release", lambda run: run.taken.update(
        start=run.deleted["end"] + 1, end=run.deleted["end"] + 2)),
    ("refusals_are_true", "an instant to come called past", lambda run: run.late["sent"].update(
        expires_at="1970-01-02T00:00:00.000Z")),
    ("refusals_are_true", "an operator who has not disabled", lambda run: run.held.update(
        start=run.disabled["start"], end=run.disabled["end"])),
    ("operators_commands_happen_once", "a lost command of an operator", lambda run: lose_event(run, 12)),
    ("answers_show_versions_of_the_log", "an answer without a detail", lambda run: edit(run.last, external_id=None)),
    ("answers_show_versions_of_the_log", "an answer with another role", lambda run: edit(run.disabled, disabled_by="operator")),
    ("redirects_are_of_a_version", "the destination after the expiry",
     lambda run: run.over.update(link=L2, headers={"Location": address("x")})),
    ("redirects_are_of_a_version", "410 in place of the address after the expiry", lambda run: run.over.update(
        status=410, headers=PROBLEM, body='{"code": "short_link_gone"}')),
    ("redirects_are_of_a_version", "an expiry before its time",
     lambda run: run.redirect_c["headers"].update(Location=address("over"))),
    ("redirects_are_of_a_version", "410 before somebody disabled the link",
     lambda run: run.stopped.update(start=run.disabled["start"] - 2, end=run.disabled["start"] - 1)),
    ("redirects_are_never_older", "a redirect of a disabled link", lambda run: run.operations.append(
        {**run.over, "start": run.stopped["end"] + 2, "end": run.stopped["end"] + 3, "id": 1000}) or edit_event(
            run, 13, by="owner", disabled_by=None)),
    ("scans_are_exact", "a link that a filter excludes", lambda run: run.found["filters"].update(external_id="x2")),
    ("scans_are_exact", "a link missing in a filtered scan", lambda run: edit(run.found, items=[])),
    ("last_reads_equal_the_log", "a link missing among the expired", lambda run: edit(run.expired, items=[])),
    ("last_reads_equal_the_log", "a last list without a detail", lambda run: edit(
        run.last_list, items=[{"id": L1, "destination_url": address("c")}])),
    ("answers_are_of_the_contract", "a change refused for a slug", lambda run: edit(run.held, code="slug_taken")),
    ("clicks_are_counted", "a click of an expired link", lambda run: edit(run.clicks, totals={"clicks": 4, "bots": 0})),
    ("feeds_equal_the_log", "an event missing in a feed", lambda run: edit(run.pages[0], items=json.loads(run.pages[0]["body"])["items"][1:])),
    ("feeds_equal_the_log", "a page of a feed twice", lambda run: run.pages[2].update(body=run.pages[1]["body"])),
    ("feeds_equal_the_log", "two pages of a feed in the wrong order", lambda run: (
        run.pages[0].update(body=run.pages[1]["body"]), run.pages[1].update(body=run.pages[0]["body"]))),
    ("feeds_equal_the_log", "the last events missing in a feed", lambda run: edit(run.pages[1], items=[])),
    ("feeds_equal_the_log", "an event with words of operators", lambda run: edit_page(
        run.pages[0], 0, data={"amount": 10, "balance_after": 10, "reason": "nemesis-1"})),
    ("feeds_equal_the_log", "an event with another number", lambda run: edit_page(run.pages[0], 3, sequence=5)),
    ("feeds_equal_the_log", "an event of another type", lambda run: run.deletions.update(types=["LinkCreated"])),
    ("feeds_equal_the_log", "the feed of another account", lambda run: [page.update(account=B) for page in run.pages]),
    ("webhooks_are_in_the_log", "a lost webhook", lambda run: edit(run.webhook, id="whe_lost")),
    ("webhooks_are_in_the_log", "a webhook to another address", lambda run: run.webhook["sent"].update(url="http://127.0.0.1:2/b")),
    ("webhooks_are_in_the_log", "a key with two webhooks", lambda run: run.operations.append(
        {**run.webhook, "body": json.dumps({"id": "whe_2"})})),
    ("webhooks_are_in_the_log", "a webhook that was never created", lambda run: run.webhook.update(status=503)),
    ("webhooks_are_in_the_log", "a webhook of all accounts", lambda run: edit_event(run, 15, all_accounts=True)),
    ("webhooks_receive_each_event", "a message that never came", lambda run: run.operations.remove(run.granted)),
    ("webhooks_receive_each_event", "a refused message that never came again", lambda run: run.operations.remove(run.adjusted[1])),
    ("webhooks_receive_each_event", "a message that nobody accepted", lambda run: run.granted.update(answer=None)),
    ("webhooks_receive_each_event", "an account that operators hear nothing of",
     lambda run: run.operations.remove(run.of_operators[1, 3])),
    ("webhooks_receive_each_event", "a last event that operators hear nothing of",
     lambda run: run.operations.remove(run.of_operators[0, 13])),
    ("messages_belong_to_their_webhook", "a message about another account", lambda run: run.operations.append(
        {**run.of_operators[0, 1], "client": "receiver-1", "arrival": 9})),
    ("messages_belong_to_their_webhook", "a message about an event before the webhook", lambda run: edit_event(
        run, 15, webhook_id="whe_lost") or edit_event(run, 17, webhook_id=OF_B) or run.log[16].update(type="WebhookCreated")),
    ("messages_belong_to_their_webhook", "a message of an unwanted type",
     lambda run: run.webhook["sent"].update(types=["credits.adjusted"])),
    ("messages_belong_to_their_webhook", "a message about nothing", lambda run: run.granted.update(
        message="evt_none", body=list_of([("evt_none", run.items[0][1])]))),
    ("messages_belong_to_their_webhook", "clicks by minute for a webhook that does not name them", lambda run: run.message(
        "receiver-2", 9, 200, text_id("evt", run.log[CLICKED - 1]["event"]), "link.clicks", {})),
    ("messages_belong_to_their_webhook", "a message for operators", lambda run: run.operations.append(
        {**run.of_operators[2, 1], "client": "receiver-1", "arrival": 9})),
    ("messages_belong_to_their_webhook", "a test that nobody asked for", lambda run: run.operations.remove(run.test)),
    ("messages_equal_their_events", "a message with words of operators", lambda run: edit_message(run.granted, reason="nemesis-4")),
    ("messages_equal_their_events", "a message with another number", lambda run: edit_message(run.granted, sequence=4)),
    ("messages_equal_their_events", "a message with another value", lambda run: edit_message(run.of_operators[0, 4], destination_url="x")),
    ("messages_equal_their_events", "a created link with another charge",
     lambda run: edit_message(run.of_operators[0, 2], charge={"amount": 2})),
    ("messages_equal_their_events", "a message with another type", lambda run: run.granted.update(
        body=run.granted["body"].replace("credits.granted", "credits.adjusted"))),
    ("messages_equal_their_events", "a repeat with other bytes", lambda run: run.adjusted[1].update(body=run.adjusted[1]["body"] + " ")),
    ("messages_equal_their_events", "a body that is no message", lambda run: run.granted.update(body="[]")),
    ("messages_equal_their_events", "another value in a list", lambda run: edit_message(run.both, amount=-2)),
    ("messages_belong_to_their_webhook", "a list that ends too early", lambda run: run.both.update(body=run.both["body"][:-9])),
    ("requests_have_the_form_of_their_webhook", "a list at a webhook without order", lambda run: run.of_operators[0, 1].update(
        body=list_of([(run.of_operators[0, 1]["message"], run.of_operators[0, 1]["body"])]))),
    ("requests_have_the_form_of_their_webhook", "a message without a list that was not refused",
     lambda run: run.granted.update(body=run.items[0][1])),
    ("requests_have_the_form_of_their_webhook", "a message without a list whose list was refused", lambda run: (
        run.operations.remove(run.adjusted[0]), run.both.update(answer=400))),
    ("requests_have_the_form_of_their_webhook", "a list under its first id", lambda run: run.both.update(message=run.items[0][0])),
    ("requests_have_the_form_of_their_webhook", "a list of several under its last id",
     lambda run: run.both.update(message=run.items[1][0])),
    ("requests_have_the_form_of_their_webhook", "a list of one under an id of its own",
     lambda run: run.granted.update(message="{0}:{0}:1".format(run.items[0][0]))),
    ("requests_have_the_form_of_their_webhook", "a list of another time", lambda run: run.both.update(
        body=run.both["body"].replace(RECORDED_AT, instant_of(2), 1))),
    ("requests_have_the_form_of_their_webhook", "a message twice in a list",
     lambda run: run.both.update(body=list_of([*run.items, run.items[1]]))),
    ("requests_have_the_form_of_their_webhook", "a list that is too long", lambda run: run.both.update(
        body=list_of([*((f"evt_{number}", '{"type":"x"}') for number in range(100)), run.items[1]]))),
    ("ordered_webhooks_keep_the_order", "two first messages in the wrong order", swap_messages),
    ("messages_are_signed", "a signature of another secret", lambda run: run.granted.update(is_signed=False)),
    ("messages_are_signed", "only a signature of the secret before", lambda run: run.granted.update(is_of_newest=False)),
    ("messages_are_signed", "a signature of yesterday", lambda run: run.granted.update(timestamp="1")),
    ("messages_are_signed", "a signature without a time", lambda run: run.granted.update(timestamp="")),
    ("every_effect_was_asked_for", "a rotation that nobody asked for", lambda run: run.operations.remove(run.rotation)),
    ("expiries_are_observed_once", "an expiry without its event", lambda run: lose_event(run, EXPIRED)),
    ("expiries_are_observed_once", "an expiry with two events", lambda run: copy_event(run, EXPIRED)),
    ("expiries_are_observed_once", "an event before the expiry", lambda run: run.log[EXPIRED - 1].update(recorded_s=899.999)),
    ("expiries_are_observed_once", "an event at another instant", lambda run: edit_event(run, EXPIRED, expires_at=instant_of(800))),
    ("expiries_are_observed_once", "the expiry of a deleted link", lambda run: edit_event(run, EXPIRED, link_id=L2)),
    ("expiries_are_observed_once", "the expiry of another account", lambda run: run.log[EXPIRED - 1].update(account=SECOND)),
    ("expiries_are_observed_once", "an expiry that ended later without an event", lambda run: run.deleted.update(start=1300, end=1301)),
    ("first_clicks_are_observed_once", "a first click without its event", lambda run: lose_event(run, FIRST_CLICKED)),
    ("first_clicks_are_observed_once", "a first click twice", lambda run: copy_event(run, FIRST_CLICKED)),
    ("first_clicks_are_observed_once", "a first click without a visit", lambda run: edit_event(
        run, FIRST_CLICKED, clicked_at=instant_of(1))),
    ("first_clicks_are_observed_once", "a first click of no link", lambda run: edit_event(
        run, FIRST_CLICKED, link_id=text_id("lnk", ACCOUNT))),
    ("clicks_by_minute_add_up", "a click in two events", lambda run: edit_event(
        run, CLICKED_LATE, links=[{"link_id": L1, "clicks": 2, "bots": 0}])),
    ("clicks_by_minute_add_up", "a click in no event", lambda run: lose_event(run, CLICKED_LATE)),
    ("clicks_by_minute_add_up", "a click of a human told as one of a bot", lambda run: edit_event(
        run, CLICKED_LATE, links=[{"link_id": L1, "clicks": 0, "bots": 1}])),
    ("clicks_by_minute_add_up", "clicks that no webhook wants", lambda run: run.webhook_of_a["sent"].update(types=["link.created"])),
    ("clicks_by_minute_add_up", "clicks before the webhook", lambda run: run.log.append(run.log.pop(CLICKED - 1) | {
        "position": 1, "shard": 0})),
    ("clicks_by_minute_add_up", "half a minute", lambda run: edit_event(run, CLICKED, minute=instant_of(30))),
    ("clicks_by_minute_add_up", "a link twice in an event", lambda run: edit_event(
        run, CLICKED, links=[{"link_id": L1, "clicks": 1, "bots": 0}] * 2)),
    ("clicks_by_minute_add_up", "a link without clicks", lambda run: edit_event(
        run, CLICKED, links=[{"link_id": L1, "clicks": 2, "bots": 0}, {"link_id": L2, "clicks": 0, "bots": 0}])),
    ("clicks_by_minute_add_up", "a link of nobody", lambda run: edit_event(
        run, CLICKED, links=[{"link_id": L1, "clicks": 2, "bots": 0}, {"link_id": text_id("lnk", ACCOUNT), "clicks": 1, "bots": 0}])),
    ("webhooks_end_healthy", "a message that still waits", lambda run: edit(run.states[0], waiting=1)),
    ("webhooks_end_healthy", "an ill receiver", lambda run: edit(run.states[1], health={"state": "ill"})),
    ("webhooks_end_healthy", "a webhook that nobody could read", lambda run: run.operations.remove(run.states[0])),
    ("webhooks_end_healthy", "a cursor that stands still", lambda run: forge_fact(run, behind=1)),
    ("webhooks_end_healthy", "a webhook that the service has disabled", lambda run: forge_fact(run, enabled=False)),
    ("operators_checks_are_clean", "a finding of verify", lambda run: run.operations[-6].update(exit=1)),
]
# Last looks that are repeated, with their rules.
LOOKS = [("last", "last_reads_equal_the_log"), ("last_balance", "last_reads_equal_the_log"), ("clicks", "clicks_are_counted")]
# Faults of the stream: (name, change of the records).
STREAM_FAULTS = [
    ("a record that is lost", lambda records: records.pop(3)),
    ("a last record that is lost", lambda records: records.pop()),
    ("two records in the wrong order", lambda records: records.insert(2, records.pop(3))),
    ("a record with other bytes", lambda records: records[4].update(value="{}")),
    ("a record with the state before", lambda records: records[6]["headers"].update(
        ce_linkstate=records[3]["headers"]["ce_linkstate"])),
    ("a change without a state", lambda records: records[3]["headers"].pop("ce_linkstate")),
    ("a record beyond the log", lambda records: records[7]["headers"].update(ce_sequence="9")),
]


class Judge(unittest.TestCase):
    def judge(self, run, stream=None):
        return judge.findings(Evidence(run.operations, run.facts(), run.stream() if stream is None else stream))

    def test_sound_run_has_no_findings(self):
        self.assertEqual(self.judge(Run()), {})

    def test_repeated_records_are_no_finding(self):
        run = Run()
        records = run.stream()
        self.assertEqual(self.judge(run, [*records[:5], *records[2:]]), {})

    def test_each_fault_breaks_its_rule(self):
        for rule, name, damage in FAULTS:
            with self.subTest(name):
                run = Run()
                damage(run)
                self.assertIn(rule, self.judge(run))

    def test_each_fault_of_the_stream_is_found(self):
        for name, damage in STREAM_FAULTS:
            with self.subTest(name):
                run = Run()
                records = run.stream()
                damage(records)
                self.assertIn("stream_equals_the_log", self.judge(run, records))

    def test_each_rule_has_a_fault(self):
        proved = {rule for rule, *_ in FAULTS} | {"stream_equals_the_log", "services_recover", "no_task_panics"}
        self.assertEqual({rule.__name__ for rule in judge.RULES}, proved)

    def test_repeats_at_a_webhook_in_order_are_no_finding(self):
        run = Run()
        run.operations.append({**run.granted, "arrival": 9})
        self.assertEqual(self.judge(run), {})

    def test_expiry_that_ends_soon_needs_no_event(self):
        for asked_s, is_broken in ((EXPIRED_S, False), (1300, True)):
            run = Run()
            run.deleted.update(start=asked_s, end=asked_s + 1)
            self.assertEqual("expiries_are_observed_once" in self.judge(run), is_broken)

    def test_expiry_to_come_needs_no_event(self):
        run = Run()
        lose_event(run, EXPIRED)
        found = judge.findings(Evidence(run.operations, run.facts() | {"observed_until_s": 899}, run.stream()))
        self.assertNotIn("expiries_are_observed_once", found)

    def test_clicks_need_no_event_before_their_webhook(self):
        run = Run()
        lose_event(run, CLICKED_LATE)
        run.webhook_of_a["end"] = run.redirect_a["start"] + 1
        self.assertNotIn("clicks_by_minute_add_up", self.judge(run))

    def test_clicks_of_minutes_to_come_need_no_event(self):
        for number, is_broken in ((1, False), (0, True)):
            run = Run()
            lose_event(run, CLICKED_LATE)
            left = {"minutes_left": [{"link": FIRST, "clicks": number, "bots": 0}]}
            found = judge.findings(Evidence(run.operations, run.facts() | left, run.stream()))
            self.assertEqual("clicks_by_minute_add_up" in found, is_broken)

    def test_clicks_of_a_clock_that_is_behind_need_no_event(self):
        for jump_s, is_broken in ((-7200, False), (7200, True)):
            run = Run()
            lose_event(run, CLICKED_LATE)
            run.redirect_a["service"] = "query-api-1"
            run.operations.append({"op": "fault", "kind": "clock", "client": "faults", "target": "query-api-1", "jump_s": jump_s,
                                   "start": run.redirect_a["start"] - 1, "end": run.redirect_a["end"]})
            self.assertEqual("clicks_by_minute_add_up" in self.judge(run), is_broken)

    def test_first_click_can_follow_a_visit_that_nobody_waited_for(self):
        for status, is_broken in ((None, False), (302, True)):
            run = Run()
            edit_event(run, FIRST_CLICKED, clicked_at=instant_of(run.redirect_a["end"] + 3))
            run.redirect_a["status"] = status
            self.assertEqual("first_clicks_are_observed_once" in self.judge(run), is_broken)

    def test_webhook_of_operators_begins_between_two_looks_at_the_heads(self):
        run = Run()
        after = next(it for it in run.operations if it.get("when") == "after")
        after["heads"][0]["head"] = 1
        self.assertEqual(self.judge(run), {})
        run.operations.remove(run.of_operators[0, 1])
        self.assertEqual(self.judge(run), {})
        run.operations.remove(run.of_operators[0, 2])
        self.assertEqual([*self.judge(run)], ["webhooks_receive_each_event"])

    def test_signature_has_the_time_of_a_clock_that_jumps(self):
        for target, is_broken in (("webhooks-1", False), ("query-api-1", True)):
            run = Run()
            run.granted["timestamp"] = str(run.granted["start"] + 7200)
            run.operations.append({"op": "fault", "kind": "clock", "client": "faults", "target": target, "jump_s": 7200,
                                   "start": run.granted["start"] - 5, "end": run.granted["start"]})
            self.assertEqual("messages_are_signed" in self.judge(run), is_broken, target)

    def test_redirects_may_be_stale_during_a_fault_for_as_long_as_permitted(self):
        for staleness_s, has_fault, is_broken in ((0.5, True, True), (60, False, True), (60, True, False)):
            run = Run()
            older = run.redirect_b["headers"] | {"Location": address("a")}
            run.redirect_b.update(service="nginx", process=None, headers=older)
            run.read_b.update(op="redirect", status=302, process=7,
                              headers=run.redirect_c["headers"] | {"Location": address("b")})
            if has_fault:
                run.operations.append({"op": "fault", "kind": "primary-lost", "client": "faults", "target": "postgres-1",
                                       "start": run.redirect_b["start"] - 1, "end": run.redirect_b["end"]})
            found = judge.findings(Evidence(run.operations, run.facts() | {"redirect_staleness_s": staleness_s}, run.stream()))
            self.assertEqual("redirects_are_never_older" in found, is_broken, (staleness_s, has_fault))

    def test_refusal_after_a_retry_by_nginx_can_have_an_effect(self):
        for retries, is_broken in ([], True), (["n1"], False):
            run = Run()
            run.change_c.update(service="nginx", status=503, headers={"X-Request-Id": "n1"})
            found = judge.findings(Evidence(run.operations, run.facts() | {"nginx_retries": retries}, run.stream()))
            self.assertEqual("refused_writes_have_no_effect" in found, is_broken)

    def test_visit_that_nginx_retries_can_be_three_clicks(self):
        for retries, is_broken in ([], True), (["n1"], False):
            run = Run()
            run.redirect_c.update(service="nginx", process=None)
            run.redirect_c["headers"]["X-Request-Id"] = "n1"
            edit(run.clicks, totals={"clicks": 5, "bots": 0})
            found = judge.findings(Evidence(run.operations, run.facts() | {"nginx_retries": retries}, run.stream()))
            self.assertEqual("clicks_are_counted" in found, is_broken)

    def test_last_answer_of_a_repeated_look_counts(self):
        for look, rule in LOOKS:
            for others, is_broken in (["one"], False), ([], True):
                self.assertEqual(rule in self.findings_after_refusal(look, others), is_broken, look)
        # The answer of one process does not excuse another.
        self.assertIn("last_reads_equal_the_log", self.findings_after_refusal("last", ["two"]))

    def findings_after_refusal(self, look, services_that_answer):
        run = Run()
        answered = getattr(run, look)
        at = run.operations.index(answered)
        run.operations[at:at + 1] = [{**answered, "status": 503, "body": "{}"}] + [
            {**answered, "service": service} for service in services_that_answer]
        return judge.findings(Evidence(run.operations, run.facts(), run.stream()))

    def test_signature_is_that_of_the_specification(self):
        secret, message = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330")
        signature, body = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", b'{"test": 2432232314}'
        self.assertTrue(is_signed(secret, *message, signature, body))
        self.assertTrue(is_signed(secret, *message, f"v1,other {signature}", body))
        self.assertFalse(is_signed(secret, *message, signature, body + b" "))
        self.assertFalse(is_signed(secret, message[0], "1614265331", signature, body))
        self.assertFalse(is_signed(secret, *message, "", body))

    def test_log_of_the_consumer_inside_of_a_record_is_skipped(self):
        log = "2026-11-26T21:20:03,230 WARN [Consumer clientId=console-consumer] Connection to node 2 failed.\n"
        printed = f"{log}Partition:1\tOffset:7\tce_id:evt_1,{log}ce_logepoch:1\tacc_1\t{{}}\n"
        (found,) = records(printed)
        self.assertEqual((found["offset"], found["headers"]), (7, {"ce_id": "evt_1", "ce_logepoch": "1"}))

    def test_panic_in_a_log_is_a_finding(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "query-api-1.log"
            log.write_text('{"level":"INFO"}\nthread \'main\' panicked at src/lib.rs:1:2:\non purpose\n')
            found = panics(log)
        self.assertEqual(found, ["query-api-1: thread 'main' panicked at src/lib.rs:1:2: on purpose"])
        run = Run()
        found = judge.findings(Evidence(run.operations, run.facts() | {"panics": found}, run.stream()))
        self.assertIn("no_task_panics", found)

    def test_slow_recovery_is_a_finding(self):
        run = Run()
        found = judge.findings(Evidence(run.operations, run.facts() | {"ready_after_s": 1000}, run.stream()))
        self.assertIn("services_recover", found)


class Minima(unittest.TestCase):
    def test_each_operation_of_the_sound_run_is_counted(self):
        run = Run()
        run.redirect_c["headers"]["X-Request-Id"] = "n1"
        numbers = minima.exercised(Evidence(run.operations, run.facts() | {"nginx_retries": ["n1"]}, []))
        self.assertEqual([minimum.operations for minimum, number, _ in numbers if number == 0], [])

    def test_operations_of_the_last_look_are_not_counted(self):
        run = Run()
        for operation in run.operations:
            operation["client"] = "auditor"
        # Operators send commands in the last look too, of other kinds, and no client is the cause of these events.
        numbers = minima.exercised(Evidence(run.operations, run.facts(), []))
        self.assertEqual([minimum.operations for minimum, number, _ in numbers if number], [
            "commands of operators", "events of expiries", "events of first clicks", "events of clicks by minute"])

    def test_missing_operation_is_named(self):
        numbers = [(minimum, 0, 4.0) for minimum in minima.MINIMA]
        sentences = list(minima.missing(numbers))
        self.assertIn("the run has no refusals external_id_taken in 4.0 minutes, and needs at least 1", sentences)
        self.assertIn("the run has no redirects after an expiry in 4.0 minutes, and needs at least 1", sentences)
        self.assertEqual(list(minima.missing((minimum, 200, 20.0) for minimum in minima.MINIMA)), [])

    def test_short_run_needs_no_rare_operation(self):
        sentences = list(minima.missing((minimum, 8, 1.0) for minimum in minima.MINIMA))
        self.assertEqual(sentences, ["the run has 8 creates in 1.0 minutes, and needs at least 10"])

    def test_expiry_explains_no_answer_of_a_stopped_link(self):
        run = Run()
        evidence = Evidence(run.operations, run.facts(), [])
        after = [it["id"] for it in evidence.of["redirect"] if minima.is_after_an_expiry(evidence, it)]
        self.assertEqual(after, [run.over["id"]])

    def test_retries_are_needed_after_ten_minutes_with_faults_of_processes(self):
        for number, least in ((4, 0), (5, 10)):
            run = Run()
            for _ in range(number):
                run.add("fault", None, kind="kill", target="query-api-1", process=1, unacknowledged=0)
            duration = minima.minutes_of_retries(Evidence(run.operations, run.facts(), []))
            self.assertGreaterEqual(duration, least)
            self.assertEqual(duration > 0, least > 0)


if __name__ == "__main__":
    unittest.main()
