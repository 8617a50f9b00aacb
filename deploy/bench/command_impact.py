#!/usr/bin/env python3
"""In turn, a round of load without a command, and rounds of load during the command; see command_impact.sh.

    command_impact.py ROUNDS COMMAND LOAD...

LOAD creates links for a while, and prints rate and latencies.
The lag is that of the live checkpoints, summed over shards, measured ten times a second. A client pages through
a list of LISTED links all the time: each scan must have each link once, newest first.
Exits with 1 if a scan was wrong, a response was an error, or the command failed.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

LISTED = 2_000
LAG = """
SELECT sum(s.head - c.position) FROM event_store.log_shards AS s
JOIN read_model.checkpoints AS c USING (shard) JOIN read_model.projections AS p USING (projection)
WHERE c.generation = p.active_generation AND c.projection = 'links' \\watch 0.1
"""
API_URL = os.environ["API_URL"]


def call(path, body=None):
    headers = {"Authorization": f"Bearer {os.environ['API_KEY']}"}
    if body is not None:
        headers |= {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        body = json.dumps(body).encode()
    request = urllib.request.Request(API_URL + path, data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def scan():
    """Returns the ids of the whole list, in order."""
    ids, cursor = [], ""
    while True:
        page = call(f"/v1/links?limit=100{cursor}")
        ids += [link["id"] for link in page["items"]]
        if not page["has_more"]:
            return ids
        cursor = f"&cursor={page['next_cursor']}"


class Pager(threading.Thread):
    """Scans the list until `stopped` is set; `wrong` describes wrong scans."""

    def __init__(self, expected):
        super().__init__()
        self.expected, self.scans, self.wrong = expected, 0, []
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.is_set():
            try:
                found = scan()
                if found != self.expected:
                    lacking = len(set(self.expected) - set(found))
                    self.wrong.append(f"{len(found)} links in a scan, {lacking} missing")
            except Exception as error:
                self.wrong.append(repr(error))
            self.scans += 1
            # The pause keeps the load of this client small.
            self.stopped.wait(0.05)


def wal_bytes():
    """Returns the length of the write-ahead log so far."""
    query = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
    return int(subprocess.check_output(["psql", os.environ["DATABASE_URL"], "-Atc", query]))


class Command(threading.Thread):
    """The operator's command, in a process of its own."""

    def __init__(self, words):
        super().__init__(daemon=True)
        self.words, self.is_done = words, False

    def run(self):
        begun, wal_before = time.time(), wal_bytes()
        process = subprocess.run(self.words, stdout=subprocess.PIPE, text=True)
        seconds, written = time.time() - begun, wal_bytes() - wal_before
        print(f"command: exit {process.returncode} after {seconds:.1f} s; {written / 1e6:,.0f} MB of WAL, with that of "
              f"the creates\n{process.stdout.strip()}", flush=True)
        self.is_done = process.returncode == 0


def round_of(creates):
    wal_before = wal_bytes()
    lag = subprocess.Popen(["psql", os.environ["DATABASE_URL"], "-Atq"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    lag.stdin.write(LAG)
    lag.stdin.flush()
    creates = subprocess.run(creates, stdout=subprocess.PIPE, text=True)
    lag.terminate()
    if creates.returncode != 0:
        sys.exit("the load command failed; its error is above")
    line = creates.stdout.strip()
    lags = sorted(int(text) for text in lag.communicate()[0].split() if text.lstrip("-").isdigit())
    words = line.split()
    return {
        "creates/s": float(words[1]),
        "p50 ms": float(words[3]),
        "p99 ms": float(words[6]),
        "lag p50": lags[len(lags) // 2],
        "lag p99": lags[len(lags) * 99 // 100],
        "WAL MB": (wal_bytes() - wal_before) / 1e6,
    }


def main():
    rounds, words, creates = int(sys.argv[1]), shlex.split(sys.argv[2]), sys.argv[3:]
    expected = scan()
    for number in range(max(0, LISTED - len(expected))):
        call("/v1/links", {"destination_url": f"https://example.com/listed/{number}"})
    deadline = time.time() + 30
    while len(expected := scan()) < LISTED and time.time() < deadline:
        time.sleep(0.1)
    pager = Pager(expected)
    pager.start()
    results = {False: [], True: []}
    try:
        for _ in range(rounds):
            results[False].append(round_of(creates))
            print("without", results[False][-1], flush=True)
            command = Command(words)
            command.start()
            # Rounds go on until the command ends, so that each phase of the command has a round.
            while command.is_alive():
                results[True].append(round_of(creates))
                print("with   ", results[True][-1], flush=True)
            command.join()
            if not command.is_done:
                sys.exit(1)
    finally:
        pager.stopped.set()
        pager.join()
    print(f"{'':10}  {'without':>30}  {'with':>30}  ratio of medians")
    for name in results[False][0]:
        columns, medians = [], []
        for with_command in (False, True):
            figures = sorted(it[name] for it in results[with_command])
            medians.append(statistics.median(figures))
            columns.append(f"{figures[0]:.1f} / {medians[-1]:.1f} / {figures[-1]:.1f}")
        ratio = medians[1] / medians[0] if medians[0] else float("nan")
        print(f"{name:10}  {columns[0]:>30}  {columns[1]:>30}  {ratio:.2f}")
    print(f"{pager.scans} scans of {len(expected)} links, {len(pager.wrong)} wrong {pager.wrong[:3]}")
    if pager.wrong:
        sys.exit(1)


main()
