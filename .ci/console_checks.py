"""Checks of a page of a console: findings of axe-core and of the computed layout, screenshots, and where the key is."""

from chromium import elsewhere, emulate, requested, save_screenshot
from console_browser import check
from page_faults import FAULTS

SCHEMES = ("light", "dark")
# Sum of a page that Core Web Vitals call good is 0.1.
SHIFT_MAX = 0.02
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def axe_faults(driver, axe):
    # The script of axe-core is none of the page's own.
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    return driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        axe.run(document, {runOnly: arguments[0]}).then(
          ({violations}) => done(violations.map(({id, nodes}) => `${id}: ${nodes[0].html.slice(0, 160)}`)),
          (error) => done([String(error)]));
    """, AXE_TAGS)


def check_faults(console, axe, what):
    faults = [*console.driver.execute_script(FAULTS), *axe_faults(console.driver, axe)]
    check(not faults, f"{what}: {faults}")


def look_at(console, axe, name, page, widths):
    """Opens a page at each width in each scheme; `page` is its address, and the elements that it is complete with."""
    address, complete = page
    for width in widths:
        for scheme in SCHEMES:
            emulate(console.driver, width, scheme)
            console.open(address)
            for css in complete:
                console.find(css)
            what = f"{address} at {width} px, {scheme}"
            check_faults(console, axe, what)
            shift, shifted, violations = console.driver.execute_script("return [window.pageShift, window.shifted, window.violations]")
            check(shift <= SHIFT_MAX, f"{what}: the layout shifts by {shift:.3f}: {shifted}")
            check(not violations, f"{what}: the content security policy refuses {violations}")
            save_screenshot(console.driver, console.folder / f"{name}-{width}-{scheme}.png")


def check_no_markup(console):
    marks = console.driver.execute_script("return [window.pwned, document.querySelectorAll('img[onerror], a[href^=javascript]').length]")
    check(marks == [None, 0], f"data became markup: {marks}")


def check_secrecy(console, proxy):
    """Looks for the key where it must not be."""
    stored = console.driver.execute_script("return [document.cookie, JSON.stringify(localStorage), location.href, JSON.stringify(sessionStorage)]")
    check(stored[:2] == ["", "{}"], f"the console keeps {stored[:2]}")
    check(console.key not in stored[2] and stored[3].count(console.key) == 1, "the key is in an address, or kept twice")
    check(not any(console.key in path for _, path, _ in proxy.requests), "the key is in an address")
    check_requests(console, proxy)


def check_requests(console, proxy):
    """Checks the requests since the last call."""
    others = [url for url in elsewhere(requested(console.driver), proxy.origin) if not url.startswith(("blob:", "about:"))]
    check(not others, f"sends requests to other hosts: {others}")
