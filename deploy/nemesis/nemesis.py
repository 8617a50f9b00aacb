"""Faults under load, judged from outside (docs/reliability.md).

usage: nemesis.py PROGRAMS POSTGRES_PROGRAMS [--seed N] [--minutes M] [--faults KIND,…] [--failover] [--times N]
                   [--upgrade-from PROGRAMS] [--keep FOLDER]
"""

import argparse
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import judge
from audit import Audit
from clients.changers import Changer
from clients.creators import Batcher, Creator
from clients.listers import Lister
from clients.operators import Operator
from clients.readers import Reader, Regular, Visitor
from clients.subscribers import FeedReader, Receiver
from clients.world import World
from disk import can_mount
from faults import FAILOVERS, KINDS, OF_ONE_POSTGRES, OF_DISKS, Faults
from history import History
from stack import JVM_OPTIONS, REPOSITORY, Service
from subscriber_audit import SubscriberAudit
from topology import DISK_BYTES, DISKS, Topology
from upgrade import Upgrade

FAULT_THREADS = 3
# Credits of the accounts; the third one runs out of credits again and again.
ACCOUNTS = {"first": 1_000_000, "second": 1_000_000, "poor": 20, "suspended": 100_000}
# Accounts whose feeds are read, with the types of events, and webhooks with the accounts that own them; one is of operators.
FEEDS = [("first", ()), ("poor", ()), ("suspended", ()),
         ("second", ("LinkCreated", "LinkDeleted", "CreditsCharged", "LinkExpired"))]
WEBHOOKS = [
    ("first", {"in_order": False}), ("first", {"in_order": True}),
    ("poor", {"types": ["link.created", "link.updated", "link.deleted", "link.expired", "credits.granted"], "in_order": True}),
    ("suspended", {"types": ["link.created", "link.first_click", "link.clicks", "account.suspended", "account.resumed"],
                   "in_order": False}),
    (None, {"in_order": False}),
]
EVENTS_TOPIC = "linkledger.events.v1"
THREAD_END_S = 400
# Part of the run after which an upgrade begins.
UPGRADE_BEGIN = 0.25


def arguments():
    parser = argparse.ArgumentParser(description="Faults under load, judged from outside.")
    parser.add_argument("programs")
    parser.add_argument("postgres_programs")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--faults", help="kinds, separated by commas; default: all")
    parser.add_argument("--failover", action="store_true", help="three Postgres servers with Patroni and HAProxy")
    parser.add_argument("--times", type=int, help="end after so many faults, whatever the minutes")
    parser.add_argument("--broken", default="", help="SERVICE=FAULT,…: faults on purpose (deploy/nemesis/prove)")
    parser.add_argument("--upgrade-from", metavar="PROGRAMS", help="folder of the programs of the release before")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for history, log and stream")
    chosen = parser.parse_args()
    known = [*KINDS] if not chosen.failover else [*FAILOVERS, *(kind for kind in KINDS if kind not in OF_ONE_POSTGRES)]
    if not can_mount(DISKS * DISK_BYTES):
        known = [kind for kind in known if kind not in OF_DISKS]
    chosen.kinds = known if chosen.faults is None else [kind for kind in chosen.faults.split(",") if kind]
    if unknown := set(chosen.kinds) - set(known):
        parser.error(f"unknown faults: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen.broken = dict(pair.split("=") for pair in chosen.broken.split(",") if pair)
    return chosen


class Consumer(Service):
    """The console consumer of Apache Kafka, which reads the stream from its beginning during the whole run."""

    def __init__(self, stack):
        command = ["java", "-Xmx128m", *JVM_OPTIONS, f"-Dlog4j2.configurationFile={REPOSITORY}/deploy/kafka/log4j2.properties"]
        command += ["-cp", stack.kafka.class_path, "org.apache.kafka.tools.consumer.ConsoleConsumer"]
        command += ["--bootstrap-server", stack.kafka.addresses, "--topic", EVENTS_TOPIC, "--from-beginning"]
        command += ["--consumer-property", "enable.auto.commit=false"]
        for part in ("headers", "key", "partition", "offset"):
            command += ["--property", f"print.{part}=true"]
        super().__init__(stack, "consumer", command, None)
        self.output = stack.folder / "stream.txt"

    def start(self):
        with (self.stack.folder / "consumer.log").open("ab") as log, self.output.open("ab") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=log)


