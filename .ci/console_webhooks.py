"""Webhooks in either console: a receiver, webhooks to look at, a part of a day by keyboard alone, and faults.

`call(method, path, body)` sends a request past the browser; its path begins after that of the API, as `/webhooks`."""

import base64
import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from console_browser import DEADLINE_S, MARKUP, RIGHT_TO_LEFT, RUN, check, problem
from selenium.webdriver.common.keys import Keys

URL_LENGTH_MAX = 2048
# The API refuses invisible characters; these letters run from right to left.
HEBREW = "שלום עולם"
OFF = problem(503, "webhooks_off", "Webhooks are switched off", "This installation has no master keys.")


class Receiver:
    """A receiver on this machine, which keeps all messages, and answers `status` with the text `answer`."""

    def __init__(self, status=204, answer=""):
        self.status, self.answer = status, answer
        self.messages = []
        handler = type("Bound", (Handler,), {"receiver": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def types(self, secret):
        """Returns the types of the messages that are signed with this secret, also of those in lists."""
        bodies = [json.loads(body) for headers, body in list(self.messages) if is_signed(headers, body, secret)]
        return [message["type"] for body in bodies for message in (body["data"]["items"] if body["type"] == "events" else [body])]


class Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.receiver.messages.append((self.headers, body))
        answer = b"" if self.receiver.status == 204 else self.receiver.answer.encode()
        self.send_response(self.receiver.status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def is_signed(headers, body, secret):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}" in headers["webhook-signature"].split()


def wait_until(what, condition):
    until = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        check(time.monotonic() < until, f"timeout: {what}")
        time.sleep(0.1)
    return found


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def webhooks_to_look_at(call, cause_event):
    """Creates an ill webhook, and one whose receiver refuses its messages, with texts that nobody should believe;
    returns the id of the second one."""
    refusing = Receiver(422, f"{MARKUP} {RIGHT_TO_LEFT}")
    longest = f"{refusing.url}?<script>{'very-long-' * 205}"
    hostile = {"description": MARKUP, "types": ["link.deleted"], "in_order": True}
    # The serialised address has two bytes more for each of the brackets.
    refused = call("POST", "/webhooks", {"url": longest[:URL_LENGTH_MAX - 4], **hostile})["id"]
    ill = call("POST", "/webhooks", {"url": f"http://127.0.0.1:{closed_port()}/hook", "description": HEBREW})["id"]
    call("POST", f"/webhooks/{refused}/test")
    cause_event()
    wait_until("the refusal", lambda: [it for it in call("GET", f"/webhooks/{refused}/deliveries")["items"] if it.get("response")])
    wait_until("the illness", lambda: call("GET", f"/webhooks/{ill}")["health"]["state"] == "ill")
    try:
        yield refused
    finally:
        for webhook in (refused, ill):
            call("DELETE", f"/webhooks/{webhook}")


def webhook_pages(webhook):
    """Returns by name: address, and the elements that the page is complete with."""
    return {
        "webhooks": ("#/webhooks", ["tr[data-id]", ".webhooks .badge.warn"]),
        "webhook": (f"#/webhooks/{webhook}", [".facts", "#deliveries tbody tr"]),
        "no-webhook": ("#/webhooks/whe_00000000000000000000000000", [".problem"]),
    }


def act(console, label, is_back=False):
    console.tab_to("#actions button", label, is_back).send_keys(Keys.ENTER)


def take_secret(console):
    """Returns the secret that a notice shows, and closes the notice; the secret is nowhere then."""
    secret = console.find("#secret").text
    check(secret.startswith("whsec_"), f"the secret is {secret}")
    console.tab_to("dialog[open] .primary", "Done").send_keys(Keys.ENTER)
    console.wait("the secret stays in the page", lambda: secret not in console.driver.page_source)
    return secret


def create_webhook(console, receiver):
    """Creates a webhook for one type; returns its secret."""
    console.tab_to("#pages a[href='#/webhooks']", is_back=True).send_keys(Keys.ENTER)
    console.find("#new-webhook")
    console.tab_to("#new-webhook").send_keys(Keys.ENTER)
    console.find("dialog[open] h2")
    console.press(receiver.url, Keys.TAB, f"shop {RUN}")
    console.tab_to("#field-types-all")
    console.press(Keys.SPACE)
    console.tab_to("[id='field-types-link.created']")
    console.press(Keys.SPACE, Keys.ENTER)
    secret = take_secret(console)
    console.says(f"shop {RUN}", "h1")
    console.says("link.created", ".facts")
    return secret


def send_test(console, receiver, secret):
    """Sends a test, which is refused at first, and delivered by another attempt."""
    receiver.status, receiver.answer = 422, "<b>unknown type</b>"
    act(console, "Send a test")
    console.says("The test was not accepted: the receiver answers 422.", "#outcome")
    check(receiver.types(secret) == ["webhook.test"], "the test is not signed with the secret")
    row = "#deliveries tbody tr:first-child"
    console.tab_to("#deliveries summary").send_keys(Keys.ENTER)
    console.says("<b>unknown type</b>", row)
    receiver.status = 204
    console.tab_to(f"{row} button").send_keys(Keys.ENTER)
    console.says("delivered", row)
    console.wait("the attempt loses the focus", lambda: console.focused().text == "Send again")


def receive_event(console, receiver, secret, create_link):
    create_link()
    console.wait("the message", lambda: receiver.types(secret)[-1] == "link.created")
    console.tab_to("#deliveries button", "Refresh", is_back=True)

    def is_listed():
        return any("link.created" in it.text for it in console.visible("#deliveries tbody tr"))

    console.wait("the delivery", lambda: is_listed() or console.press(Keys.ENTER))
    console.tab_to("#deliveries-state", is_back=True)
    console.press("Failed")
    console.wait("no delivery has failed", lambda: not console.visible("#deliveries tbody tr"))


def change_webhook(console):
    act(console, "Change", is_back=True)
    console.find("dialog[open] h2")
    console.press(Keys.ENTER)
    console.says("Nothing is changed here", "dialog[open] .outcome")
    console.tab_to("#field-in_order")
    console.press(Keys.SPACE, Keys.ENTER)
    console.says("Changed.", "#outcome")
    console.says("one request after the other", ".facts")
    console.wait("the change loses the focus", lambda: console.focused().text == "Change")


def rotate_secret(console, receiver, secret):
    """Rotates without an overlap."""
    act(console, "Rotate secret")
    console.find("#field-overlap_hours")
    console.press(Keys.HOME, Keys.TAB, Keys.TAB, Keys.ENTER)
    rotated = take_secret(console)
    console.says("The secret is rotated.", "#outcome")
    before = receiver.types(secret)
    act(console, "Send a test", is_back=True)
    console.says("The test was delivered.", "#outcome")
    check(receiver.types(rotated) == ["webhook.test"], "the test is not signed with the new secret")
    check(receiver.types(secret) == before, "the old secret still signs")
    return rotated


def disable_and_enable(console):
    act(console, "Disable")
    console.says("disabled", ".facts .badge")
    console.wait("the focus is not on the button that enables", lambda: console.focused().text == "Enable")
    console.press(Keys.ENTER)
    console.says("The webhook is enabled", "#outcome")
    console.wait("the focus is not on the button that disables", lambda: console.focused().text == "Disable")


def replay(console, receiver, secret):
    act(console, "Replay")
    console.find("#field-from")
    begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 600))
    console.driver.execute_script("document.querySelector('#field-from').value = arguments[0]", begin)
    console.tab_to("dialog[open] .primary").send_keys(Keys.ENTER)
    console.says("The replay has begun.", "#outcome")
    console.wait("the message once more", lambda: "link.created" in receiver.types(secret))


