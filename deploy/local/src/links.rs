//! `linkledger links`: one file for each operation, and the printed form of a link.

mod create;
mod delete;
mod details;
mod find;
mod get;
mod history;
mod list;
mod qr;
mod tags;
mod update;

use clap::{Args, Subcommand};
use serde::Deserialize;

pub(crate) use self::{find::find_link, history::Change};
use crate::{
    client::{ApiCall, ApiClient, ApiResponse, connection::ApiOptions},
    exit_code::EXIT_CODES,
    output::print,
    table::{record, short_time},
};

/// Options of `linkledger links`.
#[derive(Debug, Args)]
pub(crate) struct LinksOptions {
    #[command(flatten)]
    pub(crate) api: ApiOptions,
    #[command(subcommand)]
    command: LinksCommand,
}

#[derive(Debug, Subcommand)]
enum LinksCommand {
    /// Create a link; a link costs credits.
    #[command(after_help = EXIT_CODES)]
    Create(create::CreateLinkOptions),
    /// List links, newest first.
    #[command(after_help = EXIT_CODES)]
    List(list::ListLinksOptions),
    /// Show one link, as it is or as it was at an instant.
    #[command(after_help = EXIT_CODES)]
    Get(get::GetLinkOptions),
    /// List the events of a link, newest first: when and by whom it was changed.
    #[command(after_help = EXIT_CODES)]
    History(history::LinkHistoryOptions),
    /// Show the QR code of a link in the terminal, or write it to a file.
    #[command(after_help = EXIT_CODES)]
    Qr(qr::QrCodeOptions),
    /// Change destination and details of a link, disable or enable it; an empty value removes a detail.
    #[command(after_help = EXIT_CODES)]
    Update(update::UpdateLinkOptions),
    /// List the tags of the links, each with the number of its links.
    #[command(after_help = EXIT_CODES)]
    Tags(tags::ListTagsOptions),
    /// Delete a link for ever; no other link can get its slug.
    #[command(after_help = EXIT_CODES)]
    Delete(delete::DeleteLinkOptions),
}

/// Runs one of the commands on links.
pub(crate) async fn run(links: LinksOptions) -> anyhow::Result<()> {
    let client = links.api.client()?;
    let is_json = links.api.json;
    match links.command {
        LinksCommand::Create(create) => create::run(&client, &create, is_json).await,
        LinksCommand::List(list) => list::run(&client, &list, is_json).await,
        LinksCommand::Get(get) => get::run(&client, &get, is_json).await,
        LinksCommand::History(history) => history::run(&client, &history, is_json).await,
        LinksCommand::Qr(qr) => qr::run(&client, &qr).await,
        LinksCommand::Update(update) => update::run(&client, &update, is_json).await,
        LinksCommand::Tags(tags) => tags::run(&client, &tags, is_json).await,
        LinksCommand::Delete(delete) => delete::run(&client, &delete).await,
    }
}

/// A link as the API returns it. Only the response to a create has the credits.
#[derive(Debug, Deserialize)]
struct LinkDocument {
    id: String,
    short_url: String,
    destination_url: String,
    created_at: String,
    title: Option<String>,
    external_id: Option<String>,
    tags: Option<Vec<String>>,
    expires_at: Option<String>,
    expired_url: Option<String>,
    disabled_by: Option<String>,
    credits_charged: Option<i64>,
    credits_balance: Option<i64>,
}

/// Prints the link in the response to a call.
fn print_link(
    client: &ApiClient,
    call: &ApiCall,
    answer: &ApiResponse,
    is_json: bool,
) -> anyhow::Result<()> {
    let link: LinkDocument = client.read(call, answer)?;
    if is_json {
        return print(&answer.text());
    }
    let mut properties = vec![
        ("ID", link.id),
        ("Short URL", link.short_url),
        ("Destination", link.destination_url),
        ("Created", short_time(&link.created_at)),
    ];
    let details = [
        ("Title", link.title),
        ("External ID", link.external_id),
        ("Tags", link.tags.map(|tags| tags.join(", "))),
        ("Expires", link.expires_at.as_deref().map(short_time)),
        ("Then", link.expired_url),
        ("Disabled by", link.disabled_by),
    ];
    let details = details.into_iter();
    properties.extend(details.filter_map(|(name, value)| Some((name, value?))));
    if let Some(etag) = answer.header("etag") {
        properties.push(("ETag", etag.to_owned()));
    }
    if let (Some(charged), Some(balance)) = (link.credits_charged, link.credits_balance) {
        properties.push(("Credits", format!("{charged} charged, {balance} left")));
    }
    print(&record(&properties))
}

/// Parses an `ETag` on the command line. Adds the quotes of the `ETag`, which a shell removes.
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
    fn etag_gets_quotes_that_a_shell_removed() {
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
}
