//! A link as it is sent: the same four members in lists and reads.

use linkledger_core::{id::LinkId, timestamp};
use serde::Serialize;

use crate::read_model::links::Link;

#[derive(Serialize)]
pub(crate) struct LinkBody {
    id: LinkId,
    destination_url: String,
    short_url: String,
    created_at: String,
}

impl LinkBody {
    pub(crate) fn of(link: Link, short_base_url: &str) -> Self {
        Self {
            id: link.id,
            destination_url: link.destination_url,
            short_url: format!("{short_base_url}/{}", link.slug),
            created_at: timestamp::format(link.created_at),
        }
    }
}
