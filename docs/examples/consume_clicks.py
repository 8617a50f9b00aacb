"""Prints the clicks of linkledger, each once, and tells how many records are missing.

usage: consume_clicks.py [--follow] [--archive FILE]

To the end of the topic, or with --follow until Ctrl-C. With --archive the clicks are added to a file, one on each
line with recorder, partition, sequence and code, and not printed. The settings are those of click_stream.py.
"""

import argparse
import collections
import contextlib
import json
import sys

import click_stream
import event_stream


def main():
    parser = argparse.ArgumentParser(description="Prints the clicks of linkledger, each once.")
    parser.add_argument("--follow", action="store_true", help="wait for new clicks at the end of the topic, until Ctrl-C")
    parser.add_argument("--archive", metavar="FILE", help="add the clicks to this file, and print none")
    options = parser.parse_args()
    counted, counts = click_stream.Counted(), collections.Counter()
    try:
        if options.archive:
            counted = archived(options.archive)
        with output_of(options.archive) as output:
            for click in click_stream.read(counted, options.follow):
                counts[click.data["kind"]] += click.count
                print(line_of(click), file=output, flush=options.follow)
    except (event_stream.StreamError, OSError) as error:
        sys.exit(f"consume_clicks.py: {error}")
    except KeyboardInterrupt:
        pass
    for (partition, recorder), missing in sorted(counted.missing.items()):
        if missing:
            print(f"partition {partition} lacks {missing:,} records of recorder {recorder}", file=sys.stderr)
    print(f"{counts.total():,} clicks: {counts['human']:,} of humans, {counts['bot']:,} of bots", file=sys.stderr)


def output_of(archive):
    return open(archive, "a", encoding="utf-8") if archive else contextlib.nullcontext(sys.stdout)


def line_of(click):
    place = {"recorder": click.recorder, "partition": click.partition, "sequence": click.sequence, "mac": click.mac}
    return json.dumps({**click.data, **place})


def archived(path):
    """Returns the sequences that the archive has, so that a later run continues after them."""
    counted = click_stream.Counted()
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                click = json.loads(line)
                counted.is_next(click["partition"], click["recorder"], click["sequence"])
    except FileNotFoundError:
        pass
    except ValueError as error:
        raise event_stream.StreamError(f"{path} is no archive of clicks: {error}") from error
    return counted


if __name__ == "__main__":
    main()
