//! Colours of every page and picture; `report.css` has them for pages.

use plotters::style::RGBColor;

/// Lines, bars and groups, in this order.
pub const SERIES: [RGBColor; 8] = [
    RGBColor(0x3a, 0x6e, 0xa5),
    RGBColor(0xd9, 0x77, 0x2b),
    RGBColor(0x2a, 0x8f, 0x6d),
    RGBColor(0xa2, 0x51, 0x9f),
    RGBColor(0x85, 0x7a, 0x25),
    RGBColor(0xb5, 0x48, 0x4f),
    RGBColor(0x4a, 0xa3, 0xc7),
    RGBColor(0x7a, 0x7f, 0x87),
];
/// Text and axes.
pub const TEXT_COLOUR: RGBColor = RGBColor(0x1d, 0x23, 0x27);
/// Grid lines and frames.
pub const GRID_COLOUR: RGBColor = RGBColor(0xec, 0xee, 0xf0);
/// Directions and other background elements.
pub const SECONDARY_COLOUR: RGBColor = RGBColor(0x9a, 0xa4, 0xae);
/// Emphasised element.
pub const ACCENT: RGBColor = RGBColor(0xc9, 0x5d, 0x2b);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::STYLE;

    #[test]
    fn pages_and_pictures_have_the_same_colours() {
        let named = |name: &str, RGBColor(r, g, b): RGBColor| {
            let wanted = format!("--{name}: #{r:02x}{g:02x}{b:02x};");
            assert!(STYLE.contains(&wanted), "report.css lacks {wanted}");
        };
        for (i, colour) in SERIES.into_iter().enumerate() {
            named(&format!("c{i}"), colour);
        }
        named("ink", TEXT_COLOUR);
        named("faint", GRID_COLOUR);
    }
}
