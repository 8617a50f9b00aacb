"""Creates a link, repeats the create, and reads a refusal, with the client that openapi-python-client generates.

usage: create_link.py FOLDER, with API_URL and API_KEY in the environment; FOLDER has the package `linkledger_client`
"""

import os
import sys
import uuid

sys.path.insert(0, sys.argv[1])
from linkledger_client import AuthenticatedClient  # noqa: E402
from linkledger_client.api.links import create_link  # noqa: E402
from linkledger_client.models import CreatedLink, NewLink, Problem  # noqa: E402

client = AuthenticatedClient(base_url=os.environ["API_URL"], token=os.environ["API_KEY"])


def create(key, **members):
    body = NewLink(destination_url="https://example.com/python", **members)
    return create_link.sync(client=client, idempotency_key=key, body=body)


key = str(uuid.uuid4())
created = create(key)
assert isinstance(created, CreatedLink), f"Python client: no link: {created}"
again = create(key)
assert again.id == created.id, "Python client: the repeated create makes another link"
refused = create(str(uuid.uuid4()), slug="a")
assert isinstance(refused, Problem) and refused.code == "validation_failed", f"Python client: no refusal: {refused}"
print(f"Python client: created {created.short_url}")
