"""Data for the console for operators: a customer with a long history, a suspended and a parked account, hostile texts,
a generation that is being built, recorded commands of operators."""

import contextlib
import dataclasses
import json
import os
import subprocess
import time

from console_browser import DEADLINE_S, MARKUP, RIGHT_TO_LEFT, RUN, call_api
from console_webhooks import HEBREW, webhooks_to_look_at

API_URL = os.environ["API_URL"]
ADMIN_URL, ADMIN_KEY = os.environ["ADMIN_URL"], os.environ["ADMIN_KEY"]
PSQL = ["psql", os.environ["DATABASE_URL"], "-v", "ON_ERROR_STOP=1", "-qAt"]
# More than a page of the lists of accounts and entries.
ACCOUNTS, GRANTS = 52, 21
# First key of the lock of a running command (projector/src/operations/audit/table.rs).
LOCK_CLASS = 0x6C6B6F70
HOSTILE_URLS = [
    "https://example.com/?q=<script>window.pwned=1</script>",
    "https://example.com/?q=\"><img src=x onerror=window.pwned=1>",
    "https://example.com/" + "very-long-" * 150,
]
SCOPES = ["link:links.read", "link:links.write", "link:credits.read", "link:clicks.read"]


@dataclasses.dataclass
class Customer:
    """An account of the service, with the secret of a key."""

    id: str
    key: str
    path: str


@dataclasses.dataclass
class Scene:
    # Name with which the accounts of a list of several pages begin.
    crowd: str
    customer: Customer
    # Link with a history, and a deleted one.
    link: dict
    deleted: dict
    suspended: str
    parked: str
    # Accounts whose names nobody should believe.
    hostile: list
    # Webhook whose texts nobody should believe.
    webhook: str = ""


def psql(statement):
    return subprocess.run([*PSQL, "-c", statement], check=True, capture_output=True, text=True).stdout.strip()


def admin(method, path, body=None):
    return call_api(ADMIN_URL, ADMIN_KEY, method, f"/admin/v1{path}", body)


def new_customer(name, credits=100, **more):
    account = admin("POST", "/accounts", {"name": name, **more})["id"]
    path = f"/accounts/{account}"
    if credits:
        admin("POST", f"{path}/grants", {"amount": credits, "reason": "invoice paid", "reference": "invoice-7", "description": "Starter pack"})
    return Customer(account, admin("POST", f"{path}/keys", {"name": "web shop", "scopes": SCOPES})["secret"], path)


def new_link(customer, destination="https://example.com/menu", **more):
    return call_api(API_URL, customer.key, "POST", "/v1/links", {"destination_url": destination, **more})


def eventful_link(customer):
    link = new_link(customer, "https://example.com/spring", slug=f"Spring-{RUN}", title="Spring sale", tags=["offers", "spring"], external_id=f"offers/{RUN}")
    for n in range(3):
        call_api(API_URL, customer.key, "PATCH", f"/v1/links/{link['id']}", {"destination_url": f"https://example.com/sale/{n}?ref=newsletter"})
    for command, reason in (("disable", "phishing, ticket 481"), ("enable", "appeal granted")):
        admin("POST", f"/links/{link['id']}/{command}", {"reason": reason})
    return link


def deleted_link(customer):
    link = new_link(customer)
    call_api(API_URL, customer.key, "DELETE", f"/v1/links/{link['id']}")
    return link


def customer_with_history():
    customer = new_customer(f"Example Ltd {RUN}", external_id=f"customers/{RUN}")
    for n in range(GRANTS):
        admin("POST", f"{customer.path}/grants", {"amount": 1_000 + n, "reason": f"invoice {n} paid", "reference": f"invoice-{n}"})
    key = admin("POST", f"{customer.path}/keys", {"name": "till", "scopes": SCOPES[:1], "expires_at": "2099-01-01T00:00:00Z"})["id"]
    admin("POST", f"/keys/{key}/rotate", {"overlap_seconds": 86_400})
    admin("DELETE", f"/keys/{admin('POST', f'{customer.path}/keys', {'scopes': SCOPES[:1]})['id']}")
    return customer


def suspended_account():
    account = new_customer(f"Suspended {RUN}").id
    admin("POST", f"/accounts/{account}/suspend", {"reason": "payment disputed", "stop_redirects": True})
    return account


def crowd():
    name = f"Crowd {RUN}"
    for n in range(ACCOUNTS):
        admin("POST", "/accounts", {"name": f"{name} {n}"})
    return name


