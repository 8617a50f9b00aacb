//! Enums with a row of constants for each variant.

/// Declares an enum without fields, the constant `ALL`, which cannot omit a variant, and `row`, which
/// returns the constants of a variant.
macro_rules! listed {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $row:ty {
            $($(#[$variant_attribute:meta])* $variant:ident = $value:expr,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_attribute])* $variant,)+
        }

        impl $name {
            /// All variants, in order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            const fn row(self) -> $row {
                match self {
                    $(Self::$variant => $value,)+
                }
            }
        }
    };
}

pub(crate) use listed;
