//! Walks a request along its schema and writes, as it goes, the body that is forwarded: what was not looked at is not sent.

use super::hosted::{self, Reach};
use super::json::{Value, write_string, write_value};
use super::models::Models;
use super::refusal::{Refusal, shown};
use super::schema::RECORDED;
use super::shape::{Fate, Field, Object, Shape, Tagged};

/// Checks `body` against `schema` and returns what to forward.
///
/// # Errors
/// The first thing that the schema does not accept.
pub(crate) fn rewrite(body: &Value<'_>, schema: &'static Object, models: &Models<'_>) -> Result<Vec<u8>, Refusal> {
    let mut check = Check {
        out: Vec::new(),
        place: Vec::new(),
        models,
    };
    check.object(body, schema, None)?;
    Ok(check.out)
}

/// One step into the body.
#[derive(Clone, Copy)]
enum Step {
    Key(&'static str),
    Index(usize),
}

struct Check<'m> {
    out: Vec<u8>,
    place: Vec<Step>,
    models: &'m Models<'m>,
}

impl Check<'_> {
    fn place(&self) -> String {
        let mut text = String::new();
        for step in &self.place {
            match step {
                Step::Key(key) if text.is_empty() => text.push_str(key),
                Step::Key(key) => {
                    text.push('.');
                    text.push_str(key);
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }

    fn refuse(&self, rule: &'static str, reason: impl Into<String>) -> Refusal {
        Refusal::new(rule, reason).at(self.place())
    }

    /// Refuses a word; what it is known for decides rule and advice.
    fn refuse_word(&self, word: &str, rule: &'static str, otherwise: &str) -> Refusal {
        match hosted::reach(word) {
            Some(reach) => self.refuse_reach(word, reach),
            None => self.refuse(rule, format!("{} {otherwise}", shown(word))),
        }
    }

    fn refuse_reach(&self, word: &str, reach: &'static Reach) -> Refusal {
        let refusal = self.refuse(reach.rule, format!("{} {}", shown(word), reach.what));
        if reach.instead.is_empty() {
            refusal
        } else {
            refusal.instead(reach.instead)
        }
    }

    fn expected(&self, what: &str, value: &Value<'_>) -> Refusal {
        self.refuse("wrong-value", format!("{} where {what} is expected", value.kind()))
    }

    fn write(&mut self, value: &Value<'_>) {
        write_value(value, &mut self.out);
    }

    fn value(&mut self, value: &Value<'_>, shape: &'static Shape) -> Result<(), Refusal> {
        match shape {
            Shape::Opaque => {}
            Shape::OpaqueObject => {
                if !matches!(value, Value::Object(_)) {
                    return Err(self.expected("an object", value));
                }
            }
            Shape::Schema => self.parameter_schema(value, &["$ref", "$dynamicRef", "$recursiveRef"])?,
            Shape::OpenApi => self.parameter_schema(value, &["$ref", "$dynamicRef", "$recursiveRef", "ref"])?,
            Shape::List(item) => return self.list(value, item),
            Shape::Object(object) => return self.object(value, object, None),
            Shape::Tagged(tagged) => return self.tagged(value, tagged),
            Shape::Either(shapes) => {
                let shape = shapes
                    .iter()
                    .find(|shape| fits(shape, value))
                    .ok_or_else(|| self.expected("another kind of value", value))?;
                return self.value(value, shape);
            }
            leaf => self.leaf(value, leaf)?,
        }
        self.write(value);
        Ok(())
    }

    fn leaf(&self, value: &Value<'_>, shape: &Shape) -> Result<(), Refusal> {
        match (shape, value) {
            (Shape::Text, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => Ok(()),
            (Shape::Word, Value::String(text)) if word(text, b"._-") => Ok(()),
            (Shape::Word, Value::String(text)) => {
                Err(self.refuse_word(text, "wrong-value", "is not a short identifier"))
            }
            (Shape::Name, Value::String(text)) if word(text, b"._-:") => Ok(()),
            (Shape::Name, Value::String(text)) => Err(self.refuse_word(text, "wrong-value", "is not a tool name")),
            (Shape::Number, Value::Number(text)) if text.parse::<f64>().is_ok_and(f64::is_finite) => Ok(()),
            (Shape::Whole(most), Value::Number(text)) if text.parse::<u64>().is_ok_and(|n| n <= *most) => Ok(()),
            (Shape::Number | Shape::Whole(_), Value::Number(text)) => {
                Err(self.refuse("wrong-value", format!("{} is out of range", shown(text))))
            }
            (Shape::OneOf(words), Value::String(text)) if words.contains(&&**text) => Ok(()),
            (Shape::OneOf(words), Value::String(text)) => {
                Err(self.refuse_word(text, "wrong-value", &format!("is not one of {}", words.join(", "))))
            }
            (Shape::Only("false"), Value::Bool(false)) => Ok(()),
            (Shape::Only(literal), Value::Number(text)) if text == literal => Ok(()),
            (Shape::Only(literal), _) => {
                let key = self
                    .place
                    .iter()
                    .rev()
                    .find_map(|step| if let Step::Key(key) = step { Some(*key) } else { None });
                let reach = key.and_then(hosted::reach);
                let refusal = self.refuse(
                    reach.map_or("wrong-value", |r| r.rule),
                    format!("only {literal} is accepted"),
                );
                Err(match reach.map(|r| r.instead) {
                    Some(instead) if !instead.is_empty() => refusal.instead(instead),
                    _ => refusal,
                })
            }
            (Shape::Base64, Value::String(text)) if base64(text) => Ok(()),
            (Shape::Base64, Value::String(_)) => Err(self.refuse("wrong-value", "the text is not base64")),
            (Shape::Data(types), Value::String(text)) => self.data(text, types),
            (Shape::Model, Value::String(text)) => self.models.check(text).map_err(|refusal| refusal.at(self.place())),
            (Shape::Model, _) => Err(self.expected("the name of a model", value)),
            (Shape::Number | Shape::Whole(_), _) => Err(self.expected("a number", value)),
            (Shape::Bool, _) => Err(self.expected("a boolean", value)),
            _ => Err(self.expected("a string", value)),
        }
    }

    fn data(&self, text: &str, types: &[&str]) -> Result<(), Refusal> {
        let Some(rest) = text.strip_prefix("data:") else {
            let start: String = text.chars().take(24).collect();
            return Err(match hosted::reach("url") {
                Some(reach) => self.refuse_reach(&start, reach),
                None => self.refuse("remote-url", format!("{} is not a data: URL", shown(&start))),
            });
        };
        match rest.split_once(";base64,") {
            Some((media, data)) if types.contains(&media) && base64(data) => Ok(()),
            _ => Err(self.refuse(
                "wrong-value",
                format!("only data: URLs with base64 of {} are accepted", types.join(", ")),
            )),
        }
    }

    fn list(&mut self, value: &Value<'_>, shape: &'static Shape) -> Result<(), Refusal> {
        let Value::Array(items) = value else {
            return Err(self.expected("an array", value));
        };
        self.out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.place.push(Step::Index(index));
            self.value(item, shape)?;
            self.place.pop();
        }
        self.out.push(b']');
        Ok(())
    }

    fn tagged(&mut self, value: &Value<'_>, tagged: &'static Tagged) -> Result<(), Refusal> {
        if !matches!(value, Value::Object(_)) {
            return Err(self.expected(tagged.what, value));
        }
        match value.get(tagged.tag) {
            Some(Value::String(tag)) => match tagged.variants.iter().find(|(name, _)| name == tag) {
                Some((name, object)) => self.object(value, object, Some((tagged.tag, name))),
                None => {
                    self.place.push(Step::Key(tagged.tag));
                    Err(self.refuse_word(
                        tag,
                        "unknown-type",
                        &format!("is not a type of {} that is accepted ({RECORDED})", tagged.what),
                    ))
                }
            },
            Some(other) => {
                self.place.push(Step::Key(tagged.tag));
                Err(self.expected("a string", other))
            }
            None => match tagged.untagged {
                Some(object) => self.object(value, object, None),
                None => Err(self.refuse(
                    "missing-field",
                    format!("{} without {}", tagged.what, shown(tagged.tag)),
                )),
            },
        }
    }

    /// Checks a closed object and writes it in the order of its keys as they came.
    fn object(
        &mut self,
        value: &Value<'_>,
        object: &'static Object,
        tag: Option<(&'static str, &'static str)>,
    ) -> Result<(), Refusal> {
        let Value::Object(members) = value else {
            return Err(self.expected("an object", value));
        };
        self.out.push(b'{');
        let start = self.out.len();
        let mut seen = 0u64;
        for (key, member) in members {
            if let Some((tag_key, tag_value)) = tag
                && key == tag_key
            {
                self.key(tag_key, start);
                write_string(tag_value, &mut self.out);
                continue;
            }
            let Some((index, field)) = find(object, key) else {
                return Err(self.refuse_word(
                    key,
                    "unknown-field",
                    &format!("is not a field that is accepted here ({RECORDED})"),
                ));
            };
            if seen & (1 << index) != 0 {
                return Err(self.refuse(
                    "duplicate-key",
                    format!("{} occurs twice, in two spellings", shown(field.key)),
                ));
            }
            seen |= 1 << index;
            self.member(member, field, start)?;
        }
        for (index, field) in object.fields.iter().enumerate() {
            if field.need && seen & (1 << index) == 0 {
                return Err(self.refuse("missing-field", format!("{} is missing", shown(field.key))));
            }
        }
        for (key, json) in object.inject {
            if find(object, key).is_none_or(|(index, _)| seen & (1 << index) == 0) {
                self.key(key, start);
                self.out.extend_from_slice(json.as_bytes());
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn key(&mut self, key: &str, start: usize) {
        if self.out.len() > start {
            self.out.push(b',');
        }
        write_string(key, &mut self.out);
        self.out.push(b':');
    }

    fn member(&mut self, value: &Value<'_>, field: &'static Field, start: usize) -> Result<(), Refusal> {
        if field.fate == Fate::Drop {
            return Ok(());
        }
        self.place.push(Step::Key(field.key));
        self.key(field.key, start);
        if let Fate::Replace(json) = field.fate {
            self.out.extend_from_slice(json.as_bytes());
        } else if field.null && matches!(value, Value::Null) {
            self.out.extend_from_slice(b"null");
        } else {
            self.value(value, &field.shape)?;
        }
        self.place.pop();
        Ok(())
    }

    /// The schema of a tool's parameters: a `$ref` out of the document would make the provider load it.
    fn parameter_schema(&self, value: &Value<'_>, keys: &[&str]) -> Result<(), Refusal> {
        match value {
            Value::Object(_) => self.references(value, keys),
            other => Err(self.expected("an object (JSON Schema)", other)),
        }
    }

    fn references(&self, value: &Value<'_>, keys: &[&str]) -> Result<(), Refusal> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.references(item, keys)),
            Value::Object(members) => members.iter().try_for_each(|(key, member)| match (&**key, member) {
                (key, Value::String(target)) if keys.contains(&key) && !target.starts_with('#') => Err(self
                    .refuse(
                        "reference",
                        format!("the reference {} leaves the document", shown(target)),
                    )
                    .instead("put the definition into $defs of the same schema and refer to it with `#/$defs/NAME`.")),
                ("$schema", Value::String(target))
                    if !(target.starts_with("http://json-schema.org/")
                        || target.starts_with("https://json-schema.org/")) =>
                {
                    Err(self.refuse(
                        "reference",
                        format!("{} is not a dialect of json-schema.org", shown(target)),
                    ))
                }
                _ => self.references(member, keys),
            }),
            _ => Ok(()),
        }
    }
}

fn find(object: &'static Object, key: &str) -> Option<(usize, &'static Field)> {
    object
        .fields
        .iter()
        .enumerate()
        .find(|(_, field)| field.key == key || (!field.alias.is_empty() && field.alias == key))
}

/// Whether a value is of the kind that a shape is about.
fn fits(shape: &Shape, value: &Value<'_>) -> bool {
    match shape {
        Shape::Opaque => true,
        Shape::OpaqueObject | Shape::Schema | Shape::OpenApi | Shape::Object(_) | Shape::Tagged(_) => {
            matches!(value, Value::Object(_))
        }
        Shape::Number | Shape::Whole(_) => matches!(value, Value::Number(_)),
        Shape::Bool => matches!(value, Value::Bool(_)),
        Shape::Only(_) => matches!(value, Value::Bool(_) | Value::Number(_)),
        Shape::List(_) => matches!(value, Value::Array(_)),
        Shape::Either(shapes) => shapes.iter().any(|shape| fits(shape, value)),
        Shape::Text | Shape::Word | Shape::Name | Shape::OneOf(_) | Shape::Base64 | Shape::Data(_) | Shape::Model => {
            matches!(value, Value::String(_))
        }
    }
}

fn word(text: &str, marks: &[u8]) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || marks.contains(&b))
}

/// Standard base64 with at most two `=` at the end; nothing else, so that no provider can read an address into it.
fn base64(text: &str) -> bool {
    const ALPHABET: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let b = byte as u8;
            table[byte] = b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
            byte += 1;
        }
        table
    };
    let data = text
        .strip_suffix("==")
        .or_else(|| text.strip_suffix('='))
        .unwrap_or(text);
    // Without a branch for each byte: there are millions.
    data.as_bytes()
        .chunks(4096)
        .all(|part| part.iter().fold(true, |fine, byte| fine & ALPHABET[usize::from(*byte)]))
}
