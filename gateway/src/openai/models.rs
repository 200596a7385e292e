//! `/v1/models`, as it is answered.

use serde::Serialize;

/// One served model.
#[derive(Debug, Serialize)]
pub(crate) struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

impl<'a> Model<'a> {
    pub(crate) fn new(id: &'a str, created: u64) -> Self {
        Self { id, object: "model", created, owned_by: "cadence" }
    }
}

/// The served models.
#[derive(Debug, Serialize)]
pub(crate) struct ModelList<'a> {
    object: &'static str,
    data: &'a [Model<'a>],
}

impl<'a> ModelList<'a> {
    pub(crate) fn new(data: &'a [Model<'a>]) -> Self {
        Self { object: "list", data }
    }
}
