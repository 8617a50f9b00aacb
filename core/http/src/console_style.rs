//! Style sheet that the consoles of operators and of owners share.

/// Colours, text, cards, forms and tables, in a light and a dark scheme.
pub const CONSOLE_STYLE: &str = include_str!("console.css");
