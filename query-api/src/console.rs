//! The consoles: static files, compiled into the program. Owners of links have theirs on the listener of the API,
//! operators on that of the admin API.
//!
//! Each console is a client of the API beside it, and has no route besides its files, which contain no secret. Its
//! addresses are relative, so it also works where the API lies below a path of its host.

use std::sync::Arc;

use axum::{
    Router,
    http::{
        HeaderMap, HeaderName, StatusCode,
        header::{CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY},
    },
    routing::{MethodRouter, get},
};
use linkledger_http::{console_style::CONSOLE_STYLE, route_table};

use self::static_file::StaticFile;

mod static_file;

/// Content security policy: the pages run only scripts of query-api, connect only to the API, send no form, and no
/// script turns text into markup. Images come from the API through a script, as blobs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src data: blob:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Address of the console for owners relative to [`route_table::CONSOLE`].
const TO_CONSOLE: &str = "console/";
/// Address of the console for operators relative to [`route_table::HOME`] and [`route_table::OPERATORS`].
const TO_OPERATORS: &str = "operators/";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Name of a file and its content.
type File = (&'static str, &'static str);

/// Returns the files of a folder of query-api.
macro_rules! files_in {
    ($folder:literal, $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../", $folder, "/", $name)))),*]
    };
}

/// Style sheet of both consoles.
const OF_BOTH: &[File] = &[("console.css", CONSOLE_STYLE)];

/// Scripts and style sheets of the console for owners. That for operators uses some of them.
const OF_OWNERS: &[File] = files_in![
    "console",
    "account_page.js",
    "action_dialog.js",
    "addresses.js",
    "api.js",
    "batches.js",
    "click_chart.js",
    "click_panel.js",
    "create_page.js",
    "credits_panel.js",
    "dom.js",
    "draft.js",
    "empty_list.js",
    "enter_page.js",
    "files.js",
    "form_fields.js",
    "format.js",
    "import_form.js",
    "import_outcomes.js",
    "import_rule.js",
    "item_keys.js",
    "layout.js",
    "ledger.js",
    "link_deletion.js",
    "link_editor.js",
    "link_export.js",
    "link_filters.js",
    "link_history.js",
    "link_marks.js",
    "link_members.js",
    "link_page.js",
    "link_rows.js",
    "link_service.js",
    "link_store.js",
    "links_page.js",
    "main.js",
    "member_fields.js",
    "navigation.js",
    "older_pages.js",
    "one_link_form.js",
    "owners.css",
    "page_parts.js",
    "page_style.js",
    "pages.css",
    "problem_view.js",
    "qr_code.js",
    "search_text.js",
    "selection_actions.js",
    "session.js",
    "tag_suggestions.js",
    "top_list.js",
    "waiting.js",
    "way_back.js",
    "webhook_deliveries.js",
    "webhook_details.js",
    "webhook_list.js",
    "webhook_parts.js",
    "webhooks_page.js",
];

/// Scripts and style sheets that only the console for operators uses.
const OF_OPERATORS: &[File] = files_in![
    "operators",
    "account_actions.js",
    "account_page.js",
    "account_state.js",
    "accounts_page.js",
    "commands_panel.js",
    "console_panel.js",
    "events_page.js",
    "events_table.js",
    "find_form.js",
    "find_page.js",
    "followers_panel.js",
    "form_fields.js",
    "keys_panel.js",
    "layout.js",
    "ledger_panel.js",
    "link_page.js",
    "main.js",
    "operators.css",
    "overview_page.js",
    "status_panels.js",
    "webhooks_page.js",
];

/// Returns the routes of the console for owners, and of the page at `/` that leads to it.
pub(crate) fn owners_router() -> Router {
    Router::new()
        .route(
            route_table::HOME,
            file(HTML, include_str!("../console/home.html")),
        )
        .route(route_table::CONSOLE, redirect(TO_CONSOLE))
        .route(
            route_table::CONSOLE_PAGE,
            file(HTML, include_str!("../console/index.html")),
        )
        .merge(shared_files())
}

/// Returns the routes of the console for operators, to which `/` leads.
pub(crate) fn operators_router() -> Router {
    Router::new()
        .route(route_table::HOME, redirect(TO_OPERATORS))
        .route(route_table::OPERATORS, redirect(TO_OPERATORS))
        .route(
            route_table::OPERATORS_PAGE,
            file(HTML, include_str!("../operators/index.html")),
        )
        .merge(files(route_table::OPERATORS_FILE, OF_OPERATORS))
        .merge(shared_files())
}

/// Returns the routes of the files beside the page of the console for owners.
fn shared_files() -> Router {
    let pattern = route_table::CONSOLE_FILE;
    files(pattern, OF_BOTH).merge(files(pattern, OF_OWNERS))
}

/// Returns the routes of files whose paths have this pattern.
fn files(pattern: &str, files: &'static [File]) -> Router {
    files.iter().fold(Router::new(), |router, (name, content)| {
        let path = pattern.replace("{file}", name);
        router.route(&path, file(content_type(name), content))
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "css")) => CSS,
        _ => JS,
    }
}

