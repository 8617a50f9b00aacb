"""Runs the schema and the queries of deploy/clickhouse on chDB, with clicks of an archive that are delivered twice,
and compares the statistics with a plain count; with --api also with those of `GET /v1/clicks`.

usage: check_clickhouse.py ARCHIVE [--api], with API_URL and API_KEY in the environment for --api
"""

import collections
import datetime
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import zoneinfo

from chdb import session

FOLDER = pathlib.Path("deploy/clickhouse")
SOURCE = "/linkledger/recorders/"
ZONES = ["UTC", "America/New_York", "Asia/Kolkata"]
DAYS_AROUND = datetime.timedelta(days=1)
COMPLETE_TIME_MAX_S = 60
# Of the API's estimate of visitors: four standard errors.
VISITORS_ERROR_MAX = 0.04
# chDB has no brokers. A table with the columns of the Kafka engine, its virtual ones too, stands in: the views that
# read it are those of the file.
VIRTUAL = "_partition UInt64, _offset UInt64, _error String, _raw_message String, _headers Nested(name String, value String)"


def check(is_true, complaint):
    if not is_true:
        sys.exit(f"clickhouse: {complaint}")


def equal(what, found, expected):
    check(found == expected, f"{what}: found {str(found)[:800]}\nexpected {str(expected)[:800]}")


# --- ClickHouse ---


def statements(path):
    """Returns the statements of a file, each with the comment before it."""
    return [part.strip() for part in re.split(r";\s*(?=\n|$)", path.read_text()) if part.strip()]


def queries():
    """Returns {name: statement} of queries.sql."""
    found = {}
    for statement in statements(FOLDER / "queries.sql"):
        comments = [line for line in statement.splitlines() if line.startswith("-- ")]
        # The first comment of the file is about the file.
        name = next(line for line in comments if not line.startswith("-- Queries of"))
        found[name.removeprefix("-- ").split(":")[0]] = statement
    return found


class ClickHouse:
    def __init__(self, folder):
        self.session = session.Session(folder)
        self.queries = queries()

    def run(self, statement, **parameters):
        self.session.query(statement, params=parameters)

    def rows(self, name, **parameters):
        answer = self.session.query(self.queries[name], "JSONCompactEachRow", params=parameters)
        return [tuple(json.loads(line)) for line in str(answer).splitlines() if line]

    def prepare(self):
        for _ in range(2):  # safe to repeat
            for statement in statements(FOLDER / "1-clicks.sql"):
                self.run(statement)
        topic, *views = statements(FOLDER / "2-kafka.sql")
        self.check_kafka_table(topic)
        columns = re.search(r"clicks_topic\n\((.*?)\n\)", topic, re.S)[1]
        self.run(f"CREATE TABLE linkledger.clicks_topic ({columns}, {VIRTUAL}) ENGINE = Null")
        for statement in views:
            self.run(statement)

    def check_kafka_table(self, statement):
        """Makes the table of the Kafka engine, whose settings chDB checks; then it cannot start the readers."""
        try:
            self.run(statement)
        except RuntimeError as error:
            check("Shutdown was called" in str(error), f"the table of the Kafka engine is refused: {error}")
        self.run("DROP TABLE IF EXISTS linkledger.clicks_topic SYNC")

    def deliver(self, path):
        self.run(f"INSERT INTO linkledger.clicks_topic SELECT * FROM file('{path}', JSONEachRow) SETTINGS input_format_skip_unknown_fields = 1")


    def insert(self, archive):
        """Inserts an archive. The session has no standard input: the file stands in."""
        statement = (FOLDER / "archive.sql").read_text().replace("FROM input(", f"FROM file('{archive}', JSONEachRow, ")
        setting = "\nSETTINGS input_format_skip_unknown_fields = 1"
        self.run(re.sub(r"\nFORMAT JSONEachRow\s*$", setting, statement))

    def count(self):
        return int(str(self.session.query("SELECT count() FROM linkledger.clicks FINAL")))


