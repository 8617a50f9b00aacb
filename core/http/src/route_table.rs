//! Tables of paths and methods, from which both services answer 404, 405 and `Allow`: one of the public API, one of the
//! admin API.

use axum::http::Method;

/// Collection of links.
pub const LINKS: &str = "/v1/links";
/// Several new links in one request. Before [`LINK`], whose pattern matches the path too.
pub const LINK_BATCH: &str = "/v1/links/batch";
/// A single link.
pub const LINK: &str = "/v1/links/{id}";
/// Events of a link.
pub const LINK_HISTORY: &str = "/v1/links/{id}/history";
/// QR code of a link's short address.
pub const LINK_QR_CODE: &str = "/v1/links/{id}/qr";
/// Clicks of a link over time.
pub const LINK_CLICKS: &str = "/v1/links/{id}/clicks";
/// Most frequent values of a link's clicks.
pub const LINK_TOP_CLICKS: &str = "/v1/links/{id}/clicks/top";
/// Tags of the account's links.
pub const TAGS: &str = "/v1/tags";
/// Clicks of the account over time.
pub const CLICKS: &str = "/v1/clicks";
/// Most frequent values of the account's clicks.
pub const TOP_CLICKS: &str = "/v1/clicks/top";
/// Most clicked links of the account.
pub const TOP_LINKS: &str = "/v1/clicks/top-links";
/// Balance of the account.
pub const CREDITS: &str = "/v1/credits";
/// Entries of the account's ledger.
pub const CREDIT_ENTRIES: &str = "/v1/credits/entries";
/// Events of the account.
pub const EVENTS: &str = "/v1/events";
/// Webhooks of the account.
pub const WEBHOOKS: &str = "/v1/webhooks";
/// A single webhook.
pub const WEBHOOK: &str = "/v1/webhooks/{webhook_id}";
/// Replaces the secret of a webhook.
pub const WEBHOOK_ROTATE_SECRET: &str = "/v1/webhooks/{webhook_id}/rotate-secret";
/// Sends a message for a test to a webhook.
pub const WEBHOOK_TEST: &str = "/v1/webhooks/{webhook_id}/test";
/// Sends messages again to a webhook.
pub const WEBHOOK_REPLAY: &str = "/v1/webhooks/{webhook_id}/replay";
/// Deliveries to a webhook.
pub const WEBHOOK_DELIVERIES: &str = "/v1/webhooks/{webhook_id}/deliveries";
/// A single delivery.
pub const WEBHOOK_DELIVERY: &str = "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}";
/// Attempts a delivery again.
pub const WEBHOOK_DELIVERY_RETRY: &str = "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry";
/// Page that leads to the console and to the documentation.
pub const HOME: &str = "/";
/// Console for owners of links, without the slash that its relative addresses need.
pub const CONSOLE: &str = "/console";
/// Page of the console for owners of links.
pub const CONSOLE_PAGE: &str = "/console/";
/// File that the page at [`CONSOLE_PAGE`] loads.
pub const CONSOLE_FILE: &str = "/console/{file}";
/// Exchanges the code of a console session for an API key. Before [`CONSOLE_FILE`], whose pattern matches the path too.
pub const CONSOLE_SESSION: &str = "/console/session";
/// Machine-readable description of the API.
pub const OPENAPI: &str = "/openapi.json";
/// Documentation of the API for people.
pub const DOCS: &str = "/docs";
/// Style sheet of the page at [`DOCS`].
pub const DOCS_STYLE: &str = "/docs/page.css";
/// Script of the page at [`DOCS`].
pub const DOCS_SCRIPT: &str = "/docs/start.js";
/// Style sheet of Swagger UI.
pub const SWAGGER_UI_STYLE: &str = "/docs/swagger-ui.css";
/// Script of Swagger UI, which renders the document.
pub const SWAGGER_UI_SCRIPT: &str = "/docs/swagger-ui-bundle.js";
/// Page about one code of the error catalogue.
pub const PROBLEM: &str = "/docs/problems/{code}";

