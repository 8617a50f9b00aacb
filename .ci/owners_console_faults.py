"""Faults of the API under the console: the page says what happens, loses nothing, and creates nothing twice."""

import subprocess

import owners_console_entrance
import owners_console_imports
import owners_console_keys
import owners_console_reads
from console_browser import LINKS, OVERLOADED, RUN, call_api, check, problem
from console_webhooks import FAULTS
from selenium.webdriver.common.keys import Keys


def fill(console, slug):
    console.open("#/create")
    console.says("Balance", ".price")
    console.find("#new-destination_url").clear()
    console.find("#new-destination_url").send_keys("https://example.com/fault")
    console.find("#new-slug").clear()
    console.find("#new-slug").send_keys(slug)


def with_slug(console, api_url, slug):
    return call_api(api_url, console.key, "GET", f"/v1/links?slug={slug}")["items"]


def ended_key(console, proxy, api_url):
    fill(console, f"{RUN}-after-401")
    proxy.inject("POST", LINKS, problem=problem(401, "api_key_expired", "The API key has expired", "Ask for a new one."))
    console.press(Keys.ENTER)
    console.says("The API key has expired: Ask for a new one.", "#key-reason")
    check(console.driver.find_element("id", "new-slug").get_attribute("value") == f"{RUN}-after-401", "the form was lost")
    console.give_key()
    console.says("Charged 1 credit", ".created")


def create_despite(fault, console, proxy, api_url):
    """The create arrives, and its answer does not."""
    slug = f"{RUN}-{fault}"
    fill(console, slug)
    proxy.inject("POST", LINKS, **{f"is_{fault}": True})
    console.press(Keys.ENTER)
    console.says("one link, charged once", ".created")
    check(len(with_slug(console, api_url, slug)) == 1, "not exactly one link")


def lost_answer(*scene):
    create_despite("lost", *scene)


def cut_answer(*scene):
    create_despite("cut", *scene)


def missing_script(console, proxy, api_url):
    proxy.inject("GET", r"/console/account_page\.js", problem=OVERLOADED)
    console.open("#/account")
    console.says("The page could not be loaded", ".problem")
    console.find(".problem button").click()
    console.find(".ledger tbody tr")


def old_tab(console, proxy, api_url):
    """A script of a newer release needs what the scripts that are loaded lack."""
    script = b'import { notYet } from "./dom.js";\nexport const open = notYet;\n'
    proxy.inject("GET", r"/console/account_page\.js", content=(200, [("Content-Type", "text/javascript")], script))
    console.open("#/account")
    console.says("After an update of the service, a tab that was opened before needs to be loaded again.", ".problem")
    console.find(".problem button").click()
    console.find(".ledger tbody tr")


def overload(console, proxy, api_url):
    fill(console, f"{RUN}-after-503")
    proxy.inject("POST", LINKS, problem=OVERLOADED, retry_after=60)
    console.press(Keys.ENTER)
    console.says("The service is overloaded: Retry later.", "#banner")
    console.says("Retrying in", "#banner")
    console.says("under the same key: at most one link", ".outcome")
    console.find("#banner button").click()
    console.says("Charged 1 credit", ".created")
    check(not console.visible("#banner button"), "the banner stays")


def rate_limit(console, proxy, api_url):
    limited = problem(429, "rate_limited", "Too many requests", "Wait.")
    proxy.inject("GET", LINKS, problem=limited, retry_after=60)
    console.open("#/links")
    console.says("Too many requests: Wait.", "#banner")
    console.find("#banner button").click()
    console.find("tr[data-id]")


def unreachable(console, proxy, api_url):
    console.open("#/links")
    console.find("tr[data-id]")
    proxy.is_away = True
    console.find("#find").send_keys(f"{RUN}-after-" + Keys.ENTER)
    console.says("The API does not answer", "#banner")
    console.visible("#banner button")[1].click()
    console.says("The API does not answer", ".problem")
    proxy.is_away = False
    console.find("#find").send_keys(Keys.ENTER)
    console.wait("the links after the fault", lambda: len(console.visible("tr[data-id]")) == 2)


def offline(console, proxy, api_url):
    console.open("#/links")
    console.find("tr[data-id]")
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    console.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **network})
    console.find("#find").send_keys(f"{RUN}-lost" + Keys.ENTER)
    console.says("You are offline", "#banner")
    console.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **network})
    console.wait("the link after the fault", lambda: len(console.visible("tr[data-id]")) == 1)


def no_credits(console, proxy, api_url):
    fill(console, f"{RUN}-dear")
    broke = problem(402, "insufficient_credits", "Not enough credits", "The price in credits is 3; the balance is 2.", balance=2, required=3)
    proxy.inject("POST", LINKS, problem=broke)
    console.press(Keys.ENTER)
    console.says("The price in credits is 3; the balance is 2.", ".problem")


