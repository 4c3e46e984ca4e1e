//! The language of the schemas: closed objects, tagged unions, typed leaves. Tables of it are plain static data.

/// What a value may be. Everything that is not [`Shape::Opaque`] is checked to its leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Any value: the agent's own data, which the provider only reads as text of the conversation.
    Opaque,
    /// Any object; see [`Shape::Opaque`].
    OpaqueObject,
    /// JSON Schema of a tool's parameters or of an answer: opaque, but references stay inside the document.
    Schema,
    /// The same in the OpenAPI spelling of Gemini, where `ref` is a reference, too.
    OpenApi,
    /// Any string.
    Text,
    /// A short identifier: letters, digits, `.`, `_`, `-`, at most 128.
    Word,
    /// A tool's name: as [`Shape::Word`], also `:`.
    Name,
    /// A finite number.
    Number,
    /// A whole number from 0 to this.
    Whole(u64),
    /// true or false.
    Bool,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// Exactly this literal: `false` or a number.
    Only(&'static str),
    /// Base64 text.
    Base64,
    /// A `data:` URL with base64 text of one of these media types.
    Data(&'static [&'static str]),
    /// The name of a model; checked against rule and list.
    Model,
    /// An array.
    List(&'static Shape),
    /// A closed object.
    Object(&'static Object),
    /// A closed object chosen by a tag.
    Tagged(&'static Tagged),
    /// The first of these that the kind of value fits.
    Either(&'static [Shape]),
}

/// A closed object: any other key is refused.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its known members.
    pub(crate) fields: &'static [Field],
    /// Members that are added if absent, as JSON.
    pub(crate) inject: &'static [(&'static str, &'static str)],
}

/// An object without anything to inject.
pub(crate) const fn object(fields: &'static [Field]) -> Object {
    Object { fields, inject: &[] }
}

/// Objects told apart by a string member.
#[derive(Debug)]
pub(crate) struct Tagged {
    /// The member that tells.
    pub(crate) tag: &'static str,
    /// What it is called in messages, e.g. `content block`.
    pub(crate) what: &'static str,
    /// Tag and object.
    pub(crate) variants: &'static [(&'static str, &'static Object)],
    /// The object if the tag is absent.
    pub(crate) untagged: Option<&'static Object>,
}

/// What becomes of an accepted member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is written.
    Keep,
    /// It is left out: nothing that the provider needs.
    Drop,
    /// This JSON is written in its place.
    Replace(&'static str),
}

/// A member of a closed object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// Its key, as it is written.
    pub(crate) key: &'static str,
    /// Another spelling that is read as the same key.
    pub(crate) alias: &'static str,
    /// What it may be.
    pub(crate) shape: Shape,
    /// Whether it has to be there.
    pub(crate) need: bool,
    /// Whether `null` is accepted.
    pub(crate) null: bool,
    /// What becomes of it.
    pub(crate) fate: Fate,
}

/// An optional member.
pub(crate) const fn may(key: &'static str, shape: Shape) -> Field {
    Field {
        key,
        alias: "",
        shape,
        need: false,
        null: false,
        fate: Fate::Keep,
    }
}

/// A member that has to be there.
pub(crate) const fn must(key: &'static str, shape: Shape) -> Field {
    Field {
        need: true,
        ..may(key, shape)
    }
}

/// A member that is accepted and left out.
pub(crate) const fn dropped(key: &'static str) -> Field {
    Field {
        fate: Fate::Drop,
        ..may(key, Shape::Opaque)
    }
}

impl Field {
    /// The same, `null` accepted.
    pub(crate) const fn or_null(mut self) -> Self {
        self.null = true;
        self
    }

    /// The same with a second spelling.
    pub(crate) const fn also(mut self, alias: &'static str) -> Self {
        self.alias = alias;
        self
    }

    /// The same, written as this JSON.
    pub(crate) const fn replaced(mut self, json: &'static str) -> Self {
        self.fate = Fate::Replace(json);
        self
    }
}
