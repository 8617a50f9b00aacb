"""Clients that change, disable, enable and delete links."""

import json

from .client import Client
from .details import DETAILS, new_details


class Changer(Client):
    """Changes, disables, enables and deletes links, with the newest tag, a stale tag or none."""

    def act(self):
        link = self.any_link()
        if link is None:
            return
        if_match = self.draw.choice([None, link["etag"], link["etag"], f'"{self.draw.randrange(1, 5)}"'])
        headers = self.authorized(link["account"]) | ({"If-Match": if_match} if if_match else {})
        facts = {"link": link["id"], "account": link["account"], "if_match": if_match}
        path = f"/v1/links/{link['id']}"
        if self.draw.random() < 0.1:
            operation = self.command("delete", "DELETE", path, headers=headers, **facts)
            if operation["status"] == 204:
                self.forget(link)
            return
        sent = self.new_patch(link)
        headers["Content-Type"] = "application/merge-patch+json"
        for _ in range(self.draw.choice([1, 1, 1, 2])):
            operation = self.command("patch", "PATCH", path, headers=headers, body=json.dumps(sent), sent=sent, **facts)
            if operation["status"] in (200, 412):
                self.world.changed(self.world.links[link["id"]], operation)

    def new_patch(self, link):
        """Draws a change of the destination, of details, of the service, or of several of them."""
        sent = {}
        if self.draw.random() < 0.5:
            details = new_details(self.draw, self.world.unique())
            if "expires_at" not in details:
                # No expiry, or the same as before.
                details["expires_at"] = self.draw.choice([None, link["expires_at"]])
            names = [name for name in DETAILS if self.draw.random() < 0.6 or name == "expires_at" and "expired_url" in details]
            sent = {name: details.get(name) for name in names if name in details or name in ("external_id", "expired_url")}
            if self.draw.random() < 0.1:
                sent |= {"title": None, "tags": []}
        if self.draw.random() < 0.2:
            sent["disabled"] = self.draw.choice([True, False, False, None])
        if not sent or self.draw.random() < 0.5:
            sent["destination_url"] = f"https://example.com/changed/{self.world.unique()}"
        return sent

    def forget(self, link):
        with self.world.lock:
            self.world.hot = [hot for hot in self.world.hot if hot["id"] != link["id"]]
