//! Parts of an error, for programs that show or handle them apart.

use super::{FileProblem, LabError, SettingProblem};

/// Parts of an error's message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPlace {
    /// File or folder.
    pub file: Option<String>,
    /// Line in the file, from 1.
    pub line: Option<usize>,
    /// Key of the file, or name of the setting.
    pub key: Option<String>,
    /// Description of the accepted values.
    pub expected: Option<String>,
}

impl LabError {
    /// Returns the place of the error and the values that were expected there.
    pub fn place(&self) -> ErrorPlace {
        let scenario = match self {
            LabError::Scenario(e) => Some(e),
            LabError::Setting { problem, .. } => match &**problem {
                SettingProblem::Point { error, .. } => Some(error),
                _ => None,
            },
            _ => None,
        };
        if let Some(e) = scenario {
            let key = e.key.to_string();
            return ErrorPlace {
                file: e.file.as_deref().map(str::to_owned),
                line: e.line,
                key: (!key.is_empty()).then_some(key),
                expected: Some(e.problem.expected()),
            };
        }
        let text = self.to_string();
        let expected = match self {
            LabError::Setting { problem, .. } => known(problem),
            _ => None,
        };
        let expected = expected
            .or_else(|| text.rsplit_once("expected ").map(|(_, expected)| expected.to_owned()));
        let place = ErrorPlace { expected, ..ErrorPlace::default() };
        match self {
            LabError::Setting { setting, .. } => {
                ErrorPlace { key: Some((*setting).to_owned()), ..place }
            }
            LabError::File { path, problem } => {
                let key = match &**problem {
                    FileProblem::Key { key, .. } | FileProblem::Value { key, .. } => Some(key),
                    _ => None,
                };
                ErrorPlace { file: Some(path.display().to_string()), key: key.cloned(), ..place }
            }
            _ => place,
        }
    }
}

/// Returns the accepted values of a problem of which the message lists them in another form.
fn known(problem: &SettingProblem) -> Option<String> {
    match problem {
        SettingProblem::UnknownControl(e) => Some(format!("one of {}", e.known.join(", "))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fairmesh_control::Registry;

    use super::*;
    use crate::changes::with_control;
    use crate::source::{build, load};
    use crate::{Changes, Seeds};

    #[test]
    fn an_error_has_file_line_key_and_expectation_apart() {
        let registry = Registry::standard();
        let none = Changes::default();
        let text = b"duration = \"60\"\n";
        let place = build(Path::new("x.toml"), text, &none, &registry).unwrap_err().place();
        assert_eq!((place.file.as_deref(), place.line), (Some("x.toml"), Some(1)));
        assert_eq!(place.key.as_deref(), Some("duration"));
        assert!(place.expected.unwrap().starts_with("a time"));

        let missing = load(Path::new("none.toml"), &none, &registry).unwrap_err().place();
        assert_eq!(missing.file.as_deref(), Some("none.toml"));
        assert_eq!(missing.expected.as_deref(), Some("a scenario file"));

        let text =
            b"duration = \"6 s\"\n[topology]\nchain = { hops = 1 }\n[[flow]]\nfrom = 0\nto = 1\n";
        let scenario = build(Path::new("x.toml"), text, &none, &registry).unwrap();
        let place = with_control(&scenario, "fair", &registry).unwrap_err().place();
        assert_eq!((place.file, place.key.as_deref()), (None, Some("control")));
        assert!(place.expected.unwrap().starts_with("one of fifo, "));
        let seeds = "0".parse::<Seeds>().unwrap_err();
        let place = LabError::setting("seeds", seeds).place();
        assert_eq!(place.key.as_deref(), Some("seeds"));
        assert!(place.expected.unwrap().starts_with("a number of seeds"));
    }
}
