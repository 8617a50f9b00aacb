"""Opens /docs as a person does, creates a link with a pasted key, and leaves a screenshot.

usage: docs_page.py SCREENSHOT, with API_URL and API_KEY in the environment
"""

import json
import os
import sys
import tempfile
import urllib.request
import uuid

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

API_URL = os.environ["API_URL"]
API_KEY = os.environ["API_KEY"]
DEADLINE_S = 30
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1200,2400",
]


def operations():
    with urllib.request.urlopen(f"{API_URL}/openapi.json") as answer:
        paths = json.load(answer)["paths"]
    methods = ("get", "post", "patch", "delete")
    return {(method.upper(), path) for path, item in paths.items() for method in methods if method in item}


def browser(profile):
    options = webdriver.ChromeOptions()
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    # Named, so that Selenium looks for no other driver.
    return webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))


class Page:
    def __init__(self, driver):
        self.driver = driver
        driver.get(f"{API_URL}/docs")

    def wait(self, css):
        """The first of these elements that can be seen."""
        def seen(driver):
            return next((e for e in driver.find_elements(By.CSS_SELECTOR, css) if e.is_displayed()), None)
        try:
            return WebDriverWait(self.driver, DEADLINE_S).until(seen)
        except TimeoutException:
            sys.exit(f"/docs: nothing to be seen at {css}; the browser says: {complaints(self.driver)}")

    def click(self, css):
        element = self.wait(css)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def shown(self):
        def of(block, css):
            return block.find_element(By.CSS_SELECTOR, css).text.replace("\u200b", "")
        blocks = self.driver.find_elements(By.CSS_SELECTOR, ".opblock")
        return {(of(b, ".opblock-summary-method"), of(b, ".opblock-summary-path")) for b in blocks}

    def authorize(self):
        self.click(".auth-wrapper .btn.authorize")
        self.wait(".auth-container input").send_keys(API_KEY)
        self.click(".auth-container button[type=submit]")
        self.click(".auth-container .btn-done")

    def create_link(self):
        block = "#operations-links-create_link"
        self.click(f"{block} .opblock-summary-control")
        self.click(f"{block} .try-out__btn")
        self.wait(f"{block} tr[data-param-name=Idempotency-Key] input").send_keys(str(uuid.uuid4()))
        self.click(f"{block} .execute")
        return self.wait(f"{block} .live-responses-table .response .response-col_status").text


def requested(driver):
    messages = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def complaints(driver):
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def check(is_true, complaint):
    if not is_true:
        sys.exit(f"/docs: {complaint}")


def main(screenshot):
    with tempfile.TemporaryDirectory() as profile, browser(profile) as driver:
        page = Page(driver)
        page.wait(".opblock")
        check("linkledger" in driver.title, f"the title is {driver.title!r}")
        expected = operations()
        check(page.shown() == expected, f"shows {page.shown()} in place of {expected}")
        page.authorize()
        status = page.create_link()
        driver.save_screenshot(screenshot)
        check(status.startswith("201"), f"creating a link with the pasted key was answered {status}")
        urls = requested(driver)
        check(f"{API_URL}/v1/links" in urls, "the link was not created through the API")
        # The browser's own new tab was there before the page.
        elsewhere = [url for url in urls if not url.startswith((f"{API_URL}/", "data:", "chrome://"))]
        check(not elsewhere, f"asks others: {elsewhere}")
        errors = complaints(driver)
        ours = sum(url.startswith(API_URL) for url in urls)
        check(not errors, f"the browser complains: {errors}")
        print(f"{len(expected)} operations, {ours} requests, all to {API_URL}; {screenshot}")


main(sys.argv[1])