def delete_webhook(console, receiver):
    act(console, "Delete")
    console.says(receiver.url.removeprefix("http://"), "dialog[open]")
    console.says(f"shop {RUN}", "dialog[open]")
    console.wait("the safe button has no focus", lambda: console.focused().text == "Cancel")
    console.tab_to("dialog[open] .danger").send_keys(Keys.ENTER)
    console.says("Webhooks", "h1")
    console.find("#new-webhook")
    check(f"shop {RUN}" not in console.text(), "the webhook is still listed")


def use_webhooks(console, create_link):
    receiver = Receiver()
    secret = create_webhook(console, receiver)
    send_test(console, receiver, secret)
    receive_event(console, receiver, secret, create_link)
    change_webhook(console)
    secret = rotate_secret(console, receiver, secret)
    disable_and_enable(console)
    replay(console, receiver, secret)
    delete_webhook(console, receiver)


def begin_webhook(console, url):
    console.open("#/webhooks")
    console.find("#new-webhook").click()
    console.find("dialog[open] h2")
    console.press(url, Keys.ENTER)


def refused_address(console, proxy, call):
    """A refusal stands at its field, and ends with a change."""
    begin_webhook(console, "ftp://example.com/")
    console.says("url", "dialog[open] .problem")
    at_field = "return document.querySelector('#field-url').validationMessage"
    console.wait("the field says nothing", lambda: console.driver.execute_script(at_field))
    check(console.focused().get_attribute("id") == "field-url", "the field has no focus")
    console.press_with(Keys.CONTROL, "a")
    console.press("https://example.com/hooks")
    check(console.driver.execute_script(at_field) == "", "the field stays refused")
    console.press(Keys.ESCAPE)
    console.wait("the dialog closes", lambda: not console.visible("dialog[open]"))


def lost_secret(console, proxy, call):
    """The answer to a creation is lost: the next attempt shows the secret, and creates nothing."""
    receiver = Receiver()
    proxy.inject("POST", r"/webhooks$", is_lost=True)
    begin_webhook(console, receiver.url)
    secret = take_secret(console)
    console.says(receiver.url.removeprefix("http://"), "h1")
    made = [it["id"] for it in call("GET", "/webhooks")["items"] if it["url"] == receiver.url]
    check(len(made) == 1, f"not exactly one webhook: {made}")
    call("POST", f"/webhooks/{made[0]}/test")
    wait_until("the test", lambda: receiver.types(secret) == ["webhook.test"])
    call("DELETE", f"/webhooks/{made[0]}")


def webhooks_off(console, proxy, call):
    """An installation without master keys says so at the first attempt."""
    proxy.inject("POST", r"/webhooks$", problem=OFF)
    begin_webhook(console, "https://example.com/hooks")
    console.says("Webhooks are switched off", "dialog[open] .problem")
    check(not console.visible("#banner button"), "what cannot succeed is tried again")
    console.press(Keys.ESCAPE)
    console.wait("the dialog closes", lambda: not console.visible("dialog[open]"))


FAULTS = (refused_address, lost_secret, webhooks_off)
