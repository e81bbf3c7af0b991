//! Options of a mechanism, declared once: variants and parameters.
//!
//! Each has a name, unit, default, range and a sentence. Listings, schemas, pages and the command line read the tables;
//! the mechanism reads a struct with one field per option, so that a mistyped name does not compile.

use core::fmt;
use std::borrow::Cow;

use fairmesh_units::Span;

use super::origin::Origin;

/// A variant of a mechanism.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variant {
    /// Name after the plus.
    pub name: Cow<'static, str>,
    /// Origin of the variant.
    pub origin: Origin,
    /// One line for listings.
    pub about: Cow<'static, str>,
}

/// A parameter of a mechanism: a number that may be changed.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Key in files.
    pub name: Cow<'static, str>,
    /// Unit as listings show it: `s`, `packets`; empty for a ratio.
    pub unit: Cow<'static, str>,
    /// One line for listings.
    pub about: Cow<'static, str>,
    /// Default value.
    pub default: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// True if only whole numbers are allowed.
    pub whole: bool,
}

impl Parameter {
    /// True if the parameter may have this value.
    pub fn allows(&self, value: f64) -> bool {
        (self.min..=self.max).contains(&value) && (!self.whole || value == libm::trunc(value))
    }

    /// Returns its range in words: `1 to 600 s`, `a whole number from 1 to 1000`.
    pub fn range(&self) -> impl fmt::Display + use<> {
        Range { min: self.min, max: self.max, whole: self.whole }
    }
}

struct Range {
    min: f64,
    max: f64,
    whole: bool,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { min, max, whole } = self;
        match whole {
            true => write!(f, "a whole number from {min} to {max}"),
            false => write!(f, "{min} to {max}"),
        }
    }
}

/// The type of a parameter's field in [`crate::options!`].
pub trait Quantity {
    /// True if only whole numbers are allowed.
    const WHOLE: bool;
    /// Converts the number found in files.
    fn of(value: f64) -> Self;
}

impl Quantity for f64 {
    const WHOLE: bool = false;
    fn of(value: f64) -> Self {
        value
    }
}

impl Quantity for u32 {
    const WHOLE: bool = true;
    fn of(value: f64) -> Self {
        value as u32
    }
}

impl Quantity for u64 {
    const WHOLE: bool = true;
    fn of(value: f64) -> Self {
        value as u64
    }
}

/// Parameters in seconds.
impl Quantity for Span {
    const WHOLE: bool = false;
    fn of(value: f64) -> Self {
        Span::from_secs_f64(value)
    }
}

/// Selected variants and parameter values of a definition, in the order of its tables.
#[derive(Clone, PartialEq, Debug)]
pub struct Chosen {
    pub(super) variants: u64,
    pub(super) values: Vec<f64>,
}

impl Chosen {
    /// The defaults: no variants.
    pub(super) fn plain(parameters: &[Parameter]) -> Self {
        Chosen { variants: 0, values: parameters.iter().map(|p| p.default).collect() }
    }

    /// True if the variant at this index of [`crate::Definition::variants`] was selected.
    pub fn has(&self, variant: usize) -> bool {
        self.variants >> variant & 1 != 0
    }

    /// Returns the value of the parameter at this index of [`crate::Definition::parameters`].
    ///
    /// # Panics
    /// If there is no such index.
    pub fn value(&self, parameter: usize) -> f64 {
        self.values[parameter]
    }
}

/// The options of a mechanism: a struct that [`crate::options!`] declares.
pub trait OptionSet: Sized + 'static {
    /// Returns the variants for listings, in the order of the fields.
    fn variants() -> Vec<Variant>;
    /// Returns the parameters for listings, in the order of the fields.
    fn parameters() -> Vec<Parameter>;
    /// Returns the options selected of a definition with these tables.
    fn of(chosen: &Chosen) -> Self;
}

