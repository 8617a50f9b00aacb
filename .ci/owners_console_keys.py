"""A key ends, and the next one is of another account: nothing of the first account stays, and no run goes on."""

import os

from console_browser import LINKS, RUN, call_api, check, problem
from selenium.webdriver.common.keys import Keys

OTHER = os.environ["API_KEY"]
EXPIRED = problem(401, "api_key_expired", "The API key has expired", "Ask for a new one.")
REPLACED = "The API key was replaced during this run"


def shown(console):
    return [row.get_attribute("data-id") for row in console.visible("tr[data-id]")]


def tagged_links(console, api_url, purpose):
    """Creates three links; returns their tag."""
    tag = f"{RUN}-key-{purpose}"
    for _ in range(3):
        call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/", "tags": [tag]})
    return tag


def select_all(console, tag):
    console.open(f"#/links?tag={tag}")
    console.wait("three links", lambda: len(shown(console)) == 3)
    console.find("#select-page").click()
    console.says("3 links selected", ".selection")


def back_to_own_key(console):
    console.find("#sign-out").click()
    console.give_key()


def other_key_on_list(console, proxy, api_url):
    select_all(console, tagged_links(console, api_url, "list"))
    proxy.inject("GET", LINKS, problem=EXPIRED)
    console.find("#find").send_keys(Keys.ENTER)
    console.give_key(OTHER)
    console.find(".empty")
    check(not shown(console), "links of another account stay on the screen")
    console.says("Select links to change them together.", ".selection")
    back_to_own_key(console)
    console.wait("three links", lambda: len(shown(console)) == 3)


def other_key_in_bulk_change(console, proxy, api_url):
    tag = tagged_links(console, api_url, "bulk")
    select_all(console, tag)
    console.find(".selection button:nth-of-type(3)").click()
    first, second, third = shown(console)
    proxy.inject("PATCH", second, problem=EXPIRED)
    console.find("dialog[open] .primary").click()
    console.give_key(OTHER)
    console.says("1 link disabled, 2 not tried", ".selection")
    console.says(REPLACED, ".selection")
    check(not shown(console), "links of another account stay on the screen")
    sent = [path for method, path, _ in proxy.requests if method == "PATCH" and path.endswith((second, third))]
    check(len(sent) == 1, f"the run goes on under another key: {sent}")
    console.find(".selection button:nth-of-type(2)").click()
    console.says("Select links to change them together.", ".selection")
    listed = f"/v1/links?tag={tag}&state=disabled"
    console.wait("one disabled link", lambda: [link["id"] for link in call_api(api_url, console.key, "GET", listed)["items"]] == [first])
    back_to_own_key(console)
    console.find("tr[data-id]")


def other_key_in_export(console, proxy, api_url):
    console.open("#/links")
    console.find("tr[data-id]")
    proxy.inject("GET", r"/v1/links\?cursor=.*limit=100", problem=EXPIRED)
    console.find(".above button").click()
    console.give_key(OTHER)
    console.says(REPLACED, ".saving")
    console.says("100 links read.", ".saving")
    check([it.text for it in console.visible(".saving button")] == ["Save these"], "the export can go on under another key")
    back_to_own_key(console)
    console.find("tr[data-id]")


def other_key_on_pages(console, proxy, api_url):
    """A page of one link ends with the key of another account; statistics of the account are read again."""
    link = call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/"})["id"]
    console.open(f"#/links/{link}")
    console.find(".chart svg")
    proxy.inject("GET", r"/clicks\?", problem=EXPIRED)
    console.find("#range").send_keys("Last 30 days")
    console.give_key(OTHER)
    console.find(".problem")
    check(not console.visible(".facts"), "a link of another account stays on the screen")
    back_to_own_key(console)
    console.find(".facts")
    console.open("#/account")
    console.find(".credits .totals > div:nth-child(4)")
    proxy.inject("GET", r"/v1/clicks\?", problem=EXPIRED)
    console.find("#range").send_keys("Last 30 days")
    console.give_key(OTHER)
    balance = call_api(api_url, OTHER, "GET", "/v1/credits")["balance"]
    console.says(f"{balance:,}", ".credits")
    back_to_own_key(console)
    console.find(".credits .totals > div:nth-child(4)")


def next_key_of_same_account(console, proxy, api_url):
    """A key that has ended is replaced by one of the same account: what was typed stays, and is saved."""
    link = call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/"})["id"]
    console.open(f"#/links/{link}")
    console.find("#edit-title").send_keys("Typed before")
    console.driver.execute_script("sessionStorage.setItem('linkledger.api-key', arguments[0])", OTHER[:-1] + ("a" if OTHER[-1] != "a" else "b"))
    console.find("#edit-title").send_keys(Keys.ENTER)
    console.give_key()
    console.says("Saved.", ".edit .outcome")
    console.says("Typed before", "h1")


SCENES = (other_key_on_list, other_key_in_bulk_change, other_key_in_export, other_key_on_pages, next_key_of_same_account)
