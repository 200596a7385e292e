//! `/health`, `/ready`, `/metrics`, `/version`.

use actix_web::{
    HttpResponse,
    http::header::{CONTENT_TYPE, RETRY_AFTER},
    web::Data,
};
use serde_json::json;

use crate::{probe::State, shared::Gateway};

/// Whether the process works. Overload, draining and a lost engine are no reason to restart it.
pub(crate) async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

/// Whether a chat request sent now would reach a working engine.
pub(crate) async fn ready(gateway: Data<Gateway>) -> HttpResponse {
    let shared = &gateway.shared;
    let engine = shared.health.best_engine();
    let now = shared.clock.now();
    let serving = shared.drain.is_serving();
    let ready = serving && engine.is_fresh(now);
    let status = match (serving, ready) {
        (true, true) => "ready",
        (true, false) => "not ready",
        (false, _) => "draining",
    };
    let admission = match shared.health.admission() {
        State::Up => "ok",
        State::Unknown | State::Stuck | State::Detached | State::Draining | State::Down => {
            "degraded"
        }
    };
    let body = json!({
        "status": status,
        "engine": {
            "state": engine.state.label(),
            "model": engine.served.as_ref().map(|served| &served.model),
            "answered_ms_ago": engine.good_at.map(|at| now.since(at).0 / 1_000),
        },
        "admission": { "state": admission },
    });
    if ready {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().insert_header((RETRY_AFTER, 1)).json(body)
    }
}

/// The metrics, for Prometheus.
pub(crate) async fn metrics(gateway: Data<Gateway>) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/plain; version=0.0.4"))
        .body(gateway.shared.metrics.render())
}

/// What runs here.
pub(crate) async fn version() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "name": "cadence", "version": env!("CARGO_PKG_VERSION") }))
}
