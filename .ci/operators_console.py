"""Uses the console for operators in a browser, through a proxy that injects faults.

usage: operators_console.py FOLDER AXE, from the root of the repository, with the variables of the stack's `env`; FOLDER
is for the screenshots, AXE the script of axe-core
"""

import os
import pathlib
import re
import sys
import tempfile

from chromium import browser, complaints, emulate, save_screenshot
from console_browser import Console, check
from console_checks import SCHEMES, check_faults, check_no_markup, check_secrecy, look_at
from console_webhooks import webhook_pages
from fault_proxy import FaultProxy
from operators_console_day import spend_a_day
from operators_console_faults import inject_all
from operators_console_scene import MARKUP, RIGHT_TO_LEFT, RUN, scene
from selenium.webdriver.common.keys import Keys

ADMIN_URL, ADMIN_KEY = os.environ["ADMIN_URL"], os.environ["ADMIN_KEY"]
WIDTHS = (320, 400, 768, 1280)
# Where each dialog is looked at.
DIALOG_PLACES = ((320, "dark"), (1280, "light"))
DIALOGS = ["Grant credits", "Set balance", "Suspend", "Change account", "Issue a key"]
WEBHOOK_DIALOGS = ["Change", "Rotate secret", "Replay", "Delete"]
# Returns the texts that would turn around what stands beside them.
TURNING = """
const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
const turning = [];
while (texts.nextNode()) {
  const {textContent: text, parentElement: element} = texts.currentNode;
  if (/[\\u202e\\u200f]/.test(text) && !element.closest('bdi, pre')) turning.push(element.outerHTML.slice(0, 160));
}
return turning;
"""


def pages(made):
    """Returns by name: address, and the elements that the page is complete with."""
    of_account = [".facts", "#keys tbody tr", "#ledger tbody tr", "#events tbody tr"]
    return {
        "overview": ("#/overview", [".notice", "#follower-credits", "#follower-clicks", "#commands tbody tr"]),
        "accounts": (f"#/accounts?q={made.crowd.replace(' ', '+')}", ["tr[data-id]", ".pager a"]),
        "no-account-found": ("#/accounts?q=nobody-has-this-name", [".empty"]),
        "account": (f"#/accounts/{made.customer.id}", [*of_account, "#keys summary", "#ledger > .actions button"]),
        "suspended-account": (f"#/accounts/{made.suspended}", [*of_account, ".state"]),
        "hostile-account": (f"#/accounts/{made.hostile[0][0].id}", of_account),
        "link": (f"#/links/{made.link['id']}", [".facts", "#disable", "#events tbody tr"]),
        "disabled-link": (f"#/links/{made.hostile[0][1][0]['id']}", [".facts", "#enable", "#events tbody tr"]),
        "deleted-link": (f"#/links/{made.deleted['id']}", [".facts .badge", "#events tbody tr"]),
        "events": ("#/events", ["#events tbody tr"]),
        "events-of-type": ("#/events?type=LinkDeleted", ["#events tbody tr"]),
        "events-of-account": (f"#/events?account={made.parked}", ["#events tbody tr"]),
        "found": (f"#/find?q={RUN}", ["#found tbody tr:nth-child(3)"]),
        "nothing-found": ("#/find?q=no-such-slug", ["#found .empty"]),
        **webhook_pages(made.webhook),
        "no-page": ("#/nowhere", ["h1"]),
        "no-link": ("#/links/lnk_00000000000000000000000000", [".problem"]),
    }


def look_at_dialogs(console, axe, made):
    for width, scheme in DIALOG_PLACES:
        emulate(console.driver, width, scheme)
        console.open(f"#/accounts/{made.customer.id}")
        undo = console.find("#ledger tbody button").get_attribute("aria-label")
        for label in [*DIALOGS, undo]:
            look_at_dialog(console, axe, label, width, scheme)
        console.open(f"#/webhooks/{made.webhook}")
        console.find("#deliveries tbody tr")
        for label in WEBHOOK_DIALOGS:
            look_at_dialog(console, axe, label, width, scheme)


def look_at_dialog(console, axe, label, width, scheme):
    button = next(it for it in console.visible("main button") if label in (it.text, it.get_attribute("aria-label")))
    button.click()
    console.find("dialog[open] h2")
    check_faults(console, axe, f"the dialog {label} at {width} px, {scheme}")
    name = label.split(" ent_")[0].lower().replace(" ", "-")
    save_screenshot(console.driver, console.folder / f"dialog-{name}-{width}-{scheme}.png")
    console.press(Keys.ESCAPE)
    console.wait("the dialog closes", lambda: not console.visible("dialog[open]"))


