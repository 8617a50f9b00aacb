//! Enums that know all their variants.

/// Declares an enum without fields, with the constant `ALL`: no variant can be left out of it.
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
            /// Every variant, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
        }
    };
}

pub(crate) use listed;
