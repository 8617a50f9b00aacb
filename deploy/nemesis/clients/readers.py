"""Clients that read links by id, and clients that follow short links."""

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
        link = self.any_link()
        if link is None:
            return
        service = self.draw.choice([*self.world.stack.queries, self.world.stack.nginx])
        self.requests.send("redirect", service, service.short_port, "GET", f"/{link['slug']}", link=link["id"],
                           headers={"User-Agent": HUMAN, "Accept": "application/json"})
