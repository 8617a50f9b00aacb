"""A seller's day: a customer signs up, pays, makes a link, looks at it in the console, gets a refund, and is suspended
for a while.

Settings are ADMIN_URL, ADMIN_KEY and API_URL of `.linkledger/env`.
"""

import json
import os
import urllib.parse
import urllib.request
import uuid

ADMIN = os.environ["ADMIN_URL"] + "/admin/v1"


def call(method, url, body=None, once=None, key=os.environ["ADMIN_KEY"]):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    headers |= {"Idempotency-Key": once} if once else {}
    request = urllib.request.Request(url, body and json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


customer, invoice = f"customers/{uuid.uuid4()}", f"invoice-{uuid.uuid4()}"  # ids of your own system

path = urllib.parse.quote(customer, safe="")
account = call("PUT", f"{ADMIN}/accounts/by-external-id/{path}", {"name": "Example Ltd"})["id"]
print(f"{customer} has signed up: {account}")
account = f"{ADMIN}/accounts/{account}"

payment = {"amount": 100, "reason": "invoice paid", "reference": invoice, "description": "Starter pack"}
grants = [call("POST", f"{account}/grants", payment, once=invoice)["id"] for _ in range(2)]
print(f"{invoice} was booked twice, and paid once: {grants[0]}, {grants[1]}")

issue = {"name": "web shop", "scopes": ["link:links.write", "link:links.read"]}
key = call("POST", f"{account}/keys", issue, once="first key")
link = {"destination_url": "https://example.com/menu"}
link = call("POST", os.environ["API_URL"] + "/v1/links", link, once=str(uuid.uuid4()), key=key["secret"])
print(f"{key['id']} has made {link['short_url']}, {link['id']}")

scopes = ["link:links.read", "link:clicks.read", "link:credits.read"]
session = {"scopes": scopes, "return_url": "https://shop.example/account"}
opened = call("POST", f"{account}/console-sessions", session)
print(f"redirect the customer to the url, a secret until {opened['expires_at']}")

balance, ledger = call("GET", account)["balance"], call("GET", f"{account}/entries")["items"]
print(f"balance {balance}:", *(f"{entry['type']} {entry['amount']:+}" for entry in ledger))

charge = next(entry["id"] for entry in ledger if entry["type"] == "charge")
refund = {"entry": charge, "reason": "link never worked"}
refund = call("POST", f"{account}/refunds", refund, once=f"refund of {charge}")
print(f"{charge} was given back: balance {refund['balance_after']}")

for command, reason in [("suspend", "payment disputed"), ("resume", "dispute settled")]:
    print(f"{command}: {call('POST', f'{account}/{command}', {'reason': reason}, once='dispute 7')['state']}")