def records(clicks):
    """Yields the rows that the Kafka engine makes from the records: members, and virtual columns."""
    for offset, click in enumerate(clicks):
        members = {name: click[name] for name in click.keys() - {"recorder", "partition", "sequence", "mac"}}
        headers = {"ce_type": "linkledger.LinkClicked.v1", "ce_source": SOURCE + click["recorder"], "ce_sequence": str(click["sequence"])}
        names = {"_headers.name": list(headers), "_headers.value": list(headers.values())}
        yield {**members, "_partition": click["partition"], "_offset": offset, "_error": "", "_raw_message": "", **names}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# --- a plain count ---


def instant(click):
    return datetime.datetime.fromisoformat(click["clicked_at"])


class Statistics:
    """Statistics of some clicks, counted one by one."""

    def __init__(self, clicks):
        self.numbers, self.seen = collections.Counter(), set()
        for click in clicks:
            self.numbers[click["kind"]] += click.get("count", 1)
            if "visitor" in click:
                self.seen.add((instant(click).date(), click["visitor"]))

    def clicks(self):
        return self.numbers["human"]

    def bots(self):
        return self.numbers["bot"]

    def visitors(self):
        return len(self.seen)


def grouped(clicks, key):
    groups = collections.defaultdict(list)
    for click in clicks:
        groups[key(click)].append(click)
    return {key: Statistics(clicks) for key, clicks in sorted(groups.items())}


def slot(click):
    at = instant(click)
    return at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0).strftime("%Y-%m-%d %H:%M:%S")


def top(clicks, key, limit):
    humans = grouped([click for click in clicks if click["kind"] == "human"], key)
    rows = [(value, statistics.clicks(), statistics.visitors()) for value, statistics in humans.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:limit]


# --- comparisons ---


def compare_account(clickhouse, account, clicks):
    instants = [instant(click) for click in clicks]
    span = {"from": min(instants) - DAYS_AROUND, "to": max(instants) + DAYS_AROUND}
    span = {name: f"{at:%Y-%m-%d %H:%M:%S}" for name, at in span.items()}
    ask = {"account": account, **span}
    for zone in ZONES:
        days = grouped(clicks, lambda click: str(instant(click).astimezone(zoneinfo.ZoneInfo(zone)).date()))
        expected = [(day, it.clicks(), it.bots(), it.visitors()) for day, it in days.items()]
        equal(f"days of {account}, {zone}", clickhouse.rows("series", timezone=zone, **ask), expected)
    for link, of_link in grouped_clicks(clicks, "link_id").items():
        expected = [(at, it.clicks(), it.bots()) for at, it in grouped(of_link, slot).items()]
        equal(f"slots of {link}", clickhouse.rows("series of a link", link=link, **ask), expected)
    expected = top(clicks, lambda click: click.get("country", ""), 3)
    equal(f"countries of {account}", clickhouse.rows("top countries", limit=3, **ask), expected)
    expected = top(clicks, lambda click: click["link_id"], 100)
    equal(f"links of {account}", clickhouse.rows("top links", limit=100, **ask), expected)
    [(exact, estimate)] = clickhouse.rows("visitors", **ask)
    visitors = Statistics(clicks).visitors()
    equal(f"visitors of {account}", exact, visitors)
    check(abs(estimate - visitors) <= VISITORS_ERROR_MAX * visitors, f"{estimate} are estimated, not {visitors}")
    by_link = [(link, it.clicks() + it.bots(), it.bots()) for link, it in grouped(clicks, lambda click: click["link_id"]).items()]
    expected = sorted(((link, total, round(bots / total, 3)) for link, total, bots in by_link), key=lambda row: (-row[2], row[0]))
    equal(f"bots of {account}", clickhouse.rows("bots", **ask), expected)


def grouped_clicks(clicks, member):
    groups = collections.defaultdict(list)
    for click in clicks:
        groups[click[member]].append(click)
    return groups


def compare_gaps(clickhouse, clicks):
    """Compares the gaps with those of the clicks, which an archive of a real topic may have."""
    sequences = collections.defaultdict(set)
    for click in clicks:
        sequences[click["recorder"], click["partition"]].add(click["sequence"])
    missing = {place: max(found) - len(found) for place, found in sequences.items()}
    expected = {place: number for place, number in missing.items() if number}
    found = {(recorder, partition): int(number) for recorder, partition, number in clickhouse.rows("gaps")}
    equal("gaps", found, expected)


