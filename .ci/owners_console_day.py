"""A day of an owner of links by keyboard alone: create, preview, find, change, read clicks, delete, use webhooks."""

from console_browser import RUN, check
from console_webhooks import use_webhooks
from selenium.webdriver.common.keys import Keys

ROWS = [*(f"https://example.com/keyboard/{n}" for n in range(8)), f"https://example.com/keyboard/8 {RUN}-day", "ftp://example.com/", f"https://example.com/keyboard/9 {RUN.upper()}-Day"]


def create_one(console):
    console.tab_to("#pages a[href='#/create']").send_keys(Keys.ENTER)
    console.find("#new-destination_url")
    console.tab_to("#new-destination_url")
    console.press("https://example.com/by-hand", Keys.TAB, f"by-hand-{RUN}", Keys.TAB, "Made by hand", Keys.TAB, f"{RUN}-b, {RUN}-a", Keys.ENTER)
    console.says("Charged 1 credit", ".created")


def create_many(console):
    console.tab_to("#rows")
    for row in ROWS:
        console.press(row, Keys.ENTER)
    console.tab_to("#list-name")
    console.press(RUN, Keys.ENTER)
    console.says("9 new links · 2 rows refused", ".counts")
    console.says("Costs 9 credits", ".outcome")
    console.says("ftp://example.com/", ".import table")
    console.wait("the focus is not on the button that creates", lambda: console.focused().text == "Create 9 links")
    console.press(Keys.ENTER)
    console.says("9 links created · 2 refused", ".counts")
    console.says("Charged 9 credits", ".outcome")
    check(len(console.visible(".import table a[href^='#/links/lnk_']")) == 9, "the new links are not shown")


def find_and_change(console):
    console.tab_to("#pages a[href='#/links']", is_back=True).send_keys(Keys.ENTER)
    console.find("tr[data-id]")
    console.wait("the title", lambda: any("Made by hand" in it.text for it in console.visible(".link-title")))
    console.tab_to(f"a.tag[href$='tag={RUN}-a']").send_keys(Keys.ENTER)
    console.wait("the tag finds one link", lambda: len(console.visible("tr[data-id]")) == 1)
    check(not suggested(console, "#find-tags"), "tags are read before they are needed")
    console.tab_to("#find", is_back=True)
    console.wait("the tags are suggested", lambda: f"{RUN}-b" in suggested(console, "#find-tags"))
    console.press(Keys.END, f", {RUN}-b", Keys.ENTER)
    console.wait("the address has two tags", lambda: f"tag={RUN}-a%2C{RUN}-b" in console.driver.current_url)
    console.wait("two tags find one link", lambda: len(console.visible("tr[data-id]")) == 1)
    console.press_with(Keys.CONTROL, "a")
    console.press(f"{RUN}-d", Keys.ENTER)
    console.wait("the filter finds one link", lambda: len(console.visible("tr[data-id]")) == 1)
    console.tab_to("tr[data-id] a.slug").send_keys(Keys.ENTER)
    console.says(f"{RUN}-day", "h1")
    console.find("#edit-destination_url")
    console.tab_to("#edit-destination_url")
    console.press_with(Keys.CONTROL, "a")
    console.press("https://example.com/changed", Keys.ENTER)
    console.says("https://example.com/changed", ".facts")
    console.says("Saved.", ".edit .outcome")
    check(console.focused().get_attribute("id") == "edit-destination_url", "saving loses the focus")
    console.says("Destination: https://example.com/keyboard/8 → https://example.com/changed", ".history")


def read_clicks(console):
    console.find(".chart svg")
    console.tab_to(".parts button:nth-child(3)", is_back=True).send_keys(Keys.ENTER)
    check(console.focused().text == "Clicks", "the way to the clicks leads elsewhere")
    console.tab_to(".chart svg")
    console.press(Keys.ARROW_LEFT)
    console.says("0 clicks by people, 0 by bots", ".readout")


