"""A browser at one of the consoles, and waiting for states of its pages."""

import json
import sys
import urllib.error
import urllib.request
import uuid

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

DEADLINE_S = 30
TAB_STOPS_MAX = 200
# In slugs and names of lists, so that the checks can run again on the same data.
RUN = uuid.uuid4().hex[:6]
# Texts that nobody should believe: as markup, and because they turn around what stands beside them.
MARKUP = "<img src=x onerror=window.pwned=1> \"><script>window.pwned=1</script>"
RIGHT_TO_LEFT = "שלום \u202eexe.cod\u200f"
VISITOR = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
SCRIPTS = """
window.pageShift = 0;
window.shifted = [];
window.violations = [];
new PerformanceObserver((list) => {
  for (const {value, hadRecentInput, sources} of list.getEntries()) {
    if (hadRecentInput) continue;
    window.pageShift += value;
    window.shifted.push(...sources.map(({node}) => (node?.outerHTML ?? node?.textContent ?? '').slice(0, 80)));
  }
}).observe({type: 'layout-shift', buffered: true});
document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective));
"""

LINKS = r"/v1/links(\?|$)"


def problem(status, code, title, detail, **more):
    return {"type": "about:blank", "status": status, "code": code, "title": title, "detail": detail, **more}


OVERLOADED = problem(503, "overloaded", "The service is overloaded", "Retry later.")


def check(is_true, complaint):
    if not is_true:
        sys.exit(f"console: {complaint}")


def call_api(api_url, key, method, path, body=None):
    """Sends a request past the browser."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    if method == "POST":
        headers["Idempotency-Key"] = str(uuid.uuid4())
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(urllib.request.Request(api_url + path, data, headers, method=method)) as answer:
        return json.loads(answer.read() or "null")


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def visit(address):
    """Clicks a short link as a browser does; returns the status of the answer."""
    request = urllib.request.Request(address, headers={"User-Agent": VISITOR})
    try:
        urllib.request.build_opener(Stay).open(request)
    except urllib.error.HTTPError as answer:
        return answer.code
    sys.exit(f"console: {address} is answered without a redirect")


class Console:
    """The console at an address, whose key is typed; `folder` is for the screenshots."""

    def __init__(self, driver, url, key, folder):
        self.driver = driver
        self.url = url
        self.key = key
        self.folder = folder
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SCRIPTS})

    def wait(self, what, condition):
        waiting = WebDriverWait(self.driver, DEADLINE_S, ignored_exceptions=[StaleElementReferenceException])
        try:
            return waiting.until(lambda _: condition())
        except TimeoutException:
            self.driver.save_screenshot(str(self.folder / "timeout.png"))
            errors = [entry["message"] for entry in self.driver.get_log("browser")]
            sys.exit(f"console: timeout: {what}; errors: {errors}; page: {self.text()[:2000]}")

    def visible(self, css):
        return [it for it in self.driver.find_elements(By.CSS_SELECTOR, css) if it.is_displayed()]

    def find(self, css):
        """Waits for a visible element."""
        return self.wait(f"no visible {css}", lambda: next(iter(self.visible(css)), None))

    def says(self, text, css="body"):
        self.wait(f"{css} lacks {text!r}", lambda: any(text in it.text for it in self.visible(css)))

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "body").text

    def open(self, place=""):
        """Opens a page as in a new tab with a key, or asks for the key."""
        self.driver.get("about:blank")
        self.driver.get(self.url + place)

    def give_key(self, key=None):
        self.find("#api-key").send_keys((key or self.key) + Keys.ENTER)
        self.wait("the dialog stays open", lambda: not self.visible("#key-dialog"))

    def focused(self):
        return self.driver.switch_to.active_element

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def press_with(self, modifier, key):
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def tab_to(self, css, label=None, is_back=False):
        """Moves the focus by keyboard alone, and checks that each stop on the way can be seen.

        With a label: to the element with this text or name.
        """
        for _ in range(TAB_STOPS_MAX):
            if is_back:
                self.press_with(Keys.SHIFT, Keys.TAB)
            else:
                self.press(Keys.TAB)
            stop = self.driver.execute_script("""
                const it = document.activeElement;
                const isIt = it.matches(arguments[0]) && [null, it.ariaLabel, it.textContent].includes(arguments[1]);
                const style = getComputedStyle(it);
                return [isIt, it === document.body || style.outlineStyle !== 'none', it.outerHTML.slice(0, 120)];
            """, css, label)
            check(stop[1], f"the focus can't be seen on {stop[2]}")
            if stop[0]:
                return self.focused()
        sys.exit(f"console: Tab does not lead to {css} {label or ''}")
