//! Parameters of an image: format, size, margin, error correction and colours.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use axum::http::{HeaderMap, Uri};
use linkledger_core::qr_code::{
    CONTRAST_MIN, Color, ErrorCorrection, MARGIN_MAX, QrStyle, SIZE_MAX, SIZE_MIN,
};
use linkledger_http::{
    problem::Problem,
    request::{MediaType, accepted},
};
use utoipa::{IntoParams, ToSchema};

use crate::{
    parameters::{ParameterError, Parameters, parse_name},
    qr_codes::{QrFormat, QrImageOptions},
};

const FORMAT: &str = "format";
const SIZE: &str = "size";
const MARGIN: &str = "margin";
const ECC: &str = "ecc";
const COLOR: &str = "color";
const BACKGROUND: &str = "background";

const SIZE_DEFAULT: u16 = 256;
/// Margin that the standard requires, in modules.
const MARGIN_DEFAULT: u8 = 4;

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct QrParameters {
    /// Format of the image. Default: the one that `Accept` prefers, otherwise `svg`.
    #[param(inline)]
    format: Option<FormatName>,
    /// Width and height, in pixels. A long short address may need more than the minimum.
    #[param(minimum = 64, maximum = 4096, default = 256)]
    size: Option<u16>,
    /// Quiet zone around the code, in modules.
    #[param(minimum = 0, maximum = 16, default = 4)]
    margin: Option<u8>,
    /// Level of error correction: about 7, 15, 25 or 30 % of the code may be damaged. The level is raised where
    /// that does not make the code larger.
    #[param(inline)]
    ecc: Option<EccName>,
    /// Colour of the code, as six hexadecimal digits. Its contrast with the background is 4.5 or more.
    #[param(pattern = "^[0-9A-Fa-f]{6}$", default = "000000")]
    color: Option<String>,
    /// Colour of the background, as six hexadecimal digits.
    #[param(pattern = "^[0-9A-Fa-f]{6}$", default = "ffffff")]
    background: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum FormatName {
    Svg,
    Png,
}

#[derive(ToSchema)]
#[schema(default = "M")]
#[expect(dead_code, reason = "only its schema is used")]
enum EccName {
    L,
    M,
    Q,
    H,
}

/// Parses the requested image, in the order of checks of `docs/api.md#order-of-checks`.
pub(super) fn requested_image(uri: &Uri, headers: &HeaderMap) -> Result<QrImageOptions, Problem> {
    let known = [FORMAT, SIZE, MARGIN, ECC, COLOR, BACKGROUND];
    let mut parameters = Parameters::of(uri, &known);
    let format = parameters.take(FORMAT, parse_format);
    let style = QrStyle {
        size: take_number(&mut parameters, SIZE, SIZE_MIN..=SIZE_MAX).unwrap_or(SIZE_DEFAULT),
        margin: take_number(&mut parameters, MARGIN, 0..=MARGIN_MAX).unwrap_or(MARGIN_DEFAULT),
        color: take_color(&mut parameters, COLOR).unwrap_or(Color::BLACK),
        background: take_color(&mut parameters, BACKGROUND).unwrap_or(Color::WHITE),
    };
    let error_correction = parameters.take(ECC, parse_ecc);
    parameters.check()?;
    check_contrast(&style)?;
    Ok(QrImageOptions {
        format: accepted_format(headers, format)?,
        error_correction: error_correction.unwrap_or(ErrorCorrection::Medium),
        style,
    })
}

/// Returns the format of the parameter, or the format that `Accept` prefers.
///
/// # Errors
/// Returns `not_acceptable` if `Accept` refuses the format.
fn accepted_format(headers: &HeaderMap, format: Option<QrFormat>) -> Result<QrFormat, Problem> {
    let of_route = match format {
        None => &[MediaType::Svg, MediaType::Png][..],
        Some(QrFormat::Svg) => &[MediaType::Svg],
        Some(QrFormat::Png) => &[MediaType::Png],
    };
    Ok(match accepted(headers, of_route)? {
        MediaType::Png => QrFormat::Png,
        MediaType::Svg | MediaType::Json | MediaType::Csv => QrFormat::Svg,
    })
}

fn parse_format(text: &str) -> Result<QrFormat, ParameterError> {
    let of_name = |name: &str| match name {
        "svg" => Some(QrFormat::Svg),
        "png" => Some(QrFormat::Png),
        _ => None,
    };
    parse_name(text, of_name, &["svg", "png"])
}

fn parse_ecc(text: &str) -> Result<ErrorCorrection, ParameterError> {
    let letters = ErrorCorrection::ALL.map(ErrorCorrection::name);
    parse_name(text, ErrorCorrection::of_name, &letters)
}

/// Takes a whole number in its canonical spelling.
fn take_number<N: FromStr + PartialOrd + fmt::Display>(
    parameters: &mut Parameters,
    name: &str,
    range: RangeInclusive<N>,
) -> Option<N> {
    parameters.take(name, |text| {
        let number = text.parse().ok();
        let number = number.filter(|it| range.contains(it) && it.to_string() == text);
        number.ok_or_else(|| {
            let (min, max) = (range.start(), range.end());
            let detail = format!("The {name} is a number from {min} to {max}.");
            ParameterError::new("out_of_range", detail)
        })
    })
}

fn take_color(parameters: &mut Parameters, name: &str) -> Option<Color> {
    parameters.take(name, |text| {
        Color::parse(text).ok_or_else(|| {
            let detail = format!("Send {name} as six hexadecimal digits, such as 1a2b3c.");
            ParameterError::new("invalid_color", detail)
        })
    })
}

/// Checks that scanners can tell the two colours apart.
fn check_contrast(style: &QrStyle) -> Result<(), Problem> {
    let contrast = style.color.contrast(style.background);
    if contrast >= CONTRAST_MIN {
        return Ok(());
    }
    // Rounded down: 4.499 is not shown as the 4.5 that it lacks.
    let shown = (contrast * 100.0).floor() / 100.0;
    let detail = format!(
        "color and background have a contrast of {shown:.2}, and need {CONTRAST_MIN}: choose a darker color or \
         a lighter background."
    );
    Err(Problem::invalid_parameter(
        COLOR,
        "contrast_too_low",
        &detail,
    ))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header::ACCEPT};
    use linkledger_http::problem::Code;

    use super::*;

    fn parse(query: &str, accept: &'static str) -> Result<QrImageOptions, Problem> {
        let uri: Uri = format!("/v1/links/x/qr{query}").parse().unwrap();
        let headers = [(ACCEPT, HeaderValue::from_static(accept))];
        requested_image(&uri, &HeaderMap::from_iter(headers))
    }

    #[test]
    fn request_without_parameters_has_defaults() {
        let image = parse("", "*/*").unwrap();
        assert_eq!(image.format, QrFormat::Svg);
        assert_eq!(image.error_correction, ErrorCorrection::Medium);
        let style = QrStyle {
            size: 256,
            margin: 4,
            color: Color::BLACK,
            background: Color::WHITE,
        };
        assert_eq!(image.style, style);
    }

    #[test]
    fn format_or_accept_chooses_the_image() {
        for (query, accept, format) in [
            ("", "image/png", Some(QrFormat::Png)),
            ("", "image/png;q=0.9, image/svg+xml", Some(QrFormat::Svg)),
            ("?format=png", "*/*", Some(QrFormat::Png)),
            ("?format=png", "image/*", Some(QrFormat::Png)),
            ("?format=png", "image/svg+xml", None),
            ("?format=svg", "image/png", None),
            ("", "application/json", None),
            ("", "application/problem+json", None),
        ] {
            let image = parse(query, accept);
            if format.is_none() {
                let refused = image.as_ref().unwrap_err();
                assert_eq!(refused.code, Code::NotAcceptable, "{query} {accept}");
            }
            assert_eq!(
                image.ok().map(|image| image.format),
                format,
                "{query} {accept}"
            );
        }
    }

    #[test]
    fn values_out_of_bounds_are_named() {
        for (query, parameter, code) in [
            ("?format=PNG", "format", "unknown_value"),
            ("?format=", "format", "unknown_value"),
            ("?size=63", "size", "out_of_range"),
            ("?size=4097", "size", "out_of_range"),
            ("?size=%2B256", "size", "out_of_range"),
            ("?size=0256", "size", "out_of_range"),
            ("?size=99999999999999999999", "size", "out_of_range"),
            ("?margin=17", "margin", "out_of_range"),
            ("?margin=-1", "margin", "out_of_range"),
            ("?margin=4.0", "margin", "out_of_range"),
            ("?ecc=m", "ecc", "unknown_value"),
            ("?color=red", "color", "invalid_color"),
            ("?background=%23ffffff", "background", "invalid_color"),
            ("?color=ffffff", "color", "contrast_too_low"),
            ("?color=777777", "color", "contrast_too_low"),
            (
                "?background=767676&color=ff0000",
                "color",
                "contrast_too_low",
            ),
            ("?colour=000000", "colour", "unknown_parameter"),
        ] {
            let problem = parse(query, "*/*").unwrap_err();
            assert_eq!(problem.code, Code::InvalidParameter, "{query}");
            let error = &problem.members["errors"][0];
            assert_eq!(
                (&error["parameter"], &error["code"]),
                (&parameter.into(), &code.into())
            );
        }
        let all = parse("?size=1&margin=99&ecc=x&color=x&format=x", "*/*").unwrap_err();
        assert_eq!(all.members["errors"].as_array().unwrap().len(), 5);
    }

    #[test]
    fn bounds_themselves_are_accepted() {
        for query in [
            "?size=64&margin=0&ecc=L",
            "?size=4096&margin=16&ecc=H",
            "?color=767676",
            "?color=FFFFFF&background=000080",
        ] {
            assert!(parse(query, "*/*").is_ok(), "{query}");
        }
    }
}