fn redirect(address: &'static str) -> MethodRouter {
    get(async move || (StatusCode::PERMANENT_REDIRECT, [(LOCATION, address)]))
}

/// Headers of every file besides those of its content.
const HEADERS: [(HeaderName, &str); 2] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (REFERRER_POLICY, "no-referrer"),
];

fn file(content_type: &'static str, content: &'static str) -> MethodRouter {
    let file = Arc::new(StaticFile::new(content_type, content));
    get(async move |request: HeaderMap| (HEADERS, file.answer(&request)))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use linkledger_core::{
        account,
        api_key::Scope,
        console_code,
        credits::REFERENCE_LENGTH_MAX,
        event::CATALOGUE,
        field,
        link::{
            details::{EXPIRY_AHEAD_MAX, EXTERNAL_ID_LENGTH_MAX, TITLE_LENGTH_MAX},
            tag::{TAG_LENGTH_MAX, TAGS_MAX},
        },
        webhook::{DESCRIPTION_LENGTH_MAX, MessageType, URL_LENGTH_MAX},
    };

    use super::*;

    #[test]
    fn every_file_of_the_folders_is_served() {
        for (folder, files) in [("console", OF_OWNERS), ("operators", OF_OPERATORS)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            let names = fs::read_dir(folder).unwrap().map(|file| {
                let name = file.unwrap().file_name();
                name.into_string().unwrap()
            });
            // Pages have paths of their own.
            let names: BTreeSet<String> = names.filter(|name| !name.contains(".html")).collect();
            let served = files.iter().map(|(name, _)| (*name).to_owned());
            assert_eq!(names, served.collect());
        }
    }

    /// A script can't read the limits, so their copies are compared.
    #[test]
    fn imports_of_the_console_have_the_limits_of_the_api() {
        let rule = content(OF_OWNERS, "import_rule.js");
        let days = EXPIRY_AHEAD_MAX.whole_days();
        for line in [
            format!("const TITLE_MAX = {TITLE_LENGTH_MAX};\n"),
            format!("const TAGS_MAX = {TAGS_MAX};\n"),
            format!("const TAG_MAX = {TAG_LENGTH_MAX};\n"),
            format!("{{1,{EXTERNAL_ID_LENGTH_MAX}}}$/;\n"),
            format!("const EXPIRY_AHEAD_MAX = {days} * 24 * 3600 * 1000;\n"),
        ] {
            assert!(rule.contains(&line), "{line}");
        }
    }

    #[test]
    fn console_for_operators_has_the_names_and_limits_of_the_api() {
        let mut types: Vec<_> = CATALOGUE.iter().map(|(name, _)| *name).collect();
        types.sort_unstable();
        let types = types.join("\",\n  \"");
        let events = content(OF_OPERATORS, "events_page.js");
        assert!(events.contains(&format!("const TYPES = [\n  \"{types}\",\n];\n")));

        let seconds = console_code::LIFETIME.whole_seconds();
        let panel = content(OF_OPERATORS, "console_panel.js");
        assert!(panel.contains(&format!("const LIFETIME_S = {seconds};\n")));

        let fields = content(OF_OPERATORS, "form_fields.js");
        for (name, length) in [
            ("TEXT_LENGTH_MAX", field::TEXT_LENGTH_MAX),
            ("REFERENCE_LENGTH_MAX", REFERENCE_LENGTH_MAX),
            ("EXTERNAL_ID_LENGTH_MAX", account::EXTERNAL_ID_LENGTH_MAX),
        ] {
            let line = format!("const {name} = {length};\n");
            assert!(fields.contains(&line), "{line}");
        }
        let rows = fields.split("\n  [\"").skip(1);
        let scopes: BTreeSet<_> = rows.filter_map(|row| row.split('"').next()).collect();
        assert_eq!(scopes, Scope::ALL.map(Scope::name).into());
    }

    #[test]
    fn webhooks_of_the_consoles_have_the_names_and_limits_of_the_api() {
        let parts = content(OF_OWNERS, "webhook_parts.js");
        for (name, is_for_operators) in [("OWNERS_TYPES", false), ("OPERATORS_TYPES", true)] {
            let types = MessageType::subscribable();
            let types = types.filter(|it| it.is_for_operators() == is_for_operators);
            let types: Vec<_> = types.map(MessageType::name).collect();
            let types = types.join("\",\n  \"");
            let lines = format!("const {name} = [\n  \"{types}\",\n];\n");
            assert!(parts.contains(&lines), "{lines}");
        }
        for line in [
            format!("const DESCRIPTION_LENGTH_MAX = {DESCRIPTION_LENGTH_MAX};\n"),
            format!("const URL_LENGTH_MAX = {URL_LENGTH_MAX};\n"),
        ] {
            assert!(parts.contains(&line), "{line}");
        }
    }

    fn content(files: &[File], wanted: &str) -> &'static str {
        let file = files.iter().find(|(name, _)| *name == wanted);
        file.unwrap().1
    }
}
