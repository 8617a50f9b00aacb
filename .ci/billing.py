"""Lets a billing system work while command-apis are killed, and checks that each of its effects is there once.

usage: billing.py PROGRAMS POSTGRES_PROGRAMS [SECONDS [CUSTOMERS [UPSERTS [SEED]]]]
"""

import pathlib
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "deploy/nemesis"))
from billing_system import ACCOUNTS, LINKS, BillingSystem  # noqa: E402
from stack import Stack, free_port  # noqa: E402

WORKERS, KILL_INTERVAL_S, INVOICES = 8, 5, 4


class BillingStack(Stack):
    """The services with an admin API."""

    admin_ports = {}

    def environment_of(self, name):
        self.admin_ports[name] = free_port()
        return {**super().environment_of(name), "ADMIN_LISTEN": f"127.0.0.1:{self.admin_ports[name]}"}


def jobs_of(billing, invoices, upserts):
    """Returns the jobs in random order: sign-ups, each payment twice, and one use of the service for each customer."""
    customers = list(invoices)
    jobs = [(billing.sign_up, customers[number % len(customers)]) for number in range(upserts)]
    for customer, amounts in invoices.items():
        payments = [(customer, *payment) for payment in amounts.items()]
        jobs += [(billing.pay, *payment) for payment in payments * 2]
        jobs.append((billing.serve, *payments[0]))
    random.shuffle(jobs)
    return jobs


def work(stack, jobs, seconds):
    """Does the jobs while command-apis are killed by turns. Returns the number of kills. The jobs of an interval begin
    together, and the kill is within a second, so that it finds requests under way."""
    begun, kills, is_over = time.monotonic(), 0, threading.Event()

    def seconds_until(interval):
        return max(0, begun + interval * KILL_INTERVAL_S - time.monotonic())

    def do(number):
        time.sleep(seconds_until(number * seconds // len(jobs) // KILL_INTERVAL_S))
        job, *arguments = jobs[number]
        job(*arguments)

    def kill_by_turns():
        nonlocal kills
        while not is_over.wait(seconds_until(kills) + random.random()):
            command_api = stack.commands[kills % len(stack.commands)]
            command_api.kill()
            command_api.start()
            kills += 1

    with ThreadPoolExecutor(WORKERS + 1) as threads:
        killing = threads.submit(kill_by_turns)
        try:
            list(threads.map(do, range(len(jobs))))
        finally:
            is_over.set()
        killing.result()
    return kills


def repeat(billing):
    """Sends each request to the admin API once more; the billing system compares the answers."""
    sent = [(path, body, once) for (path, once, key), (body, _) in billing.answers.items() if not key]
    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(lambda request: billing.send("POST", *request), sent))
    return len(sent)


def check(billing, invoices):
    accounts = billing.pages(ACCOUNTS)
    found = {account["external_id"]: account for account in accounts if "external_id" in account}
    assert set(found) == set(invoices), f"accounts of {set(found) ^ set(invoices)}"
    # One account is that of the stack.
    assert len(accounts) == len(invoices) + 1, f"{len(accounts) - 1} accounts of {len(invoices)} customers"
    for customer, amounts in invoices.items():
        check_account(billing, found[customer], amounts)


def check_account(billing, account, amounts):
    entries = billing.pages(f"{ACCOUNTS}/{account['id']}/entries")
    of = {kind: [entry for entry in entries if entry["type"] == kind] for kind in ("grant", "charge", "refund")}
    paid = sorted((entry["reference"], entry["amount"]) for entry in of["grant"])
    assert paid == sorted(amounts.items()), f"{account}: paid {amounts}, granted {paid}"
    assert len(of["charge"]) == LINKS and len(of["refund"]) == 1, f"{account}: {entries}"
    assert of["refund"][0]["refunds"] in [entry["id"] for entry in of["charge"]], f"{account}: {entries}"
    balance = sum(amounts.values()) + sum(entry["amount"] for entry in of["refund"] + of["charge"])
    assert account["balance"] == balance, f"{account} has not the balance {balance}: {entries}"
    assert account["state"] == "active", account


def main(programs, postgres_programs, seconds=60, customers=100, upserts=1_000, seed=None):
    seed = int(seed or random.randrange(2**32))
    print(f"   {customers} customers, {upserts} upserts in {seconds} s, seed {seed}", flush=True)
    random.seed(seed)
    stack = BillingStack(programs, postgres_programs, command_apis=2)
    # An end by SIGTERM ends the processes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        stack.start()
        scopes = "admin:read,admin:accounts,admin:keys,admin:credits"
        key = stack.operate("admin-key", "issue", "--name", "billing", "--scope", scopes)["secret"]
        billing = BillingSystem(stack, key)
        invoices = {
            f"customers/{number}": {f"invoice-{number}-{nth}": random.randrange(10, 1_000) for nth in range(INVOICES)}
            for number in range(int(customers))
        }
        kills = work(stack, jobs_of(billing, invoices, int(upserts)), int(seconds))
        print(f"   {kills} kills: {dict(billing.counts)}", flush=True)
        repeated = repeat(billing)
        check(billing, invoices)
        verified = stack.operate("log", "verify")
        print(f"   each effect once; {repeated} requests repeated, each answered byte for byte as before; "
              f"log verify: {verified['events']} events, {verified['finding_count']} findings")
        for service in reversed(stack.of_linkledger):
            service.stop()
    except BaseException:
        stack.print_warnings()
        raise
    finally:
        stack.end()


main(*sys.argv[1:])
