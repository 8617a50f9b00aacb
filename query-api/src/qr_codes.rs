//! Drawing of QR codes outside of the threads that answer requests: the longest short addresses take some
//! milliseconds of processor time.

use std::{sync::Arc, time::Duration};

use linkledger_core::{
    problem::{Code, Problem},
    qr_code::{ErrorCorrection, QrCode, QrStyle},
};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// Maximum number of codes that are drawn at a time, so that codes leave processors to redirects.
const DRAWN_AT_ONCE_MAX: usize = 2;

/// Longest wait for other codes.
const WAIT_MAX: Duration = Duration::from_secs(1);

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
    drawn: Arc<Semaphore>,
    wait_max: Duration,
}

impl QrCodes {
    pub(crate) fn new() -> Self {
        Self {
            drawn: Arc::new(Semaphore::new(DRAWN_AT_ONCE_MAX)),
            wait_max: WAIT_MAX,
        }
    }

    /// Draws the code of a text.
    ///
    /// # Errors
    /// Returns `overloaded` if too many codes are being drawn, and `invalid_parameter` if the image is too
    /// small for the code.
    pub(crate) async fn draw(
        &self,
        text: String,
        image: QrImageOptions,
    ) -> Result<Vec<u8>, Problem> {
        let acquiring = Arc::clone(&self.drawn).acquire_owned();
        let Ok(Ok(permit)) = timeout(self.wait_max, acquiring).await else {
            return Err(too_many_codes());
        };
        let drawing = spawn_blocking(move || {
            // Held until the code is drawn, also if the caller has gone.
            let _permit = permit;
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

fn too_many_codes() -> Problem {
    Problem::new(
        Code::Overloaded,
        "Too many QR codes are being drawn: retry later, with fewer requests at a time.",
    )
    .retry_after(1)
}

#[cfg(test)]
mod tests {
    use linkledger_core::qr_code::Color;

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

    #[tokio::test]
    async fn image_too_small_for_code_is_refused() {
        let codes = QrCodes::new();
        let draw = |size, margin| {
            let text = format!("https://sho.rt/{}", "x".repeat(64));
            codes.draw(text, image(size, margin))
        };
        assert!(draw(77, 16).await.is_ok());
        let problem = draw(64, 16).await.unwrap_err();
        assert_eq!(problem.code, Code::InvalidParameter);
        assert_eq!(problem.members["errors"][0]["code"], "size_too_small");
        assert!(draw(64, 0).await.is_ok());
    }

    #[tokio::test]
    async fn codes_beyond_the_bound_are_overload() {
        let mut codes = QrCodes::new();
        codes.wait_max = Duration::ZERO;
        let all = u32::try_from(DRAWN_AT_ONCE_MAX).unwrap();
        let taken = codes.drawn.acquire_many(all).await.unwrap();
        let refused = codes.draw("text".to_owned(), image(256, 4)).await;
        assert_eq!(refused.unwrap_err().code, Code::Overloaded);
        drop(taken);
        assert!(codes.draw("text".to_owned(), image(256, 4)).await.is_ok());
    }
}
