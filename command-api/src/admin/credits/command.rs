//! `credits grant|adjust|set-balance|refund|revoke`.

use clap::{Args, Subcommand};
use linkledger_core::{
    clock::Clock,
    credits::GrantRequest,
    id::{AccountId, EntryId},
};
use linkledger_http::admin_views::EntryView;
use linkledger_service::{number_format::counted, operator::parse_text};

use super::{adjust, grant, parse_reference, refund, revoke_grant, set_balance};
use crate::admin::{AdminCommandOptions, Keyed, error::Done, print_done};

/// Commands on credits.
#[derive(Debug, Subcommand)]
pub enum CreditsSubcommand {
    /// Add credits to an account. A retry with the same --idempotency-key adds nothing.
    Grant(Keyed<GrantArguments>),
    /// Correct the balance of an account, upwards or, with a negative amount, downwards; never below
    /// 0. A retry with the same --idempotency-key changes nothing.
    Adjust(Keyed<GrantArguments>),
    /// Set the balance of an account, as one correction. A retry with the same --idempotency-key changes
    /// nothing.
    SetBalance(Keyed<SetBalanceArguments>),
    /// Give the credits of a charge back, as a whole and at most once.
    Refund(Keyed<RefundArguments>),
    /// Take the credits of a grant back, at most once: as many as the balance has.
    Revoke(Keyed<RevokeGrantArguments>),
}

/// Account to change, and the reason.
#[derive(Debug, Clone, Args)]
pub struct CreditsSubject {
    /// Account id: acc_….
    #[arg(long)]
    pub account: AccountId,
    /// Reason, recorded in the event log; the API does not show the reason to the owner.
    #[arg(long, value_parser = parse_text)]
    pub reason: String,
}

/// Arguments of `credits grant` and `credits adjust`.
#[derive(Debug, Clone, Args)]
pub struct GrantArguments {
    #[command(flatten)]
    pub subject: CreditsSubject,
    /// Number of credits to add; `adjust` subtracts a negative number.
    #[arg(long, allow_negative_numbers = true, value_parser = parse_amount)]
    pub amount: i64,
    /// Reference in your system, such as the number of an invoice.
    #[arg(long, value_parser = parse_reference)]
    pub reference: Option<String>,
    /// Text that the API shows to the owner.
    #[arg(long, value_parser = parse_text)]
    pub description: Option<String>,
}

/// Arguments of `credits set-balance`.
#[derive(Debug, Clone, Args)]
pub struct SetBalanceArguments {
    #[command(flatten)]
    pub subject: CreditsSubject,
    /// Balance after the command.
    #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
    pub balance: i64,
}

/// Arguments of `credits refund`.
#[derive(Debug, Clone, Args)]
pub struct RefundArguments {
    #[command(flatten)]
    pub subject: CreditsSubject,
    /// Entry of the charge: ent_….
    #[arg(long)]
    pub entry: EntryId,
}

/// Arguments of `credits revoke`.
#[derive(Debug, Clone, Args)]
pub struct RevokeGrantArguments {
    #[command(flatten)]
    pub subject: CreditsSubject,
    /// Entry of the grant: ent_….
    #[arg(long)]
    pub grant: EntryId,
}

/// Runs a command on credits.
pub(in crate::admin) async fn run(
    command: CreditsSubcommand,
    clock: &dyn Clock,
) -> anyhow::Result<()> {
    match command {
        CreditsSubcommand::Grant(command) => run_grant(command, clock).await,
        CreditsSubcommand::Adjust(command) => run_adjust(command, clock).await,
        CreditsSubcommand::SetBalance(command) => run_set_balance(command, clock).await,
        CreditsSubcommand::Refund(command) => run_refund(command, clock).await,
        CreditsSubcommand::Revoke(command) => run_revoke(command, clock).await,
    }
}

async fn run_grant(command: Keyed<GrantArguments>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let arguments = command.arguments();
    let account = arguments.subject.account;
    let done = grant(&request, account, &arguments.request()).await?;
    let credits = credits_text(&done);
    let text = with_balance(&format!("Granted {credits} for {account}"), &done);
    print_done(command.options(), &request, &done, &text)
}

async fn run_adjust(command: Keyed<GrantArguments>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let arguments = command.arguments();
    let account = arguments.subject.account;
    let done = adjust(&request, account, &arguments.request()).await?;
    let text = adjusted_text(account, &done);
    print_done(command.options(), &request, &done, &text)
}

async fn run_set_balance(
    command: Keyed<SetBalanceArguments>,
    clock: &dyn Clock,
) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let SetBalanceArguments { subject, balance } = command.arguments();
    let account = subject.account;
    let done = set_balance(&request, account, *balance, &subject.reason).await?;
    let text = adjusted_text(account, &done);
    print_done(command.options(), &request, &done, &text)
}

async fn run_refund(command: Keyed<RefundArguments>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let RefundArguments { subject, entry } = command.arguments();
    let account = subject.account;
    let done = refund(&request, account, *entry, &subject.reason).await?;
    let credits = credits_text(&done);
    let text = with_balance(&format!("Gave {credits} back to {account}"), &done);
    print_done(command.options(), &request, &done, &text)
}

async fn run_revoke(command: Keyed<RevokeGrantArguments>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let RevokeGrantArguments { subject, grant } = command.arguments();
    let account = subject.account;
    let done = revoke_grant(&request, account, *grant, &subject.reason).await?;
    let credits = credits_text(&done);
    let mut text = with_balance(&format!("Took {credits} back from {account}"), &done);
    if let Some(short) = done.value.short.filter(|short| *short > 0) {
        let missing = counted(short.unsigned_abs(), "credit");
        text = format!("{text} The balance lacked {missing} of the grant.");
    }
    print_done(command.options(), &request, &done, &text)
}

impl GrantArguments {
    fn request(&self) -> GrantRequest {
        GrantRequest {
            amount: self.amount,
            reason: self.subject.reason.clone(),
            reference: self.reference.clone(),
            description: self.description.clone(),
        }
    }
}

impl CreditsSubcommand {
    /// Returns the options of the command.
    pub(in crate::admin) const fn options(&self) -> &AdminCommandOptions {
        match self {
            Self::Grant(command) | Self::Adjust(command) => command.options(),
            Self::SetBalance(command) => command.options(),
            Self::Refund(command) => command.options(),
            Self::Revoke(command) => command.options(),
        }
    }
}

fn adjusted_text(account: AccountId, done: &Done<EntryView>) -> String {
    let sign = if done.value.amount < 0 { "-" } else { "" };
    let credits = credits_text(done);
    with_balance(&format!("Adjusted by {sign}{credits} for {account}"), done)
}

/// Returns the number of credits of an entry, without its sign.
fn credits_text(done: &Done<EntryView>) -> String {
    counted(done.value.amount.unsigned_abs(), "credit")
}

fn with_balance(text: &str, done: &Done<EntryView>) -> String {
    let EntryView {
        id, balance_after, ..
    } = &done.value;
    let note = done.note();
    format!("{text}{note}, entry {id}; balance after the change: {balance_after}.")
}

fn parse_amount(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(0) => Err("give a number of credits other than 0".to_owned()),
        Ok(amount) => Ok(amount),
        Err(error) => Err(format!("{error}; give a number of credits")),
    }
}
