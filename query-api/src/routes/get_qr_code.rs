//! `GET /v1/links/{id}/qr`: the short address of a link as a QR code.

mod request;

use axum::{
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, VARY},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{api_key::Scope, id::LinkId};
use linkledger_http::{
    entity_tag::{self, IfNoneMatch},
    problem::Problem,
    request::MediaType,
    route_table,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, Type},
};

use self::request::{QrParameters, requested_image};
use super::{get_link, read_request::ReadRequest};
use crate::{consistency::TokenHeader, qr_codes::QrFormat};

/// `Cache-Control` of an image. The short address of a link never changes.
const PRIVATE: &str = "private, max-age=3600";

/// Example of an image in the OpenAPI document.
const EXAMPLE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"256\" height=\"256\" …";

/// Image in the OpenAPI document.
struct Image;

impl PartialSchema for Image {
    fn schema() -> RefOr<Schema> {
        // Generators read `binary` as bytes, and everything else as a text.
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
            .into()
    }
}

impl ToSchema for Image {}

/// Returns the short address of a link as a QR code.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::LINK_QR_CODE,
    tag = "links",
    summary = "Draw the QR code of a link",
    description = "The short address of a link as a QR code, also right after the answer to the creation of the \
                   link. A light code on a dark background is not read by every scanner.",
    params(("id" = inline(LinkId), Path), QrParameters, IfNoneMatch, TokenHeader),
    responses(
        (status = 200, description = "The image.", headers(("ETag")), content(
            (inline(Image) = "image/svg+xml", example = json!(EXAMPLE)),
            (inline(Image) = "image/png"),
        )),
        (status = 304, description = "The caller has the image: `If-None-Match` names it.", headers(("ETag"))),
    ),
    security(("api_key" = [Scope::LinksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_qr_code(request: ReadRequest) -> Result<Response, Problem> {
    let requested = requested_image(&request.uri, &request.headers)?;
    let position = request.position()?;
    let link = get_link::find(&request, position).await?;

    let (api, account_id) = (&request.api, request.account_id);
    let short_url = link.parts.short_url(&api.short_base_url);
    let image = api.qr_codes.draw(account_id, short_url, requested).await?;
    let entity_tag = entity_tag::of_content(&image);
    let cached = [
        (ETAG, entity_tag.as_str()),
        (CACHE_CONTROL, PRIVATE),
        (VARY, "accept"),
    ];
    if entity_tag::if_none_match_names(&request.headers, &entity_tag) {
        return Ok((StatusCode::NOT_MODIFIED, cached).into_response());
    }
    let media_type = match requested.format {
        QrFormat::Svg => MediaType::Svg,
        QrFormat::Png => MediaType::Png,
    };
    Ok((cached, [(CONTENT_TYPE, media_type.name())], image).into_response())
}
