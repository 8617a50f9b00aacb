//! What each problem means and what its caller should do: the text of the problems' pages.

use super::Code;

impl Code {
    /// What has happened, for the developer who meets this code.
    pub const fn meaning(self) -> &'static str {
        self.page().0
    }

    /// What the caller should do about it.
    pub const fn advice(self) -> &'static str {
        self.page().1
    }

    #[expect(clippy::too_many_lines, reason = "one table: a row for each code")]
    const fn page(self) -> (&'static str, &'static str) {
        match self {
            Self::MalformedJson => (
                "The body is not exactly one JSON text in UTF-8. An empty body, a byte order mark, duplicate members, lone surrogates, anything behind the value and nesting deeper than 32 levels are refused too.",
                "Send the output of a JSON serialiser as it is. Check that the body was sent completely.",
            ),
            Self::BodyNotObject => (
                "The body is JSON, but an array, a string, a number, a boolean or null.",
                "Send one JSON object: {…}.",
            ),
            Self::InvalidParameter => (
                "A query parameter is unknown here, stands there twice, is not well percent-encoded, or has a value out of its range. The member errors names it.",
                "Correct or leave out the parameter that is named. Names are matched exactly.",
            ),
            Self::InvalidCursor => (
                "The cursor was not made by this service for this account and this list, or was changed on its way.",
                "Send next_cursor of the page before exactly as it is, or begin again without a cursor.",
            ),
            Self::IdempotencyKeyMissing => (
                "Creating a link charges credits, so the request must carry an Idempotency-Key. Nothing was done.",
                "Send the header Idempotency-Key with a UUID: a new one for each new link, the same one for each repetition of a request.",
            ),
            Self::IdempotencyKeyInvalid => (
                "The header Idempotency-Key is not one UUID, or stands there more than once. Nothing was done.",
                "Send one UUID in its form of 36 characters, such as 0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0.",
            ),
            Self::InvalidHeader => (
                "A header is missing, doubled or malformed. The member errors names it.",
                "Correct the header that is named. Send Consistency-Token exactly as it was received.",
            ),
            Self::AuthenticationRequired => (
                "The request has no credentials, or those of another scheme than Bearer.",
                "Send the header Authorization: Bearer followed by an API key.",
            ),
            Self::ApiKeyInvalid => (
                "The bearer token is no API key of this service: it is mistyped, cut off, or from somewhere else.",
                "Check the key for lost or added characters. If it is lost, ask the operator for a new one.",
            ),
            Self::ApiKeyExpired => (
                "The API key was issued for a limited time, which is over.",
                "Use another key, or ask the operator for a new one. Requests may be repeated with their Idempotency-Key under the new key.",
            ),
            Self::ApiKeyRevoked => (
                "The API key was withdrawn.",
                "Use another key, or ask the operator for a new one. Requests may be repeated with their Idempotency-Key under the new key.",
            ),
            Self::InsufficientCredits => (
                "The balance of the account does not cover the price of the link. Nothing was created and nothing was charged; the members balance and required say how much is missing.",
                "Have credits added, then repeat the request; the same Idempotency-Key may be used.",
            ),
            Self::InsufficientScope => (
                "The API key is valid but lacks the right to this operation. The member required_scopes names it.",
                "Use a key with that scope, or ask the operator for one.",
            ),
            Self::AccountSuspended => (
                "An operator has suspended the account.",
                "Contact the operator. Requests may be repeated once the account is active again.",
            ),
            Self::RouteNotFound => (
                "There is nothing at this path. Paths are matched exactly: no slash at the end, no other letter case, no encoded letters.",
                "Compare the path with the documentation of the API.",
            ),
            Self::LinkNotFound => (
                "There is no such link: it never existed, was deleted, or belongs to another account.",
                "Check the id and the API key, or the short address. Ids are matched exactly, in lower case.",
            ),
            Self::MethodNotAllowed => (
                "The path exists but does not know the method.",
                "Use one of the methods that the header Allow lists.",
            ),
            Self::NotAcceptable => (
                "The header Accept allows no JSON, which is the only form of the answer.",
                "Send Accept: application/json, or leave the header out.",
            ),
            Self::SlugTaken => (
                "Another link has this slug. Letter case makes no difference, and the slug of a deleted link is never given out again. Nothing was charged.",
                "Choose another slug, or leave it out to be given one. The same Idempotency-Key may be used.",
            ),
            Self::IdempotencyKeyInUse => (
                "The first request with this Idempotency-Key is still running.",
                "Wait as long as Retry-After says, then repeat the request unchanged: it will get the answer of the first one.",
            ),
            Self::ShortLinkGone => (
                "The short link existed, but was deleted or disabled.",
                "Ask whoever gave you the address for another one.",
            ),
            Self::EtagMismatch => (
                "If-Match does not name the current version of the link: the link has changed since, or the tag is a weak one or lacks its quotes. Nothing was done; the header ETag names the current version.",
                "Read the link again, decide whether the change is still wanted, and repeat it with the current ETag, with its quotes.",
            ),
            Self::ContentTooLarge => (
                "The body is larger than 16 KiB.",
                "Send only the members that the documentation lists, with shorter values and without white space.",
            ),
            Self::UriTooLong => (
                "The path and query of the request are longer than the service reads.",
                "Leave out what is not documented; a valid address is always shorter.",
            ),
            Self::UnsupportedMediaType => (
                "The Content-Type is missing, or is not a media type that this operation reads.",
                "Send the media type that the detail names, with no charset or with charset=utf-8.",
            ),
            Self::UnsupportedContentEncoding => (
                "The body is compressed.",
                "Send the body as it is, without Content-Encoding and with no Transfer-Encoding but chunked.",
            ),
            Self::ValidationFailed => (
                "One or more fields of the body are not valid. The member errors lists all of them, or 100 if there are more, each with a pointer to the field, a code and what to do. Nothing was charged.",
                "Correct every field that is listed, and repeat the request; the same Idempotency-Key may be used.",
            ),
            Self::IdempotencyKeyReused => (
                "This Idempotency-Key has already created a link from a body with another content.",
                "Use a new key for a new link. To get the first answer again, repeat the first body.",
            ),
            Self::RateLimited => (
                "The account has sent more requests than its limit allows. Nothing was done.",
                "Wait as long as Retry-After says. The headers RateLimit-Policy and RateLimit tell the limit and what is left of it.",
            ),
            Self::HeadersTooLarge => (
                "The headers of the request are too many or too long.",
                "Leave out what is not documented, cookies above all.",
            ),
            Self::InternalError => (
                "The service has a defect.",
                "Repeat the request, a write with the same Idempotency-Key: it is never carried out twice. If the error stays, report the request_id.",
            ),
            Self::Overloaded => (
                "The service has more work than it can take on just now. Nothing was done.",
                "Repeat the request after the time that Retry-After says, and less often from one attempt to the next.",
            ),
            Self::StorageUnavailable => (
                "The database does not answer. Nothing was done.",
                "Repeat the request after the time that Retry-After says, a write with the same Idempotency-Key.",
            ),
            Self::ReadModelBehind => (
                "The tables that answer reads do not yet contain the change that this request rests on. The change itself is safe.",
                "Repeat the request after the time that Retry-After says.",
            ),
            Self::DeadlineExceeded => (
                "The outcome was not known in time: the request may have succeeded (the member may_have_succeeded says so).",
                "Repeat the same request, a create with its Idempotency-Key: a create tells then what happened and never charges twice, and a change that was made stays made.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_says_in_sentences_what_it_means_and_what_to_do() {
        for code in Code::ALL {
            for text in [code.meaning(), code.advice()] {
                let begins_well = text.chars().next().is_some_and(char::is_uppercase);
                assert!(begins_well && text.ends_with('.'), "{code:?}: {text}");
            }
        }
    }
}