def disable_one(console):
    console.tab_to(".service button", is_back=True).send_keys(Keys.ENTER)
    console.says("Visitors get “gone” (410) until the link is enabled again.", ".state")
    console.wait("the focus is not on the button that enables", lambda: console.focused().text == "Enable link")
    console.says("Disabled: no → yes", ".history")
    console.press(Keys.ENTER)
    console.wait("the link is in service again", lambda: not console.visible(".state"))
    console.wait("the focus is not on the button that disables", lambda: console.focused().text == "Disable link")


def delete_one(console):
    console.tab_to(".deletion button").send_keys(Keys.ENTER)
    console.wait("the safe button has no focus", lambda: console.focused().text == "Keep it")
    console.tab_to(".deletion .danger").send_keys(Keys.ENTER)
    console.says("Links", "h1")


def act_on_selected(console, position, outcome):
    """Runs the action at the position of the bar; the bar has the focus afterwards."""
    console.tab_to(f".selection button:nth-of-type({position})").send_keys(Keys.ENTER)
    console.tab_to("dialog[open] .primary").send_keys(Keys.ENTER)
    console.says(outcome, ".selection")
    console.wait("the focus is not in the bar", lambda: console.focused().text == "Outcomes as CSV")
    console.press(Keys.TAB, Keys.ENTER)
    console.wait("the focus is not in the bar of actions", lambda: console.focused().text == "Add tags")


def suggested(console, css):
    return [option.get_attribute("value") for option in console.driver.find_elements("css selector", f"{css} option")]


def change_selected(console):
    console.wait("the list of links", lambda: len(console.visible("tr[data-id]")) > 2)
    ids = [row.get_attribute("data-id") for row in console.visible("tr[data-id]")[:2]]
    for link in ids:
        console.tab_to(f"tr[data-id='{link}'] input")
        console.press(Keys.SPACE)
    console.says("2 links selected", ".selection")
    console.tab_to(".selection button", is_back=True)
    console.tab_to(".selection button:first-of-type", is_back=True).send_keys(Keys.ENTER)
    console.wait("the field for tags has no focus", lambda: console.focused().get_attribute("id") == "action-text")
    console.press(f"{RUN}-together, ")
    console.wait("the tags of the links are suggested after the typed one", lambda: f"{RUN}-together, {RUN}-a" in suggested(console, "#action-text-tags"))
    console.press(Keys.ENTER)
    console.says("2 links tagged", ".selection")
    console.wait("two links with the tag", lambda: len(console.visible(f"a.tag[href$='{RUN}-together']")) == 2)
    console.press(Keys.TAB, Keys.ENTER)
    console.says("2 links selected", ".selection")
    badges = ", ".join(f"tr[data-id='{link}'] .badge.bad" for link in ids)
    act_on_selected(console, 3, "2 links disabled")
    console.wait("two disabled links", lambda: len(console.visible(badges)) == 2)
    act_on_selected(console, 4, "2 links enabled")
    console.wait("no disabled links", lambda: not console.visible(badges))
    console.tab_to(".selection .danger").send_keys(Keys.ENTER)
    console.find("dialog[open] .danger")
    console.tab_to("dialog[open] .danger").send_keys(Keys.ENTER)
    console.says("2 links deleted", ".selection")
    left = {row.get_attribute("data-id") for row in console.visible("tr[data-id]")}
    check(not left & set(ids), "deleted links are still listed")


def page_through(console):
    console.tab_to(".pager button:nth-child(3)").send_keys(Keys.ENTER)
    console.says("Links 51 to 100", ".summary")
    check(console.focused().text == "Next →", "turning the page loses the focus")
    console.driver.back()
    console.says("Links 1 to 50", ".summary")


def read_ledger(console):
    console.tab_to("#pages a[href='#/account']", is_back=True).send_keys(Keys.ENTER)
    console.find(".ledger .actions button")
    console.tab_to(".ledger .actions button").send_keys(Keys.ENTER)
    console.wait("older entries", lambda: len(console.visible(".ledger tbody tr")) > 20)
    console.wait("older entries lose the focus", lambda: console.focused().tag_name == "tr")


def spend_a_day(console, create_link):
    console.open()
    console.give_key()
    console.find("tr[data-id]")
    for scene in (create_one, create_many, find_and_change, read_clicks, disable_one, delete_one, change_selected, page_through, read_ledger):
        scene(console)
    use_webhooks(console, create_link)
