"""Reads that go wrong easily: keys and short links in the field Find, answers to an older key, a list that breaks off,
days west of UTC, clicks that are counted while the page is open, the page of the API below a path."""

import datetime
import os
import threading
import zoneinfo

from chromium import emulate
from console_browser import RUN, call_api, check, problem, visit
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

WESTERN_ZONE = "America/New_York"
BARS = {"Last 24 hours": 24, "Last 7 days": 7, "Last 30 days": 30, "Last 12 months": 12}
EXPIRED = problem(401, "api_key_expired", "The API key has expired", "Ask for a new one.")
FAILED = problem(500, "internal_error", "The service has failed", "Try again.")


def search(console, text):
    console.press_with(Keys.CONTROL, "a")
    console.press(text, Keys.ENTER)


def key_in_find(console, proxy, api_url):
    console.open("#/links")
    console.find("tr[data-id]")
    console.find("#find").click()
    for text in (console.key, f"Bearer {console.key[:30]}"):
        search(console, text)
        console.wait("the key stays in the field", lambda: console.find("#find").get_attribute("value") == "")
        check("llk_" not in console.driver.current_url, "the key is in the address")
    check(not any("llk_" in path for _, path, _ in proxy.requests), "the key was sent")
    search(console, "no-such-slug")
    console.find(".empty")


def short_link_in_find(console, proxy, api_url):
    """Finds a link by its short address, also if no link was shown, and by a slug that looks like an id."""
    slug = f"lnk_{RUN}{'0' * 20}"
    link = call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/", "slug": slug})
    short = link["short_url"].removeprefix("http://")
    for text in (link["short_url"], short, f"https://{short.upper()}?utm=1"):
        console.open("#/links?slug_prefix=no-such-slug")
        console.find(".empty")
        console.find("#find").click()
        search(console, text)
        console.find(f"tr[data-id='{link['id']}']")
    search(console, "Title of a link")
    console.says("Titles are not searched", ".problem")
    console.open(f"#/links?slug_prefix={slug}")
    console.find(f"tr[data-id='{link['id']}']")
    console.find("#find").click()
    search(console, slug)
    console.says("Look for a link with this slug")
    console.find(".problem + p a").click()
    console.find(f"tr[data-id='{link['id']}']")


def other_meaning(console, proxy, api_url):
    """A text that is no slug is found as a tag."""
    tag = f"{RUN}-meaning"
    link = call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/", "tags": [tag]})
    console.open("#/links?sort=created_at")
    console.find("tr[data-id]")
    console.find("#find").click()
    search(console, tag)
    console.says(f"No slug begins with “{tag}”.", ".empty")
    console.find(".empty a[href*='tag=']").click()
    console.find(f"tr[data-id='{link['id']}']")
    check("sort=created_at" in console.driver.current_url, "the other filters are lost")


def narrow_list(console, proxy, api_url):
    emulate(console.driver, 400, "light")
    console.open("#/links")
    console.find("tr[data-id]")
    console.find("#select-page").click()
    console.says("50 links selected", ".selection")
    console.find(".selection button:last-of-type").click()
    emulate(console.driver, 1280, "light")


def refreshed_clicks(console, proxy, api_url):
    link = call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/"})
    console.open(f"#/links/{link['id']}")
    console.says("Clicks by people\n0", ".totals")
    status = visit(link["short_url"])
    check(status == 302, f"the short link answers {status}")

    def is_counted():
        console.find(".clicks .filters button").click()
        return "Clicks by people\n1" in console.find(".totals").text

    console.wait("the click", is_counted)


def answer_after_new_key(console, proxy, api_url):
    """A slow answer to the key before arrives after a key of another account was given."""
    held = proxy.inject("GET", r"/v1/credits/entries\?limit=20", release=threading.Event())
    console.open("#/account")
    console.wait("the slow request", lambda: held.times == 0)
    proxy.inject("GET", r"/v1/clicks\?", problem=EXPIRED)
    console.find("#range").send_keys("Last 30 days")
    console.give_key(os.environ["API_KEY"])
    held.release.set()
    console.find(".ledger tbody tr")
    shown = [it.text for it in console.visible(".ledger tbody td:nth-child(6)")]
    stored = call_api(api_url, os.environ["API_KEY"], "GET", "/v1/credits/entries?limit=20")["items"]
    check(shown == [f"{entry['balance_after']:,}" for entry in stored], f"the ledger of another account is shown: {shown}")
    console.find("#sign-out").click()
    console.give_key()
    console.find(".ledger tbody tr")


def list_that_breaks_off(console, proxy, api_url):
    console.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "deny"})
    console.open("#/links")
    console.find("tr[data-id]")
    before = len(proxy.requests)
    proxy.inject("GET", r"/v1/links\?cursor=.*limit=100", problem=FAILED)
    console.find(".above button").click()
    console.says("100 links read.", ".saving")
    console.find(".saving button").click()
    console.says("saved as links.csv", ".saving")
    pages = [path for _, path, _ in proxy.requests[before:] if "limit=100" in path]
    repeated = len(pages) - len(set(pages))
    check(repeated == 1, f"the export reads {repeated} pages again, not only the one that failed")


def bars_of_ranges(console, proxy, api_url):
    """A chart has as many bars as the name of its range says."""
    console.open("#/account")
    console.find(".chart svg")
    for name, bars in BARS.items():
        Select(console.find("#range")).select_by_visible_text(name)
        console.wait(f"{bars} bars: {name}", lambda: len(console.driver.find_elements("css selector", ".chart tbody tr")) == bars)


def days_west_of_utc(console, proxy, api_url):
    console.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": WESTERN_ZONE})
    console.open("#/account")
    console.find(".chart svg")
    console.find("#range").send_keys("Last 12 months")
    console.says("are UTC days", ".range")
    console.find("#interval").send_keys("Days")
    console.wait("a year of days", lambda: len(console.driver.find_elements("css selector", ".chart tbody tr")) > 300)
    begins = [it.get_attribute("textContent") for it in console.driver.find_elements("css selector", ".chart tbody th")]
    today = datetime.datetime.now(zoneinfo.ZoneInfo(WESTERN_ZONE)).date()
    days = [today - datetime.timedelta(days=back) for back in reversed(range(len(begins)))]
    named = [f"{day:%-d %b}".replace("Sep", "Sept") for day in days]
    wrong = [pair for pair in zip(begins, named, strict=True) if pair[0] != pair[1]]
    check(not wrong, f"{len(wrong)} days have another name, such as {wrong[:1]}")
    console.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


def page_of_the_api(console, proxy, api_url):
    """The page of the API works below a path of its host, and sends its requests there."""
    console.driver.get(f"{proxy.url}/docs")
    console.find(".opblock")
    server = console.driver.execute_script("return document.querySelector('.servers select').value")
    check(server == proxy.url, f"requests go to {server}")
    console.open("#/links")
    console.find("tr[data-id]")


SCENES = (key_in_find, short_link_in_find, other_meaning, narrow_list, refreshed_clicks, answer_after_new_key, list_that_breaks_off, bars_of_ranges, days_west_of_utc, page_of_the_api)
