//! Secrets of webhooks, derived from master keys, and signatures of messages (Standard Webhooks 1.0, `v1`).

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::SecretVersion;
use crate::id::WebhookId;

/// Beginning of the text of every secret. Secret scanners and libraries search for it, so it must never change.
const PREFIX: &str = "whsec_";
/// Name of the scheme of signatures.
const SCHEME: &str = "v1";
/// Shortest secret that is accepted, in bytes (Standard Webhooks).
const SECRET_BYTES_MIN: usize = 24;
/// Longest secret that is accepted, in bytes (Standard Webhooks).
const SECRET_BYTES_MAX: usize = 64;
/// Shortest master key, in bytes.
const MASTER_KEY_BYTES_MIN: usize = 32;
/// Longest id of a master key, in characters.
const MASTER_KEY_ID_LENGTH_MAX: usize = 32;

/// Master keys, several side by side: the first one is used for new secrets, the others for the secrets derived from
/// them before.
///
/// `Debug` shows the ids only.
#[derive(Clone)]
pub struct MasterKeys {
    newest: MasterKey,
    others: Vec<MasterKey>,
}

#[derive(Clone)]
struct MasterKey {
    id: String,
    hmac: Hmac<Sha256>,
}

impl MasterKeys {
    /// Parses the content of a file: one `id:base64` a line, the newest key first. Empty lines and lines that begin
    /// with `#` are skipped.
    ///
    /// # Errors
    /// Returns a text for people that has the number of the line, and nothing of a key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).zip(1..);
        let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let mut keys: Vec<MasterKey> = Vec::new();
        for (line, number) in lines {
            let key = MasterKey::parse(line).map_err(|what| format!("line {number}: {what}"))?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(format!(
                    "line {number}: an earlier key has the id {}",
                    key.id
                ));
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let newest = keys.next().ok_or("there is no key")?;
        Ok(Self {
            newest,
            others: keys.collect(),
        })
    }

    /// Returns the id of the key for new secrets.
    pub fn newest_id(&self) -> &str {
        &self.newest.id
    }

    /// Derives a secret of a webhook. Returns `None` if the master key of the version is none of these.
    pub fn secret(&self, webhook_id: WebhookId, version: &SecretVersion) -> Option<WebhookSecret> {
        let key = self.iter().find(|key| key.id == version.master_key_id)?;
        let name = format!("{webhook_id}.{}", version.generation);
        let code = key.hmac.clone().chain_update(name).finalize();
        Some(WebhookSecret(code.into_bytes().to_vec()))
    }

    fn iter(&self) -> impl Iterator<Item = &MasterKey> {
        std::iter::once(&self.newest).chain(&self.others)
    }
}

impl MasterKey {
    /// Parses `id:base64`. The error has nothing of the line.
    fn parse(line: &str) -> Result<Self, &'static str> {
        let (id, key) = line
            .split_once(':')
            .ok_or("write the key as id:base64, such as 2026-11:…")?;
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=MASTER_KEY_ID_LENGTH_MAX).contains(&id.len()) || !id.bytes().all(is_allowed) {
            return Err("the id of a key has 1 to 32 of a-z, 0-9 and '-'");
        }
        let bytes = STANDARD.decode(key.trim());
        let bytes = bytes.map_err(|_| "the key is not base64 with padding")?;
        if bytes.len() < MASTER_KEY_BYTES_MIN {
            return Err("the key is too short; make one with: openssl rand -base64 32");
        }
        Ok(Self {
            id: id.to_owned(),
            hmac: Hmac::new_from_slice(&bytes).expect("HMAC takes keys of any length"),
        })
    }
}

// Without the keys.
impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.iter().map(|key| &key.id);
        f.write_str("MasterKeys")?;
        f.debug_list().entries(ids).finish()
    }
}

/// Secret that signs the messages to a webhook.
///
/// `Debug` shows nothing of the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// Parses the text of a secret: `whsec_` and 24 to 64 bytes in standard base64. Returns `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        let is_valid = (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len());
        is_valid.then_some(Self(bytes))
    }

    /// Returns the secret text. Call `reveal` only to hand out a new secret.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// Returns the signature of a message, in the form of the header `webhook-signature`. `timestamp` is the time of
    /// the attempt in seconds since 1970, and `body` the bytes that are sent.
    pub fn signature(&self, message_id: &str, timestamp: i64, body: &str) -> String {
        let hmac: Hmac<Sha256> =
            Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        let code = hmac
            .chain_update(format!("{message_id}.{timestamp}."))
            .chain_update(body)
            .finalize();
        format!("{SCHEME},{}", STANDARD.encode(code.into_bytes()))
    }
}

