"""Data for the screenshots of the console: hundreds of links, a parked account, a generation that is being built,
recorded commands of operators."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import urllib.request
import uuid

API_URL = os.environ["API_URL"]
LINKS = 300
DEADLINE_S = 30
# First key of the lock of a running command (projector/src/operations/audit/table.rs).
LOCK_CLASS = 0x6C6B6F70
HOSTILE = "https://example.com/?q=%3Cscript%3E&x='onerror=alert(1)&" + "long-" * 200

# Sessions that stand for running commands.
sessions = []


def psql(statement):
    command = ["psql", os.environ["DATABASE_URL"], "-v", "ON_ERROR_STOP=1", "-qAt", "-c", statement]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def command(*arguments):
    command = [f"target/debug/{arguments[0]}", *arguments[1:]]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def call(method, path, body=None):
    headers = {
        "Authorization": f"Bearer {os.environ['API_KEY']}",
        "Content-Type": "application/json",
        "Idempotency-Key": str(uuid.uuid4()),
    }
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(API_URL + path, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or "null")


def import_links(data_folder):
    with tempfile.TemporaryDirectory() as folder:
        addresses = pathlib.Path(folder, "addresses.txt")
        lines = [f"https://shop.example.com/products/{n}?campaign=autumn" for n in range(LINKS)]
        addresses.write_text("\n".join([*lines, HOSTILE]) + "\n")
        command("linkledger", "import", str(addresses), "--data-dir", data_folder)


def eventful_link():
    link = call("POST", "/v1/links", {"destination_url": "https://example.com/spring", "slug": "Spring-Sale"})
    for n in range(3):
        call("PATCH", f"/v1/links/{link['id']}", {"destination_url": f"https://example.com/sale/{n}?ref=newsletter"})
    command("command-api", "link", "disable", "--link", link["id"], "--reason", "phishing, ticket 481")
    command("command-api", "link", "enable", "--link", link["id"], "--reason", "appeal granted")
    call("DELETE", f"/v1/links/{call('POST', '/v1/links', {'destination_url': HOSTILE})['id']}")
    return link["id"]


def parked_account():
    """Parks an account: appends an event of an unknown type, as a future release might."""
    created = command("command-api", "account", "create", "--name", "<b>Acme</b> & Söhne", "--json")
    account = json.loads(created)["account_id"]
    grant = ["command-api", "credits", "grant", "--account", account, "--idempotency-key"]
    command(*grant, "7", "--amount", "1000", "--reason", "invoice 7")
    psql(f"""WITH it AS (SELECT shard, account_id FROM event_store.accounts WHERE name LIKE '<b>Acme%'),
                  advanced AS (UPDATE event_store.log_shards SET head = head + 1 FROM it WHERE log_shards.shard = it.shard RETURNING head)
             INSERT INTO event_store.events (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload, metadata, recorded_at)
             SELECT shard, head, account_id, 2, account_id, gen_random_uuid(), 'AccountPainted', 1, '{{"colour": "<i>red</i>"}}', '{{}}', now() FROM it, advanced;
             UPDATE event_store.accounts SET version = 2 WHERE name LIKE '<b>Acme%'""")
    until = time.monotonic() + DEADLINE_S
    while psql("SELECT count(*) FROM read_model.parked_accounts") != "3":
        assert time.monotonic() < until, "no account was parked before the deadline"
        time.sleep(0.1)
    return account


def running_command():
    """Holds the lock by which the recorded command without an end counts as running; returns the session."""
    locks = f"SELECT pg_advisory_lock({LOCK_CLASS}, operation_id::integer) FROM read_model.operations WHERE finished_at IS NULL"
    command = ["psql", os.environ["DATABASE_URL"], "-v", "ON_ERROR_STOP=1", "-qAt", "-c", locks, "-c", "SELECT pg_sleep(600)"]
    session = subprocess.Popen(command, stdout=subprocess.PIPE)
    # The answer of the first statement: the lock is held.
    assert session.stdout.read(1), "the lock of the running command is not held"
    return session


def operators_at_work(account):
    psql(f"""SELECT read_model.create_generation('links', 2, 1);
            UPDATE read_model.checkpoints AS c SET position = s.head * 6 / 10 FROM event_store.log_shards AS s
            WHERE c.projection = 'links' AND c.generation = 2 AND c.shard = s.shard;
            INSERT INTO read_model.operations (command, projection, subject, operator, reason, started_at, finished_at, outcome, detail)
            VALUES ('verify', 'credits', NULL, 'kim@ops-1', 'weekly', now() - interval '1 hour', now() - interval '58 min', 'failed', '2 of 3,141 buckets differ'),
                   ('pause', 'redirects', NULL, 'ada@ops-2', 'ticket 482: the disk is full', now() - interval '20 min', now() - interval '20 min', 'done', NULL),
                   ('parked skip', NULL, '{account}', 'ada@ops-2', 'ticket 484', now() - interval '9 min', now() - interval '9 min', 'done', 'event 2 is left out'),
                   ('rebuild', 'links', NULL, 'ada@ops-2', 'ticket 483', now() - interval '2 min', NULL, NULL, NULL)""")
    sessions.append(running_command())


def set_up(data_folder):
    """Creates the data; returns the ids of a link and of an account with a history."""
    import_links(data_folder)
    link, account = eventful_link(), parked_account()
    operators_at_work(account)
    return link, account


def clean_up():
    """Ends the recorded commands, and drops the generation."""
    for session in sessions:
        session.kill()
        session.wait()
    psql("""UPDATE read_model.operations SET finished_at = now(), outcome = 'interrupted' WHERE finished_at IS NULL;
            DELETE FROM read_model.checkpoints WHERE generation = 2;
            DELETE FROM read_model.generations WHERE generation = 2;
            DROP TABLE read_model.links_2""")
