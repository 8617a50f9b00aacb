//! Parses the members of one body and collects their errors.

use serde_json::Value;

use super::{DISABLED, EXPIRED_URL, EXPIRES_AT, EXTERNAL_ID, TAGS, TITLE};
use crate::{
    field::{ERRORS_MAX, FieldCode, FieldError, most_useful},
    json::JsonObject,
    link::{
        Destination, DestinationRules, DetailsPatch, Expiry, Tags, ValueUpdate,
        details::{parse_external_id, parse_title},
        parse_tag,
        tag::TAGS_MAX,
    },
};

/// Meaning of `null` as the value of a detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NullMember {
    /// `null` is an error.
    NotAllowed,
    /// `null` removes the detail.
    Removes,
}

/// Members of a body while they are parsed, and their errors so far.
pub(super) struct MemberParser<'a> {
    object: &'a JsonObject,
    null: NullMember,
    errors: Vec<FieldError>,
}

impl<'a> MemberParser<'a> {
    pub(super) const fn of(object: &'a JsonObject, null: NullMember) -> Self {
        Self {
            object,
            null,
            errors: Vec::new(),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.object.members().contains_key(name)
    }

    pub(super) fn refuse(&mut self, name: &str, code: FieldCode) {
        self.errors.push(FieldError::of_member(name, code));
    }

    /// Refuses the members that are none of `known`.
    pub(super) fn refuse_others(&mut self, known: &'static [&'static str]) {
        let names = self.object.members().keys();
        let unknown = names.filter(|name| !known.contains(&name.as_str()));
        self.errors
            .extend(unknown.map(|name| FieldError::of_unknown_member(name, known)));
    }

    /// Refuses the members that no patch changes: the immutable ones, and those that are none of `mutable`.
    pub(super) fn refuse_unchangeable(
        &mut self,
        is_immutable: impl Fn(&str) -> bool,
        mutable: &'static [&'static str],
    ) {
        let names = self.object.members().keys();
        let others = names.filter(|name| !mutable.contains(&name.as_str()));
        self.errors.extend(others.map(|name| {
            if is_immutable(name) {
                FieldError::of_member(name, FieldCode::FieldNotMutable)
            } else {
                FieldError::of_unknown_member(name, mutable)
            }
        }));
    }

    /// Parses a text member that cannot be removed. Returns `None` if the member is missing or
    /// invalid.
    pub(super) fn set<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, FieldCode>,
    ) -> Option<T> {
        let value = self.object.members().get(name)?;
        let parsed = text(value).and_then(parse);
        parsed.map_err(|code| self.refuse(name, code)).ok()
    }

    /// Parses a text member that may be removed. Keeps the value if the member is missing or invalid.
    fn detail<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, FieldCode>,
    ) -> ValueUpdate<T> {
        if self.is_removed(name) {
            return ValueUpdate::Remove;
        }
        self.set(name, parse)
            .map_or(ValueUpdate::Keep, ValueUpdate::Set)
    }

    fn is_removed(&self, name: &str) -> bool {
        let value = self.object.members().get(name);
        self.null == NullMember::Removes && value.is_some_and(Value::is_null)
    }

    /// Parses the switch of the service. `null` is the absence of the member in a link: not disabled.
    pub(super) fn disabled(&mut self) -> Option<bool> {
        match self.object.members().get(DISABLED)? {
            Value::Bool(is_disabled) => Some(*is_disabled),
            Value::Null => Some(false),
            Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                self.refuse(DISABLED, FieldCode::WrongType);
                None
            }
        }
    }

    pub(super) fn details(&mut self, rules: &DestinationRules) -> DetailsPatch {
        DetailsPatch {
            title: self.detail(TITLE, parse_title),
            external_id: self.detail(EXTERNAL_ID, parse_external_id),
            tags: self.tags(),
            expires_at: self.detail(EXPIRES_AT, Expiry::parse),
            expired_url: self.detail(EXPIRED_URL, |text| Destination::parse(text, rules)),
        }
    }

    fn tags(&mut self) -> ValueUpdate<Tags> {
        if self.is_removed(TAGS) {
            return ValueUpdate::Remove;
        }
        let Some(value) = self.object.members().get(TAGS) else {
            return ValueUpdate::Keep;
        };
        let code = match value {
            Value::Array(tags) => {
                let tags = tags.iter().enumerate();
                let tags = tags.filter_map(|(index, tag)| self.tag(index, tag));
                let tags = Tags::of(tags.collect());
                if tags
                    .as_ref()
                    .is_none_or(|tags| tags.as_slice().len() <= TAGS_MAX)
                {
                    return ValueUpdate::to(tags);
                }
                FieldCode::TooManyTags
            }
            Value::Null => FieldCode::NullNotAllowed,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                FieldCode::WrongType
            }
        };
        self.refuse(TAGS, code);
        ValueUpdate::Keep
    }

    fn tag(&mut self, index: usize, tag: &Value) -> Option<String> {
        let parsed = text(tag).and_then(parse_tag);
        let refuse = |code| self.errors.push(FieldError::of_element(TAGS, index, code));
        parsed.map_err(refuse).ok()
    }

    pub(super) fn finish(self) -> Result<(), Vec<FieldError>> {
        if self.errors.is_empty() {
            return Ok(());
        }
        Err(most_useful(self.errors, ERRORS_MAX))
    }
}

/// Returns the text of a member.
fn text(value: &Value) -> Result<&str, FieldCode> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Err(FieldCode::NullNotAllowed),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(FieldCode::WrongType)
        }
    }
}
