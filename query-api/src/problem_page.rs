//! `GET /docs/problems/{code}`: a page that explains one code of the error catalogue to people.

use std::{fmt::Write as _, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{
        HeaderName, Uri,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use linkledger_core::field::FieldCode;
use linkledger_http::{
    problem::{Code, EXAMPLE_REQUEST_ID, Problem},
    route_table,
};

/// Headers of a page. The page loads the style sheet of query-api and nothing else.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_TYPE, "text/html; charset=utf-8"),
    // Only a new release changes the page.
    (CACHE_CONTROL, "public, max-age=3600"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    (REFERRER_POLICY, "no-referrer"),
];

/// Returns the route of the pages. The examples on the pages show addresses that begin with
/// `base_url`.
pub(crate) fn router(base_url: Arc<str>) -> Router {
    Router::new()
        .route(route_table::PROBLEM, get(problem_page))
        .with_state(base_url)
}

async fn problem_page(State(base_url): State<Arc<str>>, uri: Uri) -> Result<Response, Problem> {
    // The path is not percent-decoded: no code contains a percent sign.
    let code = uri.path().rsplit('/').next().and_then(Code::find);
    let code = code.ok_or_else(|| {
        let detail = "Check the path; the error catalogue has no such code.";
        Problem::new(Code::RouteNotFound, detail)
    })?;
    Ok((HEADERS, page(code, &base_url)).into_response())
}

fn page(code: Code, base_url: &str) -> String {
    let example = Problem::example_of(code).to_body(base_url, EXAMPLE_REQUEST_ID);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{name} · linkledger</title>\n\
         <link rel=\"stylesheet\" href=\"../page.css\">\n\
         <main class=\"problem\">\n\
         <p><code>{name}</code> · HTTP status {status}</p>\n<h1>{title}</h1>\n\
         <h2>What it means</h2>\n<p>{meaning}</p>\n\
         <h2>What to do</h2>\n<p>{advice}</p>\n{fields}\
         <h2>Example</h2>\n<pre>{example}</pre>\n\
         <p>Programs should decide by <code>code</code>, which never changes. \
         The whole API is described <a href=\"../../docs\">here</a>.</p>\n\
         </main>\n",
        name = code.as_str(),
        status = code.status(),
        title = escaped(code.title()),
        meaning = escaped(code.meaning()),
        advice = escaped(code.advice()),
        fields = if code == Code::ValidationFailed {
            field_codes()
        } else {
            String::new()
        },
        example = escaped(&format!("{example:#}")),
    )
}

/// Lists the codes that the entries of the member `errors` can have.
fn field_codes() -> String {
    let mut list = String::from("<h2>The codes of fields</h2>\n<dl>\n");
    for code in FieldCode::ALL {
        let detail = escaped(code.detail());
        writeln!(list, "<dt><code>{code}</code></dt><dd>{detail}</dd>")
            .expect("writing to a string never fails");
    }
    list + "</dl>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_meaning_advice_and_example() {
        for code in Code::ALL {
            let page = page(*code, "https://api.example.com");
            let name = code.as_str();
            for part in [
                format!("<h1>{}</h1>", code.title()),
                format!("<p>{}</p>", code.meaning()),
                format!("<p>{}</p>", code.advice()),
                format!("\"type\": \"https://api.example.com/docs/problems/{name}\""),
                format!("\"status\": {}", code.status()),
            ] {
                assert!(page.contains(&part), "{page} lacks {part}");
            }
        }
    }

    #[test]
    fn page_of_validation_failed_lists_field_codes() {
        let page = page(Code::ValidationFailed, "");
        for code in FieldCode::ALL {
            assert!(
                page.contains(&format!("<dt><code>{code}</code></dt>")),
                "{code}"
            );
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("<a & b>"), "&lt;a &amp; b&gt;");
    }
}
