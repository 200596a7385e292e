//! Whom to trust.

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio_rustls::TlsConnector;

/// Which certificates are believed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// A file of PEM certificates, instead of the system's.
    pub(crate) ca_file: Option<PathBuf>,
}

impl Trust {
    /// A connector that believes these certificates.
    ///
    /// # Errors
    /// There are none, or the file cannot be read.
    pub(crate) fn connector(&self) -> anyhow::Result<TlsConnector> {
        let roots = self.roots()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn roots(&self) -> anyhow::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let Some(file) = &self.ca_file else {
            let found = rustls_native_certs::load_native_certs();
            let (kept, _) = roots.add_parsable_certificates(found.certs);
            anyhow::ensure!(kept > 0, "this system has no CA certificates: say --cacert FILE");
            return Ok(roots);
        };
        let pem = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let wrong = || format!("{} holds something that is no certificate", file.display());
            roots.add(certificate.with_context(wrong)?).with_context(wrong)?;
        }
        anyhow::ensure!(!roots.is_empty(), "{} holds no certificate", file.display());
        Ok(roots)
    }
}

/// The name that the server's certificate has to have.
///
/// # Errors
/// The host is neither a name nor an address.
pub(crate) fn server_name(host: &str) -> anyhow::Result<ServerName<'static>> {
    let name = ServerName::try_from(host.to_owned());
    name.with_context(|| format!("`{host}` is no name that a certificate could have"))
}
