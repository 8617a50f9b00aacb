"""Requests of the clients with their answers, as lines of JSON."""

import http.client
import json
import threading
import time

REQUEST_TIMEOUT_S = 20
NGINX = "nginx"
# Headers of answers that the judge reads.
KEPT_HEADERS = ("ETag", "Consistency-Token", "Idempotent-Replayed", "Location", "Content-Type", "Retry-After", "X-Request-Id")


class History:
    """Operations in the order of their ends; the file survives a failed run."""

    def __init__(self, path):
        self.file, self.lock, self.number = path.open("w"), threading.Lock(), 0

    def add(self, operation):
        with self.lock:
            self.number += 1
            operation["id"] = self.number
            self.file.write(json.dumps(operation) + "\n")
        return operation

    def close(self):
        with self.lock:
            self.file.close()


class Requests:
    """Requests of one client to processes of the stack, recorded with invocation, answer and times."""

    def __init__(self, history, client):
        self.history, self.client = history, client

    def send(self, op, service, port, method, path, *, headers=None, body=None, **facts):
        """Sends one request. The status of the recorded operation is None if there is no answer: its outcome is
        unknown."""
        # nginx does not tell which process has answered.
        process = service.process.pid if service.process and service.name != NGINX else None
        operation = {"op": op, "client": self.client, "service": service.name, "process": process, **facts}
        operation["start"] = time.monotonic()
        connection = service.connection(port, REQUEST_TIMEOUT_S)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            content = answer.read().decode()
            found = {name: answer.getheader(name) for name in KEPT_HEADERS if answer.getheader(name) is not None}
            operation |= {"status": answer.status, "headers": found, "body": content}
        except (OSError, http.client.HTTPException) as error:
            operation |= {"status": None, "error": f"{type(error).__name__}: {error}"}
        finally:
            connection.close()
        operation["end"] = time.monotonic()
        return self.history.add(operation)
