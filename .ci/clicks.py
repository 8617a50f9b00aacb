"""Visits short links while processes are killed and brokers are away, and compares the statistics of the API with the
redirects that were answered.

usage: clicks.py PROGRAMS POSTGRES_PROGRAMS [--full] [faults] [dead] [outage]
"""

import bisect
import collections
import concurrent.futures
import datetime
import pathlib
import random
import signal
import statistics
import sys
import threading
import time

from click_visitors import BOT, HUMAN, Visits

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "deploy/nemesis"))
from stack import Stack, eventually  # noqa: E402

DIMENSIONS = ["country", "referrer_host", "browser", "os", "device"]
# Promise of docs/clicks.md about a query-api that is killed, while the broker is quick.
PROMISED_MS = 100
# Least share of kills while the broker was quick, of a whole run.
QUICK_KILLS_MIN = 0.25
# Longest time until a click counts as waiting for the broker, on a host ten times slower than a quiet one.
UNPUBLISHED_S_MAX = 1
# Number of links with wrong statistics that are printed.
WRONG_SHOWN_MAX = 8
# Interval between two looks at statistics while they change.
SAMPLE_INTERVAL_S = 0.2
# Time of visits before and after a fault.
CALM_S = 2
FULL, PART = "--full", ""
# Longest time of the visits of situation "faults": a slow host makes fewer.
FAULTS_SECONDS_MAX = 600
# Of situation "faults": redirects, redirects per second, kills of projector, rounds of the other faults.
FAULTS = {PART: (20_000, 800, 3, 1), FULL: (1_000_000, 2_500, 20, 3)}
# Of situation "dead": kills, redirects per second.
DEAD = {PART: (3, 800), FULL: (20, 2_000)}
# Of situation "outage": seconds before the outage and in the outage, redirects per second.
OUTAGE = {PART: (10, 20, 500), FULL: (30, 600, 2_000)}

Kill = collections.namedtuple("Kill", "visits server looked waiting before after")


def check(condition, complaint):
    if not condition:
        raise SystemExit(f"clicks are not exact: {complaint}")


def instant(text):
    return datetime.datetime.fromisoformat(text)


def link_statistics(stack, link_id):
    """Returns clicks of humans and of bots of a link, and until when they are complete."""
    found = eventually("statistics are answered", lambda: stack.get(f"/v1/links/{link_id}/clicks"))
    return [found["totals"]["clicks"], found["totals"]["bots"]], instant(found["complete_until"])


def value_sum(stack, link_id, dimension):
    """Returns the clicks of all values of a dimension."""
    path = f"/v1/links/{link_id}/clicks/top?by={dimension}&limit=100"
    found = eventually("values are answered", lambda: stack.get(path))
    return sum(item["clicks"] for item in found["items"]) + found["other"]


def wait_until_complete(stack, ids, end):
    """Waits until the statistics claim to be complete until after the end."""
    link_id = next(iter(ids.values()))
    eventually("complete_until is after the last visit", lambda: link_statistics(stack, link_id)[1] > end)


def counted_totals(stack, ids, visits):
    """Returns the counted clicks by slug and kind; checks that each dimension has all clicks of humans."""
    wait_until_complete(stack, ids, visits.ended_at)
    counted = {}
    for slug in visits.slugs:
        counted[slug], _ = link_statistics(stack, ids[slug])
        for dimension in DIMENSIONS:
            number = value_sum(stack, ids[slug], dimension)
            humans = counted[slug][HUMAN]
            check(number == humans, f"{dimension} of {slug} has {number} clicks, and the totals have {humans}")
    return counted


def check_exact(stack, ids, visits):
    counted, made = counted_totals(stack, ids, visits), visits.counts()
    wrong = {slug: (made[slug], counted[slug]) for slug in visits.slugs if made[slug] != counted[slug]}
    total = sum(map(sum, made.values()))
    difference = sum(map(sum, counted.values())) - total
    examples = dict(list(wrong.items())[:WRONG_SHOWN_MAX])
    check(not wrong, f"{len(wrong)} of {len(made)} links differ, by {difference:+} of {total} clicks; "
                     f"humans and bots, made and counted: {examples}")
    bots = sum(kinds[BOT] for kinds in made.values())
    print(f"   exact: {total} clicks, {bots} of bots, of {len(made)} links, in totals and {len(DIMENSIONS)} dimensions")


