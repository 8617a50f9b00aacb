"""Base of all clients: loop, draws, and requests to a process or to nginx."""

import random
import threading

from history import Requests

# Attempts of a client that retries a request.
ATTEMPTS_MAX = 6
CREATED, UNKNOWN = 201, (None, 504)


class Client(threading.Thread):
    """A client that repeats one of its actions until the world ends."""

    pause_s = 0.1

    def __init__(self, world, name, seed):
        super().__init__(name=name, daemon=True)
        self.world, self.draw = world, random.Random(f"{seed}/{name}")
        self.requests, self.failure = Requests(world.history, name), None

    def run(self):
        try:
            while not self.world.is_ending.wait(self.draw.uniform(0, 2 * self.pause_s)):
                self.act()
        except Exception as error:
            self.failure = error
            raise

    def authorized(self, account, **headers):
        return {"Authorization": f"Bearer {self.world.accounts[account]}", **headers}

    def any_link(self):
        with self.world.lock:
            hot, links = self.world.hot, self.world.links
            if not links:
                return None
            # All hot links may be deleted.
            return dict(self.draw.choice(hot if hot and self.draw.random() < 0.8 else list(links.values())))

    def command(self, op, method, path, **options):
        service = self.draw.choice([*self.world.stack.commands, self.world.stack.nginx])
        return self.requests.send(op, service, service.api_port, method, path, **options)

    def draw_service(self):
        return self.draw.choice([*self.world.stack.queries, self.world.stack.nginx])

    def query(self, op, path, service=None, **options):
        service = service or self.draw_service()
        return self.requests.send(op, service, service.api_port, "GET", path, **options)
