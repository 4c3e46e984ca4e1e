//! The scenarios that come with picktwo: files of the same format as anybody's.

/// A file.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name without `.toml`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// All of them, as they are listed.
        pub const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*];
    };
}

files![
    "demo",
    "destructive-injection",
    "exfiltration-url",
    "exfiltration-query",
    "exfiltration-redirect",
    "exfiltration-model-api",
    "exfiltration-provider-tool",
    "exfiltration-dns",
    "exfiltration-git-remote",
    "config-hijack",
    "delayed-hook",
    "delayed-editor-task",
    "summary-injection",
    "terminal-escape",
    "key-theft",
];

/// One by its name.
#[must_use]
pub fn shipped(name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|s| s.name == name)
}
