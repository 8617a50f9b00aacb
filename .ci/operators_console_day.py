"""A day of a support person by keyboard alone: open an account, find it, change its credits, state and keys, look into
its owner's console, disable a link, pause a follower, read the log, use webhooks."""

import os
import urllib.error

from chromium import requested
from console_browser import RUN, call_api, check, visit
from console_checks import check_requests
from console_webhooks import use_webhooks
from operators_console_scene import admin, new_link
from selenium.webdriver.common.keys import Keys

API_URL = os.environ["API_URL"]
NAME = f"Corner shop {RUN}"


def status_of(key):
    """Returns the status of a request with an API key."""
    try:
        call_api(API_URL, key, "GET", "/v1/links?limit=1")
    except urllib.error.HTTPError as answer:
        return answer.code
    return 200


def act(console, css, label, *typed, is_back=False):
    """Opens a dialog by its button, fills it from its first field on, and sends it."""
    console.tab_to(css, label, is_back).send_keys(Keys.ENTER)
    console.find("dialog[open] h2")
    console.press(*typed, Keys.ENTER)


def says_done(console, text, focused):
    """Waits for the outcome of an action; the focus is where it was."""
    console.says(text, "#outcome")
    console.wait(f"the focus is not on {focused}", lambda: console.focused().text == focused)
    check(not console.visible("dialog[open]"), "the dialog stays open")


def find(console, text):
    console.tab_to("#find", is_back=True)
    console.press(text, Keys.ENTER)


def new_account(console):
    """Opens an account; the first external id is that of another account."""
    console.tab_to("#pages a[href='#/accounts']").send_keys(Keys.ENTER)
    console.find("tr[data-id]")
    act(console, "#new-account", None, NAME, Keys.TAB, f"customers/{RUN}")
    console.says("The external id is taken", ".outcome .problem")
    console.wait("the focus is not on the field", lambda: console.focused().get_attribute("id") == "field-external_id")
    console.press_with(Keys.CONTROL, "a")
    console.press(f"customers/{RUN}-2", Keys.ENTER)
    console.says(NAME, "h1")
    console.says("0 credits", "#balance")


def find_account(console, made):
    console.tab_to("#pages a[href='#/overview']", is_back=True).send_keys(Keys.ENTER)
    console.find("#follower-clicks")
    find(console, f"CUSTOMERS/{RUN}")
    console.find("#found tbody tr:nth-child(2)")
    console.tab_to("#found a", f"Example Ltd {RUN}").send_keys(Keys.ENTER)
    console.says(f"Example Ltd {RUN}", "h1")
    console.find("#ledger tbody button")


def change_credits(console, made):
    before = admin("GET", made.customer.path)["balance"]
    act(console, "#actions button", "Grant credits", "100", Keys.TAB, "goodwill", Keys.TAB, "ticket 7")
    says_done(console, f"Booked: 100; balance {before + 100:,} credits.", "Grant credits")
    console.says(f"{before + 100:,} credits", "#balance")
    console.says("ticket 7", "#ledger tbody tr:first-child")
    act(console, "#actions button", "Adjust balance", "-40", Keys.TAB, "counted twice")
    says_done(console, f"Booked: -40; balance {before + 60:,} credits.", "Adjust balance")
    act(console, "#actions button", "Set balance", "500", Keys.TAB, "as agreed")
    says_done(console, "balance 500 credits.", "Set balance")


def refund_charge(console, made):
    charge = next(entry for entry in admin("GET", f"{made.customer.path}/entries")["items"] if entry["type"] == "charge")
    act(console, "#ledger button", f"Refund {charge['id']}", "the link never worked")
    console.says("Booked: 1; balance 501 credits.", "#outcome")
    entry = admin("GET", f"{made.customer.path}/entries?limit=1")["items"][0]
    check((entry["type"], entry["reason"]) == ("refund", "the link never worked"), f"the last entry is {entry}")
    console.says("Refund", "#ledger tbody tr:first-child")
    console.says("refunded", f"#ledger tr[data-id='{charge['id']}']")
    # The ledger is read again: its buttons are others.
    is_there = console.driver.execute_script("return document.activeElement !== document.body && document.activeElement.contains(document.querySelector('#ledger'))")
    check(is_there, "a refund loses the place of the focus")


