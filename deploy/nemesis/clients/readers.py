"""Clients that read links by id, and clients that follow short links."""

import collections

from .client import Client

HUMAN = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


class Reader(Client):
    """Reads links by id, half of the time with the token of their newest change."""

    pause_s = 0.05

    def act(self):
        link = self.any_link()
        if link is None:
            return
        token = link["token"] if self.draw.random() < 0.5 else None
        headers = self.authorized(link["account"]) | ({"Consistency-Token": token} if token else {})
        self.query("get", f"/v1/links/{link['id']}", headers=headers, link=link["id"], account=link["account"], token=token)


class Visitor(Client):
    """Follows short links; each redirect is a click."""

    pause_s = 0.05

    def act(self):
        if link := self.any_link():
            self.follow(link, self.draw.choice([*self.world.stack.queries, self.world.stack.nginx]))

    def follow(self, link, service):
        self.requests.send("redirect", service, service.short_port, "GET", f"/{link['slug']}", link=link["id"],
                           headers={"User-Agent": HUMAN, "Accept": "application/json"})


class Regular(Visitor):
    """Follows the same few short links again and again, so that each query-api has them in its memory."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.links = collections.deque(maxlen=8)

    def act(self):
        is_due = not self.links or self.draw.random() < 0.02
        if is_due and (link := self.any_link()):
            self.links.append(link)
        if self.links:
            self.follow(self.draw.choice(self.links), self.draw.choice(self.world.stack.queries))
