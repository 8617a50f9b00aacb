"""Runs the commands of OPERATORS_PAGES and docs/runbooks.md against a stack. A runbook with an entry in SITUATIONS
is run in the situation of its alert; afterwards `projector status --check` must succeed again.

Every block ```sh is run, command by command, except the commands in NOT_RUN. A command has to end with 0. A
command whose comment says `exit code 1` has to end with 1 in the situation of its runbook, and may end with 1
or 0 otherwise. `acc_…`, `adm_…`, `ent_…`, `key_…`, `lnk_…` and `PID` stand for the values that earlier commands have shown last.

usage: runbooks.py FOLDER, an empty one, from the root of the repository, with the variables of the
stack's `env` and the programs on the PATH
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request
import uuid

# Prefixes of commands that are not run here, each with the place where they are tested.
NOT_RUN = {
    "kafka-": ".ci/kafka-security, with the tools of Apache Kafka",
    "deploy/kafka/acls": ".ci/kafka-security, with the tools of Apache Kafka",
    "projector drop": "projector/tests/operations/rebuild_killed.rs, a minute after it was served",
    "command-api relay republish": "command-api/tests/relay/republish.rs, with an empty topic",
}
DEADLINE_S = 30
# In this order: commands use the ids that earlier ones have shown.
OPERATORS_PAGES = ["docs/operations.md", "docs/log.md", "docs/projections.md", "docs/kafka.md"]

shown = {}


def psql(statement):
    command = ["psql", os.environ["DATABASE_URL"], "-v", "ON_ERROR_STOP=1", "-qAt", "-c", statement]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def metric(name, labels=""):
    """Sums the samples of a metric whose labels contain this text."""
    with urllib.request.urlopen(os.environ["PROJECTOR_METRICS_URL"]) as answer:
        lines = answer.read().decode().splitlines()
    of_it = [line for line in lines if re.match(rf"{name}[{{ ]", line) and labels in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in of_it)


def eventually(what, holds):
    until = time.monotonic() + DEADLINE_S
    while not holds():
        if time.monotonic() > until:
            sys.exit(f"timeout after {DEADLINE_S} s: {what}")
        time.sleep(0.1)


def create_link(slug):
    body = json.dumps({"destination_url": "https://example.com/", "slug": slug}).encode()
    headers = {
        "Authorization": f"Bearer {os.environ['API_KEY']}",
        "Content-Type": "application/json",
        "Idempotency-Key": str(uuid.uuid4()),
    }
    with urllib.request.urlopen(urllib.request.Request(f"{os.environ['API_URL']}/v1/links", body, headers)) as answer:
        note(answer.read().decode())


@contextlib.contextmanager
def forgotten_session(statements):
    """Opens a session that stays in a transaction; `PID` is its process."""
    arguments = ["psql", os.environ["DATABASE_URL"], "-qAt"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as session:
        session.stdin.write(f"BEGIN; {statements}; SELECT 'PID', pg_backend_pid();\n")
        session.stdin.flush()
        line = next(line for line in session.stdout if line.startswith("PID"))
        shown["PID"] = line.strip().split("|")[1]
        yield
        session.communicate()


@contextlib.contextmanager
def old_snapshot():
    with forgotten_session("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1"):
        eventually("the snapshot is seen", lambda: metric("linkledger_oldest_snapshot_age_seconds") > 1)
        yield


@contextlib.contextmanager
def checkpoints_locked():
    with forgotten_session("SELECT count(*) FROM (SELECT 1 FROM read_model.checkpoints WHERE projection = 'links' FOR UPDATE) AS locked"):
        create_link("locked")
        eventually("an event waits", lambda: metric("linkledger_projection_lag_seconds", 'projection="links"') > 1)
        yield


@contextlib.contextmanager
def changes_locked():
    age = functools.partial(metric, "linkledger_redirect_cache_age_seconds")
    with forgotten_session("LOCK TABLE read_model.redirect_change_counter"):
        eventually("the cache is bypassed", lambda: age() > 0.5)
        yield
        eventually("the cache is asked", lambda: age() < 0.5)


@contextlib.contextmanager
def relay_paused():
    subprocess.run(["command-api", "relay", "pause", "--reason", "a test"], check=True, capture_output=True)
    eventually("the relay is paused", lambda: metric("linkledger_relay_paused") == 1)
    yield


@contextlib.contextmanager
def projection_paused():
    subprocess.run(["projector", "pause", "links", "--reason", "a test"], check=True, capture_output=True)
    create_link("paused")
    eventually("the pause is seen", lambda: metric("linkledger_projection_paused") > 0)
    yield


@contextlib.contextmanager
def rebuild_killed():
    rebuild = subprocess.Popen(["projector", "rebuild", "links", "--max-rate", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually("the rebuild has begun", lambda: psql("SELECT count(*) FROM read_model.checkpoints WHERE role = 'building'") != "0")
    rebuild.kill()
    rebuild.wait()
    eventually("the metrics show the failed rebuild", lambda: metric("linkledger_operation_failed", 'command="rebuild"') > 0)
    yield


@contextlib.contextmanager
def row_corrupted():
    psql("UPDATE read_model.links SET destination_url = 'https://wrong.example/' WHERE slug = 'spring' AND generation = (SELECT active_generation FROM read_model.projections WHERE projection = 'links')")
    found = subprocess.run(["projector", "verify"], capture_output=True)
    eventually("the corrupted row is found", lambda: found.returncode == 1 and metric("linkledger_verify_mismatches") > 0)
    yield
    eventually("the corrupted row is repaired", lambda: metric("linkledger_verify_mismatches") == 0)


@contextlib.contextmanager
def account_parked():
    """Parks an account: appends an event of an unknown type, as a future release might."""
    created = subprocess.run(["command-api", "account", "create", "--name", "Poison"], check=True, capture_output=True, text=True)
    note(created.stdout)
    psql("""WITH it AS (SELECT shard, account_id FROM event_store.accounts ORDER BY created_at DESC LIMIT 1),
                 advanced AS (UPDATE event_store.log_shards SET head = head + 1 FROM it WHERE log_shards.shard = it.shard RETURNING head)
            INSERT INTO event_store.events (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload, metadata, recorded_at)
            SELECT shard, head, account_id, 2, account_id, gen_random_uuid(), 'FromTheFuture', 1, '{}', '{}', now() FROM it, advanced""")
    eventually("the account is parked", lambda: metric("linkledger_parked_accounts") > 0)
    yield
    eventually("no account is parked", lambda: metric("linkledger_parked_accounts") == 0)


# Situations by section of docs/runbooks.md. All other runbooks are run on a healthy stack.
SITUATIONS = {
    "Projection stands still": checkpoints_locked,
    "Old snapshot": old_snapshot,
    "Projection paused": projection_paused,
    "Operation failed": rebuild_killed,
    "Verify mismatch": row_corrupted,
    "Redirect cache bypassed": changes_locked,
    "Relay paused": relay_paused,
    "Accounts parked": account_parked,
}


def note(output):
    """Remembers the ids that were shown last."""
    for found in re.finditer(r"\b(acc|adm|ent|key|lnk)_[0-9a-hjkmnp-tv-z]{26}\b", output):
        shown[f"{found[1]}_…"] = found[0]


def sections(path):
    """Returns the commands of a document by heading of level 2, in order."""
    by_heading = {}
    for part in re.split(r"^## ", path.read_text(), flags=re.M)[1:]:
        blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", part, re.M | re.S)
        by_heading[part.split("\n")[0]] = [command for block in blocks for command in commands(block)]
    return by_heading


def commands(block):
    """Splits a block into commands; a command may have several lines."""
    pending = ""
    for line in block.splitlines():
        pending += line + "\n"
        # bash -n reports an unexpected end of file, but accepts a backslash at the end.
        is_whole = subprocess.run(["bash", "-n", "-c", pending], capture_output=True).returncode == 0
        if is_whole and not line.endswith("\\"):
            if pending.strip():
                yield pending.strip()
            pending = ""
    if pending:
        sys.exit(f"a code block ends with an incomplete command: {pending}")


def run(command, folder, is_well=True):
    if any(command.startswith(prefix) for prefix in NOT_RUN):
        return
    actual = re.sub(r" \[--[^\]]*\]", "", command)
    actual = re.sub(r"\b(host|new):9092\b", os.environ["KAFKA_BROKERS"], actual)
    for placeholder, value in shown.items():
        actual = actual.replace(placeholder, value)
    if "…" in actual:
        sys.exit(f"no earlier command has shown a value for the placeholder in: {actual}")
    # A command that runs until Ctrl-C is interrupted after 3 s.
    ends = ["timeout", "--preserve-status", "--signal", "INT", "3"] if "until Ctrl-C" in command else []
    done = subprocess.run([*ends, "bash", "-o", "pipefail", "-c", actual], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S)
    allowed = ({0, 1} if is_well else {1}) if "exit code 1" in command else {0}
    if done.returncode not in allowed:
        sys.exit(f"exit code {done.returncode} of\n{actual}\n{done.stdout}")
    note(done.stdout)


def nothing_waits():
    status = subprocess.run(["projector", "status", "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if status.returncode != 0:
        print(status.stdout, flush=True)
    return status.returncode == 0


def main(folder):
    create_link("spring")
    for page in OPERATORS_PAGES:
        commands_of_page = [command for section in sections(pathlib.Path(page)).values() for command in section]
        if not commands_of_page:
            sys.exit(f"{page} has no commands")
        for command in commands_of_page:
            run(command, folder)
    runbooks = sections(pathlib.Path("docs/runbooks.md"))
    empty = [heading for heading, all_commands in runbooks.items() if not all_commands]
    unknown = SITUATIONS.keys() - runbooks.keys()
    if empty or unknown:
        sys.exit(f"runbooks without a command: {empty}; situations without a runbook: {unknown}")
    for heading in sorted(runbooks, key=lambda it: list(SITUATIONS).index(it) if it in SITUATIONS else -1):
        began = time.monotonic()
        with SITUATIONS.get(heading, contextlib.nullcontext)():
            for command in runbooks[heading]:
                run(command, folder, is_well=heading not in SITUATIONS)
        if heading in SITUATIONS:
            eventually(f"projector status --check succeeds after the runbook `{heading}`", nothing_waits)
            print(f"{heading}: mended after {time.monotonic() - began:.1f} s", flush=True)


main(*sys.argv[1:])
