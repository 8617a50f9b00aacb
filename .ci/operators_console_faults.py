"""Faults of the admin API under the console for operators: the page says what happens, loses nothing, and does nothing
twice."""

import threading

from console_browser import OVERLOADED, RUN, check, problem
from console_webhooks import FAULTS, begin_webhook
from operators_console_scene import admin, issue_admin_key, new_customer
from selenium.webdriver.common.keys import Keys

GRANTS = r"/grants$"
SCOPES = ["admin:accounts", "admin:keys", "admin:credits", "admin:links", "admin:operations", "admin:webhooks"]


def open_account(console, path):
    console.open(f"#{path}")
    console.find("#keys tbody tr")


def button(console, label, css="main button"):
    return console.wait(f"no button {label}", lambda: next((it for it in console.visible(css) if label in (it.text, it.get_attribute("aria-label"))), None))


def act(console, label, *typed):
    button(console, label).click()
    console.find("dialog[open] h2")
    console.press(*typed, Keys.ENTER)


def begin_grant(console, made, amount):
    open_account(console, made.customer.path)
    act(console, "Grant credits", str(amount), Keys.TAB, f"fault {RUN}")


def granted(made, amount):
    return [entry for entry in admin("GET", f"{made.customer.path}/entries?limit=100")["items"] if entry["amount"] == amount]


def ended_key(console, proxy, made):
    """A key ends below an open dialog: its fields stay, and the next key sends them."""
    proxy.inject("POST", GRANTS, problem=problem(401, "api_key_revoked", "The API key is revoked", "Ask for a new one."))
    begin_grant(console, made, 7001)
    console.says("The API key is revoked: Ask for a new one.", "#key-reason")
    console.give_key()
    console.says("Booked: 7,001", "#outcome")
    check(len(granted(made, 7001)) == 1, "not exactly one grant")


def grant_despite(fault, amount, console, proxy, made):
    """The grant arrives, and its answer does not."""
    proxy.inject("POST", GRANTS, **{f"is_{fault}": True})
    begin_grant(console, made, amount)
    console.says(f"Booked: {amount:,}", "#outcome")
    check(len(granted(made, amount)) == 1, "not exactly one grant")


def lost_answer(*scene):
    grant_despite("lost", 7002, *scene)


def cut_answer(*scene):
    grant_despite("cut", 7003, *scene)


def lost_secret(console, proxy, made):
    """The answer with a secret is lost: the dialog says that the key is of no use."""
    open_account(console, made.customer.path)
    proxy.inject("POST", r"/keys$", is_lost=True)
    act(console, "Issue a key", f"lost {RUN}")
    console.says("The secret was in an earlier answer, which did not arrive.", "dialog[open]")
    button(console, "Done", "dialog[open] button").click()
    console.says("is issued.", "#outcome")


def overload(console, proxy, made):
    proxy.inject("POST", GRANTS, problem=OVERLOADED, retry_after=60)
    begin_grant(console, made, 7004)
    console.says("it has its effect once, or none", "dialog[open] .outcome")
    console.says("The service is overloaded: Retry later.", "#banner")
    console.says("Retrying in", "#banner")


def overload_in_dialog(console, proxy, made):
    """The dialog is above the banner, so it is closed to give up: the page says what is not known."""
    overload(console, proxy, made)
    button(console, "Cancel", "dialog[open] button").click()
    console.wait("the banner stays", lambda: not console.visible("#banner button"))
    console.says("It is not known whether this was done.", "#outcome")
    check(not granted(made, 7004), "credits were granted")


def short_overload(console, proxy, made):
    proxy.inject("POST", GRANTS, times=2, problem=OVERLOADED, retry_after=1)
    begin_grant(console, made, 7005)
    console.says("Booked: 7,005", "#outcome")
    check(not console.visible("#banner button"), "the banner stays")
    check(len(granted(made, 7005)) == 1, "not exactly one grant")


def away(console, proxy, made):
    """An API that is away is tried again, and the page says so."""
    console.open("#/accounts")
    console.find("tr[data-id]")
    proxy.is_away = True
    console.find("#accounts-q").send_keys(RUN + Keys.ENTER)
    console.says("The API does not answer", "#banner")
    console.says("Retrying", "#banner")
    console.visible("#banner button")[1].click()
    console.says("The API does not answer", ".problem")
    proxy.is_away = False
    console.find("#accounts-q").send_keys(Keys.ENTER)
    console.says(RUN, "tr[data-id]")


def away_from_overview(console, proxy, made):
    """The overview keeps the last state, says of which time it is, and goes on by itself."""
    console.open("#/overview")
    console.find("#follower-clicks")
    proxy.is_away = True
    console.says("No answer; as it was at", "#live-state")
    check(console.visible("#follower-clicks"), "the last state is gone")
    proxy.is_away = False
    console.says("Live", "#live-state")


def unreadable_status(console, proxy, made):
    """A status that cannot be read at first is read at the next attempt."""
    failed = problem(500, "internal_error", "The service has failed", "Try again.")
    proxy.inject("GET", r"/status$", problem=failed)
    console.open("#/overview")
    console.says("The service has failed Try again.", ".problem")
    console.find("#follower-clicks")
    check(not console.visible(".problem"), "the problem stays")


def missing_script(console, proxy, made):
    proxy.inject("GET", r"/operators/events_page\.js", problem=OVERLOADED)
    console.open("#/events")
    console.says("The page could not be loaded", ".problem")
    console.find(".problem button").click()
    console.find("#events tbody tr")


