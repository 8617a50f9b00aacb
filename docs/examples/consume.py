"""Prints the events of linkledger, each once and in the order of its account.

usage: consume.py [--follow]

To the end of the topic, or with --follow until Ctrl-C. The settings are those of event_stream.py.
"""

import argparse
import collections
import json
import sys

import event_stream


def main():
    parser = argparse.ArgumentParser(description="Prints the events of linkledger, each once.")
    parser.add_argument("--follow", action="store_true", help="wait for new events at the end of the topic, until Ctrl-C")
    follow = parser.parse_args().follow
    counts = collections.Counter()
    try:
        for event in event_stream.read(follow):
            counts[event.type] += 1
            place = f"{event.partition}/{event.sequence}"
            print(event.time, f"{place:>12}", event.type, json.dumps(event.data), flush=follow)
    except event_stream.StreamError as error:
        sys.exit(f"consume.py: {error}")
    except KeyboardInterrupt:
        pass
    if not counts:
        sys.exit("consume.py: the topic is empty: no event was published, or retention has removed all")
    summary = ", ".join(f"{count:,} {event_type}" for event_type, count in sorted(counts.items()))
    print(f"{counts.total():,} events: {summary}", file=sys.stderr)


if __name__ == "__main__":
    main()
