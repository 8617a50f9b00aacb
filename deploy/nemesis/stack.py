"""The services as processes of their own, with one Postgres and two brokers of Apache Kafka, which can be killed, frozen
and started again."""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
import uuid

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CLICKS_TOPIC = "linkledger.clicks.v1"
PARTITIONS = 16
# Longest wait for a state; a host can be ten times slower than a quiet one.
DEADLINE_S = 240
# A quick start matters more than speed.
JVM_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
STOP_DEADLINE_S = 60
REQUEST_TIMEOUT_S = 30
# Exit code of a command that the database has not answered in time, and the number of attempts then.
UNAVAILABLE, OPERATE_ATTEMPTS = 7, 5
# RestartSec of the units.
RESTART_S = 2
KEY_SCOPES = ("link:links.write,link:links.read,link:credits.read,link:clicks.read,link:events.read,"
              "link:webhooks.read,link:webhooks.write")

# Ports of this run. Linux takes ports of outgoing connections from 32768 on, and the servers of tests take theirs from 20000 on:
# a server that starts again finds its port free. A run needs fewer than a hundred; runs side by side rarely begin at the same one.
PORTS = range(random.randrange(10_000, 20_000, 100), 20_000)
unused_ports = iter(PORTS)


def free_port():
    """Returns a port that no process uses, and that no earlier call returned."""
    for port in unused_ports:
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise SystemExit(f"no free port from {PORTS.start} to {PORTS.stop}")


def eventually(state, look, deadline_s=DEADLINE_S):
    """Waits until `look` returns a value that is true, and returns the value."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.1)
    raise SystemExit(f"after {deadline_s} s not yet: {state}")


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class Service:
    """A process that can be stopped, killed, frozen and started again with the same command."""

    def __init__(self, stack, name, command, environment):
        self.stack, self.name, self.command, self.environment = stack, name, command, environment
        self.process = None

    def start(self):
        with (self.stack.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log, cwd=REPOSITORY)

    def kill(self):
        self.send(signal.SIGKILL)
        self.process.wait()

    def send(self, number):
        assert self.process.poll() is None, f"{self.name} has ended by itself"
        self.process.send_signal(number)

    def stop(self):
        """Stops the process with SIGTERM, which must be an orderly end."""
        self.send(signal.SIGTERM)
        status = self.process.wait(STOP_DEADLINE_S)
        assert status == 0, f"{self.name} has ended with the status {status}"

    def connection(self, port, timeout_s):
        """Returns a new connection to one of the ports."""
        return http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()


class LinkledgerService(Service):
    """A process of the services, with ports of its own that stay the same after a restart."""

    def __init__(self, stack, number, program, command, listeners, kind=None):
        self.program = program
        self.internal_port = free_port()
        self.ports = {listener: free_port() for listener in listeners}
        command = [stack.program(program), command, "--internal-listen", f"127.0.0.1:{self.internal_port}"]
        for listener, port in self.ports.items():
            command += [f"--{listener}-listen", f"127.0.0.1:{port}"]
        name = f"{kind or program}-{number}"
        # The environment names ports of other services: the stack sets it once all of them have theirs.
        super().__init__(stack, name, command, None)

    def is_ready(self):
        try:
            address = f"http://127.0.0.1:{self.internal_port}/readyz"
            with urllib.request.urlopen(address, timeout=REQUEST_TIMEOUT_S) as answer:
                return answer.status == 200
        except OSError:
            return False


class CommandApi(LinkledgerService):
    def __init__(self, stack, number):
        super().__init__(stack, number, "command-api", "serve", ["api"])
        self.api_port = self.ports["api"]


class Projector(LinkledgerService):
    def __init__(self, stack, number):
        super().__init__(stack, number, "projector", "run", [])


class Dispatcher(LinkledgerService):
    """Sends messages to webhooks."""

    def __init__(self, stack, number):
        super().__init__(stack, number, "projector", "webhooks", [], "webhooks")


class QueryApi(LinkledgerService):
    def __init__(self, stack, number):
        super().__init__(stack, number, "query-api", "serve", ["api", "short"])
        self.api_port, self.short_port = self.ports["api"], self.ports["short"]

    def start(self):
        super().start()
        eventually(f"{self.name} listens", lambda: listens(self.short_port) and listens(self.api_port))

    def unacknowledged(self):
        """Returns the number of records of clicks that wait for the broker."""
        metrics = f"http://127.0.0.1:{self.internal_port}/metrics"
        with urllib.request.urlopen(metrics, timeout=REQUEST_TIMEOUT_S) as answer:
            found = re.search(rb"^linkledger_clicks_unacknowledged (\S+)$", answer.read(), re.MULTILINE)
        return int(float(found[1]))


class Postgres:
    def __init__(self, folder, programs):
        self.data, self.log = folder / "postgres" / "data", folder / "postgres.log"
        self.programs, self.port, self.environment = programs, free_port(), dict(os.environ)
        # Postgres refuses to run as root.
        self.by = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []

    def create(self):
        self.data.parent.mkdir(exist_ok=True)
        self.log.touch()
        if self.by:
            shutil.chown(self.data.parent, "postgres")
            shutil.chown(self.log, "postgres")
        self.run("initdb", "-D", self.data, "-U", "linkledger", "-A", "trust", "--encoding=UTF8", "--locale=C")
        self.start()
        self.run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "linkledger", "linkledger")

    def url(self, port=None):
        """Returns the address of the database, at the port of a proxy if one is given."""
        return f"postgres://linkledger@127.0.0.1:{port or self.port}/linkledger"

    def run(self, program, *arguments):
        command = [*self.by, f"{self.programs}/{program}", *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", env=self.environment)

    def crash(self):
        """Ends Postgres without a checkpoint, and starts it again."""
        self.stop()
        self.start()

    def start_if_ended(self):
        """Starts Postgres if it has ended, as soon as its last process has left the shared memory, and waits until it
        accepts sessions."""

        def accepts():
            if not self.succeeds("pg_ctl", "-D", self.data, "status"):
                with contextlib.suppress(subprocess.CalledProcessError):
                    self.start()
            return self.succeeds("pg_isready", "-h", "127.0.0.1", "-p", self.port)

        eventually("Postgres accepts sessions again", accepts)

    def succeeds(self, program, *arguments):
        try:
            self.run(program, *arguments)
            return True
        except subprocess.CalledProcessError:
            return False

    def kill(self):
        """Kills all processes of Postgres at once."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        command = pathlib.Path(f"/proc/{postmaster}/cmdline")
        if not command.exists() or str(self.data) not in command.read_text():
            # The file of a server that is gone; another process may have its number.
            return
        children = subprocess.run(["pgrep", "-P", str(postmaster)], capture_output=True, text=True).stdout.split()
        for process in (postmaster, *map(int, children)):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass  # a backend that has just ended

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200"
        arguments = ["-D", self.data, "-l", self.log, "-w", "-t", DEADLINE_S, "-o", options]
        self.run("pg_ctl", *arguments, "start")

    def stop(self, mode="immediate"):
        self.run("pg_ctl", "-D", self.data, "-m", mode, "-t", DEADLINE_S, "stop")

    def end(self):
        if (self.data / "postmaster.pid").exists():
            self.kill()