def slower_answer(console, proxy, made):
    """The answer to an older filter arrives after that to a newer one."""
    held = proxy.inject("GET", r"type=LinkCreated", release=threading.Event())
    console.open("#/events?type=LinkCreated")
    console.wait("the slow request", lambda: held.times == 0)
    console.find("#events-type").send_keys("LinkDeleted")
    console.find("#events tbody tr")
    held.release.set()
    console.open("#/events?type=LinkDeleted")
    console.find("#events tbody tr")
    check({it.text for it in console.visible("#events .type")} == {"LinkDeleted"}, "events of another type are shown")


def refusals(console, proxy, made):
    """Refused actions say why, and their dialogs keep what was typed."""
    open_account(console, made.customer.path)
    act(console, "Adjust balance", "-999999999", Keys.TAB, "too much")
    console.says("balance", "dialog[open] .problem")
    check(console.find("#field-reason").get_attribute("value") == "too much", "the reason is lost")
    console.find("#field-amount").clear()
    console.find("#field-amount").send_keys("1" + Keys.ENTER)
    console.says("Booked: 1;", "#outcome")
    act(console, "Grant credits", "0", Keys.TAB, "nothing")
    check(console.visible("dialog[open]"), "a grant of nothing is sent")
    console.press(Keys.ESCAPE)
    other = new_customer(f"Other {RUN}")
    open_account(console, other.path)
    act(console, "Change account", Keys.TAB, f"customers/{RUN}")
    console.says("The external id is taken", "dialog[open] .problem")


def key_in_find(console, proxy, made):
    console.open("#/accounts")
    console.find("tr[data-id]")
    for key in (console.key, made.customer.key, f"Bearer {console.key[:30]}"):
        console.find("#find").send_keys(key + Keys.ENTER)
        console.wait("the key stays in the field", lambda: console.find("#find").get_attribute("value") == "")
        check("ll" not in console.driver.current_url.split("#")[1], "the key is in the address")
    check(not any(console.key[:20] in path or made.customer.key in path for _, path, _ in proxy.requests), "the key was sent")


def webhooks(console, proxy, made):
    for scene in FAULTS:
        scene(console, proxy, admin)


def with_key(console, key):
    console.find("#sign-out").click()
    console.give_key(key)


def reader(console, proxy, made):
    """A key that only reads: every page is shown, and each action names the scope that it needs."""
    console.open("#/overview")
    with_key(console, issue_admin_key("admin:read"))
    button(console, "Pause clicks").click()
    console.press("not mine", Keys.ENTER)
    console.says("admin:operations", "dialog[open] .problem")
    open_account(console, made.customer.path)
    for label, typed, scope in (
        ("Grant credits", ["1", Keys.TAB, "not mine"], "admin:credits"),
        ("Adjust balance", ["1", Keys.TAB, "not mine"], "admin:credits"),
        ("Set balance", ["1", Keys.TAB, "not mine"], "admin:credits"),
        ("Suspend", ["not mine"], "admin:accounts"),
        ("Change account", ["not mine"], "admin:accounts"),
        ("Issue a key", ["not mine"], "admin:keys"),
        (console.find("#ledger tbody button").get_attribute("aria-label"), ["not mine"], "admin:credits"),
    ):
        act(console, label, *typed)
        console.says(scope, "dialog[open] .problem")
        console.press(Keys.ESCAPE)
        console.wait("the dialog closes", lambda: not console.visible("dialog[open]"))
    button(console, "Make a link to the console").click()
    console.says("admin:keys", "#owner-console .problem")
    console.open(f"#/links/{made.link['id']}")
    act(console, "Disable link", "not mine")
    console.says("admin:links", "dialog[open] .problem")
    begin_webhook(console, "https://example.com/hooks")
    console.says("admin:webhooks", "dialog[open] .problem")
    console.open(f"#/webhooks/{made.webhook}")
    button(console, "Send a test").click()
    console.says("admin:webhooks", "#outcome .problem")
    console.open("#/overview")
    with_key(console, console.key)
    console.find("#follower-clicks")


def writer(console, proxy, made):
    """A key that must not read is told so on each page."""
    console.open("#/overview")
    with_key(console, issue_admin_key(*SCOPES))
    console.says("admin:read", ".problem")
    for place in ("#/accounts", f"#/accounts/{made.customer.id}", f"#/links/{made.link['id']}", "#/events", "#/webhooks", f"#/webhooks/{made.webhook}", f"#/find?q={RUN}"):
        console.open(place)
        console.says("admin:read", ".problem")
    with_key(console, console.key)
    console.find("main tbody tr")


def no_key(console, proxy, made):
    console.open("#/accounts")
    console.find("tr[data-id]")
    console.find("#sign-out").click()
    console.find("#api-key")
    check(not console.visible("tr[data-id]"), "accounts stay on the screen")
    # Browsers close a dialog at the second Esc whatever the page says.
    console.press(Keys.ESCAPE)
    console.press(Keys.ESCAPE)
    kept = console.driver.execute_script("return sessionStorage.length + localStorage.length")
    check(kept == 0, "signing out leaves something behind")
    console.give_key()
    console.find("tr[data-id]")


SCENES = (ended_key, lost_answer, cut_answer, lost_secret, overload_in_dialog, short_overload, away, away_from_overview, unreadable_status, missing_script, slower_answer, refusals, key_in_find, webhooks, reader, writer, no_key)


def inject_all(console, proxy, made):
    for scene in SCENES:
        scene(console, proxy, made)
        check(not any(fault.times for fault in proxy.faults), f"a fault of {scene.__name__} did not happen")
    return len(SCENES)
