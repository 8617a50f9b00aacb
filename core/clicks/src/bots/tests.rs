//! Tests of the rules by which user agents are of bots.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const CHROME: &str =
    "AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0.0.0 Mobile Safari/537.36";

static BUILT_IN_PATTERNS: LazyLock<BotPatterns> = LazyLock::new(BotPatterns::built_in);

fn is_bot(user_agent: &str) -> bool {
    BUILT_IN_PATTERNS.matches(user_agent.as_bytes())
}

#[test]
fn texts_match_whole_words_in_any_case() {
    let bots = BotPatterns::parse("# crawlers\nscan\n*bot\nfetch*\n*spider*\n").unwrap();
    for text in [
        "SCAN/1", "a-scan", "x_scan_y", "MyBot/2", "fetcher", "aspiders",
    ] {
        assert!(
            bots.matches(format!("Mozilla/5.0 (X11) {text}").as_bytes()),
            "{text}"
        );
    }
    for text in ["camscan", "scanner", "bottle", "prefetch", "sbotx", "spide"] {
        assert!(
            !bots.matches(format!("Mozilla/5.0 (X11) {text}").as_bytes()),
            "{text}"
        );
    }
}

#[test]
fn exceptions_hide_texts_inside_them() {
    let bots = BotPatterns::parse("*bot\n!cubot").unwrap();
    assert!(!bots.matches(b"Mozilla/5.0 (CUBOT X20)"));
    assert!(bots.matches(b"Mozilla/5.0 (CUBOT X20) bot"));
    assert!(bots.matches(b"Mozilla/5.0 (SCUBOT X20)"));
}

#[test]
fn only_browsers_and_devices_are_people() {
    let bots = BotPatterns::parse("*bot\n~*phone*\n").unwrap();
    for of_people in ["Mozilla/5.0 (X11)", "Opera/9 (X11)", "App/1 (SmartPhone4)"] {
        assert!(!bots.matches(of_people.as_bytes()), "{of_people}");
    }
    for of_bots in [
        "",
        "  ",
        "App/1",
        "Mozilla/5.0",
        "mozilla/5.0 (X11)",
        "xOpera/9 (X11)",
        "Phonebot",
    ] {
        assert!(bots.matches(of_bots.as_bytes()), "{of_bots}");
    }
}

#[test]
fn unusable_lists_are_refused() {
    for list in [
        "",
        "# nothing",
        "!cubot",
        "~phone",
        "bot\nab",
        "bot\n*ab*",
        "bot\n!",
        "*",
    ] {
        assert!(BotPatterns::parse(list).is_err(), "{list}");
    }
}

#[test]
fn built_in_list_has_each_text_once_in_lower_case() {
    let mut texts: Vec<&str> = BUILT_IN.lines().collect();
    texts.retain(|line| !line.is_empty() && !line.starts_with(COMMENT));
    assert!(texts.iter().all(|text| text.to_lowercase() == **text));
    let count = texts.len();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), count, "a text is in the list twice");
}

/// A maker may call a phone as it likes.
#[test]
fn phones_with_names_of_bots_are_people() {
    for model in [
        "M bot 60",
        "CUBOT X19",
        "Spider 5",
        "Monitor One",
        "Scanner (2) Bot",
    ] {
        for user_agent in [
            format!("Mozilla/5.0 (Linux; Android 12; {model}) {CHROME}"),
            format!("Mozilla/5.0 (Linux; Android 7.0; {model} Build/NRD90M; wv) {CHROME}"),
            format!("Mozilla/5.0 (Linux; U; Android 4.4; de-de; {model} Build/S1RSS) {CHROME}"),
            format!(
                "Mozilla/5.0 (Linux; Android 9; K) {CHROME} Instagram 300 Android (28/9; 320dpi; {model}; x)"
            ),
            format!("Mozilla/5.0 (Linux; Android 9; K) {CHROME} [FBAN/FB4A;FBMF/x;FBDV/{model};]"),
            format!("Dalvik/2.1.0 (Linux; U; Android 9; {model} Build/PPR1)"),
        ] {
            assert!(!is_bot(&user_agent), "{user_agent}");
        }
    }
    let crawler = format!(
        "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) {CHROME} (compatible; Xbot/2.1)"
    );
    assert!(is_bot(&crawler));
}

proptest! {
    #[test]
    fn only_the_first_512_bytes_count(tail in prop::collection::vec(any::<u8>(), 0..8_192)) {
        let mut user_agent = vec![b'x'; 512];
        user_agent[..9].copy_from_slice(b"Mozilla/(");
        user_agent.extend(tail);
        prop_assert!(!BUILT_IN_PATTERNS.matches(&user_agent));
    }
}

#[test]
fn mail_addresses_are_told_from_other_signs() {
    for text in [
        "Example (ops@example.com)",
        "x a@b.example.org. y",
        "Gecko/1 x-y@a-b.de",
    ] {
        assert!(has_mail_address(text.as_bytes()), "{text}");
    }
    for text in [
        "",
        "@",
        "a@",
        "@example.com",
        "a @example.com",
        "a@example",
        "Ecosia android@111.0.5563",
        "iOS 17; en_US@calendar=gregorian",
        "a@b.c",
        "a@.com",
    ] {
        assert!(!has_mail_address(text.as_bytes()), "{text}");
    }
}
