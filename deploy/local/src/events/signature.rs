//! Signatures of webhooks by Standard Webhooks 1.0. No I/O.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Secret of the signatures of a receiver.
pub(super) struct WebhookSecret(Hmac<Sha256>);

impl WebhookSecret {
    /// Parses `whsec_` and the base64 of 24 to 64 bytes; returns `None` for any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix("whsec_")?).ok()?;
        if !(24..=64).contains(&bytes.len()) {
            return None;
        }
        Hmac::new_from_slice(&bytes).ok().map(Self)
    }

    /// Returns the header `webhook-signature` of a message that is sent at `timestamp`, in seconds since 1970.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        let signed = self.0.clone().chain_update(format!("{id}.{timestamp}."));
        let code = signed.chain_update(body).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn signature_is_that_of_standard_webhooks() {
        // Computed by Python's module `hmac`.
        let signature = WebhookSecret::parse(SECRET).unwrap().sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secret_has_a_prefix_and_24_to_64_bytes() {
        assert!(WebhookSecret::parse(&format!("whsec_{}", STANDARD.encode([1_u8; 64]))).is_some());
        for text in [
            "",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa",
            "whsec_?fKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ] {
            assert!(WebhookSecret::parse(text).is_none(), "{text}");
        }
        let long = format!("whsec_{}", STANDARD.encode([1_u8; 65]));
        assert!(WebhookSecret::parse(&long).is_none());
    }
}
