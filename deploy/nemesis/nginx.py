"""nginx with the files of deploy/ingress. As docs/ingress.md asks of operators, addresses, names and limits are written
here: limits that the clients, all on one address, do not reach."""

import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess

from stack import REPOSITORY, Service, free_port, listens

MAIN = """daemon off;
worker_processes 2;
pid nginx.pid;
events { worker_connections 1024; }
http {
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    include linkledger.conf;
}
"""
LIMITS = """map $binary_remote_addr $client_network { default $binary_remote_addr; }
limit_req_zone $client_network zone=api_requests:1m rate=100000r/s;
limit_req_zone $client_network zone=short_host_requests:1m rate=100000r/s;
limit_conn_zone $client_network zone=connections:1m;
"""


class Nginx(Service):
    """The ingress, with TLS for the API. The first process of each service is reached directly, the second one by a
    proxy of the stack."""

    def __init__(self, stack, program):
        self.api_port, self.short_port, self.folder = free_port(), free_port(), stack.folder / "nginx"
        command = [program, "-p", self.folder, "-c", "nginx.conf", "-e", "stderr"]
        super().__init__(stack, "nginx", command, dict(os.environ))
        commands, queries = stack.commands, stack.queries
        self.upstreams = {
            "command_api": [commands[0].api_port, stack.proxies.add("nginx/command-api-2", commands[1].api_port)],
            "query_api": [queries[0].api_port, stack.proxies.add("nginx/query-api-2", queries[1].api_port)],
            "short_host": [queries[0].short_port, stack.proxies.add("nginx/query-api-2-short", queries[1].short_port)],
        }
        self.log = self.folder / "access.log"

    def configure(self):
        shutil.copytree(REPOSITORY / "deploy/ingress", self.folder)
        site = self.folder / "linkledger.conf"
        site.write_text(site.read_text().replace("/var/log/nginx/linkledger.log", str(self.log)))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "server.key",
                        "-out", "server.pem"], cwd=self.folder, check=True, stderr=subprocess.DEVNULL)
        self.trust = ssl.create_default_context(cafile=self.folder / "server.pem")
        certificate = f"ssl_certificate {self.folder}/server.pem;\nssl_certificate_key {self.folder}/server.key;\n"
        api, short = f"listen 127.0.0.1:{self.api_port} ssl http2", f"listen 127.0.0.1:{self.short_port}"
        files = {
            "addresses.conf": self.addresses(), "limits.conf": LIMITS,
            "api_host.conf": f"{api};\nserver_name localhost;\n{certificate}",
            "short_host.conf": f"{short};\nserver_name localhost;\n",
            "other_hosts.conf": f"{api} default_server;\n", "other_hosts_plain.conf": f"{short} default_server;\n",
        }
        for name, content in files.items():
            (self.folder / "linkledger" / name).write_text(content)
        (self.folder / "nginx.conf").write_text(MAIN)

    def addresses(self):
        """Returns `addresses.conf`, with each process twice, as in the repository."""
        found = f'map "" $api_base_url {{ default {self.stack.environment["BASE_URL"]}; }}\n'
        for name, ports in self.upstreams.items():
            servers = "".join(f"server 127.0.0.1:{port} fail_timeout=1s;\nserver 127.0.0.1:{port} backup max_fails=0;\n"
                              for port in ports)
            found += f"upstream {name} {{\nzone {name} 64k;\n{servers}include linkledger/keepalive.conf;\n}}\n"
        return found

    def kill(self):
        """Kills all processes of nginx at once: a worker would go on without the first one."""
        workers = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        super().kill()
        for worker in map(int, workers):
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                pass  # a worker that has ended with the first one

    def retries(self):
        """Returns the ids of the requests that nginx has sent to more than one process."""
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}"))
        return [line["request_id"] for line in lines if "," in line["upstream"]]

    def is_ready(self):
        return listens(self.api_port) and listens(self.short_port)

    def connection(self, port, timeout_s):
        if port == self.short_port:
            return http.client.HTTPConnection("localhost", port, timeout=timeout_s)
        return http.client.HTTPSConnection("localhost", port, timeout=timeout_s, context=self.trust)
