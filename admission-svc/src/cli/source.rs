//! Where rows are read from, page by page: a running service, or a folder that no service has.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use proto::v1::{self, admission_client::AdmissionClient};

use crate::traces::{Archive, StoreError};

/// Rows of a page.
const PAGE: usize = 1_024;

/// Where the rows are.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub(super) struct Source {
    /// A running admission service
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:50052")]
    from: String,
    /// A trace folder that no running service has
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl Source {
    /// Hands every row above `after` to `take`, oldest first. Says how many were left out, because they
    /// are damaged or of an unknown version, where that is known.
    pub(super) fn read(
        &self,
        after: u64,
        take: impl FnMut(&v1::TraceRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        match &self.store {
            Some(folder) => {
                let mut archive = open(folder)?;
                read_folder(&mut archive, after, take)
            }
            None => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(read_service(&self.from, after, take)).map(|()| 0)
            }
        }
    }
}

/// Opens a trace folder that is there.
pub(super) fn open(folder: &std::path::Path) -> anyhow::Result<Archive> {
    let missing = || format!("{} is no folder", folder.display());
    std::fs::metadata(folder).ok().filter(std::fs::Metadata::is_dir).with_context(missing)?;
    Archive::open(folder).map_err(|error| match error {
        StoreError::InUse { .. } => {
            anyhow::Error::from(error).context("a running service is asked with --from")
        }
        StoreError::Io { .. } | StoreError::Broken { .. } => error.into(),
    })
}

/// See [`Source::read`].
pub(super) fn read_folder(
    archive: &mut Archive,
    mut after: u64,
    mut take: impl FnMut(&v1::TraceRow) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let mut skipped = 0;
    loop {
        let page = archive.page(after, PAGE)?;
        page.rows.iter().try_for_each(&mut take)?;
        skipped += page.skipped;
        match page.next {
            Some(next) => after = next,
            None => return Ok(skipped),
        }
    }
}

async fn read_service(
    address: &str,
    after: u64,
    mut take: impl FnMut(&v1::TraceRow) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let channel = service::grpc::connect_lazily(address)?;
    let request = v1::ExportTracesRequest { after };
    let rows = AdmissionClient::new(channel).export_traces(request).await;
    let mut rows = rows.with_context(|| format!("cannot export from {address}"))?.into_inner();
    while let Some(row) = rows.message().await.context("the export broke off")? {
        take(&row)?;
    }
    Ok(())
}
