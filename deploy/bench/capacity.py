"""Prints the figures of docs/scaling.md, from measured figures (docs/performance/*.json and storage.csv,
deploy/bench/cost/figures.json) and a simulation of the distribution of accounts over shards.

usage: capacity.py, from the root of the repository; needs nothing but Python
"""

import csv
import json
import random
import statistics
import sys
from pathlib import Path

SHARDS = 16
# Number of rows of a link that is created and never changed.
ROWS_OF_A_LINK = {"event_store.events": 2, "event_store.slugs": 1, "read_model.links": 1, "read_model.redirects": 1, "read_model.credit_entries": 1}
REDIRECT_TIME = "processor time of query-api for each, clicks recorded"
LARGEST_STORE = "10 million events of 1 million accounts"
LINKS = [10**6, 10**8, 10**9, 10**10]
TRIALS = 200
SECONDS_OF_A_MONTH = 30 * 86_400
SECONDS_OF_A_YEAR = 365 * 86_400


def measured(benchmark, what):
    rows = json.loads(Path(f"docs/performance/{benchmark}.json").read_text())["rows"]
    medians = [row["measured"]["median"] for row in rows if row["what"].startswith(what)]
    if not medians:
        sys.exit(f"docs/performance/{benchmark}.json has no row `{what}`; run linkledger-bench {benchmark}")
    return medians[0]


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def size(count):
    for unit in ["B", "kB", "MB", "GB", "TB"]:
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000


def storage():
    with open("docs/performance/storage.csv") as file:
        rows = {row["table"]: (float(row["row_bytes"]), float(row["index_bytes"])) for row in csv.DictReader(file)}
    of_link = {name: sum(rows[name]) * count for name, count in ROWS_OF_A_LINK.items()}
    table(["table", "rows of a link", "row", "its part of the indexes", "of a link"], [(f"`{name}`", count, f"{rows[name][0]:.0f} B", f"{rows[name][1]:.0f} B", f"{of_link[name]:.0f} B") for name, count in ROWS_OF_A_LINK.items()])
    parts = {"the log": "event_store.events", "slugs": "event_store.slugs", "read tables": "read_model."}
    sums = {part: sum(value for name, value in of_link.items() if name.startswith(prefix)) for part, prefix in parts.items()}
    table(["links", *sums, "together", "the log of one shard"], [(f"10^{len(str(links)) - 1}", *(size(links * value) for value in sums.values()), size(links * sum(sums.values())), size(links * sums["the log"] / SHARDS)) for links in LINKS])


def costs():
    cost = json.loads(Path("deploy/bench/cost/figures.json").read_text())
    creates = measured("creates", "64 connections")
    cores = json.loads(Path("docs/performance/creates.json").read_text())["machine"]["cores"]
    # At size, where each index has its own pages: in the small tables of `cost` all creates share theirs.
    wal, wal_after_checkpoint = (1000 * measured("growth", f"write-ahead log of a create{phase}, {LARGEST_STORE}") for phase in ["", " after a checkpoint"])
    rows = [
        ("creates, everything that follows included", f"{cores / creates * 1e6:.0f} s", f"{creates / cores:,.0f}/s", size(wal * 1e6)),
        ("redirects from memory with clicks, query-api alone", f"{measured('redirects', REDIRECT_TIME):.1f} s", f"{1e6 / measured('redirects', REDIRECT_TIME):,.0f}/s", "none"),
        ("reads by id, everything", f"{cores / measured('get-link', 'GET') * 1e6:.0f} s", f"{measured('get-link', 'GET') / cores:,.0f}/s", "none"),
        ("pages of 50, everything", f"{cores / measured('list-links', 'page 1') * 1e6:.0f} s", f"{measured('list-links', 'page 1') / cores:,.0f}/s", "none"),
        ("events applied again (rebuild)", f"{cores / measured('catch-up', 'rebuild') * 1e6:.0f} s", f"{measured('catch-up', 'rebuild') / cores:,.0f}/s", size(cost["event"]["wal_bytes"] * 1e6)),
    ]
    table(["a million of", "time of a core", "one core does", "write-ahead log"], rows)
    month = 10**10 / SECONDS_OF_A_MONTH
    at_size = measured("growth", f"creates, {LARGEST_STORE}")
    print(f"\n10^10 links in a month are {month:,.0f} creates/s on average, {month / (at_size / cores):.1f} cores at the rate of the largest measured store, and {wal * month / 1e6:.0f} MB/s of write-ahead log, {wal_after_checkpoint * month / 1e6:.0f} MB/s after a checkpoint; in a year {10**10 / SECONDS_OF_A_YEAR:,.0f} creates/s.")


def busiest(accounts, exponent, servers):
    """Returns the share of the busiest server, for accounts whose sizes follow Zipf's law."""
    weights = [1 / rank**exponent for rank in range(1, accounts + 1)]
    total = sum(weights)
    shares = []
    for trial in range(TRIALS if accounts < 10_000 else TRIALS // 10):
        draw = random.Random(trial)
        load = [0.0] * SHARDS
        for weight in weights:
            load[draw.randrange(SHARDS)] += weight
        per_server = SHARDS // servers
        shares.append(max(sum(load[nth * per_server : (nth + 1) * per_server]) for nth in range(servers)) / total)
    return statistics.median(shares)


def shards():
    rows = []
    for accounts in [100, 1_000, 100_000]:
        for exponent, name in [(0, "all alike"), (1, "Zipf's law")]:
            rows.append((f"{accounts:,}", name, *(f"{1 / busiest(accounts, exponent, servers):.1f}" for servers in [2, 4, 8, 16])))
    table(["accounts", "their sizes", "2 servers", "4", "8", "16"], rows)


storage()
costs()
shards()
