//! Tables of several kinds: the value of `kind` determines the other keys.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

/// Returns the schema of a table of one kind: the keys of `T`, and `kind`.
pub(super) fn of_kind<T: JsonSchema>(kind: &str, g: &mut SchemaGenerator) -> Value {
    let mut schema = T::json_schema(g).to_value();
    schema["properties"]["kind"] = json!({ "const": kind });
    let required = &mut schema["required"];
    match required.as_array_mut() {
        Some(keys) => keys.push("kind".into()),
        None => *required = json!(["kind"]),
    }
    schema["title"] = kind.into();
    schema
}

/// Declares an enum of tables, one variant for each kind.
///
/// It defines how it is written, read by the document's `BY_KIND` or `WORD_OR_KIND`, and described.
macro_rules! by_kind {
    ($(#[$about:meta])* $type:ident {
        $($(#[$of_kind:meta])* $kind:literal => $variant:ident($table:ident),)*
    }) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Debug, serde::Serialize)]
        #[serde(tag = "kind")]
        pub enum $type {
            $($(#[$of_kind])* #[serde(rename = $kind)] $variant($table),)*
        }

        impl $type {
            /// Values of `kind`.
            pub(crate) const KINDS: &'static [&'static str] = &[$($kind),*];

            /// Reads the keys of the kind that the document has determined.
            fn read<'de, A: serde::de::EnumAccess<'de>>(data: A) -> Result<Self, A::Error> {
                let (kind, keys) = data.variant::<String>()?;
                match kind.as_str() {
                    $($kind => serde::de::VariantAccess::newtype_variant(keys).map($type::$variant),)*
                    other => Err(serde::de::Error::unknown_variant(other, Self::KINDS)),
                }
            }

            /// Returns a schema for each kind.
            fn schemas(g: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
                vec![$(super::by_kind::of_kind::<$table>($kind, g)),*]
            }
        }

        $(impl From<$table> for $type {
            fn from(table: $table) -> Self {
                $type::$variant(table)
            }
        })*
    };
}
pub(super) use by_kind;
