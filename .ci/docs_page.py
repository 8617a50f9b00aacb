"""Opens /docs in a browser, creates a link with a pasted API key, and saves a screenshot.

usage: docs_page.py SCREENSHOT, with API_URL and API_KEY in the environment
"""

import json
import os
import sys
import tempfile
import urllib.request
import uuid

from chromium import browser, complaints, elsewhere, requested
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

API_URL = os.environ["API_URL"]
API_KEY = os.environ["API_KEY"]
DEADLINE_S = 30


def operations():
    with urllib.request.urlopen(f"{API_URL}/openapi.json") as answer:
        paths = json.load(answer)["paths"]
    methods = ("get", "post", "patch", "delete")
    return {(method.upper(), path) for path, item in paths.items() for method in methods if method in item}


class Page:
    def __init__(self, driver):
        self.driver = driver
        driver.get(f"{API_URL}/docs")

    def wait(self, css):
        """Waits for a visible element, and returns the first one."""
        def seen(driver):
            return next((e for e in driver.find_elements(By.CSS_SELECTOR, css) if e.is_displayed()), None)
        try:
            return WebDriverWait(self.driver, DEADLINE_S).until(seen)
        except TimeoutException:
            sys.exit(f"/docs: no visible element {css}; errors of the browser: {complaints(self.driver)}")

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


def check(is_true, complaint):
    if not is_true:
        sys.exit(f"/docs: {complaint}")


def main(screenshot):
    with tempfile.TemporaryDirectory() as profile, browser(profile) as driver:
        page = Page(driver)
        page.wait(".opblock")
        check("linkledger" in driver.title, f"the title is {driver.title!r}")
        expected = operations()
        check(page.shown() == expected, f"shows the operations {page.shown()} instead of {expected}")
        page.authorize()
        status = page.create_link()
        driver.save_screenshot(screenshot)
        check(status.startswith("201"), f"creating a link with the pasted key was answered {status}")
        urls = requested(driver)
        check(f"{API_URL}/v1/links" in urls, "the link was not created through the API")
        others = elsewhere(urls, API_URL)
        check(not others, f"sends requests to other hosts: {others}")
        errors = complaints(driver)
        ours = sum(url.startswith(API_URL) for url in urls)
        check(not errors, f"errors of the browser: {errors}")
        print(f"{len(expected)} operations, {ours} requests, all to {API_URL}; {screenshot}")


main(sys.argv[1])
