// The way in for those whom another site sends here: the code of the address is exchanged for a key. The code is good
// for one exchange within seconds.

import { element, replace } from "./dom.js";
import { clearDrafts } from "./draft.js";
import { problemView } from "./problem_view.js";
import { sendOnce } from "./api.js";
import { askForKey, takeKey } from "./session.js";
import { keepWayBack } from "./way_back.js";

const FIRST_PAGE = "#/links";

/** Opens the page. An exchange that was begun ends, whatever page is opened meanwhile: its code is spent. */
export const open = async ({ main, query, signal, reopen }) => {
  document.title = "linkledger";
  const code = query.get("code") ?? "";
  // No “Back” leads to the code.
  history.replaceState(null, "", FIRST_PAGE);
  const openFirstPage = () => {
    if (!signal.aborted) reopen();
  };
  const enter = async () => {
    replace(main, element("section", null, element("h1", null, "Opening the console …")));
    try {
      const { body } = await sendOnce("POST", "/console/session", { body: { code } });
      keepWayBack(body.return_url);
      // The account may be another one, which must not see what was typed for the one before.
      clearDrafts();
      takeKey(body.api_key);
    } catch (error) {
      if (!signal.aborted) showProblem(error);
      return;
    }
    openFirstPage();
  };
  const typeKey = async () => {
    await askForKey("");
    openFirstPage();
  };
  const showProblem = (error) => replace(
    main,
    element(
      "section",
      null,
      element("h1", null, "The console could not be opened"),
      problemView(error),
      element(
        "p",
        { class: "actions" },
        error.canPass && element("button", { type: "button", class: "primary", onclick: enter }, "Try again"),
        element("button", { type: "button", onclick: typeKey }, "Type an API key"),
      ),
    ),
  );
  await enter();
};