def suspend_and_resume(console, made):
    link = new_link(made.customer)
    act(console, "#actions button", "Suspend", "payment disputed", Keys.TAB, Keys.SPACE, is_back=True)
    says_done(console, "The account is suspended.", "Grant credits")
    console.says("visitors of its links get “gone” (410)", ".state")
    console.wait("the key is refused", lambda: status_of(made.customer.key) == 403)
    console.wait("the link is gone", lambda: visit(link["short_url"]) == 410)
    act(console, "#actions button", "Resume", "dispute settled")
    says_done(console, "The account is resumed.", "Grant credits")
    console.wait("the key is taken again", lambda: status_of(made.customer.key) == 200)
    console.wait("the link leads on", lambda: visit(link["short_url"]) == 302)


def named_key(console):
    """Returns the new key that the outcome names, as soon as it is in the list."""
    key = console.find("#outcome").text.split()[0]
    console.find(f"tr[data-id='{key}']")
    return key


def issue_and_revoke_key(console, made):
    act(console, "#issue-key", None, f"till {RUN}")
    secret = console.find("#secret").text
    check(secret.startswith("llk_") and status_of(secret) == 200, "the new key does not work")
    console.tab_to("dialog[open] .primary", "Done").send_keys(Keys.ENTER)
    says_done(console, "is issued.", "Issue a key")
    check(secret not in console.driver.page_source, "the secret stays in the page")
    key = named_key(console)
    console.tab_to("#keys button", f"Rotate till {RUN}, {key}").send_keys(Keys.ENTER)
    console.find("#field-overlap_seconds")
    console.press(Keys.HOME, Keys.TAB, Keys.TAB, Keys.ENTER)
    rotated = console.find("#secret").text
    check(rotated != secret, "the secret is the old one")
    console.tab_to("dialog[open] .primary", "Done").send_keys(Keys.ENTER)
    console.says(f"replaces {key}.", "#outcome")
    console.wait("the old key ends", lambda: status_of(secret) == 401)
    key = named_key(console)
    console.tab_to("#keys button", f"Revoke till {RUN}, {key}").send_keys(Keys.ENTER)
    console.find("dialog[open] h2")
    console.tab_to("dialog[open] .danger").send_keys(Keys.ENTER)
    console.says(f"{key} is revoked.", "#outcome")
    console.tab_to("#keys summary").send_keys(Keys.ENTER)
    console.says("revoked", f"#keys details tr[data-id='{key}']")
    console.wait("the key is refused", lambda: status_of(rotated) == 401)


def open_owners_console(console, proxy, made):
    """Opens the console of the account's owner, which is of the API's host."""
    console.tab_to("#owner-console button", "Make a link to the console", is_back=True).send_keys(Keys.ENTER)
    console.find(".created a")
    check_requests(console, proxy)
    console.tab_to(".created a").send_keys(Keys.ENTER)
    own, *others = console.wait("the tab of the owner's console", lambda: len(console.driver.window_handles) > 1 and console.driver.window_handles)
    console.driver.switch_to.window(others[0])
    console.find(f"tr[data-id='{made.link['id']}']")
    check(console.driver.current_url == f"{os.environ['BASE_URL']}/console/#/links", f"the address is {console.driver.current_url}")
    check("lla_" not in console.driver.execute_script("return JSON.stringify(sessionStorage)"), "the admin key gets into the tab of the owner's console")
    console.driver.close()
    console.driver.switch_to.window(own)
    requested(console.driver)


