//! Where calibrations are kept: a file for each configuration of a model, beside it or in a folder of
//! their own.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use super::{Artifact, Configuration, Provenance};
use crate::settings::EngineSettings;

const SUFFIX: &str = ".calibration.json";
/// A file that is longer is none of ours.
const BYTES_MAX: u64 = 4 << 20;

/// The calibrations of one model file.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// What their names begin with.
    stem: String,
}

impl Folder {
    /// The folder that is set, or the model's own.
    #[must_use]
    pub fn of(model: &Path, set: Option<&Path>) -> Self {
        let beside = || model.parent().unwrap_or(Path::new("")).to_owned();
        let stem = model.file_stem().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
        Self { path: set.map_or_else(beside, Path::to_owned), stem }
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> &Path {
        if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path }
    }

    /// Tries to write there, so that a minute of measuring is not in vain.
    ///
    /// # Errors
    /// The folder cannot be made or written to.
    pub fn probe(&self) -> io::Result<()> {
        fs::create_dir_all(self.path())?;
        let probe = self.path().join(format!("{}.{}", self.stem, std::process::id()));
        File::create_new(&probe)?;
        fs::remove_file(&probe)
    }

    /// The file of a configuration.
    #[must_use]
    pub fn file(&self, configuration: &Configuration) -> PathBuf {
        let (layout, threads) = (configuration.layout.name(), configuration.threads);
        self.path.join(format!("{}.{layout}-{threads}{SUFFIX}", self.stem))
    }

    /// Writes a calibration, in place of an earlier one of the same configuration. A reader sees either,
    /// and a crash leaves either.
    ///
    /// # Errors
    /// The folder cannot be made or written to.
    pub fn write(&self, artifact: &Artifact) -> io::Result<PathBuf> {
        fs::create_dir_all(self.path())?;
        let path = self.file(&artifact.configuration);
        let mut draft = path.clone().into_os_string();
        draft.push(format!(".{}", std::process::id()));
        let written = File::create(&draft).and_then(|mut file| {
            file.write_all(artifact.print().as_bytes())?;
            file.sync_all()
        });
        let named = written.and_then(|()| fs::rename(&draft, &path));
        if named.is_err() {
            // What is left of it is of no use; the error is told.
            let _ = fs::remove_file(&draft);
        }
        named.map(|()| path)
    }

    /// Files that may be calibrations of this model.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path()) else { return Vec::new() };
        let names =
            entries.flatten().filter(|it| it.file_name().to_str().is_some_and(|it| self.owns(it)));
        let mut files: Vec<PathBuf> = names.map(|it| it.path()).collect();
        files.sort();
        files
    }

    /// Whether a file of this name is of this model: another's name may begin with this one's.
    fn owns(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&*self.stem).and_then(|it| it.strip_suffix(SUFFIX));
        rest.and_then(|it| it.strip_prefix('.')).is_some_and(|it| !it.contains('.'))
    }

    /// The fastest of the calibrations that hold for `ours` and do not contradict the settings. The
    /// others are warned of, each in a line.
    #[must_use]
    pub fn find(&self, ours: &Provenance, settings: &EngineSettings) -> Option<Artifact> {
        let mut found: Vec<Artifact> = Vec::new();
        for path in self.files() {
            match read(&path).and_then(|it| holds(it, ours)) {
                Ok(artifact) => found.push(artifact),
                Err(reason) => {
                    tracing::warn!("the calibration {} is not used: {reason}", path.display());
                }
            }
        }
        found.retain(|it| settings.allows(&it.configuration));
        found.into_iter().max_by(|one, other| one.rate.total_cmp(&other.rate))
    }
}

fn holds(artifact: Artifact, ours: &Provenance) -> Result<Artifact, String> {
    artifact.provenance.holds_for(ours).map_err(|mismatch| mismatch.to_string())?;
    Ok(artifact)
}

/// Reads a calibration.
///
/// # Errors
/// One line on what is wrong with the file.
pub(crate) fn read(path: &Path) -> Result<Artifact, String> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    Artifact::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{
        super::artifact::tests::{artifact, provenance},
        *,
    };
    use crate::settings::{LayoutChoice, LayoutKind, tests::mock_settings};

    fn place() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().expect("a place");
        let folder = Folder::of(&place.path().join("model.Q4.gguf"), None);
        (place, folder)
    }

    fn with(layout: LayoutKind, rate: f64) -> Artifact {
        let mut it = artifact();
        it.configuration.layout = layout;
        it.rate = rate;
        it
    }

    #[test]
    fn the_fastest_that_the_settings_allow_is_found() {
        let (_place, folder) = place();
        assert_eq!(folder.find(&provenance(), &mock_settings()), None);
        let (streams, unified) = (with(LayoutKind::Streams, 9.0), with(LayoutKind::Unified, 7.0));
        for artifact in [&streams, &unified] {
            folder.write(artifact).expect("written");
        }
        let mut settings = mock_settings();
        let mut found = |layout, threads| {
            settings.scheduling.layout = layout;
            settings.threads = threads;
            folder.find(&provenance(), &settings)
        };
        assert_eq!(found(LayoutChoice::Auto, 0), Some(streams.clone()));
        assert_eq!(found(LayoutChoice::Unified, 0), Some(unified));
        assert_eq!(found(LayoutChoice::Auto, 2), Some(streams));
        assert_eq!(found(LayoutChoice::Auto, 1), None);
        settings.threads = 0;
        settings.gpu_layers = 3;
        assert_eq!(folder.find(&provenance(), &settings), None);
    }

    #[test]
    fn what_is_damaged_or_of_something_else_is_passed_over() {
        let (place, folder) = place();
        let good = with(LayoutKind::Unified, 7.0);
        folder.write(&good).expect("written");
        fs::write(place.path().join("model.Q4.streams-2.calibration.json"), "{").expect("written");
        let other = Provenance { model_bytes: 5, ..provenance() };
        let mut foreign = with(LayoutKind::Streams, 99.0);
        foreign.provenance = other;
        fs::write(place.path().join("model.Q4.streams-4.calibration.json"), foreign.print())
            .expect("written");
        fs::create_dir(place.path().join("model.Q4.streams-8.calibration.json")).expect("made");
        assert_eq!(folder.files().len(), 4);
        assert_eq!(folder.find(&provenance(), &mock_settings()), Some(good));
    }

    #[test]
    fn files_of_models_with_longer_names_are_theirs() {
        let (place, folder) = place();
        let longer = Folder::of(&place.path().join("model.Q4.v2.gguf"), None);
        longer.write(&artifact()).expect("written");
        assert_eq!((folder.files().len(), longer.files().len()), (0, 1));
    }

    #[test]
    fn writing_replaces_and_leaves_nothing_else() {
        let (place, folder) = place();
        folder.write(&with(LayoutKind::Streams, 1.0)).expect("written");
        let path = folder.write(&with(LayoutKind::Streams, 2.0)).expect("written");
        assert_eq!(read(&path).expect("whole").rate, 2.0);
        let files = fs::read_dir(place.path()).expect("readable").count();
        assert_eq!(files, 1);
        let apart = place.path().join("deep/er");
        let folder = Folder::of(Path::new("model.gguf"), Some(&apart));
        assert!(folder.write(&artifact()).expect("written").starts_with(&apart));
        let blocked = Folder::of(Path::new("model.gguf"), Some(&path));
        blocked.write(&artifact()).expect_err("a file is no folder");
    }
}