/// Declares the options of a mechanism: a struct and the tables of its fields.
///
/// The struct has a `bool` for each variant and a number for each parameter. Listings, schemas and the command line
/// read the tables ([`OptionSet`](crate::OptionSet)).
///
/// A variant is `field: Origin, "description";`. A parameter is
/// `field: type = default, smallest..=largest, "unit", "description";`, where the type is `f64`,
/// `u32`, `u64` or `Span` (in seconds). `field as "name"` gives an option a name that is not an
/// identifier. There are at most [`MAX_VARIANTS`](crate::MAX_VARIANTS) variants.
///
/// ```
/// use fairmesh_control::{OptionSet, Origin};
/// use fairmesh_units::Span;
///
/// fairmesh_control::options! {
///     /// Options of a rate search.
///     struct Options {
///         variants {
///             exponential: Origin::ours(""), "steps by factors";
///         }
///         parameters {
///             epoch: Span = 10.0, 1.0..=600.0, "s", "time between decisions";
///             one_way as "one-way": u32 = 20.0, 1.0..=1000.0, "packets", "buffer of a one-way link";
///         }
///     }
/// }
///
/// assert_eq!(Options::variants()[0].name, "exponential");
/// assert_eq!(Options::parameters()[1].name, "one-way");
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident {
            variants { $( $variant:ident $(as $vkey:literal)? : $origin:expr, $vabout:literal; )* }
            parameters {
                $( $(#[$note:meta])* $param:ident $(as $pkey:literal)? : $ty:ty =
                   $default:expr, $range:expr, $unit:literal, $pabout:literal; )*
            }
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name {
            $( #[doc = $vabout] pub $variant: bool, )*
            $( #[doc = $pabout] $(#[$note])* pub $param: $ty, )*
        }

        impl $crate::OptionSet for $name {
            fn variants() -> ::std::vec::Vec<$crate::Variant> {
                ::std::vec![ $( $crate::Variant {
                    name: $crate::options!(@name $variant $($vkey)?).into(),
                    origin: $origin,
                    about: $vabout.into(),
                }, )* ]
            }

            fn parameters() -> ::std::vec::Vec<$crate::Parameter> {
                ::std::vec![ $( $crate::Parameter {
                    name: $crate::options!(@name $param $($pkey)?).into(),
                    unit: $unit.into(),
                    about: $pabout.into(),
                    default: $default,
                    min: *$range.start(),
                    max: *$range.end(),
                    whole: <$ty as $crate::Quantity>::WHOLE,
                }, )* ]
            }

            #[allow(unused_variables, unused_assignments, unused_mut)]
            fn of(chosen: &$crate::Chosen) -> Self {
                let (mut variant, mut parameter) =
                    (0..$crate::MAX_VARIANTS, 0..::core::primitive::usize::MAX);
                // Fields are evaluated in the order in which they are written.
                $name {
                    $( $variant: variant.next().is_some_and(|i| chosen.has(i)), )*
                    $( $param: <$ty as $crate::Quantity>::of(
                        parameter.next().map_or(0.0, |i| chosen.value(i)),
                    ), )*
                }
            }
        }
    };
    (@name $field:ident) => { ::core::stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    crate::options! {
        /// Options of a test.
        struct Options {
            variants {
                first: Origin::ours(""), "one";
                second_one as "second-one": Origin::ours(""), "another";
            }
            parameters {
                time: Span = 2.0, 0.5..=60.0, "s", "a time";
                part: f64 = 0.1, 0.0..=1.0, "", "a part";
                one_way as "one-way": u32 = 20.0, 1.0..=1000.0, "packets", "a number";
            }
        }
    }

    #[test]
    fn a_table_and_a_struct_from_one_declaration() {
        let parameters = Options::parameters();
        let names: Vec<_> = parameters.iter().map(|p| (&*p.name, &*p.unit, p.whole)).collect();
        assert_eq!(
            names,
            [("time", "s", false), ("part", "", false), ("one-way", "packets", true)]
        );
        assert_eq!(Options::variants()[1].name, "second-one");
        let plain = Options::of(&Chosen::plain(&parameters));
        assert_eq!((plain.first, plain.second_one), (false, false));
        assert_eq!((plain.time, plain.part, plain.one_way), (Span::from_secs(2), 0.1, 20));
        let chosen = Chosen { variants: 0b10, values: vec![0.5, 0.25, 7.0] };
        let chosen = Options::of(&chosen);
        assert_eq!((chosen.first, chosen.second_one), (false, true));
        assert_eq!((chosen.time, chosen.part, chosen.one_way), (Span::from_millis(500), 0.25, 7));
    }

    #[test]
    fn a_value_lies_in_the_range_and_counts_are_whole() {
        let [time, _, count] = &Options::parameters()[..] else { panic!() };
        assert!(time.allows(0.5) && time.allows(60.0) && time.allows(1.25));
        for bad in [0.49, 60.01, f64::NAN, f64::INFINITY] {
            assert!(!time.allows(bad), "{bad}");
        }
        assert!(count.allows(7.0) && !count.allows(7.5) && !count.allows(0.0));
        assert_eq!(time.range().to_string(), "0.5 to 60");
        assert_eq!(count.range().to_string(), "a whole number from 1 to 1000");
    }
}
