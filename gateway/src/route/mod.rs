//! The paths.
//!
//! Handlers are thin: they read what HTTP says, call the rest of the crate, and write HTTP. A wrong
//! method, an unknown path and a panic are answered here, in the same envelope as everything else.

mod answer;
mod chat;
mod completions;
mod health;
mod models;

use std::panic::AssertUnwindSafe;

use actix_web::{
    Error, HttpResponse, Resource, ResponseError as _,
    body::BoxBody,
    dev::{HttpServiceFactory, ServiceRequest, ServiceResponse},
    middleware::{Next, from_fn},
    web::{self, ServiceConfig},
};
use futures_util::FutureExt as _;
use tracing::error;

use crate::{error::ApiError, metrics};

const GET: &str = "GET, HEAD, OPTIONS";
const POST: &str = "POST, OPTIONS";

/// All routes of the application.
pub(crate) fn configure(config: &mut ServiceConfig) {
    let get = |path, handler: actix_web::Route, head: actix_web::Route| {
        guarded(web::resource(path).route(handler).route(head), GET)
    };
    config
        .service(guarded(
            web::resource("/v1/chat/completions").route(web::post().to(chat::complete)),
            POST,
        ))
        .service(guarded(
            web::resource("/v1/completions").route(web::post().to(completions::complete)),
            POST,
        ))
        .service(get("/v1/models", web::get().to(models::list), web::head().to(models::list)))
        // An id may hold slashes, raw or encoded.
        .service(get("/v1/models/{id:.+}", web::get().to(models::one), web::head().to(models::one)))
        .service(get("/health", web::get().to(health::live), web::head().to(health::live)))
        .service(get("/ready", web::get().to(health::ready), web::head().to(health::ready)))
        .service(get("/metrics", web::get().to(health::metrics), web::head().to(health::metrics)))
        .service(get("/version", web::get().to(health::version), web::head().to(health::version)))
        .default_service(web::to(|| async { Err::<HttpResponse, _>(ApiError::NoRoute) }));
}

/// A resource that answers to other methods and to panics like a well-behaved one.
fn guarded(resource: Resource, allow: &'static str) -> impl HttpServiceFactory + 'static {
    resource
        .default_service(web::to(move || async move {
            Err::<HttpResponse, _>(ApiError::Method { allow })
        }))
        .wrap(from_fn(catch_panic))
}

async fn catch_panic(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let asked = request.request().clone();
    // What a panic leaves behind is dropped with the request: handlers share nothing they could
    // leave half-changed.
    match AssertUnwindSafe(next.call(request)).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(_) => {
            error!(path = asked.path(), "a handler panicked");
            metrics::panicked();
            Ok(ServiceResponse::new(asked, ApiError::Internal.error_response()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::{App, test};

    async fn panics() -> HttpResponse {
        panic!("a secret")
    }

    #[actix_web::test]
    async fn a_panic_is_a_500_without_internals() {
        let route = web::resource("/").route(web::get().to(panics));
        let app = test::init_service(App::new().service(guarded(route, GET))).await;
        let response = test::call_service(&app, test::TestRequest::get().to_request()).await;
        assert_eq!(response.status(), 500);
        let body = test::read_body(response).await;
        assert!(body.starts_with(b"{\"error\":{\"message\":\"internal error\""), "{body:?}");
    }
}
