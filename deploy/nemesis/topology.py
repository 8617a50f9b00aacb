"""Two of each service behind nginx; a proxy before Postgres and before each broker for each of them, and one before each
receiver of webhooks."""

import base64
import glob
import json
import os
import pathlib
import secrets
import subprocess
import sys
import threading

from disk import Disk, Slowness
from nginx import Nginx
from patroni import PatroniCluster
from stack import Kafka, Service, Stack, eventually, free_port

HERE = pathlib.Path(__file__).resolve().parent
BROKERS = (1, 2)
# Receivers of webhooks, of the test itself.
RECEIVERS = 5
DISK_BYTES, DISKS = 1 << 30, 3
# Shifts the wall clock of a process by the seconds in a file; the monotonic clock stays right.
CLOCK_LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class Proxies:
    """The process of all proxies."""

    def __init__(self):
        self.targets, self.process, self.lock = {}, None, threading.Lock()

    def add(self, name, target_port):
        """Returns the port of a new proxy, before the start."""
        port = free_port()
        self.targets[name] = (port, target_port)
        return port

    def start(self):
        arguments = [f"{name}={port}:{target}" for name, (port, target) in self.targets.items()]
        command = [sys.executable, HERE / "proxy.py", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.confirm()

    def confirm(self):
        if self.process.stdout.readline() != "done\n":
            raise SystemExit("the proxies have ended")

    def change(self, name, **command):
        with self.lock:
            self.process.stdin.write(json.dumps({"proxy": name, **command}) + "\n")
            self.process.stdin.flush()
            self.confirm()

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()


class ProxiedKafka(Kafka):
    """Brokers with one listener for each service, which is advertised at the proxy of the service. Clients of the
    listener CLIENT meet no proxy."""

    def __init__(self, stack):
        self.proxies = stack.proxies
        # Of each broker and service: the port of the broker's listener.
        self.listeners = {(broker, name): free_port() for broker in BROKERS for name in stack.service_names}
        self.proxy_ports = {
            place: self.proxies.add(f"{place[1]}/broker-{place[0]}", port) for place, port in self.listeners.items()
        }
        super().__init__(stack)

    def broker_settings(self, number):
        def listener(name):
            return "S_" + name.replace("-", "_").upper()

        mine = {name: port for (broker, name), port in self.listeners.items() if broker == number}
        own = f"CLIENT://127.0.0.1:{self.ports[number - 1]}"
        controller = f",CONTROLLER://127.0.0.1:{self.controller_port}" if number == 1 else ""
        bound = "".join(f",{listener(name)}://127.0.0.1:{port}" for name, port in mine.items())
        told = "".join(f",{listener(name)}://127.0.0.1:{self.proxy_ports[number, name]}" for name in mine)
        protocols = "".join(f",{listener(name)}:PLAINTEXT" for name in mine)
        return (
            f"listeners={own}{controller}{bound}\nadvertised.listeners={own}{told}\n"
            f"listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}\n"
        )

    def addresses_for(self, name):
        return ",".join(f"127.0.0.1:{self.proxy_ports[broker, name]}" for broker in BROKERS)


class Topology(Stack):
    """Two of each service behind proxies, with the admin API and webhooks."""

    def __init__(self, programs, postgres_programs, has_standbys=False, broken=None, has_disks=False):
        self.proxies, self.has_standbys, self.broken = Proxies(), has_standbys, broken or {}
        self.has_disks = has_disks
        # Redirects from memory continue during a failover.
        self.redirect_staleness_s = 60 if has_standbys else 0.5
        # Those that use Kafka.
        self.service_names = [f"{kind}-{number}" for kind in ("command-api", "projector", "query-api") for number in (1, 2)]
        self.admin_ports = {}
        super().__init__(programs, postgres_programs, command_apis=2, projectors=2, dispatchers=2)
        for service in (*self.commands, *self.queries):
            service.admin_port = self.admin_ports[service.name]
        # Of each receiver the port where it listens, and the port that its webhook names.
        ports = [free_port() for _ in range(RECEIVERS)]
        self.receiver_ports = [(port, self.proxies.add(f"webhooks/receiver-{number}", port)) for number, port in enumerate(ports, 1)]
        self.disks, self.slowness = {}, {}
        with_disks = {broker.name: broker for broker in self.kafka.brokers}
        if not has_standbys:
            with_disks["postgres"] = self.postgres
        for name, process in with_disks.items():
            self.slowness[name] = Slowness(self.folder, name)
            process.environment = {**process.environment, **self.slowness[name].environment}
        self.nginx = Nginx(self, os.environ["NGINX"])
        self.services.append(self.nginx)

    def make_postgres(self, programs):
        return PatroniCluster(self, programs) if self.has_standbys else super().make_postgres(programs)

    def make_kafka(self):
        return ProxiedKafka(self)

    def environment_of(self, name):
        port = self.proxies.add(f"{name}/postgres", self.postgres.port)
        self.set_clock(name, 0)
        return {
            **self.environment,
            "DATABASE_URL": self.postgres.url(port),
            **self.settings_of(name),
            "INSTANCE_ID": name,
            **({"REDIRECT_STALENESS_MAX_MS": f"{self.redirect_staleness_s * 1000}"} if self.has_standbys else {}),
            "LD_PRELOAD": glob.glob(CLOCK_LIBRARIES)[0],
            "FAKETIME_TIMESTAMP_FILE": str(self.clock(name)),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            # Only programs with faults-on-purpose.patch read this variable.
            "FAULT_ON_PURPOSE": self.broken.get(name, ""),
        }

    def settings_of(self, name):
        """Returns the settings that not all services have."""
        kind, found = name.rsplit("-", 1)[0], {}
        if name in self.service_names:
            found["KAFKA_BROKERS"] = self.kafka.addresses_for(name)
        if kind in ("command-api", "query-api"):
            self.admin_ports[name] = free_port()
            found["ADMIN_LISTEN"] = f"127.0.0.1:{self.admin_ports[name]}"
        if kind in ("command-api", "webhooks"):
            found |= {"WEBHOOK_KEYS_FILE": str(self.folder / "webhook-keys"), "WEBHOOK_ALLOW_NETS": "127.0.0.0/8"}
        return found

    def clock(self, name):
        return self.folder / f"{name}.clock"

    def set_clock(self, name, seconds):
        """Shifts the clock of a service, which notices within a second."""
        new = self.folder / f"{name}.clock.new"
        new.write_text(f"{seconds:+d}\n")
        new.rename(self.clock(name))

    def make_disks(self):
        """Gives Postgres and each broker a disk that can be filled."""
        for name in ["postgres", *(broker.name for broker in self.kafka.brokers)]:
            self.disks[name] = Disk(self.folder / name, DISK_BYTES)

    def start(self):
        if self.has_disks:
            self.make_disks()
        (self.folder / "webhook-keys").write_text(f"nemesis:{base64.b64encode(secrets.token_bytes(32)).decode()}\n")
        self.proxies.start()
        super().start()

    def start_services(self):
        for service in self.of_linkledger:
            Service.start(service)
        for service in self.of_linkledger:
            self.wait_until_ready(service)
        self.nginx.configure()
        self.nginx.start()
        eventually("nginx listens", self.nginx.is_ready)

    def end(self):
        for service in self.services:
            service.end()
        self.postgres.end()
        for disk in self.disks.values():
            disk.end()
        super().end()
        self.proxies.end()

    def sql(self, statement):
        """Returns the lines of a statement's result, one value each."""
        command = [f"{self.postgres.programs}/psql", self.postgres.url(), "-v", "ON_ERROR_STOP=1", "-AXtqc", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
