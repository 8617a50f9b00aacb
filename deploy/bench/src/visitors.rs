//! Visitors of short links: programs, countries and referrers, with plausible shares.

use linkledger_clicks::Device;
use rand::{
    RngExt as _,
    distr::{Distribution as _, weighted::WeightedIndex},
    rngs::SmallRng,
};

/// Share of the clicks by humans, in percent.
pub const HUMAN_PERCENT: u32 = 85;
/// Share of the human clicks with a referrer, in percent.
const REFERRER_PERCENT: u32 = 60;
/// Number of hosts with links: more than are counted apart for a link and a day.
const REFERRER_HOSTS: u16 = 300;

/// A family of visitors' programs.
#[derive(Debug)]
pub struct Program {
    /// Family of the browser.
    pub browser: &'static str,
    /// Family of the operating system.
    pub os: &'static str,
    /// Form of the device.
    pub device: Device,
    /// Share of the human clicks, in percent.
    share: u32,
    /// User agent; `{}` is the version.
    user_agent: &'static str,
}

const fn program(
    (browser, os, device): (&'static str, &'static str, Device),
    share: u32,
    user_agent: &'static str,
) -> Program {
    Program {
        browser,
        os,
        device,
        share,
        user_agent,
    }
}

/// Programs of humans.
pub const PROGRAMS: [Program; 7] = [
    program(
        ("Chrome", "Android", Device::Mobile),
        34,
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/{}.0.0.0 Mobile Safari/537.36",
    ),
    program(
        ("Safari", "iOS", Device::Mobile),
        22,
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
         Gecko) Version/{}.5 Mobile/15E148 Safari/604.1",
    ),
    program(
        ("Chrome", "Windows", Device::Desktop),
        20,
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/{}.0.0.0 Safari/537.36",
    ),
    program(
        ("Edge", "Windows", Device::Desktop),
        8,
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/{}.0.0.0 Safari/537.36 Edg/{}.0.0.0",
    ),
    program(
        ("Safari", "macOS", Device::Desktop),
        7,
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
         Version/{}.5 Safari/605.1.15",
    ),
    program(
        ("Firefox", "Linux", Device::Desktop),
        6,
        "Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0",
    ),
    program(
        ("Safari", "iOS", Device::Tablet),
        3,
        "Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
         Version/{}.5 Mobile/15E148 Safari/604.1",
    ),
];

/// User agent of bots.
const BOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// Countries, the most frequent first.
const COUNTRIES: [&str; 40] = [
    "US", "IN", "BR", "DE", "GB", "FR", "JP", "ID", "MX", "IT", "ES", "CA", "TR", "PL", "NL", "KR",
    "AU", "PH", "VN", "AR", "CO", "SE", "CH", "BE", "AT", "PT", "CZ", "GR", "RO", "HU", "DK", "FI",
    "NO", "IE", "IL", "ZA", "EG", "NG", "CL", "NZ",
];

/// Draws of the details of visits.
#[derive(Debug)]
pub struct VisitorShares {
    programs: WeightedIndex<u32>,
    countries: WeightedIndex<f64>,
    referrers: WeightedIndex<f64>,
}

impl VisitorShares {
    /// Makes the distributions.
    pub fn new() -> Self {
        let by_rank = |count: u16| {
            let shares = (1..=count).map(|rank| 1.0 / f64::from(rank));
            WeightedIndex::new(shares).expect("positive shares")
        };
        let programs = PROGRAMS.iter().map(|program| program.share);
        Self {
            programs: WeightedIndex::new(programs).expect("positive shares"),
            countries: by_rank(40),
            referrers: by_rank(REFERRER_HOSTS),
        }
    }

    /// Draws a program of a human.
    pub fn program(&self, random: &mut SmallRng) -> &'static Program {
        &PROGRAMS[self.programs.sample(random)]
    }

    /// Draws a country.
    pub fn country(&self, random: &mut SmallRng) -> &'static str {
        COUNTRIES[self.countries.sample(random)]
    }

    /// Draws the host of the page with the link; `None` for a visit without one.
    pub fn referrer_host(&self, random: &mut SmallRng) -> Option<String> {
        random
            .random_ratio(REFERRER_PERCENT, 100)
            .then(|| format!("site-{}.example", self.referrers.sample(random)))
    }

    /// Draws the headers of a visit that tell about the visitor.
    pub fn headers(&self, random: &mut SmallRng) -> String {
        if !random.random_ratio(HUMAN_PERCENT, 100) {
            return format!("User-Agent: {BOT}\r\nAccept: */*\r\n");
        }
        let version: u8 = random.random_range(100..140);
        let user_agent = self.program(random).user_agent;
        let user_agent = user_agent.replace("{}", &version.to_string());
        let referrer = self.referrer_host(random);
        let referrer = referrer.map(|host| format!("Referer: https://{host}/page\r\n"));
        format!(
            "User-Agent: {user_agent}\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\
             Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n{}",
            referrer.unwrap_or_default()
        )
    }
}

impl Default for VisitorShares {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use linkledger_clicks::{AgentTables, BotPatterns};

    use super::{BOT, PROGRAMS};

    #[test]
    fn user_agents_have_the_published_families() {
        let tables = AgentTables::default();
        let bots = BotPatterns::built_in();
        for program in &PROGRAMS {
            let user_agent = program.user_agent.replace("{}", "120");
            assert!(!bots.matches(user_agent.as_bytes()), "{user_agent}");
            let families = tables.families(user_agent.as_bytes());
            assert_eq!(families.browser, Some(program.browser), "{user_agent}");
            assert_eq!(families.os, Some(program.os), "{user_agent}");
            assert_eq!(families.device, Some(program.device), "{user_agent}");
        }
        assert!(bots.matches(BOT.as_bytes()));
        assert_eq!(PROGRAMS.iter().map(|it| it.share).sum::<u32>(), 100);
    }
}
