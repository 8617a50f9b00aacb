"""Measures the console for owners of links in headless Chromium: the times until a page of the list is shown.

usage: console_load.py URL KEY ROUNDS, with .ci in PYTHONPATH; prints a table of medians and maxima in milliseconds,
without and with a processor that is four times slower
"""

import statistics
import sys
import tempfile

from chromium import browser, emulate
from selenium.webdriver.support.ui import WebDriverWait

DEADLINE_S = 30
SLOWDOWNS = (1, 4)
# Records in the page: the time at which rows of another first link are there, long tasks, the longest frame.
OBSERVE = """
window.rowsAt = [];
window.longTasks = [];
window.lcp = 0;
new PerformanceObserver((list) => { window.longTasks.push(...list.getEntries().map(({duration}) => duration)); })
  .observe({type: 'longtask', buffered: true});
new PerformanceObserver((list) => { window.lcp = list.getEntries().at(-1).startTime; })
  .observe({type: 'largest-contentful-paint', buffered: true});
// The second frame begins after the first one with the rows is painted.
const painted = () => requestAnimationFrame(() => requestAnimationFrame(() => window.rowsAt.push(performance.now())));
new MutationObserver((changes) => {
  if (changes.some(({addedNodes}) => [...addedNodes].some((node) => node.dataset?.id && node.matches('tr:first-child')))) painted();
}).observe(document, {childList: true, subtree: true});
"""
SCROLL = """
const done = arguments[arguments.length - 1];
let last = performance.now(), longest = 0, frames = 0;
const step = (now) => {
  longest = Math.max(longest, now - last);
  last = now;
  window.scrollBy(0, 60);
  if (++frames < 120) requestAnimationFrame(step);
  else done(longest);
};
requestAnimationFrame((now) => { last = now; requestAnimationFrame(step); });
"""
FILTERS = ("tag=print", "state=expired", "slug_prefix=abc", "destination_host=www.example.com", "external_id=offer%2F500000")


class List:
    """The list in a browser that has the key, but no file in its cache."""

    def __init__(self, driver, url, key):
        self.driver, self.url = driver, f"{url}/console/"
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": OBSERVE})
        driver.get(self.url)
        dialog = self.wait(lambda: driver.find_elements("id", "api-key"))[0]
        dialog.send_keys(key, "\ue007")
        self.wait_for_rows(1)

    def wait(self, condition):
        return WebDriverWait(self.driver, DEADLINE_S, poll_frequency=0.02).until(lambda _: condition())

    def wait_for_rows(self, number):
        """Returns the time at which rows are shown for the nth time, since the begin of the page."""
        return self.wait(lambda: self.driver.execute_script("return window.rowsAt[arguments[0] - 1]", number))

    def load(self):
        """Loads the page without a cache."""
        self.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}#/links")
        rows = self.wait_for_rows(1)
        paint, lcp, blocked = self.driver.execute_script("""
            return [performance.getEntriesByName('first-contentful-paint')[0].startTime, window.lcp,
                    window.longTasks.reduce((sum, it) => sum + Math.max(it - 50, 0), 0)];
        """)
        return {"first contentful paint": paint, "largest contentful paint": lcp, "first page of the list usable": rows, "total blocking time": blocked}

    def act(self, script):
        """Returns the time from an action until other rows are shown."""
        number = self.driver.execute_script("return window.rowsAt.length") + 1
        begin = self.driver.execute_script(f"const begin = performance.now(); {script}; return begin")
        return self.wait_for_rows(number) - begin

    def measure(self):
        figures = self.load()
        figures["next page"] = self.act("[...document.querySelectorAll('.pager button')].find((it) => it.textContent.startsWith('Next')).click()")
        figures["longest frame of a scroll"] = self.driver.execute_async_script(SCROLL)
        for query in FILTERS:
            figures[f"filter {query}"] = self.act(f"location.hash = '#/links?{query}'")
        return figures


def main(url, key, rounds):
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            emulate(driver, 1280, "light")
            links = List(driver, url, key)
            measured = {slowdown: [] for slowdown in SLOWDOWNS}
            for _ in range(int(rounds)):
                for slowdown, figures in measured.items():
                    driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": slowdown})
                    figures.append(links.measure())
            driver.get(f"{links.url}#/links?tag=print")
            links.wait_for_rows(1)
            driver.save_screenshot("target/console_load.png")
        finally:
            driver.quit()
    print(f"| ms, median (longest) of {rounds} | as it is | processor 4 times slower |\n|---|---|---|")
    for name in measured[1][0]:
        columns = [[figures[name] for figures in measured[slowdown]] for slowdown in SLOWDOWNS]
        print(f"| {name} | " + " | ".join(f"{statistics.median(it):.0f} ({max(it):.0f})" for it in columns) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
