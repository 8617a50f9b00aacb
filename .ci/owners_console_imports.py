"""Faults while a list of links is created: interruptions, items that can pass, another key, files that are none."""

import json
import os
import pathlib
import tempfile
import threading

from console_browser import OVERLOADED, RUN, call_api, check, problem
from selenium.webdriver.common.keys import Keys

BATCH = "/batch$"
EXPIRED = problem(401, "api_key_expired", "The API key has expired", "Ask for a new one.")


def links_to(api_url, key, host):
    found, cursor = 0, ""
    while cursor is not None:
        page = call_api(api_url, key, "GET", f"/v1/links?destination_host={host}&limit=100{cursor and '&cursor='}{cursor}")
        found, cursor = found + len(page["items"]), page["next_cursor"]
    return found


def paste(console, rows):
    console.open("#/create")
    console.find("#rows")
    console.driver.execute_script("""
        const rows = document.querySelector('#rows');
        rows.value = arguments[0];
        rows.dispatchEvent(new Event('input', {bubbles: true}));
    """, rows)
    console.find(".import form .primary").click()


def preview(console, host, count):
    paste(console, "\n".join(f"https://{host}/{n}" for n in range(count)))
    console.says(f"{count} new links", ".counts")


def reload_in_import(console, proxy, api_url):
    host = f"{RUN}.example.com"
    preview(console, host, 250)
    held = proxy.inject("POST", BATCH, release=threading.Event())
    console.find(".outcome .primary").click()
    console.wait("the first batch", lambda: held.times == 0)
    console.driver.refresh()
    held.release.set()
    console.says("This list was interrupted", ".outcome")
    console.find(".outcome .primary").click()
    console.says("100 links of an earlier run, not charged again", ".counts")
    console.find(".outcome .primary").click()
    console.says("150 links created", ".counts")
    console.says("Result as CSV", ".outcome")
    console.wait("250 links", lambda: links_to(api_url, console.key, host) >= 250)
    check(links_to(api_url, console.key, host) == 250, "an interrupted list has created links twice")


def answer_items(proxy, times, count=2):
    """Answers batches of some items in place of the API: all can pass."""
    items = [{"status": 503, "replayed": False, "problem": OVERLOADED}] * count
    body = json.dumps({"items": items, "credits_charged": 0, "credits_balance": None}).encode()
    proxy.inject("POST", BATCH, times=times, content=(207, [("Content-Type", "application/json")], body))


def items_that_can_pass(console, proxy, api_url):
    host = f"{RUN}-rounds.example.com"
    preview(console, host, 2)
    answer_items(proxy, 2)
    console.find(".outcome .primary").click()
    console.says("sent again under the same keys", ".outcome")
    console.says("2 links created", ".counts")
    console.says("Charged 2 credits", ".outcome")
    check(not console.visible("#banner button"), "the banner stays")


def cost_of_a_dry_run(console, proxy, api_url):
    """The preview shows the credits that the API names, with those of a row that the balance does not cover."""
    broke = problem(402, "insufficient_credits", "Not enough credits", "Ask an operator.", balance=2, required=3)
    items = [{"status": 201, "replayed": False, "link": {}}, {"status": 402, "replayed": False, "problem": broke}]
    body = json.dumps({"items": items, "credits_charged": 3, "credits_balance": 2}).encode()
    proxy.inject("POST", BATCH, content=(200, [("Content-Type", "application/json")], body))
    preview(console, f"{RUN}-cost.example.com", 2)
    console.says("Costs 6 credits. The balance is 5: 1 credit missing.", ".outcome")
    console.wait("a button for the paid link", lambda: console.focused().text == "Create 1 link")


def items_that_do_not_pass(console, proxy, api_url):
    host = f"{RUN}-unknown.example.com"
    preview(console, host, 2)
    answer_items(proxy, 4)
    console.find(".outcome .primary").click()
    console.says("2 with unknown outcome: run again", ".counts")
    console.find(".outcome .primary").click()
    console.says("2 links created", ".counts")


def other_key_in_import(console, proxy, api_url):
    """The key ends in a run, and the next key is of another account."""
    host, other = f"{RUN}-other.example.com", os.environ["API_KEY"]
    preview(console, host, 250)
    held = proxy.inject("POST", BATCH, release=threading.Event())
    proxy.inject("POST", BATCH, problem=EXPIRED)
    console.find(".outcome .primary").click()
    console.wait("the first batch", lambda: held.times == 0)
    held.release.set()
    console.give_key(other)
    console.says("The API key was replaced during this run", ".outcome")
    console.says("100 rows of 250 were answered", ".outcome")
    check(links_to(api_url, other, host) == 0, "the run goes on under another account")
    console.find("#sign-out").click()
    console.give_key()
    console.find("#rows")


def files_that_are_none(console, proxy, api_url):
    console.open("#/create")
    with tempfile.TemporaryDirectory() as folder:
        for name, content, words in (
            ("latin.csv", "https://example.com/straße".encode("latin-1"), "latin.csv is no text in UTF-8"),
            ("long.csv", b"https://example.com/\n" * 10_001, "These are 10,001 rows; the console takes 10,000."),
        ):
            file = pathlib.Path(folder, name)
            file.write_bytes(content)
            console.find("#file").send_keys(str(file))
            console.says(words, ".outcome")


