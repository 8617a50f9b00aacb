//! Families of browser, operating system and device, by texts in the user agent.
//!
//! The tables name what people use. The first matching row of a table counts, so that a row is above
//! every row whose text its user agents contain too: all browsers with Chromium name Chrome, and all
//! browsers name Mozilla. An unknown program has no family.

mod families;

use aho_corasick::{AhoCorasick, MatchKind};

use super::{Device, cut};
use families::{BROWSERS, DEVICES, SYSTEMS};

/// Families of a user agent; `None` for unknown ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentFamilies {
    /// Family of the browser.
    pub browser: Option<&'static str>,
    /// Family of the operating system.
    pub os: Option<&'static str>,
    /// Form of the device.
    pub device: Option<Device>,
}

/// The tables, ready for use.
#[derive(Debug, Clone)]
pub struct AgentTables {
    browsers: Table<&'static str>,
    systems: Table<&'static str>,
    devices: Table<Device>,
}

/// Rows of a text and its meaning, all searched in one pass.
#[derive(Debug, Clone)]
struct Table<T: 'static> {
    automaton: AhoCorasick,
    rows: &'static [(&'static str, T)],
}

impl<T: Copy> Table<T> {
    fn new(rows: &'static [(&'static str, T)]) -> Self {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(rows.iter().map(|(text, _)| text))
            .expect("a short table");
        Self { automaton, rows }
    }

    /// Returns the meaning of the first row whose text is in the user agent.
    fn find(&self, user_agent: &[u8]) -> Option<T> {
        let matches = self.automaton.find_overlapping_iter(user_agent);
        let first = matches.map(|found| found.pattern().as_usize()).min()?;
        Some(self.rows[first].1)
    }
}

impl Default for AgentTables {
    fn default() -> Self {
        Self {
            browsers: Table::new(BROWSERS),
            systems: Table::new(SYSTEMS),
            devices: Table::new(DEVICES),
        }
    }
}

impl AgentTables {
    /// Returns the families of a user agent.
    pub fn families(&self, user_agent: &[u8]) -> AgentFamilies {
        let user_agent = cut(user_agent);
        let os = self.systems.find(user_agent);
        let browser = match (self.browsers.find(user_agent), os) {
            // The browser of old Androids names Safari and nothing else.
            (Some("Safari"), Some("Android")) => Some("Android Browser"),
            (browser, _) => browser,
        };
        let device = self.devices.find(user_agent);
        let is_browser = user_agent.starts_with(b"Mozilla/") || user_agent.starts_with(b"Opera/");
        let device = device.or_else(|| device_of_system(os, is_browser));
        AgentFamilies {
            browser,
            os,
            device,
        }
    }
}

/// Returns the device of a user agent that names none.
fn device_of_system(os: Option<&'static str>, is_browser: bool) -> Option<Device> {
    match os? {
        // Browsers on phones say `Mobile`, browsers on tablets do not. Apps say it on neither.
        "Android" | "HarmonyOS" => is_browser.then_some(Device::Tablet),
        "iOS" | "KaiOS" | "Windows Phone" => Some(Device::Mobile),
        "Windows" | "macOS" | "Linux" | "Chrome OS" | "FreeBSD" | "OpenBSD" => {
            Some(Device::Desktop)
        }
        _ => Some(Device::Other),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::BotPatterns;

    /// Lines of kind, browser, system, device and user agent, separated by tabs; `-` for none, and `?`
    /// for a column that is not compared.
    const USER_AGENTS: &str = include_str!("../tests/user_agents.txt");

    #[test]
    fn known_user_agents_have_their_families() {
        let (tables, bots) = (AgentTables::default(), BotPatterns::built_in());
        let lines = USER_AGENTS.lines().filter(|line| !line.starts_with('#'));
        let (mut count, mut wrong) = (0, Vec::new());
        for line in lines {
            let columns: Vec<&str> = line.split('\t').collect();
            let [kind, browser, os, device, user_agent] = columns[..] else {
                panic!("{line}");
            };
            count += 1;
            let families = tables.families(user_agent.as_bytes());
            let is_bot = bots.matches(user_agent.as_bytes());
            let found_kind = if is_bot { "bot" } else { "human" };
            let found_device = families.device.map(Device::name);
            let is_right = |expected: &str, found: Option<&str>| {
                expected == "?" || expected == found.unwrap_or("-")
            };
            if kind != found_kind
                || !is_right(browser, families.browser)
                || !is_right(os, families.os)
                || !is_right(device, found_device)
            {
                wrong.push(format!("{line}\n  is {found_kind} {families:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count >= 300, "{count}");
    }

    #[test]
    fn every_row_can_be_the_first() {
        let tables = AgentTables::default();
        for (nth, (text, family)) in BROWSERS.iter().enumerate() {
            let found = tables.browsers.find(text.as_bytes());
            assert_eq!(found, Some(*family), "row {nth}: {text}");
        }
        for (text, family) in SYSTEMS {
            assert_eq!(
                tables.systems.find(text.as_bytes()),
                Some(*family),
                "{text}"
            );
        }
    }

    static TABLES: LazyLock<AgentTables> = LazyLock::new(AgentTables::default);

    proptest! {
        #[test]
        fn any_bytes_have_families_or_none(agent in prop::collection::vec(any::<u8>(), 0..8_192)) {
            let tables = &*TABLES;
            let whole = tables.families(&agent);
            let cut = &agent[..agent.len().min(512)];
            prop_assert_eq!(whole, tables.families(cut));
        }
    }
}