/// Accounts of the service.
pub const ADMIN_ACCOUNTS: &str = "/admin/v1/accounts";
/// A single account.
pub const ADMIN_ACCOUNT: &str = "/admin/v1/accounts/{account_id}";
/// A single account, by its id in the seller's system, which is percent-encoded.
pub const ADMIN_ACCOUNT_BY_EXTERNAL_ID: &str = "/admin/v1/accounts/by-external-id/{external_id}";
/// Start of [`ADMIN_ACCOUNT_BY_EXTERNAL_ID`].
pub const ADMIN_ACCOUNTS_BY_EXTERNAL_ID: &str = "/admin/v1/accounts/by-external-id";
/// Suspends an account.
pub const ADMIN_ACCOUNT_SUSPEND: &str = "/admin/v1/accounts/{account_id}/suspend";
/// Puts a suspended account back into service.
pub const ADMIN_ACCOUNT_RESUME: &str = "/admin/v1/accounts/{account_id}/resume";
/// API keys of an account.
pub const ADMIN_ACCOUNT_KEYS: &str = "/admin/v1/accounts/{account_id}/keys";
/// Grants of credits to an account.
pub const ADMIN_GRANTS: &str = "/admin/v1/accounts/{account_id}/grants";
/// Corrections of an account's balance by an amount.
pub const ADMIN_ADJUSTMENTS: &str = "/admin/v1/accounts/{account_id}/adjustments";
/// Charges that are given back to an account.
pub const ADMIN_REFUNDS: &str = "/admin/v1/accounts/{account_id}/refunds";
/// Balance of an account, as it shall be.
pub const ADMIN_BALANCE: &str = "/admin/v1/accounts/{account_id}/balance";
/// Grants that are taken back from an account.
pub const ADMIN_REVOCATIONS: &str = "/admin/v1/accounts/{account_id}/revocations";
/// Entries of an account's ledger.
pub const ADMIN_ACCOUNT_ENTRIES: &str = "/admin/v1/accounts/{account_id}/entries";
/// Events of an account's stream and of its links.
pub const ADMIN_ACCOUNT_EVENTS: &str = "/admin/v1/accounts/{account_id}/events";
/// Start of the paths of API keys.
pub const ADMIN_KEYS: &str = "/admin/v1/keys";
/// A single API key.
pub const ADMIN_KEY: &str = "/admin/v1/keys/{key_id}";
/// Replaces an API key.
pub const ADMIN_KEY_ROTATE: &str = "/admin/v1/keys/{key_id}/rotate";
/// Links of all accounts.
pub const ADMIN_LINKS: &str = "/admin/v1/links";
/// Takes a link out of service.
pub const ADMIN_LINK_DISABLE: &str = "/admin/v1/links/{link_id}/disable";
/// Puts a link back into service.
pub const ADMIN_LINK_ENABLE: &str = "/admin/v1/links/{link_id}/enable";
/// Events of a link's stream.
pub const ADMIN_LINK_EVENTS: &str = "/admin/v1/links/{link_id}/events";
/// Events of the whole log.
pub const ADMIN_EVENTS: &str = "/admin/v1/events";
/// Codes that open the console of an account's owner.
pub const ADMIN_CONSOLE_SESSIONS: &str = "/admin/v1/accounts/{account_id}/console-sessions";
/// Webhooks of the operators.
pub const ADMIN_WEBHOOKS: &str = "/admin/v1/webhooks";
/// A single webhook of the operators.
pub const ADMIN_WEBHOOK: &str = "/admin/v1/webhooks/{webhook_id}";
/// Replaces the secret of a webhook of the operators.
pub const ADMIN_WEBHOOK_ROTATE_SECRET: &str = "/admin/v1/webhooks/{webhook_id}/rotate-secret";
/// Sends a message for a test to a webhook of the operators.
pub const ADMIN_WEBHOOK_TEST: &str = "/admin/v1/webhooks/{webhook_id}/test";
/// Sends messages again to a webhook of the operators.
pub const ADMIN_WEBHOOK_REPLAY: &str = "/admin/v1/webhooks/{webhook_id}/replay";
/// Deliveries to a webhook of the operators.
pub const ADMIN_WEBHOOK_DELIVERIES: &str = "/admin/v1/webhooks/{webhook_id}/deliveries";
/// A single delivery to a webhook of the operators.
pub const ADMIN_WEBHOOK_DELIVERY: &str = "/admin/v1/webhooks/{webhook_id}/deliveries/{delivery_id}";
/// Attempts a delivery to a webhook of the operators again.
pub const ADMIN_WEBHOOK_DELIVERY_RETRY: &str =
    "/admin/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry";
