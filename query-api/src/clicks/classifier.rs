//! Turns a request into a click. A click has neither the client's address nor the user agent nor the full
//! referrer.

use linkledger_clicks::{
    AgentFamilies, AgentTables, BotPatterns, Click, ClickDetails, ClickKind, referrer_host,
    visitor_hash,
};
use quick_cache::unsync::Cache;

use super::{countries::Countries, frame::RawClick, merged::instant_of, salts::Salts};

/// Number of user agents whose classes are remembered: at most 3 MB.
const AGENTS_CACHED_MAX: usize = 4_096;

/// Classifies clicks.
pub(super) struct Classifier {
    pub(super) bots: BotPatterns,
    pub(super) countries: Option<Countries>,
    pub(super) salts: Salts,
    /// Host of the short links, which is no referrer.
    pub(super) short_host: Option<String>,
    pub(super) agents: Agents,
}

/// Classes of user agents.
pub(super) struct Agents {
    tables: AgentTables,
    cache: Cache<Box<[u8]>, AgentClass>,
}

/// Class of a user agent.
#[derive(Debug, Clone, Copy)]
struct AgentClass {
    is_bot: bool,
    families: AgentFamilies,
}

impl Default for Agents {
    fn default() -> Self {
        Self {
            tables: AgentTables::default(),
            cache: Cache::new(AGENTS_CACHED_MAX),
        }
    }
}

impl Agents {
    fn class_of(&mut self, user_agent: &[u8], bots: &BotPatterns) -> AgentClass {
        if let Some(class) = self.cache.get(user_agent) {
            return *class;
        }
        let class = AgentClass {
            is_bot: bots.matches(user_agent),
            families: self.tables.families(user_agent),
        };
        self.cache.insert(user_agent.into(), class);
        class
    }
}

impl Classifier {
    /// Returns the click of a request at an instant, in milliseconds since 1970.
    pub(super) fn classify(&mut self, clicked_at_ms: i64, raw: &RawClick<'_>) -> Click {
        let facts = &raw.facts;
        let clicked_at = instant_of(clicked_at_ms);
        let agent = self.agents.class_of(raw.user_agent, &self.bots);
        let kind = facts.kind(agent.is_bot);
        let has_visitor = kind == ClickKind::Human && !facts.wants_privacy;
        let visitor = facts.client_address.filter(|_| has_visitor);
        let visitor = visitor.and_then(|address| {
            let salt = self.salts.of(clicked_at.date())?;
            Some(visitor_hash(
                &salt,
                facts.account_id,
                address,
                raw.user_agent,
            ))
        });
        let countries = self.countries.as_ref();
        let country = countries.zip(facts.client_address);
        let details = ClickDetails {
            visitor,
            country: country.and_then(|(countries, address)| countries.of(address)),
            referrer_host: referrer_host(raw.referer, self.short_host.as_deref()),
            browser: agent.families.browser.map(str::to_owned),
            os: agent.families.os.map(str::to_owned),
            device: agent.families.device,
        };
        Click {
            link_id: facts.link_id,
            account_id: facts.account_id,
            slug: raw.slug.to_owned(),
            clicked_at,
            kind,
            count: 1,
            details,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_user_agents_leave_cache_bounded() {
        let (mut agents, bots) = (Agents::default(), BotPatterns::built_in());
        for number in 0..5 * AGENTS_CACHED_MAX {
            let agent = format!("Mozilla/5.0 (X11; Linux x86_64; rv:{number}.0) Gecko/20100101");
            let class = agents.class_of(agent.as_bytes(), &bots);
            assert!(!class.is_bot);
            assert!(agents.cache.len() <= AGENTS_CACHED_MAX);
        }
        assert!(agents.cache.len() > AGENTS_CACHED_MAX / 2);
    }
}
