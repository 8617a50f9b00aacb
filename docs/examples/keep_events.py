"""Keeps the events of an account in a table of SQLite, each once and in their order, whenever it is killed.

usage: keep_events.py FILE [--follow]. Settings are API_URL and API_KEY of `.linkledger/env`.
"""

import json
import os
import sqlite3
import sys
import time
import urllib.parse
import urllib.request

kept, wait, has_more = sqlite3.connect(sys.argv[1]), 25 if "--follow" in sys.argv else 0, True
kept.execute("CREATE TABLE IF NOT EXISTS events (sequence INTEGER PRIMARY KEY, id, type, time, data)")
kept.execute("CREATE TABLE IF NOT EXISTS place (number INTEGER PRIMARY KEY, cursor)")

while has_more or wait:
    place = kept.execute("SELECT cursor FROM place").fetchone()
    query = {"limit": 100, "wait": wait} | ({"after": place[0]} if place else {"from": "beginning"})
    url = f"{os.environ['API_URL']}/v1/events?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {os.environ['API_KEY']}"})
    with urllib.request.urlopen(request, timeout=40) as answer:
        page = json.load(answer)
    with kept:  # events and cursor in one transaction
        for event in page["items"]:
            row = (event["sequence"], event["id"], event["type"], event["time"], json.dumps(event["data"]))
            kept.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", row)
        kept.execute("REPLACE INTO place VALUES (1, ?)", (page["next_cursor"],))
    has_more = page["has_more"]
    time.sleep(0.2 if wait and not page["items"] else 0)
