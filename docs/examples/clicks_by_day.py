"""Clicks per day (UTC), link and country, from an archive of clicks, by DuckDB.

usage: clicks_by_day.py FILE...    files of `consume_clicks.py --archive`; a pattern in quotes names many
"""

import argparse
import os
import sys

import duckdb

# A record may be in several files, or twice in one: recorder, partition and sequence tell.
CLICKS = """
CREATE TABLE clicks AS
SELECT DISTINCT ON (recorder, partition, sequence) clicked_at[1:10]::DATE AS day, -- every time is in UTC
       link_id, slug, kind, visitor, country, coalesce("count", 1) AS number
FROM read_json(?, format = 'newline_delimited', columns = {
    recorder: 'VARCHAR', partition: 'TINYINT', sequence: 'BIGINT', clicked_at: 'VARCHAR', link_id: 'VARCHAR',
    slug: 'VARCHAR', kind: 'VARCHAR', visitor: 'VARCHAR', country: 'VARCHAR', "count": 'BIGINT'
})
"""

# An exact number of visitors; the API answers an estimate.
DAYS = """
SELECT day, any_value(slug) AS slug, coalesce(country, '-') AS country,
       coalesce(sum(number) FILTER (kind = 'human'), 0)::BIGINT AS clicks,
       count(DISTINCT visitor) FILTER (kind = 'human') AS visitors,
       coalesce(sum(number) FILTER (kind = 'bot'), 0)::BIGINT AS bots
FROM clicks
GROUP BY day, link_id, country
ORDER BY day, slug, country
"""


def main():
    parser = argparse.ArgumentParser(description="Clicks per day (UTC), link and country.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of `consume_clicks.py --archive`")
    files = parser.parse_args().files
    database = duckdb.connect()
    try:
        database.execute(CLICKS, [files])
    except duckdb.Error as error:
        sys.exit(f"clicks_by_day.py: {str(error).splitlines()[0]}")
    try:
        print("\t".join(["day", "slug", "country", "clicks", "visitors", "bots"]))
        for row in database.execute(DAYS).fetchall():
            print("\t".join(map(str, row)))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has enough, as `head` has. Python must not flush again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
