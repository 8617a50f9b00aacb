// The list of links: filters, pages, selection. Each page is its own address, so that "back" works.

import { announce, copyButton, element, once, outwardLink, replace } from "./dom.js";
import { count, instant } from "./format.js";
import { filterForm, filtersOf, parametersOf } from "./link_filters.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";
import { onKeyReplaced } from "./session.js";

const PAGE_SIZE = 50;
/** Requests for one page before the user is asked: a request looks at 10,000 links, and can find none. */
const REQUESTS_MAX = 20;

/** Selected links by id, on all pages of this list and others. */
const selected = new Map();
onKeyReplaced(() => selected.clear());

/** Selects links that another page has made. */
export const selectLinks = (links) => {
  selected.clear();
  for (const link of links) selected.set(link.id, link);
};

/**
 * Reads links until a page is full or the list ends.
 * @returns {Promise<{items: object[], cursor: string|null, isPaused: boolean}>}
 */
const readPage = async (filters, cursor, signal, onprogress) => {
  const items = [];
  for (let requests = 1; ; requests += 1) {
    const query = { ...parametersOf(filters), cursor, limit: PAGE_SIZE - items.length };
    const page = await read("/v1/links", query, signal);
    items.push(...page.items);
    cursor = page.next_cursor;
    if (!page.has_more || items.length === PAGE_SIZE) return { items, cursor, isPaused: false };
    if (requests === REQUESTS_MAX) return { items, cursor, isPaused: true };
    onprogress(requests);
  }
};

class LinkList {
  constructor({ main, query, signal }) {
    this.signal = signal;
    this.links = [];
    this.isActing = false;
    this.form = element("div");
    this.bar = element("div", { class: "selection" });
    this.state = element("p", { class: "quiet summary", role: "status" });
    this.body = element("tbody");
    this.saving = element("div", { class: "saving", role: "status" });
    this.save = element("button", { type: "button", onclick: () => exportOnce() }, "List as CSV");
    const exportOnce = once(this.save, () => this.exportList());
    // Above and below the list, which has a hundred stops of the Tab key.
    this.pagers = ["Pages of the list", "Pages, below the list"].map((label) => element("nav", { class: "pager", "aria-label": label }));
    this.all = element("input", {
      type: "checkbox", id: "select-page", "aria-label": "Select all on this page", onchange: () => this.selectPage(),
    });
    main.append(
      element(
        "div",
        { class: "title" },
        element("h1", null, "Links"),
        element("a", { class: "button primary", href: "#/create" }, "Create links"),
      ),
      element(
        "section",
        { class: "list" },
        this.form,
        this.bar,
        element("div", { class: "above" }, this.state, element("div", { class: "actions" }, this.save, this.pagers[0])),
        this.saving,
        this.table(),
        this.pagers[1],
      ),
    );
    // Buttons above the list that are there before the links move nothing.
    this.next = null;
    this.openAddress(query);
    this.showPager(false);
    replace(this.pagers[1]);
    this.follow(query);
    onKeyReplaced(() => this.restart(), signal);
  }

  /** Clears the list, and reads its first page: links and cursors were those of the account of another key. */
  restart() {
    this.links = [];
    replace(this.body);
    replace(this.saving);
    this.showSelection();
    this.go(this.filters, null, []);
  }

  table() {
    const heads = ["Short link", "Destination", "Created"];
    return element(
      "table",
      { class: "links" },
      element("caption", { class: "visually-hidden" }, "Links"),
      element(
        "thead",
        null,
        element("tr", null, element("th", { scope: "col", class: "check" }, this.all), heads.map((head) => element("th", { scope: "col" }, head))),
      ),
      this.body,
    );
  }

  /** Shows the list of an address. */
  follow(query) {
    this.openAddress(query);
    this.showForm();
    return this.load();
  }

  openAddress(query) {
    this.filters = filtersOf(query);
    this.cursor = query.get("cursor");
    // The cursors of the pages before this one; unknown after a jump into the middle.
    this.before = history.state?.before ?? [];
  }

  showForm() {
    const form = filterForm(this.filters, this.signal, {
      // A field that is removed with its form loses the focus too.
      onfilters: (filters) => form === this.shown && !this.signal.aborted && this.go(filters, null, []),
      onlink: (id) => {
        location.hash = `#/links/${id}`;
      },
      onfault: (error) => this.showProblem(error),
    });
    this.shown = form;
    replace(this.form, form);
  }

  /** Opens another page of the list as an address of its own. The form, which may be in use, stays. */
  go(filters, cursor, before) {
    const pairs = Object.entries({ ...filters, cursor }).filter(([, value]) => value);
    const query = new URLSearchParams(pairs);
    const address = query.size > 0 ? `#/links?${query}` : "#/links";
    history[address === location.hash ? "replaceState" : "pushState"]({ before }, "", address);
    this.openAddress(query);
    this.load();
  }

  async load() {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    const signal = AbortSignal.any([this.signal, reading.signal]);
    this.body.setAttribute("aria-busy", "true");
    try {
      const onprogress = (requests) => replace(this.state, `Searching: ${count(requests * 10000, "link")} looked at …`);
      const page = await readPage(this.filters, this.cursor, signal, onprogress);
      // Most lists have neither; the script must be there before the rows, so that nothing moves.
      if (page.items.some(({ tags, disabled, expires_at: at }) => tags?.length > 0 || disabled || at)) this.marks = await import("./link_marks.js");
      if (page.items.length === 0) this.empty = await import("./empty_list.js");
      signal.throwIfAborted();
      this.show(page);
    } catch (error) {
      if (!signal.aborted) this.showProblem(error);
    } finally {
      if (this.reading === reading) {
        this.body.removeAttribute("aria-busy");
        this.reading = undefined;
      }
    }
  }

