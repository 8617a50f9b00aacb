"""Links and credits per account and day (UTC), from the event stream of linkledger by DuckDB.

usage: links_and_credits.py [--from FILE] [--chart FILE]

Reads the topic to its end, or a file of `command-api log export`; prints a table, and draws a chart
as PNG. The settings are those of event_stream.py.
"""

import argparse
import collections
import datetime
import json
import sys
import tempfile

import duckdb
import event_stream
import matplotlib

matplotlib.use("Agg")
from matplotlib import dates, pyplot, ticker  # noqa: E402

# Events in the JSON format of CloudEvents, one on each line, with the columns used here.
EVENTS = """
CREATE TABLE events AS
SELECT type, "time"[1:10]::DATE AS day, partitionkey AS account_id, -- every time is in UTC
       logepoch::INTEGER AS epoch, sequence::BIGINT AS sequence, data.amount, data.balance_after
FROM read_json(?, format = 'newline_delimited', columns = {
    type: 'VARCHAR', "time": 'VARCHAR', partitionkey: 'VARCHAR', logepoch: 'VARCHAR', sequence: 'VARCHAR',
    data: 'STRUCT(amount BIGINT, balance_after BIGINT)'
})
"""

DAYS = """
SELECT account_id, day,
       count(*) FILTER (type = 'linkledger.LinkCreated.v1') AS created,
       count(*) FILTER (type = 'linkledger.LinkDeleted.v1') AS deleted,
       coalesce(sum(amount) FILTER (type = 'linkledger.CreditsGranted.v1'), 0)::BIGINT AS granted,
       coalesce(sum(amount) FILTER (type = 'linkledger.CreditsAdjusted.v1'), 0)::BIGINT AS adjusted,
       coalesce(sum(amount) FILTER (type = 'linkledger.CreditsCharged.v1'), 0)::BIGINT AS charged,
       coalesce(sum(amount) FILTER (type = 'linkledger.CreditsRefunded.v1'), 0)::BIGINT AS refunded,
       coalesce(sum(amount) FILTER (type = 'linkledger.CreditsRevoked.v1'), 0)::BIGINT AS revoked,
       -- The account's events are in one partition, so sequences order them.
       arg_max(balance_after, (epoch, sequence)) FILTER (balance_after IS NOT NULL) AS balance
FROM events
GROUP BY ALL
ORDER BY account_id, day
"""

COLUMNS = ["account", "day", "links", "deleted", "granted", "adjusted", "charged", "refunded", "revoked", "balance"]
EMPTY = " in the topic; for events removed by retention use `command-api log export` (--from)"
OTHERS = "all others"
ACCOUNTS_SHOWN_MAX, DAYS_LABELLED_MAX = 9, 8
CHART_INCHES, CHART_DPI = (11, 7), 120
DAY = datetime.timedelta(days=1)


def write_topic(file):
    """Writes the topic's events as lines of JSON."""
    for event in event_stream.read():
        line = {
            "type": event.type,
            "time": event.time,
            "partitionkey": event.account_id,
            "logepoch": str(event.epoch),
            "sequence": str(event.sequence),
            "data": event.data,
        }
        file.write(json.dumps(line) + "\n")
    file.flush()


def load(database, exported):
    if exported:
        database.execute(EVENTS, [exported])
        return
    with tempfile.NamedTemporaryFile("w", suffix=".ndjson") as file:
        write_topic(file)
        database.execute(EVENTS, [file.name])


def print_table(days):
    def cell(value):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)

    sums = [sum(row[column] for row in days) for column in range(2, 9)]
    rows = [COLUMNS, *([cell(value) for value in row] for row in days), ["all", "", *map(cell, sums), ""]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        words = [row[0].ljust(widths[0]), *(word.rjust(width) for word, width in zip(row[1:], widths[1:]))]
        print("  ".join(words).rstrip())


def stacks(days, column):
    """Returns {account: its value on each day}: accounts with most links one by one, then all others together."""
    links = collections.Counter()
    for account, _, created, *_ in days:
        links[account] += created
    shown = [account for account, _ in links.most_common(ACCOUNTS_SHOWN_MAX)]
    values = {account: collections.Counter() for account in shown}
    for row in days:
        account = row[0] if row[0] in shown else OTHERS
        values.setdefault(account, collections.Counter())[row[1]] += row[column]
    return values


def draw(days, path):
    known = sorted({row[1] for row in days})
    figure, axes = pyplot.subplots(2, sharex=True, figsize=CHART_INCHES, dpi=CHART_DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.15)
    for axis, column, title in zip(axes, (2, 6), ("Links created per day", "Credits charged per day")):
        floor = [0] * len(known)
        for number, (account, values) in enumerate(stacks(days, column).items()):
            # An id begins with its time: its end tells accounts apart.
            label = account if account == OTHERS else f"acc_…{account[-6:]}"
            color = "lightgrey" if account == OTHERS else f"C{number}"
            heights = [values[day] for day in known]
            axis.bar(known, heights, bottom=floor, label=label, color=color, edgecolor="white", linewidth=0.5)
            floor = [low + height for low, height in zip(floor, heights)]
        axis.set_title(title, loc="left")
        axis.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        axis.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), title="account", loc="outside right upper", frameon=False)
    if known[-1] - known[0] < DAYS_LABELLED_MAX * DAY:
        axes[1].set_xticks(known)
        axes[1].set_xlim(known[0] - DAY, known[-1] + DAY)
    else:
        axes[1].xaxis.set_major_locator(dates.AutoDateLocator(maxticks=DAYS_LABELLED_MAX))
    axes[1].xaxis.set_major_formatter(dates.DateFormatter("%Y-%m-%d"))
    axes[1].set_xlabel("day (UTC)")
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description="Links and credits per account and day (UTC).")
    parser.add_argument("--from", dest="exported", metavar="FILE", help="a file of `command-api log export`")
    parser.add_argument("--chart", metavar="FILE", default="links_and_credits.png", help="default: %(default)s")
    options = parser.parse_args()
    database = duckdb.connect()
    try:
        load(database, options.exported)
    except (event_stream.StreamError, duckdb.Error) as error:
        sys.exit(f"links_and_credits.py: {str(error).splitlines()[0]}")
    days = database.execute(DAYS).fetchall()
    if not days:
        sys.exit(f"links_and_credits.py: there are no events{f' in {options.exported}' if options.exported else EMPTY}")
    print_table(days)
    draw(days, options.chart)
    print(f"chart: {options.chart}", file=sys.stderr)


if __name__ == "__main__":
    main()
