//! Expiries as other products write them, as instants of RFC 3339.

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    field::FieldCode,
    link::Expiry,
};

use super::{
    blank::trimmed,
    record::{Change, Refusal, shown},
};

/// Length of `2030-01-31`.
const DATE_LENGTH: usize = 10;
/// Begin of the texts that databases and PHP write for no date.
const NO_DATE: &str = "0000-00-00";

/// Returns the expiry; `None` for a link that does not expire.
///
/// # Errors
/// Returns a refusal for a text that is no date: without its expiry, the link would be more public than before.
pub(super) fn fitted(given: &str, changes: &mut Vec<Change>) -> Result<Option<String>, Refusal> {
    let text = trimmed(given);
    if text.is_empty() || text.starts_with(NO_DATE) {
        return Ok(None);
    }
    let instant = if Expiry::parse(text).is_ok() && !text.contains(' ') {
        text.to_owned()
    } else {
        let instant = instant(text).filter(|instant| Expiry::parse(instant).is_ok());
        let instant = instant.ok_or_else(|| unreadable(text))?;
        changes.push(Change::became("expiry", text, &instant));
        instant
    };
    // Products write 2999 or 9999 for never, which is later than the API takes.
    let checked = Expiry::parse(&instant).and_then(|it| it.check(SystemClock.now()));
    if checked == Err(FieldCode::ExpiresAtInvalid) {
        changes.push(Change::dropped(
            "expiry",
            text,
            "so late a link never expires",
        ));
        return Ok(None);
    }
    Ok(Some(instant))
}

fn unreadable(text: &str) -> Refusal {
    let detail = format!(
        "The expiry \"{}\" is no instant such as 2030-01-31T12:00:00Z or 2030-01-31.",
        shown(text)
    );
    Refusal::new("expires_at_invalid", detail)
}

/// Adds what a date of SQL or of a spreadsheet lacks: `T`, time, seconds, colon of the offset, and UTC.
fn instant(text: &str) -> Option<String> {
    let (date, time) = text.split_at_checked(DATE_LENGTH)?;
    let time = time.trim_start_matches(['T', 't', ' ']);
    let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, ""),
    };
    let time = match time.trim_end() {
        "" if offset.is_empty() => "00:00:00".to_owned(),
        minutes if minutes.matches(':').count() == 1 => format!("{minutes}:00"),
        seconds => seconds.to_owned(),
    };
    let offset = match offset {
        "" => "Z".to_owned(),
        hours if hours.len() == 3 => format!("{hours}:00"),
        packed if packed.len() == 5 && packed.is_ascii() => {
            format!("{}:{}", &packed[..3], &packed[3..])
        }
        offset => offset.to_owned(),
    };
    Some(format!("{date}T{time}{offset}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_of_other_products_becomes_an_instant() {
        for (given, expected, is_changed) in [
            (
                "2030-01-21T00:00:00+02:00",
                Some("2030-01-21T00:00:00+02:00"),
                false,
            ),
            ("2030-01-31", Some("2030-01-31T00:00:00Z"), true),
            ("2030-01-31 12:30", Some("2030-01-31T12:30:00Z"), true),
            (
                "2030-01-31 12:30:59.5",
                Some("2030-01-31T12:30:59.5Z"),
                true,
            ),
            (
                "2030-01-31T12:30:59+0100",
                Some("2030-01-31T12:30:59+01:00"),
                true,
            ),
            (
                "2030-01-31 12:30:59 -05",
                Some("2030-01-31T12:30:59-05:00"),
                true,
            ),
            ("0000-00-00 00:00:00", None, false),
            ("9999-12-31", None, true),
            ("2999-12-31T00:00:00Z", None, true),
            ("2121-06-01T00:00:00Z", Some("2121-06-01T00:00:00Z"), false),
            (" ", None, false),
        ] {
            let mut changes = Vec::new();
            let fitted = fitted(given, &mut changes);
            assert_eq!(fitted, Ok(expected.map(str::to_owned)), "{given}");
            assert_eq!(!changes.is_empty(), is_changed, "{given}");
        }
    }

    #[test]
    fn text_that_is_no_date_refuses_the_link() {
        for given in [
            "31.12.2030",
            "soon",
            "2030-13-01",
            "2030-01-31 25:00",
            "2030-01-31x",
            "ééééééé",
        ] {
            let refusal = fitted(given, &mut Vec::new()).unwrap_err();
            assert_eq!(refusal.code, "expires_at_invalid", "{given}");
            assert!(refusal.detail.contains(given), "{refusal:?}");
        }
    }
}
