//! What an attempt is aimed at, as text that crosses channels and command lines.

use super::Stop;
use nix::errno::Errno;
use std::collections::BTreeMap;

/// Names and values. Values hold no `;` and no `=`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting(BTreeMap<String, String>);

impl Setting {
    /// Adds a value. `false`: it holds a character that the text form cannot carry.
    #[must_use]
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let plain = !value.contains([';', '=', '\n']);
        if plain {
            self.0.insert(name.to_owned(), value.to_owned());
        }
        plain
    }

    /// Reads the text form; what is not `name=value` is left out.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// `name=value;name=value`.
    pub fn text(&self) -> String {
        let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join(";")
    }

    /// A value that the attempt needs.
    pub(super) fn get(&self, name: &'static str) -> Result<&str, Stop> {
        self.0
            .get(name)
            .map(String::as_str)
            .ok_or(Stop::Unprepared(name, Errno::ENODATA))
    }

    /// A number that the attempt needs.
    pub(super) fn number(&self, name: &'static str) -> Result<i64, Stop> {
        self.get(name)?
            .parse()
            .map_err(|_| Stop::Unprepared(name, Errno::EINVAL))
    }

    /// A path in the workspace.
    pub(super) fn work(&self, rel: &str) -> Result<String, Stop> {
        Ok(format!("{}/{rel}", self.get("work")?))
    }

    /// A path in a directory that is visible and outside of the workspace.
    pub(super) fn shared(&self, rel: &str) -> Result<String, Stop> {
        Ok(format!("{}/{rel}", self.get("shared")?))
    }

    /// A path that no session sees.
    pub(super) fn hidden(&self, rel: &str) -> Result<String, Stop> {
        Ok(format!("{}/{rel}", self.get("hidden")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let mut setting = Setting::default();
        assert!(setting.set("work", "/tmp/a b"));
        assert!(setting.set("tcp", "8080"));
        assert!(!setting.set("bad", "a;b"));
        assert_eq!(Setting::parse(&setting.text()), setting);
        assert_eq!(setting.number("tcp"), Ok(8080));
        assert_eq!(setting.work("x"), Ok("/tmp/a b/x".to_owned()));
        assert_eq!(setting.get("none"), Err(Stop::Unprepared("none", Errno::ENODATA)));
    }
}
