//! `GET /v1/models` and `GET /v1/models/{id}`.

use std::sync::Arc;

use actix_web::{
    HttpResponse,
    web::{Data, Path},
};

use crate::{
    error::ApiError,
    openai::{Model, ModelList},
    probe::Served,
    shared::Gateway,
};

/// The served models: one.
pub(crate) async fn list(gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let served = served(&gateway)?;
    let data = [Model::new(&served.model, served.created)];
    Ok(HttpResponse::Ok().json(ModelList::new(&data)))
}

/// One model.
pub(crate) async fn one(
    gateway: Data<Gateway>,
    id: Path<String>,
) -> Result<HttpResponse, ApiError> {
    let served = served(&gateway)?;
    if *id != served.model {
        return Err(ApiError::ModelNotFound { model: id.chars().take(100).collect() });
    }
    Ok(HttpResponse::Ok().json(Model::new(&served.model, served.created)))
}

/// What is served, or was until the engine went away.
fn served(gateway: &Gateway) -> Result<Arc<Served>, ApiError> {
    match gateway.shared.health.known() {
        Some(served) => Ok(served),
        None => gateway.serving_engine().map(|(_, served)| served),
    }
}
