//! TOML documents, decoded into serde types with the line and the key of every error.
//!
//! ```
//! use fairmesh_document::Document;
//!
//! #[derive(serde::Deserialize, Debug)]
//! #[serde(deny_unknown_fields)]
//! struct Settings {
//!     port: u16,
//! }
//!
//! let decode = |text| Document::parse(text)?.decode::<Settings>();
//! assert_eq!(decode("port = 80").unwrap().port, 80);
//! let e = decode("\nport = \"http\"").unwrap_err();
//! assert_eq!(e.in_file("a.toml"), "a.toml:2: port: found string \"http\"; expected a whole number from 0 to 65535");
//! let e = decode("port = 80\nprot = 81").unwrap_err();
//! assert_eq!(e.in_file("a.toml"), "a.toml:2: prot: unknown key; expected one of port");
//! ```

mod decode;
mod path;
mod problem;

pub use decode::{BY_KIND, Document, WORD_OR_KEY, WORD_OR_KIND};
pub use path::{KeyPath, Step};
pub use problem::{Located, Problem, excerpt, one_line};
