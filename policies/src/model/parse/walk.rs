//! Reading single values of a TOML document, with the place of each.

use crate::diagnostics::{Place, Problem, Source, nearest};
use crate::model::Set;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Value<'i> = Spanned<DeValue<'i>>;

/// Reads one file's values and collects what is wrong with them.
pub(crate) struct Walk {
    pub(crate) source: Arc<Source>,
    pub(crate) problems: Vec<Problem>,
}

impl Walk {
    pub(crate) fn place(&self, span: Range<usize>) -> Place {
        Place {
            source: self.source.clone(),
            span,
        }
    }

    pub(crate) fn problem(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
        help: Option<String>,
    ) {
        let place = self.place(span);
        self.problems.push(Problem {
            place,
            message: message.into(),
            label: label.into(),
            help,
        });
    }

    /// Reports the keys of a table that are not known.
    pub(crate) fn known(&mut self, t: &DeTable<'_>, known: &[&str], what: &str) {
        for key in t.keys() {
            let name = key.get_ref();
            if known.contains(&&**name) {
                continue;
            }
            let message = if what.is_empty() {
                format!("unknown key `{name}`")
            } else {
                format!("unknown key `{name}` in `{what}`")
            };
            let help = match nearest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            self.problem(key.span(), message, "not known", Some(help));
        }
    }

    pub(crate) fn wrong(&mut self, v: &Value<'_>, what: &str, wanted: &str) {
        self.problem(
            v.span(),
            format!("`{what}` has a value of the wrong kind"),
            format!("this is {}, needed is {wanted}", kind(v)),
            None,
        );
    }

    pub(crate) fn table<'t, 'i>(&mut self, t: &'t DeTable<'i>, key: &str, what: &str) -> Option<&'t DeTable<'i>> {
        let v = t.get(key)?;
        match v.get_ref() {
            DeValue::Table(t) => Some(t),
            _ => {
                self.wrong(v, what, "a table");
                None
            }
        }
    }

    pub(crate) fn array<'t, 'i>(&mut self, t: &'t DeTable<'i>, key: &str, what: &str) -> &'t [Value<'i>] {
        match t.get(key) {
            None => &[],
            Some(v) => match v.get_ref() {
                DeValue::Array(items) => items,
                _ => {
                    self.wrong(v, what, "an array");
                    &[]
                }
            },
        }
    }

    pub(crate) fn string(&mut self, v: &Value<'_>, what: &str) -> Option<Set<String>> {
        match v.get_ref() {
            DeValue::String(s) if s.contains('\0') => {
                self.problem(v.span(), format!("`{what}` holds a NUL character"), "", None);
                None
            }
            DeValue::String(s) => Some(Set {
                value: s.to_string(),
                place: self.place(v.span()),
            }),
            _ => {
                self.wrong(v, what, "text in quotes");
                None
            }
        }
    }

    pub(crate) fn list(&mut self, t: &DeTable<'_>, key: &str, what: &str) -> Vec<Set<String>> {
        self.array(t, key, what)
            .iter()
            .filter_map(|v| self.string(v, what))
            .collect()
    }

    pub(crate) fn paths(&mut self, t: &DeTable<'_>, key: &str, what: &str) -> Vec<Set<String>> {
        let list = self.list(t, key, what);
        for p in &list {
            if p.is_empty() || (p.starts_with('~') && !(p.value == "~" || p.starts_with("~/"))) {
                self.problem(
                    p.place.span.clone(),
                    format!("`{what}` holds no usable path"),
                    "absolute, ~/…, or relative to the workspace",
                    None,
                );
            }
        }
        list
    }

    pub(crate) fn integer(&mut self, v: &Value<'_>, what: &str, low: u64, high: u64) -> Option<Set<u64>> {
        let number = match v.get_ref() {
            DeValue::Integer(i) => u64::from_str_radix(i.as_str(), i.radix()).ok(),
            _ => {
                self.wrong(v, what, "a whole number");
                return None;
            }
        };
        match number.filter(|n| (low..=high).contains(n)) {
            Some(value) => Some(Set {
                value,
                place: self.place(v.span()),
            }),
            None => {
                self.problem(
                    v.span(),
                    format!("`{what}` is out of range"),
                    format!("from {low} to {high}"),
                    None,
                );
                None
            }
        }
    }

    pub(crate) fn one_of<T: Clone>(&mut self, v: &Value<'_>, what: &str, words: &[(&str, T)]) -> Option<Set<T>> {
        let text = self.string(v, what)?;
        if let Some((_, value)) = words.iter().find(|(w, _)| *w == text.value) {
            return Some(Set {
                value: value.clone(),
                place: text.place,
            });
        }
        let names: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        let help = nearest(&text.value, &names).map(|n| format!("did you mean \"{n}\"?"));
        self.problem(
            v.span(),
            format!("`{what}` has an unknown value"),
            format!("one of {}", names.join(", ")),
            help,
        );
        None
    }

    pub(crate) fn read<T>(
        &mut self,
        v: &Value<'_>,
        what: &str,
        read: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Option<Set<T>> {
        let text = self.string(v, what)?;
        match read(&text.value) {
            Ok(value) => Some(Set {
                value,
                place: text.place,
            }),
            Err(reason) => {
                self.problem(v.span(), format!("this value of `{what}` {reason}"), "", None);
                None
            }
        }
    }

    /// Tables that are kept as written.
    pub(crate) fn opaque(&mut self, t: &DeTable<'_>, key: &str) -> Vec<Set<toml::Table>> {
        let mut tables = Vec::new();
        for v in self.array(t, key, key) {
            match plain(v.get_ref()) {
                Some(toml::Value::Table(table)) => tables.push(Set {
                    value: table,
                    place: self.place(v.span()),
                }),
                _ => self.wrong(v, key, "a table"),
            }
        }
        tables
    }
}

fn kind(v: &Value<'_>) -> &'static str {
    match v.get_ref() {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

pub(crate) fn plain(v: &DeValue<'_>) -> Option<toml::Value> {
    Some(match v {
        DeValue::String(s) => toml::Value::String(s.to_string()),
        DeValue::Integer(i) => toml::Value::Integer(i64::from_str_radix(i.as_str(), i.radix()).ok()?),
        DeValue::Float(f) => toml::Value::Float(f.as_str().parse().ok()?),
        DeValue::Boolean(b) => toml::Value::Boolean(*b),
        DeValue::Datetime(d) => toml::Value::Datetime(*d),
        DeValue::Array(a) => toml::Value::Array(a.iter().map(|v| plain(v.get_ref())).collect::<Option<_>>()?),
        DeValue::Table(t) => {
            let entries = t
                .iter()
                .map(|(k, v)| Some((k.get_ref().to_string(), plain(v.get_ref())?)));
            toml::Value::Table(entries.collect::<Option<_>>()?)
        }
    })
}

pub(crate) fn variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