  showProblem(error) {
    if (this.signal.aborted) return;
    replace(this.body, element("tr", null, element("td", { colspan: 4, class: "whole" }, problemView(error))));
    replace(this.state);
    for (const pager of this.pagers) replace(pager);
  }

  show({ items, cursor, isPaused }) {
    this.links = items;
    for (const link of items.filter(({ id }) => selected.has(id))) selected.set(link.id, link);
    this.next = cursor;
    replace(this.body, items.length > 0 ? items.map((link) => this.row(link)) : element(
      "tr",
      null,
      element("td", { colspan: 4, class: "whole empty" }, this.cursor ? "The list ends here." : this.empty.emptyList(this.filters)),
    ));
    const from = this.before.length * PAGE_SIZE;
    replace(this.state, items.length > 0 && (this.cursor && this.before.length === 0
      ? count(items.length, "link")
      : `Links ${from + 1} to ${from + items.length}`), isPaused && ". The search has not reached the end of the list yet.");
    this.showPager(isPaused);
    this.showSelection();
    announce(count(items.length, "link"));
  }

  row(link) {
    const slug = link.short_url.slice(link.short_url.lastIndexOf("/") + 1);
    const check = element("input", {
      type: "checkbox",
      "aria-label": `Select ${slug}`,
      onchange: () => this.select([link], check.checked),
    });
    check.checked = selected.has(link.id);
    return element(
      "tr",
      { "data-id": link.id },
      element("td", { class: "check" }, check),
      element(
        "th",
        { scope: "row" },
        element("a", { class: "slug", href: `#/links/${link.id}` }, slug),
        " ",
        copyButton(link.short_url, link.short_url),
        this.marks?.stateBadges(link),
        link.title && element("span", { class: "link-title" }, link.title),
      ),
      element("td", { "data-label": "Destination", class: "address" }, outwardLink(link.destination_url), link.tags?.length > 0 && this.marks.tagList(link.tags)),
      element("td", { "data-label": "Created", class: "when" }, element("time", { datetime: link.created_at }, instant(link.created_at))),
    );
  }

  showPager(isPaused) {
    const isBelow = this.pagers[1].contains(document.activeElement);
    // While a page is read, the cursors of the next one are unknown.
    const button = (label, isOn, action) => element("button", { type: "button", disabled: !isOn, onclick: () => this.reading || action() }, label);
    const back = () => {
      const before = this.before.slice(0, -1);
      this.go(this.filters, this.before.at(-1), before);
    };
    const on = () => this.go(this.filters, this.next, [...this.before, this.cursor]);
    for (const pager of this.pagers) {
      replace(
        pager,
        button("⇤ First", this.cursor !== null, () => this.go(this.filters, null, [])),
        button("← Back", this.before.length > 0, back),
        button(isPaused ? "Search on →" : "Next →", this.next !== null, on),
      );
    }
    if (this.next === null && this.cursor === null) replace(this.pagers[1]);
    // Who turned the page below the list reads on at its top.
    if (isBelow) this.pagers[0].children[[...this.pagers[1].children].indexOf(document.activeElement)]?.focus();
  }

  select(links, isOn) {
    for (const link of links) {
      if (isOn) selected.set(link.id, link);
      else selected.delete(link.id);
    }
    this.showSelection();
  }

  selectPage() {
    this.select(this.links, this.all.checked);
    for (const check of this.body.querySelectorAll("input[type=checkbox]")) check.checked = this.all.checked;
  }

  showSelection() {
    const here = this.links.filter((link) => selected.has(link.id)).length;
    this.all.checked = here > 0 && here === this.links.length;
    this.all.indeterminate = here > 0 && here < this.links.length;
    // The bar shows the progress or the outcomes of an action until these are closed.
    if (this.isActing) return;
    if (selected.size > 0) this.showActions();
    else replace(this.bar, element("p", { class: "quiet" }, "Select links to change them together."));
  }

  /** Waits for a script; undefined, with a notice in `place`, if it cannot be loaded. */
  async loaded(script, place) {
    try {
      return await script;
    } catch (error) {
      replace(place, problemView(error));
      return undefined;
    }
  }

  async showActions() {
    const loaded = await this.loaded(import("./selection_actions.js"), this.bar);
    // The selection may have been cleared while the script was loaded.
    if (!loaded || this.isActing || selected.size === 0) return;
    loaded.openActions(this.bar, [...selected.values()], {
      signal: this.signal,
      onclear: () => this.clear(),
      onstart: () => {
        this.isActing = true;
      },
      ondone: (ids) => this.remove(ids),
      onclose: () => {
        this.isActing = false;
        this.showSelection();
      },
    });
  }

  clear() {
    this.all.focus();
    selected.clear();
    for (const check of this.body.querySelectorAll("input[type=checkbox]")) check.checked = false;
    this.showSelection();
  }

  /** Takes deleted links off the selection, and reads the page again. */
  remove(ids) {
    for (const id of ids) selected.delete(id);
    return this.load();
  }

  async exportList() {
    const filters = parametersOf(this.filters);
    const loaded = await this.loaded(import("./link_export.js"), this.saving);
    await loaded?.exportLinks(filters, this.saving, this.signal);
  }
}

/** Opens the page. */
export const open = (place) => {
  document.title = "Links · linkledger";
  const list = new LinkList(place);
  return (query) => list.follow(query);
};
