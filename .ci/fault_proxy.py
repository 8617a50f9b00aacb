"""A proxy before the API that injects faults and records requests. The API lies below a path of the proxy, so
that what only works at the root of a host is noticed."""

import http.client
import json
import re
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PREFIX = "/below/the/host"
HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "host"}


@dataclass
class Fault:
    """What happens to the next `times` requests with this method and a path that the pattern finds."""

    method: str
    path: str
    times: int = 1
    # Problem that is answered in place of the API.
    problem: dict | None = None
    retry_after: int | None = None
    # Status, headers and body that are answered in place of the API.
    content: tuple | None = None
    # The API answers, and the answer is lost.
    is_lost: bool = False
    # The answer breaks off in its body.
    is_cut: bool = False
    # The answer waits for this event.
    release: threading.Event | None = None

    def takes(self, method, path):
        return self.times > 0 and method == self.method and re.search(self.path, path)


class FaultProxy:
    def __init__(self, api_url):
        self.api = urlsplit(api_url).netloc
        self.faults = []
        self.is_away = False
        # Method, path and size of the answer of each request.
        self.requests = []
        self.lock = threading.Lock()
        handler = type("Bound", (Handler,), {"proxy": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.url = self.origin + PREFIX
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def inject(self, *arguments, **more):
        fault = Fault(*arguments, **more)
        self.faults.append(fault)
        return fault

    def fault_of(self, method, path):
        with self.lock:
            for fault in self.faults:
                if fault.takes(method, path):
                    fault.times -= 1
                    return fault
        return None

    def forward(self, method, path, headers, body):
        connection = http.client.HTTPConnection(self.api, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            kept = [(name, value) for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP]
            return response.status, kept, response.read()
        finally:
            connection.close()


def injected(fault):
    headers = [("Content-Type", "application/problem+json")]
    if fault.retry_after is not None:
        headers.append(("Retry-After", str(fault.retry_after)))
    return fault.problem["status"], headers, json.dumps(fault.problem).encode()


class Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        path = self.path.removeprefix(PREFIX)
        if self.proxy.is_away or path == self.path:
            self.close_connection = True
            return
        fault = self.proxy.fault_of(self.command, path)
        if fault and (fault.problem or fault.content):
            self.answer(*(fault.content or injected(fault)))
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        answer = self.proxy.forward(self.command, path, headers, body)
        if fault and fault.release:
            fault.release.wait(30)
        if fault and fault.is_lost:
            self.close_connection = True
            return
        self.answer(*answer, is_cut=fault is not None and fault.is_cut)

    def answer(self, status, headers, body, is_cut=False):
        head = [f"HTTP/1.1 {status} \r\n".encode()]
        fields = [*headers, ("Content-Length", str(len(body)))] if status not in (204, 304) else headers
        head += [f"{name}: {value}\r\n".encode("latin-1") for name, value in fields]
        whole = b"".join([*head, b"\r\n", body])
        with self.proxy.lock:
            self.proxy.requests.append((self.command, self.path, len(whole)))
        try:
            self.wfile.write(whole[:-len(body) // 2] if is_cut else whole)
            self.close_connection = self.close_connection or is_cut
        except ConnectionError:
            # The browser has left the page.
            self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any
