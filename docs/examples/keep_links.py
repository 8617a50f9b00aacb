"""Keeps a table of all links in SQLite, and its position in the stream with them: it can be stopped at any time,
also by a crash, and goes on where it was.

usage: keep_links.py FILE [--follow]

To the end of the topic, or with --follow until Ctrl-C. The settings are those of event_stream.py.

Position and results are stored in one transaction, so an event counts once, whatever the broker repeats. The offset
is only a hint where to begin: the record there has to be the last applied one. If it is not, or is gone, because
retention removed it or the topic was filled anew, the partition is read from its beginning (auto.offset.reset is
earliest), and the rule of docs/events.md tells which records are new, and whether some are missing.
"""

import argparse
import collections
import contextlib
import sqlite3
import sys

import event_stream
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

SCHEMA = """
CREATE TABLE IF NOT EXISTS links (
    link_id TEXT PRIMARY KEY, account_id TEXT, short_url TEXT, destination_url TEXT, is_disabled INTEGER
);
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, epoch INTEGER, sequence INTEGER, offset INTEGER);
"""
STATEMENTS = {
    "linkledger.LinkCreated.v1": "INSERT INTO links VALUES (:link_id, :account_id, :short_url, :destination_url, 0)",
    "linkledger.LinkDestinationChanged.v1": "UPDATE links SET destination_url = :destination_url WHERE link_id = :link_id",
    "linkledger.LinkDisabled.v1": "UPDATE links SET is_disabled = 1 WHERE link_id = :link_id",
    "linkledger.LinkEnabled.v1": "UPDATE links SET is_disabled = :disabled_by IS NOT NULL WHERE link_id = :link_id",
    "linkledger.LinkDeleted.v1": "DELETE FROM links WHERE link_id = :link_id",
}
# Events of one transaction at most; a transaction also ends when no event waits.
TRANSACTION_EVENTS_MAX = 1_000
POLL_TIME_MAX_S = 1


class Keeper:
    def __init__(self, database, consumer, topic):
        self.database, self.consumer, self.topic = database, consumer, topic
        self.applied = event_stream.Applied()
        self.offsets = {}
        for partition, epoch, sequence, offset in database.execute("SELECT * FROM positions"):
            self.applied.last[partition] = (epoch, sequence)
            self.offsets[partition] = offset
        # Partitions whose record at the stored offset was not yet seen to be the last applied one.
        self.unsure = set(self.offsets)
        self.uncommitted = self.count = 0

    def start(self, partitions):
        offset = {number: self.offsets.get(number, OFFSET_BEGINNING) for number in partitions}
        self.consumer.assign([TopicPartition(self.topic, number, offset[number]) for number in partitions])

    def take(self, message):
        partition, event = message.partition(), event_stream.event_of(message)
        if partition in self.unsure and not self.is_last_applied(event):
            return
        known = partition in self.applied.last
        if not known and event.sequence > 1:
            print(
                f"partition {partition} begins with event {event.sequence}:"
                " only `command-api log export` has earlier events",
                file=sys.stderr,
            )
        if not self.applied.is_next(partition, event.epoch, event.sequence):
            return
        # Another type of event changes no link, but its position counts.
        if statement := STATEMENTS.get(event.type):
            # An enabled link may still be disabled, by the other of owner and operator.
            self.database.execute(statement, {"disabled_by": None, **event.data})
        position = (partition, event.epoch, event.sequence, message.offset())
        self.database.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)", position)
        self.count += 1
        self.uncommitted += 1
        if self.uncommitted >= TRANSACTION_EVENTS_MAX:
            self.commit()

    def is_last_applied(self, event):
        """Returns True for the last applied event; else begins anew at the beginning of the partition."""
        self.unsure.discard(event.partition)
        if (event.epoch, event.sequence) == self.applied.last[event.partition]:
            return True
        self.rewind(event.partition)
        return False

    def rewind(self, partition):
        self.unsure.discard(partition)
        self.consumer.seek(TopicPartition(self.topic, partition, OFFSET_BEGINNING))

    def is_at_end(self, partition):
        """Returns True at the end of a partition, unless nothing was read yet of what the topic has."""
        if partition in self.unsure:
            self.rewind(partition)
            return False
        return True

    def commit(self):
        self.database.commit()
        self.uncommitted = 0


def keep(database, follow):
    """Applies the events to the end of the topic, or for ever, and returns their number."""
    topic, complaints = event_stream.topic(), collections.deque(maxlen=1)
    consumer, partitions = event_stream.connect(topic, complaints)
    keeper, unfinished, silence = Keeper(database, consumer, topic), set(partitions), 0
    try:
        keeper.start(partitions)
        while follow or unfinished:
            message = consumer.poll(POLL_TIME_MAX_S)
            if message is None:
                keeper.commit()
                silence += POLL_TIME_MAX_S
                if not follow and silence >= event_stream.SILENCE_MAX_S:
                    why = f": {complaints.pop()}" if complaints else ""
                    raise event_stream.StreamError(f"the broker has sent nothing for {silence} s{why}")
                continue
            silence = 0
            if message.error() is None:
                keeper.take(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                if keeper.is_at_end(message.partition()):
                    unfinished.discard(message.partition())
            elif not message.error().retriable():
                raise KafkaException(message.error())
    except KafkaException as error:
        raise event_stream.StreamError(f"the topic {topic} can't be read: {error.args[0].str()}") from error
    finally:
        keeper.commit()
        consumer.close()
    return keeper.count


def main():
    parser = argparse.ArgumentParser(description="Keeps a table of all links in SQLite.")
    parser.add_argument("file", metavar="FILE", help="file of the database; created if missing")
    parser.add_argument("--follow", action="store_true", help="wait for new events at the end of the topic, until Ctrl-C")
    options = parser.parse_args()
    try:
        with contextlib.closing(sqlite3.connect(options.file)) as database:
            database.executescript(SCHEMA)
            try:
                print(f"{keep(database, options.follow):,} events", file=sys.stderr)
            except KeyboardInterrupt:
                pass
            [links] = database.execute("SELECT count(*) FROM links").fetchone()
            print(f"{links:,} links in {options.file}", file=sys.stderr)
    except event_stream.StreamError as error:
        sys.exit(f"keep_links.py: {error}")
    except sqlite3.Error as error:
        sys.exit(f"keep_links.py: {options.file} can't be used: {error}")


if __name__ == "__main__":
    main()