class Kafka:
    """Broker 1, which is also the controller, and broker 2."""

    def __init__(self, stack):
        fetch = subprocess.run([REPOSITORY / "deploy/kafka/fetch"], check=True, capture_output=True, text=True)
        self.class_path = fetch.stdout.strip()
        self.controller_port, self.ports = free_port(), [free_port(), free_port()]
        self.addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        settings = "offsets.topic.replication.factor=2\nbroker.session.timeout.ms=6000\n"
        second = f"process.roles=broker\nnode.id=2\nlisteners=CLIENT://127.0.0.1:{self.ports[1]}\n"
        # Both brokers belong to one cluster.
        cluster = ["--cluster-id", "bGlua2xlZGdlci1jbGlja3M"]
        environment = {**os.environ, "JVM_OPTIONS": " ".join(["-Xmx256m", *JVM_OPTIONS])}
        # `starting`: names of the brokers that a fault starts again.
        self.brokers, self.starting = [], set()
        for number, port in enumerate(self.ports, 1):
            file = stack.folder / f"broker-{number}.properties"
            file.write_text(settings + (second if number == 2 else "") + self.broker_settings(number))
            command = ["deploy/kafka/start", "-p", str(port), "-c", str(self.controller_port), "-s", str(file)]
            command += [str(stack.folder / f"broker-{number}"), *cluster]
            self.brokers.append(Service(stack, f"broker-{number}", command, environment))

    def start(self):
        for broker in self.brokers:
            broker.start()
        eventually("the brokers listen", lambda: all(map(listens, self.ports)))
        eventually("both brokers have joined", lambda: self.tool("BrokerApiVersionsCommand").count("-> (") == 2)

    def broker_settings(self, number):
        """Returns further settings of a broker."""
        return ""

    def tool(self, name, *arguments):
        command = ["java", "-Xmx128m", *JVM_OPTIONS, f"-Dlog4j2.configurationFile={REPOSITORY}/deploy/kafka/log4j2.properties"]
        command += ["-cp", self.class_path, f"org.apache.kafka.tools.{name}", "--bootstrap-server", self.addresses]
        return subprocess.run([*command, *arguments], capture_output=True, text=True).stdout

    def describe(self, pattern):
        """Returns the number of partitions of clicks whose description has the pattern."""
        return len(re.findall(pattern, self.tool("TopicCommand", "--describe", "--topic", CLICKS_TOPIC)))

    def balance(self):
        """Waits until both brokers have all records, and lets each lead its half of the partitions."""
        eventually("both brokers are in sync", lambda: self.describe(r"Isr: (1,2|2,1)\b") == PARTITIONS)

        def is_balanced():
            if self.describe(r"Leader: 2\b") == PARTITIONS / 2:
                return True
            self.tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
            return False

        eventually("each broker leads half of the partitions", is_balanced)

    def move_leaders(self):
        """Kills broker 2, until broker 1 leads every partition; then starts it, and lets it lead again."""
        self.balance()
        self.brokers[1].kill()
        eventually("broker 1 leads every partition", lambda: self.describe(r"Leader: 1\b") == PARTITIONS)
        self.brokers[1].start()
        self.balance()


