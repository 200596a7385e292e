//! Settings of the file and the environment that do not count here.
//!
//! The three are told by flags where they listen and where the others are, and flags win. A setting that
//! says something else would be ignored without a word, so we say the word.

use std::{fs, path::Path};

use anyhow::{Context as _, anyhow};

use crate::{options::Options, stack::Spec};

/// One line for each setting that a flag overrules. `var` reads the environment.
///
/// # Errors
/// The configuration is not TOML.
pub(crate) fn find(
    options: &Options,
    specs: &[Spec],
    var: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<String>> {
    let file = options.config.as_deref().map(|path| Ok::<_, anyhow::Error>((path, read(path)?)));
    let file = file.transpose()?;
    let mut lines = Vec::new();
    for Spec { section, flags, .. } in specs {
        for (flag, value) in flags.iter().filter(|(flag, _)| *flag != "--config") {
            let value = value.to_string_lossy();
            let key = flag.trim_start_matches('-').replace('-', "_");
            let mut note = |place: String, said: Option<String>| {
                if said.is_some_and(|said| said != value) {
                    lines.push(format!("{place} does not count here: it is {value}"));
                }
            };
            if let Some((path, table)) = &file {
                let said = table.get(*section).and_then(|it| it.get(&key)).map(plain);
                note(format!("{section}.{key} of {}", path.display()), said);
            }
            let name = format!("CADENCE_{section}_{key}").to_uppercase();
            note(name.clone(), var(&name));
        }
    }
    Ok(lines)
}

fn read(path: &Path) -> anyhow::Result<toml::Table> {
    let cannot = || format!("cannot read the configuration {}", path.display());
    let text = fs::read_to_string(path).with_context(cannot)?;
    text.parse().map_err(|error: toml::de::Error| anyhow!(error.to_string())).with_context(cannot)
}

/// A value as a flag would say it.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser as _;

    use super::*;
    use crate::stack;

    /// What is said about a file and a variable.
    fn lines(text: &str, var: (&str, &str)) -> anyhow::Result<Vec<String>> {
        let dir = tempfile::tempdir().expect("a folder");
        let config = dir.path().join("c.toml");
        fs::write(&config, text).expect("a file");
        let mut options = Options::parse_from(["up", "--model", "a.gguf"]);
        options.config = Some(config);
        let specs = stack::specs(&options, Path::new("bin"));
        let lines = find(&options, &specs, |name| (name == var.0).then(|| var.1.into()))?;
        let here = format!("{}{}", dir.path().display(), std::path::MAIN_SEPARATOR);
        Ok(lines.iter().map(|line| line.replace(&here, "")).collect())
    }

    #[test]
    fn what_a_flag_overrules_is_named_with_the_value_in_force() {
        let text = "[gateway]\nlisten = '0.0.0.0:8000'\nworkers = 2\n[engine]\nmodel = 'b.gguf'";
        assert_eq!(
            lines(text, ("CADENCE_ADMISSION_ENGINE", "far:1")).expect("TOML"),
            [
                "engine.model of c.toml does not count here: it is a.gguf",
                "CADENCE_ADMISSION_ENGINE does not count here: it is 127.0.0.1:50051",
                "gateway.listen of c.toml does not count here: it is 127.0.0.1:8000",
            ]
        );
    }

    #[test]
    fn what_agrees_or_concerns_no_flag_is_not_named() {
        let text = "[gateway]\nlisten = '127.0.0.1:8000'\n[engine]\nslots = 3\n[other]\nlisten = 1";
        assert_eq!(lines(text, ("CADENCE_ENGINE_SLOTS", "4")).expect("TOML"), [""; 0]);
    }

    #[test]
    fn a_file_that_is_not_toml_is_named() {
        let error = lines("[gateway", ("", "")).expect_err("a mistake");
        assert!(format!("{error:#}").contains("c.toml: TOML parse error at line 1"), "{error:#}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let mut options = Options::parse_from(["up"]);
        options.config = Some(PathBuf::from("no.toml"));
        let error = find(&options, &[], |_| None).expect_err("a mistake");
        assert!(error.to_string().contains("no.toml"), "{error:#}");
    }
}
