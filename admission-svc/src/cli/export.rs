//! Writes rows to a file or to standard output.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use proto::v1::TraceRow;

use super::{jsonl, parquet, source::Source};
use crate::traces::columns::COLUMNS;

/// What to write, and where.
#[derive(Clone, Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,
    /// How rows are written
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// Only rows with a higher number: the last one of an earlier export
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    /// The file to write, which appears when it is whole [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the names of the columns and what they mean, and end
    #[arg(long)]
    columns: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object a line
    Jsonl,
    /// Columns, compressed
    Parquet,
}

/// What takes the rows.
pub(super) trait Sink {
    fn take(&mut self, row: &TraceRow) -> anyhow::Result<()>;
    /// After the last row.
    fn finish(self: Box<Self>) -> anyhow::Result<()>;
}

/// Writes what is asked for.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    if options.columns {
        return print_columns(&mut io::stdout().lock());
    }
    let Some(out) = &options.out else {
        if options.format == Format::Parquet {
            bail!("a Parquet file needs --out");
        }
        return write(options, io::stdout());
    };
    if takes_what_is_written(out) {
        let file = File::options().write(true).open(out);
        return write(options, file.with_context(|| format!("cannot write {}", out.display()))?);
    }
    // A link stays one: the file behind it is replaced.
    let out = &fs::canonicalize(out).unwrap_or_else(|_| out.clone());
    let part = part_of(out);
    let file = File::create(&part).with_context(|| format!("cannot write {}", part.display()))?;
    let written = write(options, file).and_then(|()| {
        fs::rename(&part, out).with_context(|| format!("cannot write {}", out.display()))
    });
    // Half an export passes for a whole one too easily.
    written.inspect_err(|_| drop(fs::remove_file(&part)))
}

/// A device, a pipe, a socket: nothing that a file may take the place of.
fn takes_what_is_written(out: &Path) -> bool {
    fs::metadata(out).is_ok_and(|it| !it.is_file() && !it.is_dir())
}

/// Where the rows are collected until they are all there: beside the file, and this process's own.
fn part_of(out: &Path) -> PathBuf {
    let mut part = out.as_os_str().to_owned();
    part.push(format!(".{}.part", process::id()));
    part.into()
}

fn write(options: &Options, out: impl Write + Send) -> anyhow::Result<()> {
    let out = BufWriter::new(out);
    let mut sink: Box<dyn Sink + '_> = match options.format {
        Format::Jsonl => Box::new(jsonl::Lines::new(out)),
        Format::Parquet => Box::new(parquet::Columns::new(out)?),
    };
    let (mut rows, mut last) = (0_u64, options.after);
    let skipped = options.source.read(options.after, |row| {
        (rows, last) = (rows + 1, row.number);
        sink.take(row)
    })?;
    sink.finish()?;
    let left_out = if skipped > 0 { format!(", {skipped} left out") } else { String::new() };
    writeln!(io::stderr(), "{rows} rows{left_out}; go on with --after {last}")?;
    Ok(())
}

fn print_columns(out: &mut impl Write) -> anyhow::Result<()> {
    for column in COLUMNS {
        writeln!(out, "{:26} {}", column.name, column.about)?;
    }
    Ok(())
}