def sign_in(console, axe):
    emulate(console.driver, 320, "dark")
    console.open()
    console.find("#api-key")
    check_faults(console, axe, "the dialog that asks for a key")
    save_screenshot(console.driver, console.folder / "key-320-dark.png")
    console.find("#api-key").send_keys("llk_" + console.key[4:] + Keys.ENTER)
    check(console.visible("#key-dialog"), "a key of an account is taken")
    console.find("#api-key").clear()
    console.give_key()
    console.find("#follower-clicks")


def says_all(console, what, texts):
    """Checks that texts are shown as they are, also those in details."""
    shown = console.driver.execute_script("return document.querySelector('main').textContent")
    missing = [text for text in texts if text not in shown]
    check(not missing, f"{what} lacks {missing}")
    check_no_markup(console)
    turning = console.driver.execute_script(TURNING)
    check(not turning, f"{what}: these turn around their neighbours: {turning}")


def show_hostile_texts(console, made):
    """Shows texts that would be markup, or turn the page around."""
    emulate(console.driver, 400, "light")
    (marked, links), (turned, _) = made.hostile
    events = "#events tbody tr"
    for address, complete, texts in (
        ("#/overview", "#commands tbody tr", [MARKUP, RIGHT_TO_LEFT]),
        (f"#/accounts?q=turned/{RUN}", "tr[data-id]", [RIGHT_TO_LEFT]),
        (f"#/accounts/{marked.id}", events, [MARKUP, f"..//@:{RUN}", "<b>7</b>"]),
        (f"#/accounts/{turned.id}", events, [RIGHT_TO_LEFT]),
        (f"#/find?q={RUN}", "#found tbody tr", [f"<b>Acme</b> & Söhne {RUN}"]),
        (f"#/links/{links[0]['id']}", events, [MARKUP, links[0]["destination_url"]]),
        (f"#/links/{links[2]['id']}", events, [links[2]["destination_url"]]),
        (f"#/events?account={made.parked}", events, [RIGHT_TO_LEFT, "<i>red</i>"]),
        ("#/find?q=%3Cimg+src%3Dx+onerror%3Dwindow.pwned%3D1%3Enobody", "#found .empty", ["<img src=x onerror=window.pwned=1>nobody"]),
        ("#/webhooks", "tr[data-id]", [MARKUP, RIGHT_TO_LEFT]),
        (f"#/webhooks/{made.webhook}", "#deliveries tbody tr", [MARKUP, RIGHT_TO_LEFT]),
        ("#/nowhere/%3Cscript%3E", "h1", []),
    ):
        console.open(address)
        console.find(complete)
        says_all(console, address, texts)
    console.open(f"#/accounts/{marked.id}")
    console.find("#keys tbody .danger").click()
    console.find("dialog[open] h2")
    check_no_markup(console)
    console.press(Keys.ESCAPE)


def main(folder, axe_file):
    folder, axe = pathlib.Path(folder), pathlib.Path(axe_file).read_text()
    folder.mkdir(parents=True, exist_ok=True)
    proxy = FaultProxy(ADMIN_URL)
    with scene() as made, tempfile.TemporaryDirectory() as profile, browser(profile) as driver:
        console = Console(driver, f"{proxy.url}/operators/", ADMIN_KEY, folder)
        sign_in(console, axe)
        found = pages(made)
        for name, page in found.items():
            look_at(console, axe, name, page, WIDTHS)
        look_at_dialogs(console, axe, made)
        show_hostile_texts(console, made)
        emulate(driver, 1280, "light")
        console.find("#sign-out").click()
        spend_a_day(console, proxy, made)
        # The browser rightly complains about refused requests, and from here on about failed ones.
        errors = [error for error in complaints(driver) if not re.search("status of 4(00|04|09)", error)]
        check(not errors, f"errors of the browser: {errors}")
        faults = inject_all(console, proxy, made)
        check_secrecy(console, proxy)
    print(f"{len(found)} pages, {len(found) * len(WIDTHS) * len(SCHEMES)} screenshots in {folder}; {faults} faults")


main(*sys.argv[1:])