// Without the secret.
impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const WEBHOOK: WebhookId =
        WebhookId::from_uuid(Uuid::from_u128(0x0189_0a5d_ac96_774b_bcce_b302_099a_8057));
    /// 32 bytes 7, and 32 bytes 8.
    const SEVENS: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    const EIGHTS: &str = "CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg=";

    fn keys() -> MasterKeys {
        let text = format!("# keys of messages\n\n2026-11:{SEVENS}\r\n  old: {EIGHTS}\n");
        MasterKeys::parse(&text).unwrap()
    }

    fn version(master_key_id: &str, generation: i32) -> SecretVersion {
        SecretVersion {
            master_key_id: master_key_id.to_owned(),
            generation,
        }
    }

    #[test]
    fn signature_equals_the_vector_of_standard_webhooks() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret.signature(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secret_is_hmac_sha256_of_id_and_generation() {
        assert_eq!(keys().newest_id(), "2026-11");
        let secret = keys().secret(WEBHOOK, &version("2026-11", 1)).unwrap();
        // Computed by Python's module `hmac`, of `whe_01h455vb4pex5vsknk084sn02q.1`.
        assert_eq!(
            secret.reveal(),
            "whsec_H/0aR5kVel7rAIt0eRuNzXCJXHe0izLnKy/FlnwcW/g="
        );
        assert_eq!(WebhookSecret::parse(&secret.reveal()), Some(secret));
    }

    #[test]
    fn each_key_webhook_and_generation_has_another_secret() {
        let other = WebhookId::from_uuid(Uuid::nil());
        let mut secrets = BTreeSet::new();
        for webhook_id in [WEBHOOK, other] {
            for version in ["2026-11", "old"]
                .map(|id| [version(id, 1), version(id, 2)])
                .concat()
            {
                secrets.insert(keys().secret(webhook_id, &version).unwrap().reveal());
            }
        }
        assert_eq!(secrets.len(), 8);
        assert_eq!(keys().secret(WEBHOOK, &version("lost", 1)), None);
    }

    #[test]
    fn error_names_the_line_and_nothing_of_a_key() {
        let short = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw==";
        for (text, expected) in [
            (String::new(), "there is no key"),
            ("# a:b\n".to_owned(), "there is no key"),
            (SEVENS.to_owned(), "line 1: write the key as id:base64"),
            (format!("a:{SEVENS}\nA:{SEVENS}"), "line 2: the id of a key"),
            (format!(":{SEVENS}"), "line 1: the id of a key"),
            (
                format!("{}:{SEVENS}", "a".repeat(33)),
                "line 1: the id of a key",
            ),
            (
                format!("#\n\na:{}", &SEVENS[1..]),
                "line 3: the key is not base64",
            ),
            (format!("a:{short}"), "line 1: the key is too short"),
            (
                format!("a:{SEVENS}\na:{EIGHTS}"),
                "line 2: an earlier key has the id a",
            ),
        ] {
            let error = MasterKeys::parse(&text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(
                !error.contains("BwcH") && !error.contains("CAgI"),
                "{error}"
            );
        }
    }

    #[test]
    fn debug_output_hides_keys_and_secrets() {
        assert_eq!(format!("{:?}", keys()), r#"MasterKeys["2026-11", "old"]"#);
        let secret = keys().secret(WEBHOOK, &version("old", 1)).unwrap();
        assert_eq!(format!("{secret:?}"), "WebhookSecret");
    }

    #[test]
    fn only_long_secrets_with_their_prefix_are_read() {
        let text = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for bytes in [24, 32, 64] {
            let secret = WebhookSecret::parse(&text(bytes)).unwrap();
            assert_eq!(secret.reveal(), text(bytes));
        }
        for other in [
            "",
            "whsec_",
            &text(23),
            &text(65),
            &text(32)["whsec_".len()..],
            &text(32)[1..],
            &text(32).to_uppercase(),
            &format!("{} ", text(32)),
            text(32).trim_end_matches('='),
        ] {
            assert_eq!(WebhookSecret::parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn signature_changes_with_each_part(
            bytes in proptest::collection::vec(any::<u8>(), 24..=64),
            (id, timestamp, body) in ("[a-z0-9_]{1,30}", any::<i64>(), ".{0,40}"),
        ) {
            let secret = WebhookSecret(bytes);
            let signature = secret.signature(&id, timestamp, &body);
            prop_assert_eq!(&secret.signature(&id, timestamp, &body), &signature);
            prop_assert_eq!(WebhookSecret::parse(&secret.reveal()), Some(secret.clone()));
            for other in [
                secret.signature(&format!("{id}0"), timestamp, &body),
                secret.signature(&id, timestamp.wrapping_add(1), &body),
                secret.signature(&id, timestamp, &format!("{body} ")),
            ] {
                prop_assert_ne!(&other, &signature);
            }
        }
    }
}
