"""A headless Chromium: window, screenshots, requests and error messages."""

import base64
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
    # With an explicit driver, Selenium does not download one.
    return webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))


def requested(driver):
    """Returns the addresses that were requested since the last call."""
    messages = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def elsewhere(urls, own):
    """Returns the addresses of other hosts. The browser's own new tab, which precedes the page, does not count."""
    return [url for url in urls if not url.startswith((f"{own}/", "data:", "chrome://"))]


def complaints(driver):
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def emulate(driver, width, scheme):
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def save_screenshot(driver, path):
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
    path.write_bytes(base64.b64decode(shot["data"]))
