// Builds elements. Data become text nodes and attributes only, so data can never become markup.

const WEB_SCHEMES = ["http:", "https:"];

/**
 * Fills an element. A property whose name begins with `on` is a listener; `true` is an attribute
 * without value; `false`, `null` and `undefined` are left out.
 */
export const fill = (node, properties, children) => {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...shown(children));
  return node;
};

const shown = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** Returns a new HTML element. */
export const element = (tag, properties, ...children) =>
  fill(document.createElement(tag), properties, children);

/** Replaces the content of an element. A focus that the old content had stays in the element. */
export const replace = (node, ...children) => {
  const focused = document.activeElement;
  const hadFocus = focused !== node && node.contains(focused);
  node.replaceChildren(...shown(children));
  if (hadFocus && !focused.isConnected) focusIn(node, focused);
  return node;
};

/** Focuses the control that takes the place of a removed one; otherwise the first button, or the element. */
const focusIn = (node, removed) => {
  const controls = [...node.querySelectorAll("a, button, input, select, textarea")].filter(({ disabled }) => !disabled);
  const isSame = (control) => ["tagName", "id", "textContent"].every((name) => control[name] === removed[name]);
  const next = controls.find(isSame) ?? controls.find(({ tagName }) => tagName === "BUTTON") ?? node;
  if (next === node) node.tabIndex = -1;
  next.focus();
};

/**
 * Returns an action that does nothing while it still runs; its control shows this. A control that is disabled
 * meanwhile would lose the focus.
 */
export const once = (control, action) => async (...parameters) => {
  if (control.ariaBusy) return;
  control.ariaBusy = "true";
  try {
    await action(...parameters);
  } finally {
    control.ariaBusy = null;
  }
};

export const isOfTheWeb = (address) => URL.canParse(address) && WEB_SCHEMES.includes(new URL(address).protocol);

/** Returns a link that opens another page, or text if the address is not one of the web. */
export const outwardLink = (address, text = address) => {
  if (!isOfTheWeb(address)) return element("span", null, text);
  return element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, text);
};

/** Returns a button that copies a text to the clipboard, and says so. */
export const copyButton = (text, subject) => {
  const label = element("span", null, "Copy");
  const copy = async () => {
    const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    label.textContent = isCopied ? "Copied" : "Copy it by hand";
    announce(isCopied ? `${subject} copied` : "The browser does not allow copying");
  };
  return element("button", { type: "button", class: "small", onclick: copy, "aria-label": `Copy ${subject}` }, label);
};

/** Returns a label above a control. The control needs an id. */
export const field = (label, control, help) => {
  const helpId = help && `${control.id}-help`;
  if (help) control.setAttribute("aria-describedby", helpId);
  return element(
    "p",
    { class: "field" },
    element("label", { for: control.id }, label),
    control,
    help && element("span", { id: helpId, class: "quiet help" }, help),
  );
};

/** Returns a selection; `options` are pairs of value and text. */
export const selection = (id, options, chosen, onchange) =>
  element(
    "select",
    { id, onchange },
    options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)),
  );

let announcer;

/** Tells a text to screen readers. */
export const announce = (text) => {
  announcer ??= document.body.appendChild(element("p", { class: "visually-hidden", "aria-live": "polite" }));
  announcer.textContent = text;
};
