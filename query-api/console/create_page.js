// Creating links: one by a form, many by a pasted text or a file; with price and balance before.

import "./page_style.js";
import { element, replace } from "./dom.js";
import { count, number } from "./format.js";
import { importForm } from "./import_form.js";
import { oneLinkForm } from "./one_link_form.js";
import { pageParts } from "./page_parts.js";
import { problemView } from "./problem_view.js";
import { read } from "./api.js";
import { onKeyReplaced } from "./session.js";

/** Opens the page. */
export const open = ({ main, signal }) => {
  document.title = "Create · linkledger";
  const price = element("p", { class: "price" }, "Reading the balance …");
  const showCredits = async () => {
    try {
      const { balance, link_price: cost } = await read("/v1/credits", null, signal);
      replace(price, `A link costs ${count(cost, "credit")}. Balance: ${number(balance)}.`);
    } catch (error) {
      if (!signal.aborted) replace(price, problemView(error));
    }
  };
  const one = element("section", null, element("h2", null, "One link"), oneLinkForm({ signal, oncreated: showCredits }));
  const many = element("section", null, element("h2", null, "Many links"), importForm({ signal, oncreated: showCredits }));
  main.append(element("h1", null, "Create"), pageParts([["One link", one], ["Many links", many]]), price, one, many);
  onKeyReplaced(showCredits, signal);
  showCredits();
};
