"""Uses the console for owners of links in a browser, through a proxy that injects faults.

usage: owners_console.py FOLDER AXE KEY_FILE [DOCS], from the root of the repository, with the variables of the
stack's `env`; FOLDER is for the screenshots, AXE the script of axe-core, KEY_FILE the key of the made-up account;
DOCS is the folder for the screenshots of docs/console.md, if they are to be made again
"""

import base64
import contextlib
import datetime
import os
import pathlib
import sys
import tempfile

from chromium import browser, complaints, emulate
from console_browser import MARKUP, RIGHT_TO_LEFT, Console, call_api, check
from console_checks import SCHEMES, check_faults, check_no_markup, check_secrecy, look_at
from console_webhooks import HEBREW, webhook_pages, webhooks_to_look_at
from fault_proxy import PREFIX, FaultProxy
from owners_console_day import spend_a_day
from owners_console_faults import caller, inject_all

API_URL = os.environ["API_URL"]
WIDTHS = (400, 768, 1280, 2560)
FIRST_LOAD_BYTES_MAX = 31_800
HOSTILE = [
    "https://example.com/?q=<script>window.pwned=1</script>",
    "https://example.com/?q=\"><img src=x onerror=window.pwned=1>",
    "https://example.com/#'-window.pwned=1-'",
    "https://example.com/?q=javascript:window.pwned=1",
    "https://example.com/" + "very-long-" * 150,
]
TITLES = ["Spring sale, poster", "Spring sale, letter", "Opening hours", "Menu", "Jobs: kitchen", "Jobs: service", "Map", "Terms of the voucher"]
TAGS = [["poster", "spring"], ["letter", "spring"], ["shop"], ["shop"], ["jobs"], ["jobs"], ["shop"], ["legal", "voucher"]]
ROWS = "<img src=x onerror=window.pwned=1>\n\"><script>window.pwned=1</script>\njavascript:window.pwned=1"
IMAGE_FORMAT = {"format": "webp", "quality": 55}


def pages(disabled, link, webhook):
    """Returns by name: address, and the elements that the page is complete with."""
    clicks = [".chart svg", ".totals .until", ".top-list:last-child ol.top"]
    return {
        "links": ("#/links", ["tr[data-id]", ".pager button"]),
        "nothing-found": ("#/links?slug_prefix=no-such-slug", [".empty"]),
        "create": ("#/create", [".price", "#rows"]),
        "link": (f"#/links/{link}", [".facts", ".qr img[src^=blob]", ".history tbody tr", *clicks]),
        "disabled-link": (f"#/links/{disabled}", [".state", ".facts", *clicks]),
        "account": ("#/account", [".credits .totals > div:nth-child(4)", ".ledger tbody tr", *clicks]),
        **webhook_pages(webhook),
        "no-page": ("#/nowhere", ["h1"]),
        "no-link": ("#/links/lnk_00000000000000000000000000", [".problem"]),
    }


def first_load(console, axe, proxy):
    """Opens the console in a new browser, on links with tags and states; returns the bytes of its files with their
    headers."""
    emulate(console.driver, 1280, "light")
    console.open()
    console.find("#api-key")
    check_faults(console, axe, "the dialog that asks for a key")
    console.give_key()
    for css in ("tr[data-id]", ".links .tag", ".links .badge"):
        console.find(css)
    loaded = [(path, size) for _, path, size in proxy.requests if path.startswith(f"{PREFIX}/console/")]
    size = sum(size for _, size in loaded)
    check(size <= FIRST_LOAD_BYTES_MAX, f"the first load takes {size} bytes: {loaded}")
    return len(loaded), size