/// State of all followers of the log.
pub const ADMIN_STATUS: &str = "/admin/v1/status";
/// Start of the paths of followers.
pub const ADMIN_FOLLOWERS: &str = "/admin/v1/followers";
/// Stops a follower of the log.
pub const ADMIN_FOLLOWER_PAUSE: &str = "/admin/v1/followers/{name}/pause";
/// Continues a follower of the log.
pub const ADMIN_FOLLOWER_RESUME: &str = "/admin/v1/followers/{name}/resume";
/// Console for operators, without the slash that its relative addresses need.
pub const OPERATORS: &str = "/operators";
/// Page of the console for operators.
pub const OPERATORS_PAGE: &str = "/operators/";
/// File that the page at [`OPERATORS_PAGE`] loads, besides files at [`CONSOLE_FILE`].
pub const OPERATORS_FILE: &str = "/operators/{file}";

const READ: &[Method] = &[Method::GET, Method::HEAD];
const POST: &[Method] = &[Method::POST];
const READ_OR_POST: &[Method] = &[Method::GET, Method::HEAD, Method::POST];
const READ_OR_CHANGE: &[Method] = &[Method::GET, Method::HEAD, Method::PATCH, Method::DELETE];

/// A path with the methods that clients may use.
pub type Route = (&'static str, &'static [Method]);

/// All paths of the public listeners.
pub const TABLE: &[Route] = &[
    // The service as a whole.
    ("*", &[]),
    (LINKS, &[Method::GET, Method::HEAD, Method::POST]),
    (LINK_BATCH, &[Method::POST]),
    (
        LINK,
        &[Method::GET, Method::HEAD, Method::PATCH, Method::DELETE],
    ),
    (LINK_HISTORY, READ),
    (LINK_QR_CODE, READ),
    (LINK_CLICKS, READ),
    (LINK_TOP_CLICKS, READ),
    (TAGS, READ),
    (CLICKS, READ),
    (TOP_CLICKS, READ),
    (TOP_LINKS, READ),
    (CREDITS, READ),
    (CREDIT_ENTRIES, READ),
    (EVENTS, READ),
    (WEBHOOKS, READ_OR_POST),
    (WEBHOOK, READ_OR_CHANGE),
    (WEBHOOK_ROTATE_SECRET, POST),
    (WEBHOOK_TEST, POST),
    (WEBHOOK_REPLAY, POST),
    (WEBHOOK_DELIVERIES, READ),
    (WEBHOOK_DELIVERY, READ),
    (WEBHOOK_DELIVERY_RETRY, POST),
    (HOME, READ),
    (CONSOLE, READ),
    (CONSOLE_PAGE, READ),
    (CONSOLE_SESSION, POST),
    (CONSOLE_FILE, READ),
    (OPENAPI, READ),
    (DOCS, READ),
    (DOCS_STYLE, READ),
    (DOCS_SCRIPT, READ),
    (SWAGGER_UI_STYLE, READ),
    (SWAGGER_UI_SCRIPT, READ),
    (PROBLEM, READ),
];

