//! `linkledger links qr`: the QR code of a link, in the terminal or as a file.

mod half_blocks;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use console::Term;
use linkledger_core::{
    link::LinkName,
    qr_code::{Color, ErrorCorrection, MARGIN_MAX, QrCode, SIZE_MAX, SIZE_MIN},
};

use super::{LinkDocument, find_link};
use crate::{
    client::{ApiCall, ApiClient},
    options::whole_number,
    output::{WrongUse, note, print},
    output_file::{self, SHARED},
};

/// Margin of a code in the terminal, in modules.
const TERMINAL_MARGIN: u16 = 2;

/// Options of `linkledger links qr`.
#[derive(Debug, Args)]
pub(crate) struct QrCodeOptions {
    /// Id (lnk_…), slug or short address of the link.
    link: LinkName,
    /// Write an image to this file instead of printing the code in the terminal.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Format of the image. Default: by the ending of FILE; svg for a FILE without one.
    #[arg(long, requires = "out")]
    format: Option<FormatOption>,
    /// Width and height of the image, 64 to 4096 pixels. Default: 256.
    #[arg(long, value_name = "PIXELS", requires = "out",
          value_parser = whole_number(SIZE_MIN..=SIZE_MAX))]
    size: Option<u16>,
    /// Quiet zone around the code of the image, 0 to 16 modules. Default: 4.
    #[arg(long, value_name = "MODULES", requires = "out",
          value_parser = whole_number(0..=MARGIN_MAX))]
    margin: Option<u8>,
    /// Level of error correction: about 7, 15, 25 or 30 % of the code may be damaged. Default: M.
    #[arg(long, value_name = "LEVEL", ignore_case = true)]
    ecc: Option<EccOption>,
    /// Colour of the code, as six hexadecimal digits. Default: 000000.
    #[arg(long, value_name = "RRGGBB", requires = "out", value_parser = color)]
    color: Option<Color>,
    /// Colour of the background, as six hexadecimal digits. Default: ffffff.
    #[arg(long, value_name = "RRGGBB", requires = "out", value_parser = color)]
    background: Option<Color>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatOption {
    Svg,
    Png,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
enum EccOption {
    L,
    M,
    Q,
    H,
}

impl FormatOption {
    const fn name(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }

    /// Returns the format that the name of a file ends with: SVG without an ending.
    fn of_ending(file: &Path) -> Result<Self, WrongUse> {
        let Some(ending) = file.extension() else {
            return Ok(Self::Svg);
        };
        [Self::Svg, Self::Png]
            .into_iter()
            .find(|format| ending.eq_ignore_ascii_case(format.name()))
            .ok_or_else(|| {
                let file = file.display();
                WrongUse(format!(
                    "{file}: an image is svg or png; name the format by --format"
                ))
            })
    }
}

impl EccOption {
    const fn level(self) -> ErrorCorrection {
        match self {
            Self::L => ErrorCorrection::Low,
            Self::M => ErrorCorrection::Medium,
            Self::Q => ErrorCorrection::Quartile,
            Self::H => ErrorCorrection::High,
        }
    }
}

pub(super) async fn run(client: &ApiClient, qr: &QrCodeOptions) -> anyhow::Result<()> {
    match &qr.out {
        Some(file) => save(client, qr, file).await,
        None => show(client, qr).await,
    }
}

/// Asks for the image, and writes the image to the file.
async fn save(client: &ApiClient, qr: &QrCodeOptions, file: &Path) -> anyhow::Result<()> {
    let format = qr
        .format
        .map_or_else(|| FormatOption::of_ending(file), Ok)?;
    output_file::check(file)?;
    let id = find_link(client, &qr.link).await?.to_string();
    let call = ApiCall::get(&["v1", "links", &id, "qr"])
        .query("format", Some(format.name().to_owned()))
        .query("size", qr.size.map(|size| size.to_string()))
        .query("margin", qr.margin.map(|margin| margin.to_string()))
        .query("ecc", qr.ecc.map(|ecc| ecc.level().name().to_owned()))
        .query("color", qr.color.map(|color| color.to_string()))
        .query("background", qr.background.map(|color| color.to_string()));
    let answer = client.send(&call).await?;
    let content_type = answer.header("content-type").unwrap_or_default();
    if !content_type.starts_with("image/") {
        return Err(client.not_the_api(&call, answer.status).into());
    }
    output_file::write(file, &answer.body, SHARED)?;
    note(&format!("wrote {}", file.display()));
    Ok(())
}

/// Asks for the short address, and prints its code.
async fn show(client: &ApiClient, qr: &QrCodeOptions) -> anyhow::Result<()> {
    let id = find_link(client, &qr.link).await?.to_string();
    let call = ApiCall::get(&["v1", "links", &id]);
    let answer = client.send(&call).await?;
    let link: LinkDocument = client.read(&call, &answer)?;
    let level = qr.ecc.unwrap_or(EccOption::M).level();
    let code = QrCode::of(&link.short_url, level)?;
    let is_terminal = Term::stdout().is_term();
    print(&half_blocks::text(&code, TERMINAL_MARGIN, is_terminal))?;
    note(&link.short_url);
    Ok(())
}

fn color(text: &str) -> Result<Color, String> {
    Color::parse(text).ok_or_else(|| "a colour is six hexadecimal digits: 1a2b3c".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_of_file_names_the_format() {
        for (file, format) in [
            ("a.png", Some(FormatOption::Png)),
            ("a.b/C.SVG", Some(FormatOption::Svg)),
            ("png", Some(FormatOption::Svg)),
            ("a.jpeg", None),
        ] {
            let of_ending = FormatOption::of_ending(Path::new(file)).ok();
            assert_eq!(of_ending, format, "{file}");
        }
    }
}