def try_scripts(console, axe, webhook):
    """Shows hostile data on all pages."""
    links = [call_api(API_URL, console.key, "POST", "/v1/links", {"destination_url": url, "title": url[:200], "expires_at": "2099-01-01T00:00:00Z", "expired_url": url}) for url in HOSTILE]
    for place in ("#/links", *(f"#/links/{link['id']}" for link in links)):
        console.open(place)
        console.says("example.com", "main")
    for place, complete, text in (("#/webhooks", "tr[data-id]", HEBREW), (f"#/webhooks/{webhook}", "#deliveries tbody tr", RIGHT_TO_LEFT)):
        console.open(place)
        console.find(complete)
        shown = console.driver.execute_script("return document.querySelector('main').textContent")
        check(MARKUP in shown and text in shown, f"{place} lacks hostile texts")
        check_no_markup(console)
    console.open("#/create")
    console.find("#rows")
    console.driver.execute_script("document.querySelector('#rows').value = arguments[0]", ROWS)
    console.find(".import form .primary").click()
    console.says("3 rows refused", ".counts")
    check_faults(console, axe, "the preview")
    check_no_markup(console)
    for link in links:
        call_api(API_URL, console.key, "DELETE", f"/v1/links/{link['id']}")


def picture(console, place, complete, path, height):
    emulate(console.driver, 1100, "light")
    console.open(place)
    for css in complete:
        console.find(css)
    clip = {"x": 0, "y": 0, "width": 1100, "height": height, "scale": 1}
    shot = console.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip, **IMAGE_FORMAT})
    path.write_bytes(base64.b64decode(shot["data"]))


def illustrate(console, folder, found):
    """Makes the screenshots of docs/console.md."""
    picture(console, *found["links"], folder / "console-links.webp", 820)
    picture(console, *found["link"], folder / "console-link.webp", 1580)
    picture(console, *found["create"], folder / "console-create.webp", 760)


def soon():
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%SZ")


def name_links(key):
    """Gives the links of the screenshots titles, tags and states; returns a disabled link and the most clicked one."""
    newest = call_api(API_URL, key, "GET", "/v1/links?limit=8")["items"]
    for link, title, tags in zip(newest, TITLES, TAGS, strict=True):
        call_api(API_URL, key, "PATCH", f"/v1/links/{link['id']}", {"title": title, "tags": tags})
    call_api(API_URL, key, "PATCH", f"/v1/links/{newest[3]['id']}", {"disabled": True})
    call_api(API_URL, key, "PATCH", f"/v1/links/{newest[5]['id']}", {"expires_at": soon()})
    most_clicked = call_api(API_URL, key, "GET", "/v1/clicks/top-links?limit=1")["items"][0]["link_id"]
    call_api(API_URL, key, "PATCH", f"/v1/links/{most_clicked}", {"title": "Spring sale", "tags": ["newsletter", "spring"]})
    return newest[3]["id"], most_clicked


def create_link(key):
    call_api(API_URL, key, "POST", "/v1/links", {"destination_url": "https://example.com/webhooks"})


def main(folder, axe_file, key_file, docs=None):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    key, axe = pathlib.Path(key_file).read_text().strip(), pathlib.Path(axe_file).read_text()
    proxy = FaultProxy(API_URL)
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as profile, browser(profile) as driver:
        console = Console(driver, f"{proxy.url}/console/", key, folder)
        named = []
        webhook = stack.enter_context(webhooks_to_look_at(caller(API_URL, key), lambda: named.extend(name_links(key))))
        found = pages(*named, webhook)
        files, size = first_load(console, axe, proxy)
        for name, page in found.items():
            look_at(console, axe, name, page, WIDTHS)
        if docs:
            illustrate(console, pathlib.Path(docs), found)
        emulate(driver, 1280, "light")
        console.find("#sign-out").click()
        spend_a_day(console, lambda: create_link(key))
        try_scripts(console, axe, webhook)
        # From here on the browser rightly complains about failed requests.
        errors = [error for error in complaints(driver) if "status of 404" not in error]
        check(not errors, f"errors of the browser: {errors}")
        faults = inject_all(console, proxy, API_URL)
        check_secrecy(console, proxy)
    print(f"{len(found)} pages, {len(found) * len(WIDTHS) * len(SCHEMES)} screenshots in {folder}; first load: {files} files, {size} bytes; {faults} faults")


main(*sys.argv[1:])
