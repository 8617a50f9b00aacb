//! `linkledger links`: one file for each operation, and how a link is shown.

mod create;
mod delete;
mod get;
mod list;
mod update;

use clap::{Args, Subcommand};
use linkledger_core::id::LinkId;
use serde::Deserialize;

use crate::{
    client::{Answer, Call, Client, connection::ApiOptions},
    output::{EXIT_CODES, print},
    table::{record, short_time},
};

/// What to do with which links.
#[derive(Debug, Args)]
pub(crate) struct Links {
    #[command(flatten)]
    pub(crate) api: ApiOptions,
    #[command(subcommand)]
    command: LinksCommand,
}

#[derive(Debug, Subcommand)]
enum LinksCommand {
    /// Create a link; it costs credits.
    #[command(after_help = EXIT_CODES)]
    Create(create::CreateLink),
    /// List links, newest first.
    #[command(after_help = EXIT_CODES)]
    List(list::ListLinks),
    /// Show one link.
    #[command(after_help = EXIT_CODES)]
    Get(get::GetLink),
    /// Lead a link to another destination.
    #[command(after_help = EXIT_CODES)]
    Update(update::UpdateLink),
    /// Delete a link; its slug is never given out again.
    #[command(after_help = EXIT_CODES)]
    Delete(delete::DeleteLink),
}

/// Runs the command.
pub(crate) async fn run(links: Links) -> anyhow::Result<()> {
    let client = links.api.client()?;
    let is_json = links.api.json;
    match links.command {
        LinksCommand::Create(create) => create::run(&client, &create, is_json).await,
        LinksCommand::List(list) => list::run(&client, &list, is_json).await,
        LinksCommand::Get(get) => get::run(&client, &get, is_json).await,
        LinksCommand::Update(update) => update::run(&client, &update, is_json).await,
        LinksCommand::Delete(delete) => delete::run(&client, &delete).await,
    }
}

/// A link as the API shows it; the credits only when it is created.
#[derive(Debug, Deserialize)]
struct Link {
    id: String,
    short_url: String,
    destination_url: String,
    created_at: String,
    credits_charged: Option<i64>,
    credits_balance: Option<i64>,
}

/// Prints the one link that the answer holds.
fn print_link(client: &Client, call: &Call, answer: &Answer, is_json: bool) -> anyhow::Result<()> {
    let link: Link = client.read(call, answer)?;
    if is_json {
        return print(&answer.text());
    }
    let mut properties = vec![
        ("ID", link.id),
        ("Short URL", link.short_url),
        ("Destination", link.destination_url),
        ("Created", short_time(&link.created_at)),
    ];
    if let Some(etag) = answer.header("etag") {
        properties.push(("ETag", etag.to_owned()));
    }
    if let (Some(charged), Some(balance)) = (link.credits_charged, link.credits_balance) {
        properties.push(("Credits", format!("{charged} charged, {balance} left")));
    }
    print(&record(&properties))
}

/// An id, so that a mistake is found before anything is sent.
fn link_id(text: &str) -> Result<LinkId, String> {
    text.parse().map_err(|_| {
        format!(
            "an id is {} and 26 letters and digits; `linkledger links list --slug SLUG` finds the \
             id of a slug",
            LinkId::PREFIX
        )
    })
}

/// The `ETag` with the quotes that belong to it, which a shell takes away.
fn etag(text: &str) -> Result<String, String> {
    if !text.chars().all(|c| c.is_ascii_graphic()) {
        return Err("an ETag has no spaces and no control characters".to_owned());
    }
    let is_whole = text == "*" || text.ends_with('"');
    Ok(if is_whole {
        text.to_owned()
    } else {
        format!("\"{text}\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_has_its_quotes_whether_a_shell_took_them_or_not() {
        for (given, sent) in [
            ("3", "\"3\""),
            ("\"3\"", "\"3\""),
            ("*", "*"),
            ("W/\"3\"", "W/\"3\""),
        ] {
            assert_eq!(etag(given).unwrap(), sent);
        }
        assert!(etag("3\r\nx: y").is_err());
    }

    #[test]
    fn a_slug_is_no_id_and_it_is_said_where_the_id_is() {
        assert!(link_id("lnk_01jd3k5x7zexrbfmv2pcg9h4ta").is_ok());
        for text in ["spring", "lnk_1", "LNK_01jd3k5x7zexrbfmv2pcg9h4ta", ""] {
            assert!(link_id(text).unwrap_err().contains("list --slug"), "{text}");
        }
    }
}