class Samples(threading.Thread):
    """Statistics of one link while they change: complete_until must never claim too much."""

    def __init__(self, stack, link_id):
        super().__init__(daemon=True)
        self.stack, self.link_id, self.is_ending, self.samples = stack, link_id, False, []
        self.start()

    def run(self):
        while not self.is_ending:
            found = self.stack.get(f"/v1/links/{self.link_id}/clicks")
            if found:
                number = found["totals"]["clicks"] + found["totals"]["bots"]
                self.samples.append((instant(found["complete_until"]).timestamp(), number, time.time()))
            time.sleep(SAMPLE_INTERVAL_S)

    def check(self, visits):
        begun_at = min(redirect.received for redirect in visits.redirects() if redirect.link == 0)
        eventually("a sample is complete until after the first visit",
                   lambda: any(complete_until > begun_at for complete_until, _, _ in list(self.samples)))
        self.is_ending = True
        self.join()
        redirects = [redirect for redirect in visits.redirects() if redirect.link == 0]
        sent, received = sorted(it.sent for it in redirects), sorted(it.received for it in redirects)
        claims = 0
        for complete_until, number, at in self.samples:
            due = below(received, complete_until)
            check(number >= due, f"statistics that claimed to be complete had {number} of {due} clicks")
            check(number <= below(sent, at), f"statistics had {number} clicks after {below(sent, at)} visits")
            claims += due > 0
        print(f"   during the visits: {len(self.samples)} answers, {claims} complete until after the first visit")


def below(instants, limit):
    """Returns the number of sorted instants before a limit."""
    return bisect.bisect_left(instants, limit)


def kill_projector(stack, kills, seconds, draw):
    """Kills projector at random moments, about evenly over the time."""
    for _ in range(kills):
        time.sleep(draw.uniform(0.2, 1.8) * seconds / kills)
        stack.projectors[0].kill()
        time.sleep(draw.uniform(0, 1))
        stack.projectors[0].start()
        # A projector that starts while Postgres is away ends.
        stack.wait_until_ready(stack.projectors[0])


