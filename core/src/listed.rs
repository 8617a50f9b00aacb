//! Enums with constants for each variant.

/// Declares an enum without fields, the constant `ALL`, which cannot omit a variant, and `row`, which
/// returns the constants of a variant.
#[macro_export]
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

/// Declares an enum whose variants have names for SQL, requests, answers, logs and metrics: the constant `ALL`,
/// which cannot omit a variant, `name`, `of_name` and `Display`.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $enum:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $text:expr,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $visibility enum $enum {
            $($(#[$variant_attribute])* $variant,)+
        }

        impl $enum {
            /// All variants, in order of their declaration.
            $visibility const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Returns the name.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// Returns the variant with this name, if there is one.
            $visibility fn of_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|it| it.name() == name)
            }
        }

        impl ::std::fmt::Display for $enum {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