/// All paths of the admin listener.
pub const ADMIN_TABLE: &[Route] = &[
    ("*", &[]),
    (ADMIN_ACCOUNTS, &[Method::GET, Method::HEAD, Method::POST]),
    (
        ADMIN_ACCOUNT_BY_EXTERNAL_ID,
        &[Method::GET, Method::HEAD, Method::PUT],
    ),
    (ADMIN_ACCOUNT, &[Method::GET, Method::HEAD, Method::PATCH]),
    (ADMIN_ACCOUNT_SUSPEND, POST),
    (ADMIN_ACCOUNT_RESUME, POST),
    (
        ADMIN_ACCOUNT_KEYS,
        &[Method::GET, Method::HEAD, Method::POST],
    ),
    (ADMIN_GRANTS, POST),
    (ADMIN_ADJUSTMENTS, POST),
    (ADMIN_REFUNDS, POST),
    (ADMIN_BALANCE, POST),
    (ADMIN_REVOCATIONS, POST),
    (ADMIN_ACCOUNT_ENTRIES, READ),
    (ADMIN_ACCOUNT_EVENTS, READ),
    (
        ADMIN_KEY,
        &[Method::GET, Method::HEAD, Method::PATCH, Method::DELETE],
    ),
    (ADMIN_KEY_ROTATE, POST),
    (ADMIN_LINKS, READ),
    (ADMIN_LINK_DISABLE, POST),
    (ADMIN_LINK_ENABLE, POST),
    (ADMIN_LINK_EVENTS, READ),
    (ADMIN_EVENTS, READ),
    (ADMIN_CONSOLE_SESSIONS, POST),
    (ADMIN_WEBHOOKS, READ_OR_POST),
    (ADMIN_WEBHOOK, READ_OR_CHANGE),
    (ADMIN_WEBHOOK_ROTATE_SECRET, POST),
    (ADMIN_WEBHOOK_TEST, POST),
    (ADMIN_WEBHOOK_REPLAY, POST),
    (ADMIN_WEBHOOK_DELIVERIES, READ),
    (ADMIN_WEBHOOK_DELIVERY, READ),
    (ADMIN_WEBHOOK_DELIVERY_RETRY, POST),
    (ADMIN_STATUS, READ),
    (ADMIN_FOLLOWER_PAUSE, POST),
    (ADMIN_FOLLOWER_RESUME, POST),
    (HOME, READ),
    (OPERATORS, READ),
    (OPERATORS_PAGE, READ),
    (OPERATORS_FILE, READ),
    (CONSOLE_FILE, READ),
];

/// Returns the value of `Allow` for a path; `None` if the table lacks the path.
pub fn allowed_methods(table: &'static [Route], path: &str) -> Option<String> {
    let (_, methods) = entry(table, path)?;
    let names = methods.iter().map(Method::as_str).chain(["OPTIONS"]);
    Some(names.collect::<Vec<_>>().join(", "))
}

