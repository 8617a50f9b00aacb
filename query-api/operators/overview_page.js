// The state of all followers of the log, as `projector status` reports it, kept up to date; and the latest commands of
// operators.

import { announce, element, replace } from "../console/dom.js";
import { LOCALE } from "../console/format.js";
import { problemView } from "../console/problem_view.js";
import { send } from "../console/api.js";
import { commandsPanel } from "./commands_panel.js";
import { errorsPanel, factsPanel, generationsPanel } from "./status_panels.js";
import { followersTable } from "./followers_panel.js";
import { sentence } from "./layout.js";

const INTERVAL_MS = 5000;
/** Status of the first fault of a server: while one starts again, the next reading can succeed. */
const SERVER_FAULT = 500;

const times = new Intl.DateTimeFormat(LOCALE, { timeStyle: "medium" });

const verdict = (findings) => {
  if (findings.length === 0) return element("p", { class: "verdict" }, element("span", { class: "good" }, "✓ All is well"));
  return element(
    "section",
    { class: "notice" },
    element("h2", null, "⚠ Waiting for an operator"),
    element("ul", null, findings.map((finding) => element("li", null, sentence(finding)))),
  );
};

class Overview {
  constructor({ main, signal }) {
    this.signal = signal;
    this.isOn = true;
    this.said = element("span", { class: "quiet" }, "Reading …");
    this.button = element("button", { type: "button", class: "small", onclick: () => this.toggle() }, "Pause");
    this.verdict = element("div");
    this.followers = element("div");
    this.rest = element("div");
    this.trouble = element("div");
    this.outcome = element("div", { role: "status", id: "outcome" });
    // Nothing is shown before the state is read, so that nothing moves.
    this.content = element(
      "div",
      { hidden: true },
      this.verdict,
      element("section", { id: "followers" }, element("h2", null, "Followers of the log"), this.followers),
      this.rest,
    );
    main.append(
      element("div", { class: "title" }, element("h1", null, "Overview"), element("p", { id: "live-state" }, this.said, this.button)),
      this.trouble,
      this.outcome,
      this.content,
    );
    document.addEventListener("visibilitychange", () => this.refresh(), { signal });
    const ticking = setInterval(() => this.refresh(), INTERVAL_MS);
    signal.addEventListener("abort", () => clearInterval(ticking));
    this.refresh();
  }

  toggle() {
    this.isOn = !this.isOn;
    this.say();
    this.refresh();
  }

  /** Reads the state again, while the page is visible and its updates are on. */
  refresh() {
    if (this.isOn && !document.hidden) this.reading ??= this.read();
  }

  async read() {
    try {
      const { body } = await send("GET", "/admin/v1/status", { signal: this.signal, attempts: 1 });
      this.readAt = new Date();
      this.show(body);
      this.say();
    } catch (error) {
      if (!this.signal.aborted) this.showTrouble(error);
    } finally {
      this.reading = undefined;
    }
  }

  say() {
    const at = this.readAt ? `, ${times.format(this.readAt)}` : "";
    replace(this.said, `${this.isOn ? "Live" : "Paused"}${at}`);
    replace(this.button, this.isOn ? "Pause" : "Go on");
  }

  /** A fault that can pass leaves the last state and the updates as they are; any other one ends the updates. */
  showTrouble(error) {
    this.isOn &&= Boolean(error.canPass || error.status >= SERVER_FAULT);
    this.say();
    if (this.isOn && this.readAt) {
      replace(this.said, element("span", { class: "bad" }, "⚠ No answer"), `; as it was at ${times.format(this.readAt)}`);
    } else {
      replace(this.trouble, problemView(error));
    }
  }

  show(status) {
    replace(this.trouble);
    this.content.hidden = false;
    replace(this.verdict, verdict(status.findings));
    if (status.findings.length !== this.findings) {
      this.findings = status.findings.length;
      announce(this.findings === 0 ? "All is well" : `Waiting for an operator: ${this.findings}`);
    }
    const onchanged = async (name, unsure) => {
      replace(this.outcome, unsure && element("p", { class: "warn" }, unsure));
      // A reading that was begun may be older than the change.
      await this.reading;
      await this.read();
      document.getElementById(`follower-${name}`)?.focus();
    };
    replace(this.followers, followersTable(status, { signal: this.signal, onchanged }));
    const { projections, recent_operations: commands } = status;
    replace(this.rest, factsPanel(status), generationsPanel(projections), errorsPanel(projections), commandsPanel(commands));
  }
}

/** Opens the page. */
export const open = (place) => {
  document.title = "Overview · linkledger operators";
  new Overview(place);
};
