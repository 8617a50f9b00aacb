//! Error pages: the reason, and what to do.

use axum::{
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use maud::{Markup, html};

use super::{
    figures::{cut, sentence},
    layout::{self, Nav},
};
use crate::operations::verify::subject::UnknownSubject;

/// Longest part of a request's text that an error page repeats, in characters.
const SHOWN_MAX: usize = 80;

/// Error page.
#[derive(Debug)]
pub(super) struct ErrorPage {
    status: StatusCode,
    title: &'static str,
    detail: String,
    help: Markup,
}

impl ErrorPage {
    pub(super) fn bad_parameter(name: &str, detail: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            title: "That cannot be asked like this",
            detail: format!("`{}`: {detail}", shown(name)),
            help: html! {
                "Change the address, or begin again with " a href="/events" { "all events" } "."
            },
        }
    }

    pub(super) fn bad_id(given: &str, kind: &str, prefix: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            title: "That is no id",
            detail: format!("`{}` is not the id of {kind}.", shown(given)),
            help: html! {
                "An id is " code { (prefix) } " and 26 digits and small letters without i, l, o, u; \
                 copy it as a whole. " (find_help())
            },
        }
    }

    pub(super) fn unfindable(given: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            title: "That cannot be found by",
            detail: format!(
                "`{}` is neither an id nor a slug nor a part of a name.",
                shown(given)
            ),
            help: find_by(),
        }
    }

    pub(super) fn nothing_found(wanted: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            title: "There is no such thing in the log",
            detail: format!(
                "No link has the slug `{}`, and no account has this text in its name.",
                shown(wanted)
            ),
            help: find_by(),
        }
    }

    pub(super) fn not_found(what: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            title: "There is no such thing in the log",
            detail: what.to_owned(),
            help: html! {
                "Is it from another installation, or from before the log was restored? "
                (find_help())
            },
        }
    }

    pub(super) fn no_such_page(path: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            title: "There is no such page",
            detail: format!("`{}` is not a page of the console.", shown(path)),
            help: html! {
                "There are the " a href="/" { "overview" } ", the " a href="/events" { "events" }
                ", and a page for each account and each link. " (find_help())
            },
        }
    }

    pub(super) fn only_to_read(method: &Method) -> Self {
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            title: "The console only shows",
            detail: format!("{method} changes things; here there are GET and HEAD."),
            help: html! {
                "What an operator changes is changed by commands: " code { "projector --help" } ", "
                code { "command-api --help" } "."
            },
        }
    }

    pub(super) fn unknown_host() -> Self {
        Self {
            status: StatusCode::MISDIRECTED_REQUEST,
            title: "The console does not know itself by this name",
            detail: "The console is not known by the name in the address; the request could come from a page of \
                     somebody who wants to read along."
                .to_owned(),
            help: html! {
                "Use the IP address or " code { "localhost" } ", or start the projector with "
                code { "--internal-host NAME" } "."
            },
        }
    }

    fn unanswered(error: &str) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            title: "The database does not answer",
            detail: error.to_owned(),
            help: html! {
                "The pages have nothing to show without it. Look at " a href="/metrics" { "/metrics" }
                " and at the log of this process; reload the page when the database is back."
            },
        }
    }
}

/// Returns the beginning of a text from the request.
fn shown(text: &str) -> String {
    cut(text, SHOWN_MAX)
}

/// Lists what links and accounts are found by.
fn find_by() -> Markup {
    html! {
        "Links and accounts are found by id (" code { "lnk_…" } ", " code { "acc_…" }
        "), links by slug too: 1 to 64 letters, digits, " code { "." } ", " code { "_" } " and " code { "-" }
        ", or by the whole short link; accounts by a part of their name."
    }
}

fn find_help() -> Markup {
    html! { "The field at the top finds links and accounts by id, links by slug, and accounts by name." }
}

impl From<sqlx::Error> for ErrorPage {
    fn from(error: sqlx::Error) -> Self {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "console: the database does not answer"
        );
        Self::unanswered(&error.to_string())
    }
}

impl From<UnknownSubject> for ErrorPage {
    fn from(unknown: UnknownSubject) -> Self {
        Self::not_found(&match unknown {
            UnknownSubject::Link(link_id) => format!("There is no link {link_id}."),
            UnknownSubject::Account(account_id) => format!("There is no account {account_id}."),
        })
    }
}

impl From<anyhow::Error> for ErrorPage {
    fn from(error: anyhow::Error) -> Self {
        if let Some(unknown) = error.downcast_ref::<UnknownSubject>() {
            return (*unknown).into();
        }
        tracing::warn!(error = format!("{error:#}"), "console: nothing to show");
        Self::unanswered(&format!("{error:#}"))
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let content = html! {
            section.refusal {
                p.status { "HTTP status " (self.status.as_u16()) }
                h1 { (self.title) }
                p { (sentence(&self.detail)) }
                p { (self.help) }
            }
        };
        (
            self.status,
            layout::page(self.title, Nav::Elsewhere, &content),
        )
            .into_response()
    }
}
