//! `linkledger clicks`: clicks of a link or of the account, over time or by value.

mod chart;
mod range;
mod series;
mod top;

use clap::{Args, ValueEnum};
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    id::LinkId,
    link::{LinkName, Slug},
    timestamp,
};
use linkledger_service::number_format::counted;
use serde::Deserialize;
use time::OffsetDateTime;

use crate::{
    client::{ApiCall, ApiClient, connection::ApiOptions},
    links::find_link,
    options::whole_number,
    output::{WrongUse, note, print},
    paging::terminal_width,
    table::short_time,
};

/// Most items of a ranking: the largest number that the service returns.
const LIMIT_MAX: u32 = 100;

/// Sentence below an empty range.
const NEWER: &str = "A click shows once the statistics are complete beyond it, after some seconds";

/// Width of a chart that is not printed to a terminal.
const WIDTH_WITHOUT_TERMINAL: usize = 80;

/// Options of `linkledger clicks`.
#[derive(Debug, Args)]
pub(crate) struct ClicksOptions {
    #[command(flatten)]
    pub(crate) api: ApiOptions,
    /// Id (lnk_…), slug or short address of a link; without a link: all links of the account.
    #[arg(conflicts_with = "slug")]
    link: Option<LinkName>,
    /// Slug of a link.
    #[arg(long, value_parser = parse_slug)]
    slug: Option<Slug>,
    /// Begin of the range, such as 2026-11-01 or 2026-11-01T09:00:00Z. Default: the last 30 days; with
    /// --interval hour the last 48 hours.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the range, exclusive. Default: now.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Length of a bar's time. Default: day.
    #[arg(long, conflicts_with = "by")]
    interval: Option<IntervalOption>,
    /// Time zone of days, weeks and months, such as Europe/Berlin. Default: UTC. Top values are of whole UTC days.
    #[arg(long, value_name = "ZONE", conflicts_with = "by")]
    timezone: Option<String>,
    /// Show the most frequent values instead of bars over time.
    #[arg(long)]
    by: Option<ByOption>,
    /// Most values to show, 1 to 100. Default: 10.
    #[arg(long, value_name = "VALUES", requires = "by", value_parser = whole_number(1..=LIMIT_MAX))]
    limit: Option<u32>,
    /// Print CSV with a header row.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IntervalOption {
    Hour,
    Day,
    Week,
    Month,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ByOption {
    Country,
    #[value(name = "referrer_host", alias = "referrer-host")]
    ReferrerHost,
    Browser,
    Os,
    Device,
    /// The most clicked links of the account.
    Link,
}

/// Members of an answer that its table lacks.
#[derive(Deserialize)]
struct Completeness {
    complete_until: String,
    other: Option<u64>,
}

/// Prints clicks as a chart, as JSON or as CSV.
pub(crate) async fn run(clicks: ClicksOptions) -> anyhow::Result<()> {
    let by_slug = clicks.slug.clone().map(LinkName::Slug);
    let link = clicks.link.clone().or(by_slug);
    if clicks.by == Some(ByOption::Link) && link.is_some() {
        let advice = "--by link ranks the links of the account; leave out the link";
        return Err(WrongUse(advice.to_owned()).into());
    }
    let now = SystemClock.now();
    let client = clicks.api.client()?;
    let link_id = match &link {
        Some(name) => Some(find_link(&client, name).await?),
        None => None,
    };
    let call = clicks.call(link_id, now);
    let answer = client.send(&call).await?;
    if clicks.csv {
        // Read before the table: the table is complete at least until then.
        let completeness: Completeness = client.read(&call, &answer)?;
        return print_csv(&client, call, &completeness).await;
    }
    if clicks.api.json {
        return print(&answer.text());
    }
    let width = terminal_width().unwrap_or(WIDTH_WITHOUT_TERMINAL);
    let text = match clicks.by {
        None => series::text(&client.read(&call, &answer)?, width),
        Some(by) => {
            let title = by.title();
            let chart = if by == ByOption::Link {
                top::links(&client.read(&call, &answer)?, title, width)
            } else {
                top::values(&client.read(&call, &answer)?, title, width)
            };
            let (from, to) = (clicks.from.as_deref(), clicks.to.as_deref());
            range::of_utc_days(from, to, now).unwrap_or_default() + &chart
        }
    };
    print(&text)
}

impl ClicksOptions {
    fn call(&self, link_id: Option<LinkId>, now: OffsetDateTime) -> ApiCall {
        let from = match self.interval {
            Some(IntervalOption::Hour) if self.from.is_none() => {
                range::from_of_hours(self.to.as_deref(), now)
            }
            _ => self.from.clone(),
        };
        let id = link_id.map(|id| id.to_string());
        let mut path = match &id {
            Some(id) => vec!["v1", "links", id, "clicks"],
            None => vec!["v1", "clicks"],
        };
        path.extend(self.by.map(ByOption::path));
        let by = self.by.filter(|by| *by != ByOption::Link);
        ApiCall::get(&path)
            .query("by", by.as_ref().and_then(name))
            .query("limit", self.limit.map(|limit| limit.to_string()))
            .query("from", from)
            .query("to", self.to.clone())
            .query("interval", self.interval.as_ref().and_then(name))
            .query("timezone", self.timezone.clone())
    }
}

impl ByOption {
    /// Returns the last part of the path of the ranking.
    const fn path(self) -> &'static str {
        match self {
            Self::Link => "top-links",
            Self::Country | Self::ReferrerHost | Self::Browser | Self::Os | Self::Device => "top",
        }
    }

    /// Returns the title of the column.
    fn title(self) -> &'static str {
        match self {
            Self::Country => "COUNTRY",
            Self::ReferrerHost => "REFERRER",
            Self::Browser => "BROWSER",
            Self::Os => "OS",
            Self::Device => "DEVICE",
            Self::Link => "LINK",
        }
    }
}

/// Returns the name of a value on the command line and in the API.
pub(crate) fn name(value: &impl ValueEnum) -> Option<String> {
    let value = value.to_possible_value()?;
    Some(value.get_name().to_owned())
}

/// Parses a slug on the command line, so that a mistake is found before a request is sent.
fn parse_slug(text: &str) -> Result<Slug, String> {
    Slug::parse_stored(text).map_err(|code| code.detail().to_owned())
}

/// Asks for the table, prints it as it was sent, and notes its completeness on standard error.
async fn print_csv(
    client: &ApiClient,
    call: ApiCall,
    Completeness {
        complete_until,
        other,
    }: &Completeness,
) -> anyhow::Result<()> {
    let call = call.header("accept", Some("text/csv".to_owned()));
    let answer = client.send(&call).await?;
    let content_type = answer.header("content-type").unwrap_or_default();
    if !content_type.starts_with("text/csv") {
        return Err(client.not_the_api(&call, answer.status).into());
    }
    print(&String::from_utf8_lossy(&answer.body))?;
    if let Some(other) = other.filter(|other| *other > 0) {
        let clicks = counted(other, "click");
        note(&format!("other: {clicks} beyond these rows"));
    }
    note(&completeness(complete_until));
    Ok(())
}

/// Returns the sentence about the instant before which every click is in the statistics.
fn completeness(complete_until: &str) -> String {
    // Of a service whose clicks were never counted to the end of the topic.
    match timestamp::parse(complete_until) {
        Some(until) if until == OffsetDateTime::UNIX_EPOCH => {
            "Not complete yet: no click was counted, or clicks are switched off".to_owned()
        }
        _ => format!("Complete until {}", short_time(complete_until)),
    }
}