/// Returns the template that matches the path of a request.
pub fn template(table: &'static [Route], path: &str) -> Option<&'static str> {
    let (template, _) = entry(table, path)?;
    Some(template)
}

/// Returns true for a path that only the public API has. The short host has the page at [`HOME`] itself.
pub fn is_of_api(path: &str) -> bool {
    let is_known =
        template(TABLE, path).is_some_and(|template| template != HOME && template != "*");
    is_known || path == "/v1" || path.starts_with("/v1/")
}

fn entry(table: &'static [Route], path: &str) -> Option<&'static Route> {
    table.iter().find(|(pattern, _)| matches(pattern, path))
}

/// Returns true if the path matches: a `{name}` stands for one part that is not empty; every other part
/// must be equal, letter case included.
fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    let mut patterns = pattern.split('/');
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if pattern.starts_with('{') && !part.is_empty() => {}
            (Some(pattern), Some(part)) if pattern == part => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed_methods(path: &str) -> Option<String> {
        super::allowed_methods(TABLE, path)
    }

    #[test]
    fn a_path_knows_its_methods() {
        assert_eq!(
            allowed_methods("/v1/links").as_deref(),
            Some("GET, HEAD, POST, OPTIONS")
        );
        assert_eq!(allowed_methods("*").as_deref(), Some("OPTIONS"));
        assert_eq!(
            allowed_methods("/v1/links/batch").as_deref(),
            Some("POST, OPTIONS")
        );
        assert_eq!(
            allowed_methods("/v1/links/lnk_1").as_deref(),
            Some("GET, HEAD, PATCH, DELETE, OPTIONS")
        );
        assert_eq!(
            allowed_methods("/console/session").as_deref(),
            Some("POST, OPTIONS")
        );
        for (path, methods) in [
            ("/v1/webhooks", "GET, HEAD, POST, OPTIONS"),
            ("/v1/webhooks/whe_1", "GET, HEAD, PATCH, DELETE, OPTIONS"),
            ("/v1/webhooks/whe_1/rotate-secret", "POST, OPTIONS"),
            ("/v1/webhooks/whe_1/deliveries", "GET, HEAD, OPTIONS"),
            ("/v1/webhooks/whe_1/deliveries/dlv_1", "GET, HEAD, OPTIONS"),
            ("/v1/webhooks/whe_1/deliveries/dlv_1/retry", "POST, OPTIONS"),
        ] {
            assert_eq!(allowed_methods(path).as_deref(), Some(methods), "{path}");
        }
        for path in [
            "/v1/credits",
            "/v1/credits/entries",
            "/v1/links/lnk_1/history",
            "/v1/links/lnk_1/qr",
            "/v1/links/lnk_1/clicks",
            "/v1/links/lnk_1/clicks/top",
            "/v1/tags",
            "/v1/clicks",
            "/v1/clicks/top-links",
            "/v1/events",
            "/docs/problems/x",
            "/",
            "/console",
            "/console/",
            "/console/x.js",
        ] {
            assert_eq!(allowed_methods(path).as_deref(), Some("GET, HEAD, OPTIONS"));
        }
    }

    #[test]
    fn paths_of_the_api_are_known() {
        for path in [
            "/v1/links",
            "/v1/links/",
            "/v1/x",
            "/v1",
            "/docs",
            "/console/",
            "/openapi.json",
        ] {
            assert!(is_of_api(path), "{path}");
        }
        for path in [
            "/",
            "*",
            "",
            "/v1x",
            "/spring-sale",
            "/docs-of-spring",
            "/docs/x",
        ] {
            assert!(!is_of_api(path), "{path}");
        }
    }

    #[test]
    fn paths_are_exact() {
        for path in [
            "",
            "//",
            "/console/a/b",
            "/console//",
            "/Console/",
            "/v1",
            "/v1/links/",
            "/v1//links",
            "/V1/links",
            "/v1/links/a/b",
            "/v1/links/batch/",
            "/v1/links;x",
            "/v1/link%73",
            "/v1/./links",
            "/v1/x/../links",
            "/v1/credits/",
            "/v1/credits/entries/x",
            "/v1/events/",
            "/v1/events/evt_1",
            "/docs/",
            "/docs/problems",
            "/docs/problems/",
            "/docs/swagger-ui.js",
            "/openapi.JSON",
        ] {
            assert_eq!(allowed_methods(path), None, "{path}");
        }
    }

    #[test]
    fn listener_knows_only_its_own_paths() {
        let on_admin_listener = |path: &str| super::allowed_methods(ADMIN_TABLE, path);
        for (path, methods) in [
            ("/admin/v1/accounts", "GET, HEAD, POST, OPTIONS"),
            (
                "/admin/v1/accounts/by-external-id/customers%2F7",
                "GET, HEAD, PUT, OPTIONS",
            ),
            ("/admin/v1/accounts/acc_1", "GET, HEAD, PATCH, OPTIONS"),
            ("/admin/v1/accounts/acc_1/grants", "POST, OPTIONS"),
            ("/admin/v1/keys/key_1", "GET, HEAD, PATCH, DELETE, OPTIONS"),
            ("/operators/", "GET, HEAD, OPTIONS"),
        ] {
            assert_eq!(on_admin_listener(path).as_deref(), Some(methods), "{path}");
            assert_eq!(allowed_methods(path), None, "{path}");
        }
        for path in [
            "/v1/links",
            "/docs",
            "/console/",
            "/console",
            "/admin/v1",
            "/admin/v1/keys",
            "/admin/v1/accounts/by-external-id/customers/7",
        ] {
            assert_eq!(on_admin_listener(path), None, "{path}");
        }
    }
}
