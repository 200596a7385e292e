//! What is written down of a run: a row for each request.
//!
//! Journal -> Parquet -> summary. Rows go to a journal as requests end, a line of JSON each, so that
//! whatever ends the run leaves what was measured; at its end the journal becomes a Parquet file, which
//! appears under its name only when it is whole, and the journal goes. Every summary is made from the
//! Parquet file and from nothing else.

mod cell;
mod columns;
#[cfg(test)]
mod examples;
mod journal;
mod load;
mod machine;
mod provenance;
mod row;
mod store;

pub(crate) use cell::{Cell, Origin, Probe};
#[cfg(test)]
pub(crate) use examples::{cell_example, example, example_row};
pub(crate) use journal::{Journal, read as read_journal};
pub(crate) use load::{load, provenance as load_provenance};
pub(crate) use machine::Machine;
pub(crate) use provenance::{End, Provenance, Worst};
pub(crate) use row::Row;
pub(crate) use store::{journal_path, store};

/// A run: where its rows come from, and they.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) provenance: Provenance,
    /// By number.
    pub(crate) rows: Vec<Row>,
}
