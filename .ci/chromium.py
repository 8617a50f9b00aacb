"""A headless Chromium, and what it has asked for and complained of."""

import json

from selenium import webdriver

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1200,2400",
]


def browser(profile):
    options = webdriver.ChromeOptions()
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    # Named, so that Selenium looks for no other driver.
    return webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))


def requested(driver):
    """The addresses that were asked for since it was looked at last."""
    messages = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def elsewhere(urls, own):
    """Those that are not ours; the browser's own new tab was there before the page."""
    return [url for url in urls if not url.startswith((f"{own}/", "data:", "chrome://"))]


def complaints(driver):
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