def hostile_accounts():
    """Returns accounts whose names, reasons, keys and links would be markup, or turn the page around."""
    marked = new_customer(MARKUP, external_id=f"..//@:{RUN}")
    booking = {"reason": MARKUP, "reference": "<b>7</b>", "description": MARKUP}
    admin("POST", f"{marked.path}/adjustments", {"amount": -1, **booking})
    admin("POST", f"{marked.path}/keys", {"name": MARKUP, "scopes": SCOPES[:1]})
    admin("POST", f"{marked.path}/suspend", {"reason": MARKUP})
    admin("POST", f"{marked.path}/resume", {"reason": MARKUP})
    links = [new_link(marked, url, title=MARKUP, expires_at="2099-01-01T00:00:00Z", expired_url=url) for url in HOSTILE_URLS]
    admin("POST", f"/links/{links[0]['id']}/disable", {"reason": MARKUP})
    # The API refuses invisible characters; texts of an older release may have them.
    turned = new_customer(f"turned {RUN}", external_id=f"turned/{RUN}")
    psql(f"""UPDATE event_store.accounts SET name = '{RIGHT_TO_LEFT} {RUN}' WHERE name = 'turned {RUN}';
             UPDATE event_store.api_keys SET name = '{RIGHT_TO_LEFT}' WHERE account_id =
                 (SELECT account_id FROM event_store.accounts WHERE external_id = 'turned/{RUN}')""")
    return [(marked, links), (turned, [])]


def parked_account():
    """Parks an account: appends an event of an unknown type, as a future release might."""
    name = f"<b>Acme</b> & Söhne {RUN}"
    account = new_customer(name)
    before = int(psql("SELECT count(*) FROM read_model.parked_accounts"))
    psql(f"""WITH it AS (UPDATE event_store.accounts SET version = version + 1 WHERE name = '{name}' RETURNING shard, account_id, version),
                  advanced AS (UPDATE event_store.log_shards SET head = head + 1 FROM it WHERE log_shards.shard = it.shard RETURNING head)
             INSERT INTO event_store.events (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload, metadata, recorded_at)
             SELECT shard, head, account_id, version, account_id, gen_random_uuid(), 'AccountPainted', 1,
                 '{{"colour": "{RIGHT_TO_LEFT} <i>red</i>"}}', '{{}}', now() FROM it, advanced""")
    until = time.monotonic() + DEADLINE_S
    while int(psql("SELECT count(*) FROM read_model.parked_accounts")) < before + 3:
        assert time.monotonic() < until, "no account was parked before the deadline"
        time.sleep(0.1)
    return account.id


def operators_at_work(account):
    psql(f"""SELECT read_model.create_generation('links', highest_generation + 1, 1) FROM read_model.projections WHERE projection = 'links';
            UPDATE read_model.checkpoints AS c SET position = s.head * 6 / 10 FROM event_store.log_shards AS s
            WHERE c.projection = 'links' AND c.role = 'building' AND c.shard = s.shard;
            INSERT INTO read_model.operations (command, projection, subject, operator, reason, started_at, finished_at, outcome, detail)
            VALUES ('verify', 'credits', NULL, 'kim@ops-1', 'weekly', now() - interval '1 hour', now() - interval '58 min', 'failed', '2 of 3,141 buckets differ'),
                   ('pause', 'redirects', NULL, 'ada@ops-2', 'ticket 482: the disk is full', now() - interval '20 min', now() - interval '20 min', 'done', NULL),
                   ('parked skip', NULL, '{account}', '{RIGHT_TO_LEFT}', '{MARKUP}', now() - interval '9 min', now() - interval '9 min', 'done', 'event 3 is left out'),
                   ('rebuild', 'links', NULL, 'ada@ops-2', 'ticket 483', now() - interval '2 min', NULL, NULL, NULL)""")


@contextlib.contextmanager
def running_command():
    """Holds the lock by which the recorded command without an end counts as running."""
    session = subprocess.Popen(PSQL, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    locks = f"SELECT 'held', pg_advisory_lock({LOCK_CLASS}, operation_id::integer) FROM read_model.operations WHERE finished_at IS NULL;\n"
    session.stdin.write(locks)
    session.stdin.flush()
    assert session.stdout.readline().startswith("held"), "the lock of the running command is not held"
    yield
    session.communicate()


def clean_up():
    """Ends the recorded commands, and drops the generation."""
    psql("UPDATE read_model.operations SET finished_at = now(), outcome = 'interrupted' WHERE finished_at IS NULL")
    generation = psql("SELECT generation FROM read_model.generations WHERE projection = 'links' AND phase = 'loading'")
    subprocess.run(["target/debug/projector", "drop", "links", generation], check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def scene():
    """Creates the data; afterwards no command runs, and no generation is built."""
    customer, parked = customer_with_history(), parked_account()
    made = Scene(crowd(), customer, eventful_link(customer), deleted_link(customer), suspended_account(), parked, hostile_accounts())
    operators_at_work(parked)
    try:
        with running_command(), webhooks_to_look_at(admin, lambda: new_link(customer)) as made.webhook:
            psql(f"UPDATE event_store.webhooks SET description = '{RIGHT_TO_LEFT}' WHERE all_accounts AND description = '{HEBREW}'")
            yield made
    finally:
        clean_up()


def issue_admin_key(*scopes):
    """Returns the secret of a new admin key."""
    command = ["target/debug/command-api", "admin-key", "issue", "--name", "test", "--json"]
    issued = subprocess.run([*command, *(part for scope in scopes for part in ("--scope", scope))], check=True, capture_output=True, text=True)
    return json.loads(issued.stdout)["secret"]
