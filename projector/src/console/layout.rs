//! Frame of every page.

use axum::response::{Html, IntoResponse, Response};
use linkledger_core::printable::printable;
use maud::{DOCTYPE, Markup, html};

const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='3' fill='%231f4e5f'/%3E%3Cpath d='M5 3v9h6' fill='none' stroke='white' stroke-width='2.5'/%3E%3C/svg%3E";

/// Page that the navigation marks as current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nav {
    Overview,
    Events,
    Elsewhere,
}

/// Returns a page with the frame. Characters that are not printable are shown escaped.
pub(super) fn page(title: &str, nav: Nav, content: &Markup) -> Html<String> {
    let current = |of: Nav| (nav == of).then_some("page");
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) " · linkledger console" }
                link rel="icon" href=(ICON);
                link rel="stylesheet" href="/console.css";
                script src="/console.js" defer {}
            }
            body {
                a.skip href="#content" { "To the content" }
                header {
                    p.brand { "linkledger " span { "console" } }
                    nav aria-label="Pages" {
                        a href="/" aria-current=[current(Nav::Overview)] { "Overview" }
                        a href="/events" aria-current=[current(Nav::Events)] { "Events" }
                    }
                    form.find action="/find" role="search" {
                        label for="find" { "Find" }
                        input #find name="q" type="search" required maxlength="200"
                            autocomplete="off" spellcheck="false" autocapitalize="none"
                            placeholder="lnk_…, acc_…, slug or account";
                        button { "Go" }
                    }
                }
                main #content { (content) }
                footer {
                    "Read-only. All times are UTC. To change something, run a command: "
                    code { "projector --help" } "."
                }
            }
        }
    };
    let text = markup.into_string();
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    Html(lines.join("\n"))
}

/// Returns a page with status 200.
pub(super) fn answer(title: &str, nav: Nav, content: &Markup) -> Response {
    page(title, nav, content).into_response()
}
