#!/usr/bin/env python3
"""In turn, a round of load without a rebuild, and rounds of load during a `projector rebuild --all`; see
rebuild_impact.sh.

    rebuild_impact.py ROUNDS COMMAND...

COMMAND creates links for a while, and prints rate and latencies.
The lag is that of the live checkpoints, summed over shards, measured ten times a second. A client pages through
a list of LISTED links all the time: each scan must have each link once, newest first.
Exits with 1 if a scan was wrong, a response was an error, or a rebuild failed.
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


class Rebuild:
    """`projector rebuild --all`, in a process of its own."""

    def __init__(self):
        command = [os.environ["PROJECTOR"], "rebuild", "--all"]
        command += shlex.split(os.environ.get("REBUILD_OPTIONS", ""))
        self.begun = time.time()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)

    def runs(self):
        return self.process.poll() is None

    def end(self):
        text = self.process.communicate()[0].strip()
        seconds = time.time() - self.begun
        print(f"rebuild: exit {self.process.returncode} after {seconds:.0f} s\n{text}", flush=True)
        if self.process.returncode != 0:
            sys.exit(1)


def round_of(creates):
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
    }


def main():
    rounds, creates = int(sys.argv[1]), sys.argv[2:]
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
            rebuild = Rebuild()
            # Rounds go on until the rebuild ends, so that each phase of the rebuild has a round.
            while rebuild.runs():
                results[True].append(round_of(creates))
                print("with   ", results[True][-1], flush=True)
            rebuild.end()
    finally:
        pager.stopped.set()
        pager.join()
    print(f"{'':10}  {'without':>30}  {'with':>30}  ratio of medians")
    for name in results[False][0]:
        columns, medians = [], []
        for with_rebuild in (False, True):
            figures = sorted(it[name] for it in results[with_rebuild])
            medians.append(statistics.median(figures))
            columns.append(f"{figures[0]:.1f} / {medians[-1]:.1f} / {figures[-1]:.1f}")
        ratio = medians[1] / medians[0] if medians[0] else float("nan")
        print(f"{name:10}  {columns[0]:>30}  {columns[1]:>30}  {ratio:.2f}")
    print(f"{pager.scans} scans of {len(expected)} links, {len(pager.wrong)} wrong {pager.wrong[:3]}")
    if pager.wrong:
        sys.exit(1)


main()
