"""Tests the rules of docs/events.md and docs/clicks.md for consumers, as the examples implement them, with
sequences of records that a real broker would not deliver on demand.

usage: check_rule.py, with docs/examples on the path of modules
"""

from click_stream import Counted
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


def counted(*records):
    """Returns the decisions about these records of (partition, recorder, sequence), and the number of missing ones."""
    state = Counted()
    return [state.is_next(*record) for record in records], state.missing.total()


assert counted((3, "a", 1), (3, "a", 2)) == ([True, True], 0)
assert counted((3, "a", 1), (3, "b", 1), (4, "a", 1)) == ([True] * 3, 0), "each recorder and partition for itself"
assert counted((3, "a", 1), (3, "a", 2), (3, "a", 1), (3, "a", 2), (3, "a", 3))[0] == [True, True, False, False, True]
assert counted((3, "a", 4), (3, "a", 7), (3, "a", 5)) == ([True, True, False], 5), "before the first, and between"
