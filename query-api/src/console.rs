//! The console for owners of links: static files, compiled into the program.
//!
//! The console is a client of the public API and has no route besides its files. Its addresses are relative, so
//! the console also works where the API lies below a path of its host.

use std::sync::Arc;

use axum::{
    Router,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY},
    },
    response::{IntoResponse, Response},
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

/// Address of the console relative to [`route_table::CONSOLE`].
const FROM_CONSOLE: HeaderValue = HeaderValue::from_static("console/");

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Returns the name and the content of each script in the folder `query-api/console`.
macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../console/", $name)))),*]
    };
}

const SCRIPTS: &[(&str, &str)] = &scripts![
    "account_page.js",
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
    "files.js",
    "format.js",
    "import_form.js",
    "import_outcomes.js",
    "import_rule.js",
    "item_keys.js",
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
    "older_pages.js",
    "one_link_form.js",
    "page_parts.js",
    "page_style.js",
    "problem_view.js",
    "qr_code.js",
    "search_text.js",
    "selection_actions.js",
    "session.js",
    "tag_suggestions.js",
    "top_list.js",
    "waiting.js",
];

/// Returns the routes of the console, and of the page at `/` that leads to it.
pub(crate) fn router() -> Router {
    let pages = Router::new()
        .route(
            route_table::HOME,
            file(HTML, include_str!("../console/home.html")),
        )
        .route(route_table::CONSOLE, get(to_console))
        .route(
            route_table::CONSOLE_PAGE,
            file(HTML, include_str!("../console/index.html")),
        )
        .route(&path_of("console.css"), file(CSS, CONSOLE_STYLE))
        .route(
            &path_of("owners.css"),
            file(CSS, include_str!("../console/owners.css")),
        )
        .route(
            &path_of("pages.css"),
            file(CSS, include_str!("../console/pages.css")),
        );
    SCRIPTS.iter().fold(pages, |router, (name, script)| {
        router.route(&path_of(name), file(JS, script))
    })
}

fn path_of(name: &str) -> String {
    route_table::CONSOLE_FILE.replace("{file}", name)
}

async fn to_console() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, FROM_CONSOLE)]).into_response()
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
    use linkledger_core::link::{
        details::{EXPIRY_AHEAD_MAX, EXTERNAL_ID_LENGTH_MAX, TITLE_LENGTH_MAX},
        tag::{TAG_LENGTH_MAX, TAGS_MAX},
    };

    use super::*;

    /// A script can't read the limits, so their copies are compared.
    #[test]
    fn imports_of_the_console_have_the_limits_of_the_api() {
        let mut scripts = SCRIPTS.iter();
        let (_, rule) = scripts.find(|(name, _)| *name == "import_rule.js").unwrap();
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
}