def conflict(console, proxy, api_url):
    link = call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/first"})
    path = f"/v1/links/{link['id']}"
    console.open(f"#/links/{link['id']}")
    field = console.find("#edit-destination_url")
    call_api(api_url, console.key, "PATCH", path, {"destination_url": "https://example.com/theirs"})
    field.clear()
    field.send_keys("https://example.com/mine" + Keys.ENTER)
    console.says("https://example.com/theirs", ".conflict")
    console.says("https://example.com/mine", ".conflict")
    console.find(".conflict .primary").click()
    console.says("https://example.com/mine", ".facts")
    stored = call_api(api_url, console.key, "GET", path)["destination_url"]
    check(stored == "https://example.com/mine", f"{stored} is stored")


def lagging_conflict(console, proxy, api_url):
    """A change is refused, and the read tables still lack what refused it: the page does not try for ever."""
    link = call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/first"})
    console.open(f"#/links/{link['id']}")
    field = console.find("#edit-destination_url")
    changed = problem(412, "precondition_failed", "The link has another version", "Read it again.")
    proxy.inject("PATCH", link["id"], problem=changed)
    field.clear()
    field.send_keys("https://example.com/mine" + Keys.ENTER)
    console.says("The link has another version", ".problem")
    sent = [path for method, path, _ in proxy.requests if method == "PATCH" and path.endswith(link["id"])]
    check(len(sent) == 1, f"the version that was refused is sent {len(sent)} times")


def older_token(console, proxy, api_url):
    """A write without effect returns the token of an earlier write: the tab keeps the later one."""
    tokens = []
    for number in range(2):
        fill(console, f"{RUN}-token-{number}")
        console.press(Keys.ENTER)
        console.says("Charged 1 credit", ".created")
        tokens.append(console.driver.execute_script("return sessionStorage.getItem('linkledger.consistency-token')"))
    check(tokens[0] != tokens[1], "the token of a later write is not kept")
    kept = console.driver.execute_async_script("""
        const [older, done] = arguments;
        import(new URL('session.js', location.href)).then(({apiKey, consistencyToken, keepConsistencyToken}) => {
          keepConsistencyToken(older, apiKey());
          done(consistencyToken());
        }).catch((error) => done(String(error)));
    """, tokens[0])
    check(kept == tokens[1], f"an older token is kept: {kept}")


def disabled_by_operator(console, proxy, api_url):
    link = call_api(api_url, console.key, "POST", "/v1/links", {"destination_url": "https://example.com/", "slug": f"{RUN}-stopped"})
    console.open("#/links")
    console.find(f"tr[data-id='{link['id']}'] input").click()
    subprocess.run(["target/debug/command-api", "link", "disable", "--link", link["id"], "--reason", "a test"], check=True, stdout=subprocess.DEVNULL)
    console.find(".selection button:nth-of-type(4)").click()
    console.find("dialog[open] .primary").click()
    console.says("0 links enabled, 1 refused", ".selection")
    console.says("Ask the operator of this service to enable the link, and name its id.", ".failures")
    console.says("disabled by an operator", f"tr[data-id='{link['id']}'] .badge")
    console.open(f"#/links/{link['id']}")
    console.says("Only the operator of this service can enable the link", ".state")
    check(not console.visible(".service button"), "the owner is offered what only the operator can do")


def caller(api_url, key):
    """Returns what sends a request to the public API past the browser."""
    return lambda method, path, body=None: call_api(api_url, key, method, f"/v1{path}", body)


def webhooks(console, proxy, api_url):
    for scene in FAULTS:
        scene(console, proxy, caller(api_url, console.key))


def no_key(console, proxy, api_url):
    console.open("#/links")
    console.find("tr[data-id]")
    console.find("#sign-out").click()
    console.find("#api-key")
    # Browsers close a dialog at the second Esc whatever the page says.
    console.press(Keys.ESCAPE)
    console.press(Keys.ESCAPE)
    kept = console.driver.execute_script("return sessionStorage.length + localStorage.length")
    check(kept == 0, "signing out leaves something behind")
    console.give_key()
    console.find("tr[data-id]")


def inject_all(console, proxy, api_url):
    scenes = (ended_key, lost_answer, cut_answer, missing_script, old_tab, overload, rate_limit, unreachable, offline, no_credits, conflict, lagging_conflict, older_token, disabled_by_operator, webhooks, *owners_console_imports.SCENES, *owners_console_reads.SCENES, *owners_console_keys.SCENES, *owners_console_entrance.SCENES, no_key)
    for scene in scenes:
        scene(console, proxy, api_url)
        check(not any(fault.times for fault in proxy.faults), f"a fault of {scene.__name__} did not happen")
    return len(scenes)
