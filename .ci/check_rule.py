"""Tests the rule of docs/events.md for consumers, as the examples implement it, with sequences of records that
a real broker would not deliver on demand.

usage: check_rule.py, with docs/examples on the path of modules
"""

from event_stream import Applied, StreamError


def outcome(*records):
    """Returns the decision about the last of these records of (partition, epoch, sequence)."""
    applied = Applied()
    for record in records[:-1]:
        applied.is_next(*record)
    try:
        return applied.is_next(*records[-1])
    except StreamError as error:
        return str(error)


FIRST = (3, 1, 7)
assert outcome(FIRST) is True, "retention may have dropped earlier records"
assert outcome(FIRST, (3, 1, 8)) is True
assert outcome(FIRST, (4, 1, 2)) is True, "each partition counts for itself"
assert outcome(FIRST, FIRST) is False
assert outcome(FIRST, (3, 1, 8), (3, 1, 9), (3, 1, 7), (3, 1, 8)) is False
assert outcome(FIRST, (3, 1, 8), (3, 1, 7), (3, 1, 8), (3, 1, 9)) is True, "after repeated records"
assert "lacks the events between 7 and 9" in outcome(FIRST, (3, 1, 9))
assert "went from epoch 1 to 2" in outcome(FIRST, (3, 2, 8))
assert outcome((3, 2, 7), (3, 1, 8)) is False, "a record of an earlier epoch"
