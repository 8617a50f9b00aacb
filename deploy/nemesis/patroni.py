"""Three Postgres servers that Patroni fails over, behind HAProxy: in the place of one Postgres."""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

from stack import REPOSITORY, STOP_DEADLINE_S, Service, eventually, free_port, listens

SERVERS = (1, 2, 3)
# Of the names of the cluster's own proxies, which other faults leave alone.
CLUSTER_PATHS = "cluster/"
START_DEADLINE_S = 240
# Longest time of a restarted server until it streams from the primary again.
REJOIN_DEADLINE_S = 240
CHECK_TIMEOUT_S, SWITCHOVER_TIMEOUT_S = 5, 60


class Server:
    """One Postgres and its Patroni."""

    def __init__(self, cluster, number):
        self.name, self.port, self.rest_port = f"server-{number}", free_port(), free_port()
        # Connections to this server, and those of its Patroni to etcd, pass the proxies; its own connections to
        # another server pass the proxies of that server.
        self.paths = [f"{CLUSTER_PATHS}{self.name}/{side}" for side in ("postgres", "rest", "etcd")]
        targets = (self.port, self.rest_port, cluster.etcd_port)
        self.outer_port, self.outer_rest_port, etcd_port = map(cluster.stack.proxies.add, self.paths, targets)
        self.data = cluster.folder / "patroni" / self.name
        environment = {
            **os.environ,
            "PATRONI_NAME": self.name,
            "PATRONI_ETCD3_HOSTS": f"127.0.0.1:{etcd_port}",
            # Without the setting, Patroni asks etcd for its own address.
            "PATRONI_ETCD3_USE_PROXIES": "true",
            "PATRONI_RESTAPI_LISTEN": f"127.0.0.1:{self.rest_port}",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": f"127.0.0.1:{self.outer_rest_port}",
            "PATRONI_POSTGRESQL_LISTEN": f"127.0.0.1:{self.port}",
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": f"127.0.0.1:{self.outer_port}",
            "PATRONI_POSTGRESQL_DATA_DIR": str(self.data),
            "PATRONI_POSTGRESQL_BIN_DIR": cluster.programs,
            "PATRONI_POSTGRESQL_PGPASS": str(self.data.with_suffix(".pgpass")),
            "PATRONI_SUPERUSER_PASSWORD": "superuser", "PATRONI_REPLICATION_PASSWORD": "replication",
            "PATRONI_REWIND_PASSWORD": "rewind",
        }
        command = ["patroni", str(REPOSITORY / "deploy/postgres/patroni.yml")]
        if os.getuid() == 0:
            # Postgres refuses to run as root.
            command = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", *command]
        self.patroni = Service(cluster.stack, self.name, command, environment)

    def role(self):
        """Returns the role and the state that Patroni tells, or None."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest_port}/patroni", timeout=CHECK_TIMEOUT_S) as answer:
                found = json.loads(answer.read())
                return found["role"], found["state"]
        except (OSError, ValueError, KeyError):
            return None

    def processes(self):
        """Returns the processes of Postgres, the postmaster first; none if there is no postmaster."""
        try:
            postmaster = (self.data / "postmaster.pid").read_text().split()[0]
        except (OSError, IndexError):
            return []
        children = subprocess.run(["pgrep", "-P", postmaster], capture_output=True, text=True).stdout.split()
        return [int(process) for process in (postmaster, *children)]

    def kill(self, processes):
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass  # has ended by itself since


class PatroniCluster:
    """The interface of stack.Postgres, with three servers."""

    def __init__(self, stack, programs):
        self.stack, self.folder, self.programs = stack, stack.folder, programs
        self.port, self.etcd_port, self.etcd_peer_port = free_port(), free_port(), free_port()
        self.servers = [Server(self, number) for number in SERVERS]
        peer, client = f"http://127.0.0.1:{self.etcd_peer_port}", f"http://127.0.0.1:{self.etcd_port}"
        etcd = ["etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        addresses = {f"SERVER_{number}": f"127.0.0.1:{it.outer_port}" for number, it in zip(SERVERS, self.servers)}
        checks = {f"CHECK_{number}": str(it.outer_rest_port) for number, it in zip(SERVERS, self.servers)}
        haproxy = ["haproxy", "-db", "-f", str(REPOSITORY / "deploy/postgres/haproxy.cfg")]
        environment = {**os.environ, "LISTEN": f"127.0.0.1:{self.port}", **addresses, **checks}
        self.helpers = [Service(stack, "etcd", etcd, None), Service(stack, "haproxy", haproxy, environment)]

    def url(self, port=None):
        """Returns the address of the database, at the port of a proxy if one is given."""
        return f"postgres://linkledger:linkledger@127.0.0.1:{port or self.port}/linkledger"

    def create(self):
        (self.folder / "patroni").mkdir()
        if os.getuid() == 0:
            shutil.chown(self.folder / "patroni", "postgres")
        for helper in self.helpers:
            helper.start()
        eventually("etcd listens", lambda: listens(self.etcd_port))
        for server in self.servers:
            server.patroni.start()
            # The first one becomes the primary.
            eventually(f"{server.name} runs", lambda: (server.role() or ("", ""))[1] in ("running", "streaming"), START_DEADLINE_S)
        self.wait_until_whole()
        for statement in ("CREATE ROLE linkledger SUPERUSER LOGIN PASSWORD 'linkledger'", "CREATE DATABASE linkledger OWNER linkledger"):
            self.as_superuser(statement)

    def as_superuser(self, statement):
        command = [f"{self.programs}/psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", "postgres"]
        environment = {**os.environ, "PGPASSWORD": "superuser"}
        done = subprocess.run([*command, "-AXtqc", statement], env=environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def primary(self):
        """Returns the server that is the primary, or None while there is none."""
        return next((it for it in self.servers if it.role() in (("master", "running"), ("primary", "running"))), None)

    def wait_until_whole(self):
        """Waits until there is a primary, both others stream from it, and one of them is synchronous."""
        def is_whole():
            try:
                found = self.as_superuser("SELECT count(*) || ' ' || count(*) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication "
                                          "WHERE state = 'streaming'")
            except subprocess.CalledProcessError:
                return False
            return found == "2 1"

        eventually("both standbys stream, one of them synchronously", is_whole, REJOIN_DEADLINE_S)

    def lose_machine(self, away_s):
        """Kills Patroni and Postgres of the primary, and starts them again after a while."""
        server = eventually("there is a primary", self.primary, REJOIN_DEADLINE_S)
        server.patroni.kill()
        server.kill(server.processes())
        time.sleep(away_s)
        server.patroni.start()

    def crash_primary(self):
        """Kills Postgres of the primary beside its living Patroni."""
        server = eventually("there is a primary", self.primary, REJOIN_DEADLINE_S)
        server.kill(server.processes())

    def freeze_primary(self, frozen_s):
        """Stops Patroni and Postgres of the primary, so that it wakes as a primary that was replaced."""
        server = eventually("there is a primary", self.primary, REJOIN_DEADLINE_S)
        stopped = [server.patroni.process.pid, *server.processes()]
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        time.sleep(frozen_s)
        for process in stopped:
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                pass  # a session that a peer has ended

    def cut_off_primary(self, cut_off_s):
        """Cuts the primary off from the other servers, HAProxy and etcd: it lives, and is replaced."""
        server = eventually("there is a primary", self.primary, REJOIN_DEADLINE_S)
        for path in server.paths:
            self.stack.proxies.change(path, up={"held": True}, down={"held": True})
        time.sleep(cut_off_s)
        for path in server.paths:
            self.stack.proxies.change(path, up={}, down={})

    def switch_over(self):
        """Asks Patroni for an orderly switchover, until Patroni finds a candidate."""
        server = eventually("there is a primary", self.primary, REJOIN_DEADLINE_S)

        def is_accepted():
            request = urllib.request.Request(f"http://127.0.0.1:{server.rest_port}/switchover", method="POST",
                                             data=json.dumps({"leader": server.name}).encode())
            try:
                with urllib.request.urlopen(request, timeout=SWITCHOVER_TIMEOUT_S) as answer:
                    return answer.status in (200, 202)
            except urllib.error.HTTPError:
                # The standbys have not yet told that they are healthy.
                return False

        eventually("a switchover is accepted", is_accepted, REJOIN_DEADLINE_S)

    def end(self):
        for server in self.servers:
            if server.patroni.process and server.patroni.process.poll() is None:
                server.patroni.process.terminate()
        for server in self.servers:
            if server.patroni.process:
                try:
                    server.patroni.process.wait(STOP_DEADLINE_S)
                except subprocess.TimeoutExpired:
                    server.patroni.kill()
            server.kill(server.processes())
        for helper in self.helpers:
            helper.end()
