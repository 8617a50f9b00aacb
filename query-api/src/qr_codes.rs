//! Drawing of QR codes outside of the threads that answer requests: the longest short addresses take some
//! milliseconds of processor time.

use std::time::Duration;

use linkledger_core::{
    id::AccountId,
    qr_code::{ErrorCorrection, QrCode, QrStyle},
};
use linkledger_http::{per_account_limit::PerAccountLimit, problem::Problem};
use tokio::task::spawn_blocking;

/// Maximum number of codes that are drawn at a time, so that codes leave processors to redirects.
const DRAWN_AT_ONCE_MAX: usize = 2;

/// Maximum number of codes of one account that are drawn at a time: the other one is left to other accounts.
const ACCOUNT_DRAWN_AT_ONCE_MAX: usize = 1;

/// Longest wait for other codes.
const WAIT_MAX: Duration = Duration::from_secs(1);

const TOO_MANY: &str =
    "Too many QR codes are being drawn: retry later, with fewer requests at a time.";

/// Format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QrFormat {
    Svg,
    Png,
}

/// Options of an image: everything but the text of the code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QrImageOptions {
    pub(crate) format: QrFormat,
    pub(crate) error_correction: ErrorCorrection,
    pub(crate) style: QrStyle,
}

/// Draws a bounded number of codes at a time.
pub(crate) struct QrCodes {
    drawn: PerAccountLimit,
    wait_max: Duration,
}

impl QrCodes {
    pub(crate) fn new() -> Self {
        Self {
            drawn: PerAccountLimit::new(ACCOUNT_DRAWN_AT_ONCE_MAX, DRAWN_AT_ONCE_MAX),
            wait_max: WAIT_MAX,
        }
    }

    /// Draws the code of a text, for an account.
    ///
    /// # Errors
    /// Returns `overloaded` if too many codes are being drawn, of the account or of all, and `invalid_parameter` if the image is too
    /// small for the code.
    pub(crate) async fn draw(
        &self,
        account_id: AccountId,
        text: String,
        image: QrImageOptions,
    ) -> Result<Vec<u8>, Problem> {
        let acquiring = self
            .drawn
            .acquire_in_time(account_id, self.wait_max, TOO_MANY);
        let share = acquiring.await?;
        let drawing = spawn_blocking(move || {
            // Held until the code is drawn, also if the caller has gone.
            let _share = share;
            image.draw(&text)
        });
        drawing.await.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "drawing a QR code failed");
            Problem::internal()
        })?
    }
}

impl QrImageOptions {
    fn draw(&self, text: &str) -> Result<Vec<u8>, Problem> {
        let code = QrCode::of(text, self.error_correction).map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the short base URL leaves no room in a QR code");
            Problem::internal()
        })?;
        let drawn = match self.format {
            QrFormat::Svg => code.to_svg(&self.style).map(String::into_bytes),
            QrFormat::Png => code.to_png(&self.style),
        };
        drawn.map_err(|too_small| {
            let detail = format!(
                "This code needs a size of {} or more; or choose a smaller margin or a lower ecc.",
                too_small.size_min
            );
            Problem::invalid_parameter("size", "size_too_small", &detail)
        })
    }
}

#[cfg(test)]
mod tests {
    use linkledger_core::qr_code::Color;
    use linkledger_http::problem::Code;
    use uuid::Uuid;

    use super::*;

    fn image(size: u16, margin: u8) -> QrImageOptions {
        QrImageOptions {
            format: QrFormat::Png,
            error_correction: ErrorCorrection::Medium,
            style: QrStyle {
                size,
                margin,
                color: Color::BLACK,
                background: Color::WHITE,
            },
        }
    }

    fn account(number: u128) -> AccountId {
        AccountId::from_uuid(Uuid::from_u128(number))
    }

    #[tokio::test]
    async fn image_too_small_for_code_is_refused() {
        let codes = QrCodes::new();
        let draw = |size, margin| {
            let text = format!("https://sho.rt/{}", "x".repeat(64));
            codes.draw(account(1), text, image(size, margin))
        };
        assert!(draw(77, 16).await.is_ok());
        let problem = draw(64, 16).await.unwrap_err();
        assert_eq!(problem.code, Code::InvalidParameter);
        assert_eq!(problem.members["errors"][0]["code"], "size_too_small");
        assert!(draw(64, 0).await.is_ok());
    }

    #[tokio::test]
    async fn account_with_many_codes_delays_only_itself() {
        let mut codes = QrCodes::new();
        codes.wait_max = Duration::ZERO;
        let draw = |number| codes.draw(account(number), "text".to_owned(), image(256, 4));
        let hold = |number| {
            codes
                .drawn
                .acquire_in_time(account(number), Duration::ZERO, TOO_MANY)
        };
        let first = hold(1).await.unwrap();
        assert_eq!(draw(1).await.unwrap_err().code, Code::Overloaded);
        assert!(draw(2).await.is_ok());
        // Two accounts have the room of the process.
        let second = hold(2).await.unwrap();
        assert_eq!(draw(3).await.unwrap_err().code, Code::Overloaded);
        drop((first, second));
        assert!(draw(1).await.is_ok());
    }
}
