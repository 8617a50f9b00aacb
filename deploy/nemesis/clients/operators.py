"""The operator: commands of the command line, recorded like the requests of the other clients."""

import subprocess
import time

from .client import Client

COMMAND_TIMEOUT_S = 120
# Characters of a command's output that are kept.
OUTPUT_MAX = 100_000
# Longest time that the operator leaves something suspended, disabled or paused.
HOLD_S_MAX = 4
PROJECTIONS = ("links", "redirects", "credits")


class Operator(Client):
    """Grants, adjusts, suspends, disables, pauses, rebuilds, rolls back and verifies."""

    pause_s = 1

    def __init__(self, world, name, seed, suspended, is_maintaining):
        super().__init__(world, name, seed)
        self.suspended, self.is_maintaining = suspended, is_maintaining

    def act(self):
        everyday = [self.grant, self.grant, self.adjust, self.disable, self.suspend]
        maintenance = [self.pause_relay, self.pause_projection, self.rebuild, self.verify]
        self.draw.choice(maintenance if self.is_maintaining else everyday)()

    def operate(self, program, *arguments, **facts):
        """Runs a command of the operator; the exit code of a command that took too long is None."""
        command = [self.world.stack.program(program), *arguments, "--json"]
        operation = {"op": "operate", "client": self.name, "program": program, "arguments": arguments, **facts}
        operation["start"] = time.monotonic()
        try:
            done = subprocess.run(command, env=self.world.stack.environment, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
            operation |= {"exit": done.returncode, "out": done.stdout[-OUTPUT_MAX:], "error": done.stderr[-OUTPUT_MAX:]}
        except subprocess.TimeoutExpired:
            operation |= {"exit": None}
        operation["end"] = time.monotonic()
        return self.world.history.add(operation)

    def until_done(self, program, *arguments, attempts=8, **facts):
        for _ in range(attempts):
            if self.operate(program, *arguments, **facts)["exit"] == 0:
                return True
            time.sleep(1)
        return False

    def credits(self, verb, amount):
        account, reason = self.draw.choice(list(self.world.accounts)), f"nemesis-{self.world.unique()}"
        self.until_done("command-api", "credits", verb, "--account", account, f"--amount={amount}", "--reason", reason,
                        "--idempotency-key", reason, attempts=self.draw.choice([1, 3, 8]),
                        kind=verb, account=account, amount=amount, reason=reason)

    def grant(self):
        self.credits("grant", self.draw.randrange(1, 40))

    def adjust(self):
        self.credits("adjust", self.draw.choice([-60, -7, -1, 5]))

    def disable(self):
        link = self.any_link()
        if link is None:
            return
        for verb in ("disable", "enable"):
            reason = f"nemesis-{self.world.unique()}"
            self.until_done("command-api", "link", verb, "--link", link["id"], "--reason", reason, kind=verb,
                            link=link["id"], reason=reason)
            time.sleep(self.draw.uniform(0, HOLD_S_MAX))

    def suspend(self):
        account = self.suspended
        further = self.draw.choice([[], ["--stop-redirects"]])
        reason = f"nemesis-{self.world.unique()}"
        self.until_done("command-api", "account", "suspend", "--account", account, "--reason", reason, *further,
                        kind="suspend", account=account, reason=reason, stops_redirects=bool(further))
        time.sleep(self.draw.uniform(0, HOLD_S_MAX))
        self.resume_account()

    def resume_account(self):
        reason = f"nemesis-{self.world.unique()}"
        self.until_done("command-api", "account", "resume", "--account", self.suspended, "--reason", reason,
                        kind="resume", account=self.suspended, reason=reason)

    def pause_relay(self):
        self.until_done("command-api", "relay", "pause", "--reason", "nemesis", kind="pause-relay")
        time.sleep(self.draw.uniform(0, HOLD_S_MAX))
        self.until_done("command-api", "relay", "resume", kind="resume-relay")

    def pause_projection(self):
        projection = self.draw.choice(PROJECTIONS)
        self.until_done("projector", "pause", projection, kind="pause-projection")
        time.sleep(self.draw.uniform(0, HOLD_S_MAX))
        self.until_done("projector", "resume", projection, kind="resume-projection")

    def rebuild(self):
        projection = self.draw.choice(PROJECTIONS)
        if self.until_done("projector", "rebuild", projection, kind="rebuild") and self.draw.random() < 0.5:
            self.until_done("projector", "rollback", projection, kind="rollback")

    def verify(self):
        self.operate("projector", "verify", kind="verify")
        self.operate("command-api", "log", "verify", kind="log-verify")

    def restore_order(self):
        """Ends everything that an interrupted action may have left suspended, disabled or paused."""
        done = [self.until_done("command-api", "relay", "resume", kind="resume-relay")]
        done.append(self.until_done("projector", "resume", "--all", kind="resume-projection"))
        self.resume_account()
        return all(done)