def texts_that_are_no_list(console, proxy, api_url):
    for text, words in (
        (f"destination_url,tag\nhttps://{RUN}-tag.example.com/,spring\n", "There is no column “tag”. Is it tags?"),
        ("destination_url" + ";" * 1_000, "The header has more than 1,000 columns."),
        ("https://example.com/menu;menu\nhttps://example.com/map;map\n", "Write as the first line: destination_url;slug"),
    ):
        console.open("#/create")
        console.find("#rows").clear()
        console.find("#rows").send_keys(text)
        console.find(".import form .primary").click()
        console.says(words, ".import")


def changes_old_to_new(console, proxy, api_url):
    console.open("#/create")
    console.find("#rows").clear()
    console.find("#rows").send_keys(f"destination_url;slug;tags;old_address;\n;;;\n{RUN}-fit.example.com;{RUN}-fit;VIP;https://sho.rt/2023/fit;menu\nexample.com;a/b;;\n")
    console.find(".import form .primary").click()
    console.says("1 new link", ".counts")
    console.says("tag “VIP” became “vip”", ".import")
    console.says(f"became “https://{RUN}-fit.example.com”", ".import")
    console.says(f"old address “https://sho.rt/2023/fit” became “{RUN}-fit”", ".import")
    console.says("column 5 (no name) “menu”", ".import")
    console.says("1 row refused", ".counts")


def slug_of_a_refused_row(console, proxy, api_url):
    """Of rows with one slug, the first one that is not refused gets it, also if the others are in other batches."""
    host, slug = f"{RUN}-repeat.example.com", f"{RUN}-sale"
    between = [f"https://{host}/{n},," for n in range(100)]
    paste(console, "\n".join([
        "destination_url,short_url,expires_at",
        f"https://{host}/old,https://a.example/{slug.upper()},2020-01-01",
        f"https://{host}/new,https://b.example/{slug},",
        *between,
        f"https://{host}/later,https://c.example/{slug.upper()},",
    ]))
    console.says("101 new links · 2 rows refused", ".counts")
    console.find(".outcome .primary").click()
    console.says("101 links created · 2 refused", ".counts")
    console.says(f"Line 3 has the slug already: “https://b.example/{slug}” and", ".import")
    path = f"/v1/links?slug_prefix={slug}"
    found = console.wait("the link", lambda: [link["destination_url"] for link in call_api(api_url, console.key, "GET", path)["items"]])
    check(found == [f"https://{host}/new"], f"the slug is of {found}")


def slug_of_an_unknown_row(console, proxy, api_url):
    """A row whose outcome is unknown perhaps has its slug: no later row takes it."""
    host, slug = f"{RUN}-held.example.com", f"{RUN}-held"
    between = [f"https://{host}/{n}," for n in range(99)]
    paste(console, "\n".join(["destination_url,slug", f"https://{host}/first,{slug.upper()}", *between, f"https://{host}/second,{slug}"]))
    console.says("100 new links · 1 row refused", ".counts")
    answer_items(proxy, 4, 100)
    console.find(".outcome .primary").click()
    console.says("101 with unknown outcome: run again", ".counts")
    console.find(".outcome .primary").click()
    console.says("100 links created · 1 refused", ".counts")
    path = f"/v1/links?slug_prefix={slug}"
    found = console.wait("the link", lambda: [link["destination_url"] for link in call_api(api_url, console.key, "GET", path)["items"]])
    check(found == [f"https://{host}/first"], f"the slug is of {found}")


def own_csv(console, proxy, api_url):
    """The apostrophe before what looks like a formula is not part of the value."""
    console.open("#/create")
    console.find("#rows").clear()
    console.find("#rows").send_keys(f"destination_url,title\nhttps://{RUN}-csv.example.com/,'-20 % in spring\n")
    console.find(".import form .primary").click()
    console.says("1 new link", ".counts")
    console.find(".outcome .primary").click()
    console.says("1 link created", ".counts")
    path = f"/v1/links?destination_host={RUN}-csv.example.com"
    titles = console.wait("the link", lambda: [link["title"] for link in call_api(api_url, console.key, "GET", path)["items"]])
    check(titles == ["-20 % in spring"], f"other titles: {titles}")


def select_created(console, proxy, api_url):
    """The links of a list are selected when the list is done, and get their tags together."""
    preview(console, f"{RUN}-select.example.com", 3)
    console.find(".outcome .primary").click()
    console.says("3 links created", ".counts")
    console.find(".outcome .primary").click()
    console.says("3 links selected", ".selection")
    console.find(".selection button").click()
    console.find("#action-text").send_keys("exclamation!" + Keys.ENTER)
    check(console.visible("dialog[open]"), "tags that no link can have are sent")
    console.find("#action-text").clear()
    console.find("#action-text").send_keys(f"{RUN}-Made, {RUN}-made" + Keys.ENTER)
    console.says("3 links tagged", ".selection")
    console.wait("three links with the tag", lambda: len(console.visible(f"a.tag[href$='tag={RUN}-made']")) == 3)


SCENES = (reload_in_import, items_that_can_pass, cost_of_a_dry_run, items_that_do_not_pass, other_key_in_import, files_that_are_none, texts_that_are_no_list, changes_old_to_new, slug_of_a_refused_row, slug_of_an_unknown_row, own_csv, select_created)