class Stack:
    """Postgres, Apache Kafka and the services; one account with an API key."""

    def __init__(self, programs, postgres_programs, command_apis=1, projectors=1, dispatchers=0, settings=None):
        self.programs = pathlib.Path(programs).resolve()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="linkledger-stack."))
        self.folder.chmod(0o755)
        self.postgres = self.make_postgres(postgres_programs)
        self.kafka = self.make_kafka()
        self.environment = {
            **os.environ,
            "DATABASE_URL": self.postgres.url(),
            "KAFKA_BROKERS": self.kafka.addresses,
            "RATE_LIMIT": "100000",
            "RUST_LOG": "info,linkledger::access=off",
            **(settings or {}),
        }
        self.queries = [QueryApi(self, number) for number in (1, 2)]
        self.environment["BASE_URL"] = f"http://127.0.0.1:{self.queries[0].api_port}"
        self.environment["SHORT_BASE_URL"] = f"http://127.0.0.1:{self.queries[0].short_port}"
        self.commands = [CommandApi(self, number + 1) for number in range(command_apis)]
        self.projectors = [Projector(self, number + 1) for number in range(projectors)]
        self.dispatchers = [Dispatcher(self, number + 1) for number in range(dispatchers)]
        self.of_linkledger = [*self.commands, *self.projectors, *self.dispatchers, *self.queries]
        self.services = [*self.kafka.brokers, *self.of_linkledger]
        for service in self.of_linkledger:
            service.environment = self.environment_of(service.name)
        self.key = None

    def wait_until_ready(self, service):
        """Starts a service again, as the units of deploy/systemd do, as long as it cannot start, for instance because
        Postgres is away. A service that was ready must not end. Returns the number of further starts."""
        starts = 0

        def is_ready():
            nonlocal starts
            if service.process.poll() is not None:
                time.sleep(RESTART_S)
                starts += 1
                Service.start(service)
            return service.is_ready()

        eventually(f"{service.name} is ready", is_ready)
        return starts

    def make_postgres(self, programs):
        return Postgres(self.folder, programs)

    def make_kafka(self):
        return Kafka(self)

    def environment_of(self, name):
        """Returns the environment of a service."""
        return {**self.environment, "INSTANCE_ID": name}

    def program(self, name):
        return str(self.programs / name)

    def operate(self, *arguments):
        """Returns the JSON of a command. Where the database does not answer in time, as on a host that stands still, the
        command is repeated."""
        command = [self.program("command-api"), *arguments, "--json"]
        for _ in range(OPERATE_ATTEMPTS):
            found = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE)
            if found.returncode != UNAVAILABLE:
                break
        found.check_returncode()
        return json.loads(found.stdout)

    def start(self):
        self.postgres.create()
        self.kafka.start()
        self.operate("migrate")
        self.operate("topic", "create")
        _, self.key = self.account("Acme", 10_000)
        self.start_services()

    def start_services(self):
        for service in self.of_linkledger:
            service.start()
        for service in self.commands:
            eventually(f"{service.name} listens", lambda: listens(service.api_port))

    def account(self, name, credits):
        """Makes an account with credits. Returns its id and an API key."""
        once = ("--idempotency-key", f"{name}-{uuid.uuid4()}")
        account = self.operate("account", "create", "--name", name, *once)["id"]
        self.operate("credits", "grant", "--account", account, "--amount", str(credits), "--reason", "test", *once)
        # Without the key: a repeat would not show the secret.
        return account, self.operate("key", "issue", "--account", account, "--scope", KEY_SCOPES)["secret"]

    def request(self, port, method, path, body=None):
        """Returns status and JSON of an answer; (None, None) if there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self.key}"}
        if body:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return None, None
        finally:
            connection.close()

    def create_links(self, slugs):
        """Creates links, and returns the ids by slug when all can be read."""
        ids = {}
        for slug in slugs:
            body = {"destination_url": f"https://example.com/{slug}", "slug": slug}
            status, link = self.request(self.commands[0].api_port, "POST", "/v1/links", body)
            assert status == 201, f"the create of {slug} was answered {status}"
            ids[slug] = link["id"]
        for link_id in ids.values():
            eventually("the link is applied", lambda: self.get(f"/v1/links/{link_id}"))
        return ids

    def get(self, path):
        """Returns the JSON of an answer of the first query-api that answers 200, or None."""
        for query in self.queries:
            status, found = self.request(query.api_port, "GET", path)
            if status == 200:
                return found
        return None

    def end(self):
        for service in self.services:
            service.end()
        self.postgres.end()
        shutil.rmtree(self.folder)

    def print_warnings(self):
        """Prints the last warnings and errors that the services have logged."""
        for service in self.services:
            log = self.folder / f"{service.name}.log"
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            for line in [line for line in lines if "WARN" in line or "ERROR" in line][-10:]:
                print(f"{service.name}: {line[:300]}")
