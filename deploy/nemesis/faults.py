"""Faults, several at once, drawn from the seed. Each ends by itself, and its end is recorded for the recovery times."""

import contextlib
import random
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error

from patroni import CLUSTER_PATHS
from stack import Service, eventually, listens

# Interval between two faults of one thread, and duration of a fault that lasts.
CALM_S, LASTING_S = (1, 8), (0.5, 12)
DELAY_S, SLOW_BYTES_PER_S = (0.02, 0.4), (8_000, 60_000)
# Longest time of a killed process until it is started again.
AWAY_S_MAX = 4
EXHAUSTING_SESSIONS = 190
# A protocol version of 3.0 and the parameters of a session.
STARTUP = struct.pack(">i", 3 << 16) + b"user\0linkledger\0database\0linkledger\0application_name\0nemesis\0\0"
# Two starts of a JVM and a broker on a busy host: of the controller, and of the other broker, which waits for it.
BROKER_DEADLINE_S = 480
# Time of a sync on a slow disk.
SYNC_S = (0.1, 3)
# Jump of the clock of one process, forwards or backwards: more than the hour that Kafka takes by default.
CLOCK_JUMP_S = 7200
# Time that a lost primary is away: longer than Patroni needs to replace the primary.
MACHINE_AWAY_S = (25, 45)


