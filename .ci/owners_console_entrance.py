"""The way in from a seller's page: the code of the address is exchanged once, and is nowhere afterwards."""

import json
import os

from console_browser import LINKS, OVERLOADED, RUN, call_api, check, problem
from selenium.webdriver.common.keys import Keys

ADMIN_URL, ADMIN_KEY = os.environ["ADMIN_URL"], os.environ["ADMIN_KEY"]
READ_SCOPES = ["link:clicks.read", "link:credits.read", "link:links.read"]
SCOPES = [*READ_SCOPES, "link:links.write"]
EXPIRED = problem(401, "api_key_expired", "The API key has expired", "Ask for a new one.")


def stored_key(console):
    return console.driver.execute_script("return sessionStorage.getItem('linkledger.api-key')")


def new_code(console, api_url, scopes, place=None):
    """Opens a console session for the account of the console's key, as the seller's server does; returns its code."""
    link = call_api(api_url, console.key, "GET", "/v1/links?limit=1")["items"][0]["id"]
    account = call_api(ADMIN_URL, ADMIN_KEY, "GET", f"/admin/v1/links?id={link}")["account_id"]
    body = {"scopes": scopes} | ({"return_url": place} if place else {})
    url = call_api(ADMIN_URL, ADMIN_KEY, "POST", f"/admin/v1/accounts/{account}/console-sessions", body)["url"]
    address, _, code = url.partition("#/enter?code=")
    check(address == f"{os.environ['BASE_URL']}/console/" and code, f"the address of the session is {url}")
    return code


def enter(console, api_url, scopes, place=None):
    """Enters the console; returns the code."""
    code = new_code(console, api_url, scopes, place)
    console.open(f"#/enter?code={code}")
    console.find("tr[data-id]")
    return code


def back_to_own_key(console):
    console.find("#sign-out").click()
    console.give_key()
    console.find("tr[data-id]")


def check_code_is_gone(console, proxy, code):
    history = console.driver.execute_cdp_cmd("Page.getNavigationHistory", {})["entries"]
    addresses = [console.driver.current_url, *(entry["url"] for entry in history), *(path for _, path, _ in proxy.requests)]
    check(not any(code in address for address in addresses), f"the code is in an address: {addresses}")
    stored = console.driver.execute_script("return JSON.stringify([sessionStorage, localStorage, document.cookie])")
    check(code not in stored, "the code is stored")


def customer_from_a_shop(console, proxy, api_url):
    """Enters once; `Back` leads to the shop without a referrer, and from there the history leads into the console again."""
    shop = f"{proxy.url}/docs?customer={RUN}"
    code = enter(console, api_url, SCOPES, shop)
    check(stored_key(console) != console.key, "the key of the tab is not replaced")
    check(console.driver.current_url.endswith("/console/#/links"), f"the address is {console.driver.current_url}")
    check_code_is_gone(console, proxy, code)
    console.driver.refresh()
    console.find("tr[data-id]")
    console.tab_to("#return").send_keys(Keys.ENTER)
    console.wait("the page of the shop", lambda: console.driver.current_url == shop)
    referrer = console.driver.execute_script("return document.referrer")
    check(referrer == "", f"the shop gets to know {referrer}")
    console.driver.back()
    console.find("tr[data-id]")
    check_code_is_gone(console, proxy, code)
    back_to_own_key(console)
    check(not console.visible(".way-back"), "signing out keeps the way back")


def ended_session(console, proxy, api_url):
    """The key of a session ends: the dialog leads back to the shop."""
    shop = f"{proxy.url}/docs?customer={RUN}"
    enter(console, api_url, SCOPES, shop)
    proxy.inject("GET", LINKS, problem=EXPIRED)
    console.find("#find").send_keys(Keys.ENTER)
    console.says("The API key has expired", "#key-reason")
    console.tab_to("#key-dialog a.way-back").send_keys(Keys.ENTER)
    console.wait("the page of the shop", lambda: console.driver.current_url == shop)
    console.open("#/links")
    back_to_own_key(console)


def used_code(console, proxy, api_url):
    """A code that was used opens nothing, and leaves the key of the tab as it is."""
    code = enter(console, api_url, READ_SCOPES)
    check(not console.visible(".way-back"), "there is a way back to nowhere")
    back_to_own_key(console)
    console.open(f"#/enter?code={code}")
    console.says("The code does not open the console", ".problem")
    check_code_is_gone(console, proxy, code)
    check(stored_key(console) == console.key, "a code that is refused replaces the key")
    console.tab_to("main button", "Type an API key").send_keys(Keys.ENTER)
    console.give_key()
    console.find("tr[data-id]")


def exchange_under_faults(console, proxy, api_url):
    """An overloaded service lets the customer try again; an answer that breaks off has used the code."""
    for fault, words in (({"problem": OVERLOADED}, "The service is overloaded"), ({"is_cut": True}, "The API does not answer")):
        code = new_code(console, api_url, READ_SCOPES)
        proxy.inject("POST", "/console/session$", **fault)
        console.open(f"#/enter?code={code}")
        console.says(words, ".problem")
        console.tab_to("main button", "Try again").send_keys(Keys.ENTER)
        if "problem" in fault:
            console.find("tr[data-id]")
            back_to_own_key(console)
        else:
            console.says("The code does not open the console", ".problem")
        check_code_is_gone(console, proxy, code)
    console.open("#/links")
    console.find("tr[data-id]")


def hostile_way_back(console, proxy, api_url):
    key = {"api_key": console.key, "key_id": "key_0", "scopes": SCOPES, "return_url": "javascript:window.pwned=1"}
    content = (200, [("Content-Type", "application/json")], json.dumps(key).encode())
    proxy.inject("POST", "/console/session$", content=content)
    console.open("#/enter?code=any")
    console.find("tr[data-id]")
    links = console.driver.execute_script("return [...document.querySelectorAll('.way-back')].filter((it) => it.href || !it.hidden).length")
    check(links == 0, "the way back leads to a script")


def reader(console, proxy, api_url):
    """A session with scopes to read: everything is shown, and what would write says which scope is missing."""
    missing = "link:links.write"
    enter(console, api_url, READ_SCOPES)
    link = console.find("tr[data-id]").get_attribute("data-id")
    console.find("tr[data-id] input").click()
    console.find(".selection button:nth-of-type(3)").click()
    console.find("dialog[open] .primary").click()
    console.says(missing, ".selection")
    console.open(f"#/links/{link}")
    console.find(".chart svg")
    for css, place in ((".service button", ".ending"), (".deletion button", None), (".deletion .danger", ".ending")):
        console.find(css).click()
        if place:
            console.says(missing, place)
    console.find("#edit-title").send_keys(" changed" + Keys.ENTER)
    console.says(missing, ".edit .problem")
    console.open("#/create")
    console.find("#new-destination_url").send_keys("https://example.com/" + Keys.ENTER)
    console.says(missing, ".problem")
    console.find("#rows").send_keys("https://example.com/1")
    console.find(".import form .primary").click()
    console.says(missing, ".import")
    console.open("#/webhooks")
    console.says("link:webhooks.read", ".problem")
    console.open("#/account")
    console.find(".credits .totals > div:nth-child(4)")
    console.open("#/links")
    back_to_own_key(console)


SCENES = (customer_from_a_shop, ended_session, used_code, exchange_under_faults, hostile_way_back, reader)
