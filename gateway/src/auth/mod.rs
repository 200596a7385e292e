//! Who may ask, and how much.
//!
//! Only digests of keys are kept, and all of them are compared, in constant time each, so that how long
//! a refusal takes says nothing about how near a guess came. What a key has asked for is counted in this
//! process: behind a balancer each gateway allows its limits for itself.

mod key;
mod limit;
mod list;

use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use units::Micros;

use crate::{error::ApiError, metrics, settings::KeySettings};
use list::List;

pub use key::Secret;
pub(crate) use limit::{Excess, Limits, Meter};

/// Headers that hold nothing but a key.
const KEY_HEADERS: [&str; 2] = ["api-key", "x-api-key"];

type Hash = [u8; 32];

/// The keys that are good here. None at all: everybody may ask.
#[derive(Debug)]
pub(crate) struct Keys {
    hashes: Vec<Hash>,
    meters: Arc<Vec<Mutex<Meter>>>,
}

/// A key that is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(usize);

/// A request that counts against its key until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    meters: Arc<Vec<Mutex<Meter>>>,
    key: Key,
}

impl Keys {
    /// The keys of the settings and of the file that they name.
    ///
    /// # Errors
    /// The file cannot be read, or something in it or in the settings is no key, or one that stands
    /// elsewhere too. No key is told.
    pub(crate) fn load(settings: &KeySettings) -> anyhow::Result<Self> {
        let keys = List::of(settings)?.into_keys();
        let (hashes, meters): (_, Vec<_>) =
            keys.map(|(hash, limits)| (hash, Mutex::new(Meter::new(limits)))).unzip();
        Ok(Self { hashes, meters: Arc::new(meters) })
    }

    /// The key that a request shows; nothing where none is needed.
    ///
    /// # Errors
    /// It shows none, or none that is good.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<Option<Key>, ApiError> {
        if self.hashes.is_empty() {
            return Ok(None);
        }
        let mut shown = false;
        for key in presented(headers) {
            shown = true;
            if let Some(key) = self.find(key) {
                return Ok(Some(key));
            }
        }
        Err(ApiError::Key { shown })
    }

    fn find(&self, key: &[u8]) -> Option<Key> {
        let hash: Hash = Sha256::digest(key).into();
        // One more than the index; 0 is none.
        let mut found = 0_u64;
        for (place, known) in (1_u64..).zip(&self.hashes) {
            found.conditional_assign(&place, known.as_slice().ct_eq(hash.as_slice()));
        }
        usize::try_from(found).ok()?.checked_sub(1).map(Key)
    }

    /// Counts a request against its key.
    ///
    /// # Errors
    /// A limit of the key is reached.
    pub(crate) fn enter(&self, key: Key, now: Micros) -> Result<Place, ApiError> {
        let outcome = lock(&self.meters, key).begin(now);
        match outcome {
            Ok(()) => Ok(Place { meters: Arc::clone(&self.meters), key }),
            Err(excess) => {
                metrics::limited(match excess {
                    Excess::Rate { .. } => "requests_per_minute",
                    Excess::Concurrent { .. } => "concurrent",
                });
                Err(ApiError::KeyLimit(excess))
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.meters, self.key).end();
    }
}

fn lock(meters: &[Mutex<Meter>], key: Key) -> std::sync::MutexGuard<'_, Meter> {
    // A meter is whole whenever it is not being changed.
    meters[key.0].lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys that a request shows, wherever clients put them.
fn presented(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let bearers = headers.get_all(AUTHORIZATION).filter_map(bearer);
    let plain = KEY_HEADERS.into_iter().flat_map(move |name| headers.get_all(name));
    let plain = plain.map(|value| value.as_bytes().trim_ascii());
    bearers.chain(plain).filter(|key| !key.is_empty()).take(4)
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, key) = value.as_bytes().split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderName;

    fn keys(keys: &[&str]) -> Keys {
        let api_keys = keys.iter().map(|key| key.parse().expect("a secret")).collect();
        Keys::load(&KeySettings { api_keys, ..KeySettings::default() }).expect("keys")
    }

    fn shown(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_key_is_found_wherever_clients_put_it() {
        let keys = keys(&["sk-a", "sk-b"]);
        for headers in [
            &[("authorization", "Bearer sk-b")][..],
            &[("authorization", "bEARER   sk-b ")],
            &[("api-key", "sk-b")],
            &[("x-api-key", "sk-b")],
            &[("authorization", "Bearer dummy"), ("x-api-key", "sk-b")],
        ] {
            assert_eq!(keys.check(&shown(headers)), Ok(Some(Key(1))), "{headers:?}");
        }
    }

    #[test]
    fn everything_else_is_no_key() {
        let keys = keys(&["sk-a"]);
        for (headers, wanted) in [
            (&[][..], false),
            (&[("authorization", "Bearer ")], false),
            (&[("authorization", "sk-a")], false),
            (&[("authorization", "Basic sk-a")], false),
            (&[("authorization", "Bearer sk-")], true),
            (&[("authorization", "Bearer sk-aa")], true),
            (&[("x-api-key", "SK-A")], true),
        ] {
            let refused = Err(ApiError::Key { shown: wanted });
            assert_eq!(keys.check(&shown(headers)), refused, "{headers:?}");
        }
    }

    #[test]
    fn without_keys_everybody_may_ask() {
        assert_eq!(keys(&[]).check(&shown(&[("authorization", "Bearer any")])), Ok(None));
    }

    #[test]
    fn places_come_back() {
        let keys = keys(&["sk-a concurrent=1", "sk-b"]);
        let now = Micros(1);
        let place = keys.enter(Key(0), now).expect("a place");
        let limit = Excess::Concurrent { limit: 1 };
        assert_eq!(keys.enter(Key(0), now).err(), Some(ApiError::KeyLimit(limit)));
        assert!(keys.enter(Key(1), now).is_ok(), "another key is another matter");
        drop(place);
        assert!(keys.enter(Key(0), now).is_ok());
    }

    #[test]
    fn a_key_is_the_whole_of_what_was_written() {
        let keys = keys(&["a#b", "#c rpm=1"]);
        let found = |key| keys.check(&shown(&[("x-api-key", key)])).is_ok();
        assert!(found("a#b") && found("#c"));
        assert!(!found("a") && !found("c"));
    }
}
