"""Opens every page of the operators' console in a browser, checks the page, and saves a screenshot: wide and
narrow, light and dark.

usage: console_pages.py FOLDER DATA_FOLDER, from the root of the repository, with the variables of the
stack's `env`; FOLDER is for the screenshots, DATA_FOLDER is the data folder of the stack
"""

import os
import pathlib
import re
import sys
import tempfile

import console_scene
from chromium import browser, complaints, elsewhere, emulate, requested, save_screenshot
from page_faults import FAULTS
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CONSOLE_URL = os.environ["CONSOLE_URL"]
WIDTHS = (1280, 400)
SCHEMES = ("light", "dark")
DEADLINE_S = 30


def pages(link, account):
    """Returns by name of the screenshot: address, expected texts, and HTTP status."""
    zeros = ".".join(["0"] * 16)
    return {
        "overview": ("/", ["Waiting for an operator", "kim@ops-1", "loading", "2 of 3,141 buckets differ"], 200),
        "events": ("/events", ["AccountPainted", "LinkCreated", "Older →"], 200),
        "events-of-account": (f"/events?account={account}", ["CreditsGranted", "AccountPainted"], 200),
        "events-of-type": ("/events?type=LinkDeleted", ["LinkDeleted", "events were read"], 200),
        "no-events": (f"/events?type=LinkPainted&before={zeros}", ["There is no such event"], 200),
        "account": (f"/accounts/{account}", ["<b>Acme</b> & Söhne", "Parked", "invoice 7", "1,000 credits"], 200),
        "link": (f"/links/{link}", ["Spring-Sale", "✓ the same", "phishing, ticket 481"], 200),
        "bad-id": ("/links/lnk_<script>alert(1)", ["That is no id"], 400),
        "bad-filter": ("/events?account=acme", ["acc_ and 26"], 400),
        "not-found": ("/find?q=no-such-slug", ["No link has the slug no-such-slug"], 404),
        "no-page": ("/nowhere", ["There is no such page"], 404),
    }


def check(is_true, complaint):
    if not is_true:
        sys.exit(f"console: {complaint}")


def text_of(driver):
    return driver.find_element(By.TAG_NAME, "body").text


def look_at(driver, folder, name, page):
    address, texts, status = page
    for width in WIDTHS:
        for scheme in SCHEMES:
            emulate(driver, width, scheme)
            driver.get(CONSOLE_URL + address)
            what = f"{address} at {width} px, {scheme}"
            faults = driver.execute_script(FAULTS)
            check(not faults, f"{what}: {faults}")
            shown = text_of(driver)
            for text in texts:
                check(text in shown, f"{what} lacks {text!r}: {shown[:2000]}")
            save_screenshot(driver, folder / f"{name}-{width}-{scheme}.png")
    errors = [error for error in complaints(driver) if f"the server responded with a status of {status}" not in error]
    check(not errors, f"{address}: errors of the browser: {errors}")


def wait(driver, what, condition):
    # The page replaces its elements while it is read.
    waiting = WebDriverWait(driver, DEADLINE_S, ignored_exceptions=[StaleElementReferenceException])
    return waiting.until(condition, f"console: timeout after {DEADLINE_S} s: {what}")


def watch(driver):
    """Checks that the overview updates itself, can be paused, and works without a script."""
    def events(driver):
        return re.search(r"log epoch \d+, ([\d,]+) events", text_of(driver))[1]

    emulate(driver, 1280, "light")
    driver.get(f"{CONSOLE_URL}/")
    before = wait(driver, "the number of events", events)
    console_scene.call("POST", "/v1/links", {"destination_url": "https://example.com/"})
    wait(driver, "a new link is counted", lambda driver: events(driver) != before)
    button = driver.find_element(By.CSS_SELECTOR, "#live-state button")
    button.click()
    check(button.text == "Go on" and "paused" in text_of(driver), "the updates can't be paused")
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    driver.get(f"{CONSOLE_URL}/")
    # Selenium itself needs scripts to read the page.
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    check("Reload for newer figures" in text_of(driver), "without a script the page does not say how to reload")


def use(driver, link):
    """Finds a link by keyboard, and checks its destination."""
    emulate(driver, 1280, "light")
    driver.get(f"{CONSOLE_URL}/events")
    field = driver.find_element(By.ID, "find")
    field.send_keys("spring-sale")
    outline = driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    check(outline != "none", "the focus can't be seen")
    field.submit()
    wait(driver, "the page of the link", lambda driver: driver.current_url == f"{CONSOLE_URL}/links/{link}")
    check("https://example.com/sale/2?ref=newsletter" in text_of(driver), "the link points elsewhere")


def main(folder, data_folder):
    link, account = console_scene.set_up(data_folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = pages(link, account)
    with tempfile.TemporaryDirectory() as profile, browser(profile) as driver:
        for name, page in found.items():
            look_at(driver, folder, name, page)
        watch(driver)
        use(driver, link)
        urls = requested(driver)
        others = elsewhere(urls, CONSOLE_URL)
        check(not others, f"sends requests to other hosts: {others}")
        errors = complaints(driver)
        check(not errors, f"errors of the browser: {errors}")
    console_scene.clean_up()
    shots = len(found) * len(WIDTHS) * len(SCHEMES)
    print(f"{len(found)} pages, {len(urls)} requests, all to {CONSOLE_URL}; {shots} screenshots in {folder}")


main(pathlib.Path(sys.argv[1]), sys.argv[2])
