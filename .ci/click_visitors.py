"""Visitors of short links, for .ci/clicks: they count each redirect that is answered.

Each visitor has one request under way, on a connection that is kept. A connection that is refused or closed
without an answer is no redirect: the visitor goes to the other query-api.
"""

import array
import collections
import datetime
import itertools
import math
import random
import re
import socket
import threading
import time

VISITORS = 16
# No redirect may take longer, whatever is broken.
ANSWER_TIMEOUT_S = 20
# Longest time without any query-api.
REFUSED_TIMEOUT_S = 60
# Visits after which a visitor returns to the query-api that it began with.
RETURN_AFTER = 100
BACKOFF_S = 0.02

HUMAN, BOT = 0, 1
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME = ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
          "Chrome/141.0.0.0 Safari/537.36")
SAFARI = ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
          "Version/18.5 Mobile/15E148 Safari/604.1")
CRAWLER = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
REFERRERS = ["", "https://news.example.com/today", "https://chat.example.org/", "https://search.example.net/?q=links"]
# Method, user agent, further header, kind of the click.
MANNERS = [
    ("GET", FIREFOX, "", HUMAN),
    ("GET", CHROME, "", HUMAN),
    ("GET", CHROME, "Sec-GPC: 1\r\n", HUMAN),
    ("GET", SAFARI, "", HUMAN),
    ("GET", CRAWLER, "", BOT),
    ("GET", "curl/8.0", "", BOT),
    ("GET", "", "", BOT),
    ("GET", FIREFOX, "Sec-Purpose: prefetch\r\n", BOT),
    ("HEAD", FIREFOX, "", BOT),
]
MANNER_WEIGHTS = [8, 8, 2, 6, 1, 1, 1, 1, 1]

Redirect = collections.namedtuple("Redirect", "due sent received link kind server")


def wall_clock():
    return datetime.datetime.now(datetime.UTC)


class Unanswered(Exception):
    """The connection was closed before the answer."""


class Visitor(threading.Thread):
    def __init__(self, visits, number):
        super().__init__(daemon=True)
        self.visits, self.home = visits, number % len(visits.ports)
        self.server, self.socket, self.until_return = self.home, None, RETURN_AFTER
        self.draw = random.Random(number)
        self.statuses, self.unanswered = collections.Counter(), collections.Counter()
        self.refused, self.error = 0, None
        # Columns of the redirects: millions of them must fit.
        self.columns = Redirect(*map(array.array, "dddHbb"))

    def run(self):
        visits = self.visits
        try:
            while not visits.is_ending:
                due = visits.begun + next(visits.numbers) / visits.rate
                time.sleep(max(0, due - time.time()))
                link = self.draw.choices(range(len(visits.slugs)), cum_weights=visits.cumulated)[0]
                self.visit(due, link, self.draw.choices(MANNERS, MANNER_WEIGHTS)[0])
        except Exception as error:  # Reported by the thread that waits.
            self.error = error
        finally:
            self.close()

    def visit(self, due, link, manner):
        method, agent, header, kind = manner
        visits = self.visits
        referrer = self.draw.choice(REFERRERS)
        lines = f"{method} /{visits.slugs[link]} HTTP/1.1\r\nHost: {visits.host}\r\n{header}"
        lines += f"User-Agent: {agent}\r\n" if agent else ""
        lines += f"Referer: {referrer}\r\n" if referrer else ""
        request = (lines + "\r\n").encode()
        until = time.monotonic() + REFUSED_TIMEOUT_S
        while True:
            try:
                self.connect()
                sent = time.time()
                status = self.ask(request, method == "HEAD")
                break
            except (Unanswered, ConnectionError) as error:
                if self.socket:
                    self.unanswered[link] += 1
                else:
                    self.refused += 1
                assert time.monotonic() < until, f"no query-api has answered for {REFUSED_TIMEOUT_S} s: {error!r}"
                self.close()
                self.server = (self.server + 1) % len(visits.ports)
                time.sleep(BACKOFF_S)
        self.statuses[status] += 1
        if status == 302:
            for column, value in zip(self.columns, (due, sent, time.time(), link, kind, self.server)):
                column.append(value)
        else:
            assert status == 503, f"a redirect was answered {status}"

    def connect(self):
        self.until_return -= 1
        if self.until_return <= 0:
            self.until_return = RETURN_AFTER
            if self.server != self.home:
                self.close()
                self.server = self.home
        if not self.socket:
            self.socket = socket.create_connection(("127.0.0.1", self.visits.ports[self.server]), ANSWER_TIMEOUT_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request, is_head):
        """Sends a request, and returns the status of the complete answer."""
        self.socket.sendall(request)
        answer = b""
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self.receive()
        head = answer[:end].lower()
        length = re.search(rb"\r\ncontent-length: (\d+)", head)
        missing = 0 if is_head or not length else int(length[1]) - (len(answer) - end - 4)
        while missing > 0:
            missing -= len(self.receive())
        if b"\r\nconnection: close" in head:
            self.close()
        return int(head[9:12])

    def receive(self):
        data = self.socket.recv(65536)
        if not data:
            raise Unanswered
        return data

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None


class Visits:
    """Visits to some links at a rate; few links have most of the visits."""

    def __init__(self, stack, slugs, rate):
        self.ports = [query.short_port for query in stack.queries]
        self.host = f"127.0.0.1:{self.ports[0]}"
        self.slugs, self.rate = slugs, rate
        self.cumulated = list(itertools.accumulate(1 / rank for rank in range(1, len(slugs) + 1)))
        self.numbers, self.begun, self.is_ending = itertools.count(), time.time(), False
        self.visitors = [Visitor(self, number) for number in range(VISITORS)]
        for visitor in self.visitors:
            visitor.start()

    def __len__(self):
        return sum(len(visitor.columns.sent) for visitor in self.visitors)

    def check(self):
        for visitor in self.visitors:
            if visitor.error:
                raise visitor.error

    def wait_for(self, number, seconds_max=math.inf):
        """Waits until so many redirects are answered, or so many seconds have passed since the begin."""
        while len(self) < number and time.time() - self.begun < seconds_max:
            self.check()
            time.sleep(0.05)

    def end(self):
        """Ends the visits, and notes the instant after the last one."""
        self.is_ending = True
        for visitor in self.visitors:
            visitor.join()
        self.ended_at, self.seconds = wall_clock(), time.time() - self.begun
        self.check()

    def redirects(self):
        for visitor in self.visitors:
            yield from map(Redirect, *visitor.columns)

    def counts(self):
        """Returns the number of redirects by slug and kind."""
        counts = {slug: [0, 0] for slug in self.slugs}
        for redirect in self.redirects():
            counts[self.slugs[redirect.link]][redirect.kind] += 1
        return counts

    def unanswered(self):
        """Returns the number of requests without an answer, by slug."""
        sums = collections.Counter()
        for visitor in self.visitors:
            for link, number in visitor.unanswered.items():
                sums[self.slugs[link]] += number
        return sums

    def report(self):
        refused = sum(visitor.refused for visitor in self.visitors)
        statuses = sum((visitor.statuses for visitor in self.visitors), collections.Counter())
        others = {status: number for status, number in statuses.items() if status != 302}
        return (f"{len(self)} redirects in {self.seconds:.0f} s ({len(self) / self.seconds:.0f}/s), "
                f"other answers {others or 'none'}, {refused} connections refused, "
                f"{self.unanswered().total()} closed without an answer")
