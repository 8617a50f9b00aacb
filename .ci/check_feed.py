"""Compares the table that docs/examples/keep_events.py has made with an export of the log.

usage: check_feed.py TABLE ACCOUNT EXPORT_FILE...
"""

import json
import sqlite3
import sys


def main():
    table, account, *files = sys.argv[1:]
    events = (json.loads(line) for path in files for line in open(path, encoding="utf-8"))
    exported = sorted((int(event["sequence"]), event["id"]) for event in events if event["partitionkey"] == account)
    kept = sqlite3.connect(table).execute("SELECT sequence, id FROM events ORDER BY sequence").fetchall()
    if not kept or kept != exported:
        sys.exit(f"the feed has {len(kept)} events, and the log {len(exported)}; they differ")
    print(f"keep_events.py: {len(kept)}")


if __name__ == "__main__":
    main()
