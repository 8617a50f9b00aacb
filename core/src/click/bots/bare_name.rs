//! Bare names at the end of user agents: a browser tells a version with each of its names, or calls itself a browser,
//! while services put only their name behind the user agent of the browser that they run.

/// Begins of the last words of most browsers.
const LAST_WORDS: [&[u8]; 2] = [b"Safari/", b"Firefox/"];
/// Systems of computers. On phones and televisions apps put bare names into user agents.
const COMPUTERS: [&[u8]; 3] = [b"(Windows", b"(Macintosh", b"(X11"];
const BROWSER: &[u8] = b"browser";
/// Shortest name.
const NAME_LENGTH_MIN: usize = 3;

/// Returns true if the user agent is of a browser on a computer, with a name without version behind its end.
pub(super) fn ends_with_bare_name(user_agent: &[u8]) -> bool {
    let mut words = user_agent.rsplit(|byte| *byte == b' ');
    let name = words.next().map(without_semicolon).unwrap_or_default();
    let last_word = words.next().unwrap_or_default();
    let is_of_name = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'-';
    name.len() >= NAME_LENGTH_MIN
        && name.iter().all(is_of_name)
        && LAST_WORDS.iter().any(|it| last_word.starts_with(it))
        && COMPUTERS.iter().any(|it| has(user_agent, it))
        && !has(&name.to_ascii_lowercase(), BROWSER)
}

fn without_semicolon(word: &[u8]) -> &[u8] {
    word.strip_suffix(b";").unwrap_or(word)
}

fn has(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names_are_told_from_browsers_and_apps() {
        for text in [
            "Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0.0.0 Safari/537.36 Garden",
            "Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0.0.0 Safari/537.36; Garden;",
            "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0 Garden-Watch",
        ] {
            assert!(ends_with_bare_name(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            ";",
            "Garden",
            "Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0.0.0 Safari/537.36",
            "Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0.0.0 Safari/537.36 ",
            "Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0.0.0 Safari/537.36 Garden/2",
            "Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0.0.0 Safari/537.36 GardenBrowser",
            "Mozilla/5.0 (Linux; Android 14; K) Chrome/131.0.0.0 Safari/537.36 Garden",
            "Mozilla/5.0 (iPhone) Version/18.1 Mobile/15E148 Safari/604.1 Garden",
            "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0 (Garden)",
            "Mozilla/5.0 (Windows NT 10.0) Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0 Garden",
            "Mozilla/5.0 (Web0S; Linux/SmartTV) Chrome/94.0.0.0 Safari/537.36 Garden",
            "Mozilla/5.0 (Garden; Garden)",
        ] {
            assert!(!ends_with_bare_name(text.as_bytes()), "{text}");
        }
    }
}