def make_subscribers(world, seed, ids):
    """Returns the readers of feeds and the receivers of webhooks."""
    readers = [FeedReader(world, f"feedreader-{number}", seed, ids[account], types)
               for number, (account, types) in enumerate(FEEDS, 1)]
    admin_key = world.stack.operate("admin-key", "issue", "--name", "nemesis", "--scope", "admin:read,admin:webhooks")["secret"]
    receivers = [Receiver(world, f"receiver-{number}", seed, ports, wanted, ids.get(account), admin_key)
                 for number, ((account, wanted), ports) in enumerate(zip(WEBHOOKS, world.stack.receiver_ports, strict=True), 1)]
    return readers, receivers


def run(stack, history, chosen):
    """Runs clients and faults, heals everything, and looks at the result. Returns the audit."""
    consumer = Consumer(stack)
    stack.services.append(consumer)
    consumer.start()
    accounts, ids = {}, {}
    for name, credits in ACCOUNTS.items():
        ids[name], key = stack.account(name, credits)
        accounts[ids[name]] = key
    world = World(stack, history, accounts)
    operators = [Operator(world, f"operator-{number}", chosen.seed, ids["suspended"], number == 2) for number in (1, 2)]
    kinds = [(Creator, 2), (Batcher, 1), (Changer, 3), (Reader, 2), (Visitor, 2), (Regular, 1), (Lister, 1)]
    clients = [kind(world, f"{kind.__name__.lower()}-{number}", chosen.seed) for kind, count in kinds for number in range(count)]
    readers, receivers = make_subscribers(world, chosen.seed, ids)
    clients += [*operators, *readers, *receivers]
    busy = {}
    names = [f"nemesis-{number}" for number in range(FAULT_THREADS)] if chosen.kinds else []
    faults = [Faults(stack, history, name, chosen.seed, chosen.kinds, busy) for name in names]
    upgrades = []
    if chosen.upgrade_from:
        account = stack.account("upgrade", 10)
        begin_s = UPGRADE_BEGIN * 60 * chosen.minutes
        upgrades = [Upgrade(world, pathlib.Path(chosen.programs).resolve(), busy, begin_s, chosen.seed, *account)]
    for thread in (*clients, *faults, *upgrades):
        thread.start()
    until = time.monotonic() + 60 * chosen.minutes
    while time.monotonic() < until and not (chosen.times and sum(it.inflicted for it in faults) >= chosen.times):
        time.sleep(0.5)
        if failed := next((thread for thread in (*faults, *clients, *upgrades) if thread.failure), None):
            raise SystemExit(f"{failed.name} has failed: {failed.failure!r}")
    for upgrade in upgrades:
        upgrade.join(THREAD_END_S)
        if upgrade.failure or upgrade.is_alive():
            raise SystemExit(f"the upgrade does not end: {upgrade.failure!r}")
    for fault in faults:
        fault.is_ending.set()
    for fault in faults:
        fault.join(THREAD_END_S)
        if fault.failure or fault.is_alive():
            raise SystemExit(f"{fault.name} does not end: {fault.failure!r}")
    print(f"   faults end after {chosen.minutes} minutes, {history.number} operations", flush=True)
    audit = Audit(world, operators[0], consumer, SubscriberAudit(stack, readers, receivers))
    audit.wait_until_ready()
    time.sleep(5)
    world.is_ending.set()
    for client in clients:
        client.join(THREAD_END_S)
        if client.failure or client.is_alive():
            raise SystemExit(f"{client.name} does not end: {client.failure!r}")
    return audit


def main():
    chosen = arguments()
    print(f"== nemesis: seed {chosen.seed}, {chosen.minutes} minutes, faults {','.join(chosen.kinds)}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    has_disks = not set(OF_DISKS).isdisjoint(chosen.kinds)
    stack = Topology(chosen.upgrade_from or chosen.programs, chosen.postgres_programs, chosen.failover, chosen.broken, has_disks)
    keep = chosen.keep or REPOSITORY / "target" / "nemesis" / str(chosen.seed)
    keep.mkdir(parents=True, exist_ok=True)
    print(f"   logs and history: {keep}", flush=True)
    history = History(keep / "history.ndjson")
    try:
        stack.start()
        audit = run(stack, history, chosen)
        try:
            audit.look()
        finally:
            # Also of a look that could not be completed, for a person to read.
            history.close()
            audit.save(keep)
        for service in reversed(stack.of_linkledger):
            service.stop()
    finally:
        for service in stack.services:
            log = stack.folder / f"{service.name}.log"
            if log.exists():
                shutil.copy(log, keep)
        stack.end()
    sys.exit(judge.main(keep))


if __name__ == "__main__":
    main()