class Faults(threading.Thread):
    """One thread of faults; several threads never work on the same process or address at once."""

    def __init__(self, stack, history, name, seed, kinds, busy):
        super().__init__(name=name, daemon=True)
        self.stack, self.history, self.draw = stack, history, random.Random(f"{seed}/{name}")
        self.kinds, self.busy, self.is_ending, self.failure = kinds, busy, threading.Event(), None
        self.inflicted = 0

    def run(self):
        try:
            while not self.is_ending.wait(self.draw.uniform(*CALM_S)):
                kind = self.draw.choice(self.kinds)
                if targets := self.targets(kind):
                    self.inflict(kind, self.draw.choice(targets))
        except BaseException as error:
            self.failure = error
            raise

    def targets(self, kind):
        paths = [it for it in self.stack.proxies.targets if not it.startswith(CLUSTER_PATHS)]
        # A broker that starts needs the controller: where a start takes minutes, further faults could prevent it for ever.
        # Both brokers are away together if the second is killed in the seconds before the first starts.
        brokers = [] if self.stack.kafka.starting else self.stack.kafka.brokers
        return {
            "kill": self.stack.of_linkledger, "freeze": self.stack.of_linkledger, "restart": self.stack.of_linkledger,
            "broker-kill": brokers, "broker-freeze": brokers,
            "partition": paths, "reset": paths, "delay": paths, "throttle": paths,
            "nginx-kill": [self.stack.nginx], "clock": self.stack.of_linkledger, "disk-full": ["postgres", *brokers],
            "disk-slow": ["postgres", *brokers],
        }.get(kind, ["postgres"])

    def inflict(self, kind, target):
        name = target if isinstance(target, str) else target.name
        lock = self.busy.setdefault(name, threading.Lock())
        if not lock.acquire(blocking=False):
            return
        try:
            fault = {"op": "fault", "client": self.name, "kind": kind, "target": name, "start": time.monotonic()}
            (KINDS | FAILOVERS)[kind](self, target, fault)
            self.history.add({**fault, "end": time.monotonic()})
            self.inflicted += 1
        finally:
            lock.release()

    def last(self):
        """Lets a fault last, shorter if the run ends."""
        self.is_ending.wait(self.draw.uniform(*LASTING_S))

    def kill(self, service, fault):
        if hasattr(service, "unacknowledged"):
            fault["unacknowledged"] = unacknowledged(service)
        service.kill()
        fault["process"] = service.process.pid
        time.sleep(self.draw.uniform(0, AWAY_S_MAX))
        self.start_until_ready(service, fault)

    def start_until_ready(self, service, fault):
        Service.start(service)
        fault["further_starts"] = self.stack.wait_until_ready(service)

    def freeze(self, service, _):
        service.send(signal.SIGSTOP)
        self.last()
        service.send(signal.SIGCONT)

    def restart(self, service, fault):
        service.stop()
        self.start_until_ready(service, fault)

    def restart_postgres(self, mode):
        self.stack.postgres.stop(mode)
        time.sleep(self.draw.uniform(0, AWAY_S_MAX))
        self.stack.postgres.start()

    def kill_postgres(self):
        self.stack.postgres.kill()
        time.sleep(self.draw.uniform(0, AWAY_S_MAX))
        self.stack.postgres.start_if_ended()

    def end_sessions(self):
        """Ends all sessions of the services; a Postgres that another fault has stopped has none."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stack.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                           "AND backend_type = 'client backend'")

    def exhaust_connections(self):
        with contextlib.ExitStack() as sessions:
            with contextlib.suppress(OSError):
                for _ in range(EXHAUSTING_SESSIONS):
                    session = socket.create_connection(("127.0.0.1", self.stack.postgres.port), timeout=5)
                    sessions.enter_context(session)
                    session.sendall(struct.pack(">i", len(STARTUP) + 4) + STARTUP)
            self.last()

    def kill_broker(self, broker, _):
        broker.kill()
        time.sleep(self.draw.uniform(0, AWAY_S_MAX))
        self.start_broker(broker)

    def start_broker(self, broker):
        """Starts a broker until it listens. A broker that misses the controller during its start ends by itself."""
        port = self.stack.kafka.ports[self.stack.kafka.brokers.index(broker)]

        def is_up():
            if broker.process.poll() is not None:
                broker.start()
            return listens(port)

        self.stack.kafka.starting.add(broker.name)
        eventually(f"{broker.name} listens", is_up, BROKER_DEADLINE_S)
        self.stack.kafka.starting.remove(broker.name)

    def kill_nginx(self, nginx, _):
        nginx.kill()
        time.sleep(self.draw.uniform(0, AWAY_S_MAX))
        nginx.start()
        eventually("nginx listens", nginx.is_ready)

    def fill_disk(self, target, _):
        disk = self.stack.disks[target if isinstance(target, str) else target.name]
        disk.fill()
        self.last()
        disk.free()
        if target == "postgres":
            self.stack.postgres.start_if_ended()
            return
        # A broker ends some time after a write has failed, and it may be ending now.
        target.end()
        self.start_broker(target)

    def slow_disk(self, target, fault):
        slowness = self.stack.slowness[target if isinstance(target, str) else target.name]
        fault["sync_s"] = self.draw.uniform(*SYNC_S)
        slowness.set(fault["sync_s"])
        self.last()
        slowness.set(0)

    def partition(self, proxy, _):
        sides = self.draw.choice([("up",), ("down",), ("up", "down")])
        self.disturb(proxy, {side: {"held": True} for side in sides})

    def jump_clock(self, service, fault):
        fault["jump_s"] = self.draw.choice([CLOCK_JUMP_S, -CLOCK_JUMP_S])
        self.stack.set_clock(service.name, fault["jump_s"])
        self.last()
        self.stack.set_clock(service.name, 0)

    def reset(self, proxy, _):
        self.stack.proxies.change(proxy, reset=True)

    def delay(self, proxy, _):
        self.disturb(proxy, {side: {"delay_s": self.draw.uniform(*DELAY_S)} for side in ("up", "down")})

    def throttle(self, proxy, _):
        self.disturb(proxy, {side: {"bytes_per_s": self.draw.uniform(*SLOW_BYTES_PER_S)} for side in ("up", "down")})

    def disturb(self, proxy, flows):
        self.stack.proxies.change(proxy, **flows)
        self.last()
        self.stack.proxies.change(proxy, up={}, down={})

    def fail_over(self, fault, cause):
        """Fails over, and waits until the cluster can fail over again. The outage begins with the cause."""
        fault["outage_at"] = time.monotonic()
        cause()
        self.stack.postgres.wait_until_whole()


def unacknowledged(query):
    """Returns the clicks that wait for the broker, or None if the process does not tell."""
    try:
        return query.unacknowledged()
    except (OSError, urllib.error.URLError):
        return None


KINDS = {
    "kill": Faults.kill,
    "freeze": Faults.freeze,
    "restart": Faults.restart,
    "postgres-fast": lambda faults, *_: faults.restart_postgres("fast"),
    "postgres-immediate": lambda faults, *_: faults.restart_postgres("immediate"),
    "postgres-kill": lambda faults, *_: faults.kill_postgres(),
    "sessions": lambda faults, *_: faults.end_sessions(),
    "connections": lambda faults, *_: faults.exhaust_connections(),
    "broker-kill": Faults.kill_broker,
    "broker-freeze": Faults.freeze,
    "nginx-kill": Faults.kill_nginx,
    "partition": Faults.partition,
    "reset": Faults.reset,
    "clock": Faults.jump_clock,
    "disk-full": Faults.fill_disk,
    "disk-slow": Faults.slow_disk,
    "delay": Faults.delay,
    "throttle": Faults.throttle,
}
# Of a cluster of Postgres servers, in the place of faults of the one Postgres.
FAILOVERS = {
    "primary-lost": lambda faults, _, fault: faults.fail_over(
        fault, lambda: faults.stack.postgres.lose_machine(faults.draw.uniform(*MACHINE_AWAY_S))),
    "primary-crash": lambda faults, _, fault: faults.fail_over(fault, faults.stack.postgres.crash_primary),
    "primary-frozen": lambda faults, _, fault: faults.fail_over(
        fault, lambda: faults.stack.postgres.freeze_primary(faults.draw.uniform(*MACHINE_AWAY_S))),
    "primary-cut-off": lambda faults, _, fault: faults.fail_over(
        fault, lambda: faults.stack.postgres.cut_off_primary(faults.draw.uniform(*MACHINE_AWAY_S))),
    "switchover": lambda faults, _, fault: faults.fail_over(fault, faults.stack.postgres.switch_over),
}
OF_ONE_POSTGRES = ("postgres-fast", "postgres-immediate", "postgres-kill", "connections", "disk-full", "disk-slow")
# Need disks of their own, which not every user may mount.
OF_DISKS = ("disk-full",)
