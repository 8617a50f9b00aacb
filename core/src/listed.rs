//! Enums with a constant of all variants.

/// Declares an enum without fields, and the constant `ALL`, which cannot omit a variant.
macro_rules! listed {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident,)+
        }
    ) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[$variant_attribute])* $variant,)+
        }

        impl $name {
            /// All variants, in order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
        }
    };
}

pub(crate) use listed;