def disable_link(console, made):
    find(console, made.link["short_url"])
    console.says(f"Spring-{RUN}", "h1")
    console.find("#events tbody tr")
    console.says("Charge", "#ledger tbody tr")
    act(console, "#disable", None, "phishing, ticket 482")
    says_done(console, "The link is disabled.", "Enable link")
    console.says("disabled by an operator", ".facts")
    console.says("LinkDisabled", "#events tbody tr:first-child")
    console.wait("the link is gone", lambda: visit(made.link["short_url"]) == 410)
    act(console, "#enable", None, "appeal granted", is_back=True)
    says_done(console, "The link is enabled.", "Disable link")
    console.tab_to(".facts a.id", is_back=True).send_keys(Keys.ENTER)
    console.says(f"Example Ltd {RUN}", "h1")
    console.driver.back()
    console.says(f"Spring-{RUN}", "h1")


def pause_follower(console):
    console.tab_to("#pages a[href='#/overview']", is_back=True).send_keys(Keys.ENTER)
    console.find("#follower-clicks")
    act(console, "#follower-clicks", None, f"ticket {RUN}")
    row = "#followers tr:has(#follower-clicks)"
    console.wait("the focus is not on the button that resumes", lambda: console.focused().text == "Resume")
    console.says("paused", row)
    console.says(f"ticket {RUN}", row)
    console.says("Waiting for an operator", ".notice")
    console.says(f"ticket {RUN}", "#commands")
    console.press(Keys.ENTER)
    console.find("dialog[open] h2")
    console.press("done", Keys.ENTER)
    console.wait("the focus is not on the button that pauses", lambda: console.focused().text == "Pause" and console.focused().get_attribute("id") == "follower-clicks")
    console.wait("the follower goes on", lambda: "paused" not in console.find(row).text)


def stop_updates(console):
    """Stops the updates of the overview, and lets them go on."""
    console.tab_to("#live-state button", is_back=True).send_keys(Keys.ENTER)
    console.says("Paused", "#live-state")
    said = console.find("#live-state").text
    console.press(Keys.ENTER)
    console.wait("the updates go on", lambda: "Live" in console.find("#live-state").text and console.find("#live-state").text[-12:] != said[-12:])


def read_log(console, made):
    console.tab_to("#pages a[href='#/events']", is_back=True).send_keys(Keys.ENTER)
    console.find("#events tbody tr")
    new_link(made.customer)
    console.tab_to("#events button", "Later events").send_keys(Keys.ENTER)
    console.says("later event", ".summary")
    check(console.focused().text == "Later events", "later events lose the focus")
    console.says("LinkCreated", "#events tbody tr:nth-child(-n+3)")
    console.tab_to("#events summary").send_keys(Keys.ENTER)
    console.says("Metadata", "#events details[open]")
    console.tab_to("#events-type", is_back=True)
    console.press("LinkDel", Keys.ENTER)
    console.wait("the address has the type", lambda: "type=LinkDeleted" in console.driver.current_url)
    console.wait("only these events", lambda: {it.text for it in console.visible("#events .type")} == {"LinkDeleted"})


def page_through(console, made):
    console.tab_to("#pages a[href='#/accounts']", is_back=True).send_keys(Keys.ENTER)
    console.find("tr[data-id]")
    console.tab_to("#accounts-q")
    console.press(made.crowd, Keys.ENTER)
    console.says("50 accounts on this page", ".summary")
    console.tab_to(".pager a", "Next →").send_keys(Keys.ENTER)
    console.says("2 accounts", ".summary")
    console.driver.back()
    console.says("50 accounts on this page", ".summary")


def spend_a_day(console, proxy, made):
    console.open()
    console.give_key()
    console.find("#follower-clicks")
    new_account(console)
    find_account(console, made)
    for scene in (change_credits, refund_charge, suspend_and_resume, issue_and_revoke_key):
        scene(console, made)
    open_owners_console(console, proxy, made)
    disable_link(console, made)
    pause_follower(console)
    stop_updates(console)
    for scene in (read_log, page_through):
        scene(console, made)
    use_webhooks(console, lambda: new_link(made.customer))