def compare_api(clicks):
    """Compares a plain count of the clicks with the statistics of the API, once they are complete."""
    instants = [instant(click) for click in clicks]
    query = {"from": min(instants).date(), "to": max(instants).date() + DAYS_AROUND}
    until = time.monotonic() + COMPLETE_TIME_MAX_S
    while True:
        answer = get("/v1/clicks", {**query, "interval": "day"})
        if answer["complete_until"] and datetime.datetime.fromisoformat(answer["complete_until"]) > max(instants):
            break
        check(time.monotonic() < until, f"after {COMPLETE_TIME_MAX_S} s statistics are complete until {answer['complete_until']}")
        time.sleep(0.5)
    statistics, totals = Statistics(clicks), answer["totals"]
    equal("totals of the API", (totals["clicks"], totals["bots"]), (statistics.clicks(), statistics.bots()))
    difference = abs(totals["visitors"] - statistics.visitors())
    check(difference <= max(1, VISITORS_ERROR_MAX * statistics.visitors()), f"the API has {totals['visitors']} visitors, not {statistics.visitors()}")
    days = {day: (it.clicks(), it.bots()) for day, it in grouped(clicks, lambda click: click["clicked_at"][:10]).items()}
    series = {bucket["start"][:10]: (bucket["clicks"], bucket["bots"]) for bucket in answer["series"]}
    equal("days of the API", {day: numbers for day, numbers in series.items() if any(numbers)}, days)
    items = get("/v1/clicks/top", {**query, "by": "browser", "limit": 100})["items"]
    expected = {value: number for value, number, _ in top(clicks, lambda click: click.get("browser", ""), None)}
    equal("browsers of the API", {item["value"] or "": item["clicks"] for item in items}, expected)
    print(f"the API has the same statistics: {totals}")


def get(path, query):
    url = f"{os.environ['API_URL']}{path}?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {os.environ['API_KEY']}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def main(archive, *options):
    with open(archive, encoding="utf-8") as file:
        clicks = [json.loads(line) for line in file]
    check(clicks, f"{archive} has no clicks")
    with tempfile.TemporaryDirectory() as folder:
        clickhouse = ClickHouse(f"{folder}/tables")
        clickhouse.prepare()
        clickhouse.insert(pathlib.Path(archive).resolve())
        archived = len({(click["recorder"], click["partition"], click["sequence"]) for click in clicks})
        equal("clicks of the archive", clickhouse.count(), archived)
        rows = pathlib.Path(folder, "records.ndjson")
        write(rows, records(clicks))
        for _ in range(2):
            clickhouse.deliver(rows)
        # The records have the clicks of the archive: none is another row.
        equal("clicks of archive and records", clickhouse.count(), archived)
        accounts = grouped_clicks(clicks, "account_id")
        for account, of_account in accounts.items():
            compare_account(clickhouse, account, of_account)
        compare_gaps(clickhouse, clicks)
        print(f"{len(clicks):,} records, each delivered twice and inserted from an archive: ClickHouse has the statistics of {len(accounts)} accounts")
        compare_errors(clickhouse, rows, clicks[0])
    if "--api" in options:
        check(len(accounts) == 1, f"the API has the statistics of one account, not of {sorted(accounts)}")
        compare_api(clicks)


def compare_errors(clickhouse, path, click):
    """A record that cannot be read, and one of another type, are no clicks; the former is kept with its error."""
    [row] = records([{**click, "sequence": 1_000_000}])
    other = {**row, "_headers.value": ["linkledger.LinkSeen.v1", *row["_headers.value"][1:]]}
    write(path, [other, {"_error": "Cannot parse", "_raw_message": "{", "_partition": 3, "_headers.name": [], "_headers.value": []}])
    before = str(clickhouse.session.query("SELECT count() FROM linkledger.clicks"))
    clickhouse.deliver(path)
    equal("clicks", str(clickhouse.session.query("SELECT count() FROM linkledger.clicks")), before)
    errors = str(clickhouse.session.query("SELECT partition, record, error FROM linkledger.clicks_errors", "JSONCompactEachRow"))
    equal("errors", [json.loads(line)[1:] for line in errors.splitlines()], [["{", "Cannot parse"]])


main(*sys.argv[1:])