def faults(stack, ids, slugs, scale):
    """Nothing is lost or counted twice while processes restart, leaders move and Postgres crashes."""
    number, rate, kills, rounds = FAULTS[scale]
    draw = random.Random()
    visits = Visits(stack, slugs, rate)
    samples = Samples(stack, ids[slugs[0]])
    killing = concurrent.futures.ThreadPoolExecutor().submit(kill_projector, stack, kills, number / rate, draw)
    for nth in range(rounds):
        visits.wait_for(number * nth // rounds, FAULTS_SECONDS_MAX * nth // rounds)
        time.sleep(CALM_S)
        for query in stack.queries:
            query.stop()
            query.start()
            time.sleep(CALM_S)
        stack.kafka.move_leaders()
        time.sleep(CALM_S)
        stack.postgres.crash()
        time.sleep(CALM_S)
    visits.wait_for(number, FAULTS_SECONDS_MAX)
    killing.result()
    visits.end()
    print(f"   {visits.report()}")
    print(f"   kills of projector: {kills}; restarts of query-api, moves of leaders: {2 * rounds} each; "
          f"crashes of Postgres: {rounds}")
    check_exact(stack, ids, visits)
    samples.check(visits)


def dead(stack, ids, slugs, scale):
    """Kills query-api, with visits to links of their own each time. Returns the check, for later: after a kill,
    complete_until stands still for a minute."""
    kills, rate = DEAD[scale]
    each = len(slugs) // kills
    killed = []
    for nth in range(kills):
        visits = Visits(stack, slugs[nth * each : (nth + 1) * each], rate)
        visits.wait_for(rate * CALM_S)
        query = stack.queries[nth % len(stack.queries)]
        looked, waiting, before = time.time(), query.unacknowledged(), time.time()
        query.kill()
        after = time.time()
        query.start()
        visits.wait_for(len(visits) + rate * CALM_S // 2)
        visits.end()
        killed.append(Kill(visits, stack.queries.index(query), looked, waiting, before, after))
    return lambda: check_dead(stack, ids, killed, scale)


def check_dead(stack, ids, killed, scale):
    """Checks that a kill loses only clicks that the broker had not acknowledged, or that were not yet published. With
    a quick broker, for which no more than the clicks of 100 ms wait, these are the clicks of the last 100 ms. The few
    kills of a part of CI, on a host that may be slow, only print the median; those of a whole run keep it."""
    lost_ms, lost_with_quick_broker_ms = [], []
    for kill in killed:
        visits = kill.visits
        counted, made, unanswered = counted_totals(stack, ids, visits), visits.counts(), visits.unanswered()
        missing = {slug: sum(made[slug]) - sum(counted[slug]) for slug in visits.slugs}
        for slug, number in missing.items():
            # A click whose answer the kill has taken from the visitor may be counted.
            check(-number <= unanswered[slug], f"{slug} has {-number} clicks too many")
        shortfall = sum(max(0, number) for number in missing.values())
        # Later requests were answered by the restarted process.
        redirects = (it for it in visits.redirects() if it.server == kill.server and it.sent <= kill.after)
        answered = sorted((it.received for it in redirects), reverse=True)
        limit = kill.waiting + sum(at > kill.looked - UNPUBLISHED_S_MAX for at in answered)
        check(shortfall <= limit, f"a killed query-api has lost {shortfall} clicks, and {limit} were not published")
        # The newest redirects of the dead process, as many as are missing.
        lost_ms.append(max(0, kill.before - answered[shortfall - 1]) * 1000 if shortfall else 0)
        promised = sum(at > kill.before - PROMISED_MS / 1000 for at in answered)
        if kill.waiting <= promised:
            lost_with_quick_broker_ms.append(lost_ms[-1])
        print(f"   lost {shortfall} clicks, of the last {lost_ms[-1]:.0f} ms; {kill.waiting} waited for the broker, "
              f"{promised} redirects in the last {PROMISED_MS} ms; {visits.report()}")
    within, median = sum(ms <= PROMISED_MS for ms in lost_ms), statistics.median(lost_ms)
    print(f"   of {len(lost_ms)} kills, {within} lost at most the last {PROMISED_MS} ms; median {median:.0f} ms, "
          f"longest {max(lost_ms):.0f} ms")
    quick = lost_with_quick_broker_ms
    if scale == PART and not quick:
        return
    check(len(quick) >= QUICK_KILLS_MIN * len(killed), "the host is too busy: the broker was hardly ever quick")
    print(f"   of {len(lost_with_quick_broker_ms)} kills with a quick broker: median {statistics.median(quick):.0f} ms, "
          f"longest {max(quick):.0f} ms")
    check(scale == PART or statistics.median(quick) <= PROMISED_MS,
          f"half of the kills with a quick broker have lost more than the last {PROMISED_MS} ms")


def outage(stack, ids, slugs, scale):
    """Redirects neither fail nor wait while Kafka is away, and their clicks are counted afterwards."""
    calm_s, away_s, rate = OUTAGE[scale]
    visits = Visits(stack, slugs, rate)
    visits.wait_for(rate)
    begins = [time.time()]
    time.sleep(calm_s)
    for broker in stack.kafka.brokers:
        broker.send(signal.SIGSTOP)
    begins.append(time.time())
    time.sleep(away_s)
    begins.append(time.time())
    for broker in stack.kafka.brokers:
        broker.send(signal.SIGCONT)
    time.sleep(CALM_S)
    visits.end()
    print(f"   Kafka away for {away_s} s: {visits.report()}")
    check(all(set(it.statuses) == {302} for it in visits.visitors), "a redirect has failed while Kafka was away")
    check(not visits.unanswered(), "a redirect was not answered while Kafka was away")
    for name, begin, end in (("before", *begins[:2]), ("during", *begins[1:])):
        redirects = [it for it in visits.redirects() if begin <= it.sent < end]
        # A visitor who is late on a slow host delays the next visit: both latencies are told.
        asked = sorted((it.received - it.sent) * 1000 for it in redirects)
        due = sorted((it.received - it.due) * 1000 for it in redirects)
        p50, p99, due_p99 = asked[len(asked) // 2], asked[len(asked) * 99 // 100], due[len(due) * 99 // 100]
        print(f"   {name}: {len(asked)} redirects, p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {asked[-1]:.0f} ms; "
              f"p99 since the visit was due {due_p99:.1f} ms")
    check_exact(stack, ids, visits)


def main(programs, postgres_programs, *arguments):
    scale = FULL if FULL in arguments else PART
    names = [it for it in arguments if it != FULL] or ["faults", "dead", "outage"]
    stack = Stack(programs, postgres_programs)
    # An end by SIGTERM ends the processes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        stack.start()
        numbers = {"faults": 120, "dead": 20 * DEAD[scale][0], "outage": 60}
        slugs = {name: [f"{name}-{nth}" for nth in range(numbers[name])] for name in names}
        ids = stack.create_links([slug for name in names for slug in slugs[name]])
        checks = []
        for name in names:
            print(f"== {name}", flush=True)
            checks.append(SITUATIONS[name](stack, ids, slugs[name], scale))
        for later in filter(None, checks):
            later()
        for service in reversed(stack.of_linkledger):
            service.stop()
    except BaseException:
        stack.print_warnings()
        raise
    finally:
        stack.end()


SITUATIONS = {"faults": faults, "dead": dead, "outage": outage}
main(*sys.argv[1:])
