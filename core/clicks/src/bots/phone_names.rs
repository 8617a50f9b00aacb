//! Parts of a user agent that name a phone: whatever a maker calls a phone, such as `M bot 60`, tells nothing of the
//! program.

use std::ops::Range;

const ANDROID: &[u8] = b"Android";
const BUILD: &[u8] = b" Build/";
/// Description that Facebook's app gives of itself, up to `]`.
const FACEBOOK: &[u8] = b"[FB";

/// Returns the places of names of phones.
pub(super) fn phone_names(user_agent: &[u8]) -> Vec<Range<usize>> {
    let model = places(user_agent, ANDROID).filter_map(|at| model_after(user_agent, at));
    let build = places(user_agent, BUILD).map(|at| around_build(user_agent, at));
    let facebook = places(user_agent, FACEBOOK).map(|at| {
        let rest = &user_agent[at..];
        at..at + position(rest, b"]").unwrap_or(rest.len())
    });
    model.chain(build).chain(facebook).collect()
}

/// Returns the model after `Android 12; `, or Instagram's list in `Android (...)`, which has the model too.
fn model_after(user_agent: &[u8], android: usize) -> Option<Range<usize>> {
    let after = android + ANDROID.len();
    let rest = &user_agent[after..];
    if rest.starts_with(b" (") {
        let begin = after + 2;
        return Some(begin..end_of_part(user_agent, begin, &[]));
    }
    let version_end = position(rest, b";()")?;
    let is_followed = rest[version_end] == b';';
    let begin = after + version_end + 1;
    is_followed.then(|| begin..end_of_part(user_agent, begin, b";"))
}

/// Returns the part between `;` or a parenthesis that has ` Build/`.
fn around_build(user_agent: &[u8], build: usize) -> Range<usize> {
    let mut closed = 0_usize;
    let mut begin = build;
    while begin > 0 {
        match user_agent[begin - 1] {
            b';' => break,
            b')' => closed += 1,
            b'(' if closed == 0 => break,
            b'(' => closed -= 1,
            _ => {}
        }
        begin -= 1;
    }
    begin..end_of_part(user_agent, build, b";")
}

/// Returns the end of a part: one of the given signs, or the `)` of an outer parenthesis. A model may have a
/// parenthesis of its own, as in `moto g(50) 5G`.
fn end_of_part(user_agent: &[u8], begin: usize, signs: &[u8]) -> usize {
    let mut open = 0_usize;
    let ends = |byte: &u8| match byte {
        b'(' => {
            open += 1;
            false
        }
        b')' if open == 0 => true,
        b')' => {
            open -= 1;
            false
        }
        byte => signs.contains(byte),
    };
    let length = user_agent[begin..].iter().position(ends);
    length.map_or(user_agent.len(), |length| begin + length)
}

fn position(text: &[u8], signs: &[u8]) -> Option<usize> {
    text.iter().position(|byte| signs.contains(byte))
}

fn places<'a>(text: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let windows = text.windows(wanted.len()).enumerate();
    windows.filter_map(move |(at, window)| (window == wanted).then_some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_phones_are_found() {
        for (user_agent, expected) in [
            ("Mozilla/5.0 (Linux; Android 12; XT 9) x", &[" XT 9"][..]),
            (
                "(Linux; Android 12; moto g(50) 5G Build/S1RSS32.38; wv) x",
                &[" moto g(50) 5G Build/S1RSS32.38"; 2][..],
            ),
            (
                "(Linux; U; Android 4.0; en-us; XT 9 Build/A) x",
                &[" en-us", " XT 9 Build/A"],
            ),
            (
                "Instagram 3 Android (24/7.0; 320dpi; maker; XT (9); qcom; 5)",
                &["24/7.0; 320dpi; maker; XT (9); qcom; 5"],
            ),
            (
                "x [FBAN/FB4A;FBMF/maker;FBDV/XT 9;] bot",
                &["[FBAN/FB4A;FBMF/maker;FBDV/XT 9;"],
            ),
            (
                "Opera/9.80 (Android; Opera Mini/9) Presto",
                &[" Opera Mini/9"],
            ),
            ("Mozilla/5.0 (Android 13) x; bot", &[]),
            ("Android", &[]),
            ("Mozilla/5.0 (compatible; Xbot/1) Build", &[]),
        ] {
            let found = phone_names(user_agent.as_bytes());
            let found: Vec<&str> = found.into_iter().map(|it| &user_agent[it]).collect();
            assert_eq!(found, expected, "{user_agent}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_places_inside(parts in proptest::collection::vec(
            proptest::sample::select(vec!["Android", " ", "(", ")", ";", " Build/", "[FB", "]", "é"]), 0..40
        )) {
            let text = parts.concat();
            for place in phone_names(text.as_bytes()) {
                proptest::prop_assert!(place.start <= place.end && place.end <= text.len());
            }
        }
    }
}
