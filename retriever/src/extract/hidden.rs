//! Removes what a reader of the rendered page would not see, before anything decides what the page says.

use super::css::{self, Rule};
use super::style::{Inherited, Own};
use dom_query::{Document, Matcher, NodeRef};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What was removed, by method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hidden {
    /// Pieces of text by the method that hid them.
    pub(super) pieces: BTreeMap<&'static str, u64>,
    /// Characters in them.
    pub(super) characters: u64,
    /// Characters that the page has for readers without scripts.
    pub(super) fallback: u64,
    /// Whether the page has style sheets of its own that were not read to the end.
    pub(super) incomplete: bool,
}

/// Elements whose content is never text of the page.
const NEVER: &[&str] = &[
    "noscript", "template", "svg", "iframe", "object", "embed", "canvas", "audio", "video", "noembed", "noframes",
];
/// Marks what the page shows only after a click.
pub(super) const COLLAPSED: &str = "data-picktwo-collapsed";
/// Classes that frameworks use for text that only screen readers get.
const READER_CLASSES: &[&str] = &[
    "sr-only",
    "visually-hidden",
    "visuallyhidden",
    "screen-reader-text",
    "screen-reader-only",
    "screenreader-only",
    "a11y-hidden",
    "show-for-sr",
    "element-invisible",
    "u-visually-hidden",
    "assistive-text",
    "hidden-visually",
];
/// Matches of rules against elements on one page.
const MAX_MATCHES: usize = 3_000_000;

struct Sheets {
    rules: Vec<(Rule, Matcher)>,
    /// Rules by the class, id or tag of their subject.
    by_key: HashMap<String, Vec<usize>>,
    /// Rules without such a part.
    general: Vec<usize>,
    variables: HashMap<String, String>,
    /// No sheet outside the page can change what it looks like.
    own_only: bool,
    /// Rules that veil the page until a script lifts them: they hide nothing any more.
    lifted: HashSet<usize>,
}

impl Sheets {
    fn read(document: &Document) -> Self {
        let mut rules = Vec::new();
        for style in document.select("style").nodes() {
            if style.attr("media").is_none_or(|m| css::media_applies(&m)) {
                css::sheet(&style.text(), &mut rules);
            }
        }
        let mut variables: HashMap<String, Option<String>> = HashMap::new();
        let mut define = |d: &css::Declaration| {
            if d.property.starts_with("--") {
                // With more than one value, which one holds where is beyond this pass.
                let entry = variables
                    .entry(d.property.clone())
                    .or_insert_with(|| Some(d.value.clone()));
                if entry.as_ref().is_some_and(|v| *v != d.value) {
                    *entry = None;
                }
            }
        };
        rules.iter().flat_map(|r| &r.declarations).for_each(&mut define);
        for node in document.select("[style*='--']").nodes() {
            css::declarations(&node.attr_or("style", ""))
                .iter()
                .for_each(&mut define);
        }

        let mut sheets = Self {
            rules: Vec::new(),
            by_key: HashMap::new(),
            general: Vec::new(),
            variables: variables.into_iter().filter_map(|(k, v)| Some((k, v?))).collect(),
            own_only: !document.select("link[rel~='stylesheet'], link[as='style']").exists()
                && !document.select("style").text().contains("@import"),
            lifted: HashSet::new(),
        };
        for rule in rules {
            let Ok(matcher) = Matcher::new(&rule.selector) else {
                continue;
            };
            let n = sheets.rules.len();
            match css::subject_key(&rule.selector) {
                Some(key) => sheets.by_key.entry(key).or_default().push(n),
                None => sheets.general.push(n),
            }
            sheets.rules.push((rule, matcher));
        }
        sheets
    }

    /// The rules that apply to an element, from the weakest to the strongest.
    fn hits(&self, node: &NodeRef<'_>, matches: &mut usize) -> Vec<usize> {
        let mut hits: Vec<usize> = Vec::new();
        if !self.rules.is_empty() && *matches < MAX_MATCHES {
            let mut keys: Vec<String> = Vec::new();
            keys.extend(node.node_name().map(|n| n.to_string()));
            keys.extend(node.id_attr().map(|id| format!("#{id}")));
            keys.extend(
                node.class()
                    .iter()
                    .flat_map(|c| c.split_ascii_whitespace())
                    .map(|c| format!(".{c}")),
            );
            let found = keys
                .iter()
                .filter_map(|k| self.by_key.get(k))
                .flatten()
                .chain(&self.general);
            for &n in found {
                *matches += 1;
                if !self.lifted.contains(&n) && node.is_match(&self.rules[n].1) {
                    hits.push(n);
                }
            }
        }
        hits.sort_by_key(|n| (self.rules[*n].0.specificity, *n));
        hits.dedup();
        hits
    }

    /// The element's own declarations, from rules and from its attribute.
    fn own(&self, node: &NodeRef<'_>, matches: &mut usize) -> Own {
        let inline = node.attr("style").map(|s| css::declarations(&s)).unwrap_or_default();
        let hits = self.hits(node, matches);
        if hits.is_empty() && inline.is_empty() {
            return Own::default();
        }
        let declared = || hits.iter().flat_map(|n| &self.rules[*n].0.declarations);
        let ordered = declared()
            .filter(|d| !d.important)
            .chain(inline.iter().filter(|d| !d.important))
            .chain(declared().filter(|d| d.important))
            .chain(inline.iter().filter(|d| d.important));
        Own::new(ordered, &self.variables)
    }

    /// Takes the rules that hide `node` for a veil: what a script shows of it, it shows of all that they apply to.
    fn lift(&mut self, node: &NodeRef<'_>, matches: &mut usize) {
        let clear = Inherited::root(self.own_only);
        for n in self.hits(node, matches) {
            let alone = Own::new(self.rules[n].0.declarations.iter(), &self.variables);
            let now = alone.hand_down(clear);
            if alone.unseen(&now).is_some() || now.unseen().is_some() {
                self.lifted.insert(n);
            }
        }
    }
}

/// Removes hidden text from the page's tree and says how much there was. With `lift_veils`, an element that holds most of the
/// page's text is not taken for hidden: a script is to show it.
pub(super) fn remove(document: &Document, lift_veils: bool) -> Hidden {
    let mut hidden = Hidden::default();
    let mut sheets = Sheets::read(document);
    let turned: HashSet<String> = turned_over(document);
    let most = if lift_veils {
        readable(&document.root()) / 2
    } else {
        u64::MAX
    };
    let mut matches = 0;
    let mut stack = vec![(document.root(), Inherited::root(sheets.own_only))];
    while let Some((node, inherited)) = stack.pop() {
        for child in node.children() {
            if child.is_comment() {
                child.remove_from_parent();
                continue;
            }
            if child.is_text() {
                if let Some(why) = inherited.unseen()
                    && hidden.count(why, &child.text())
                {
                    child.remove_from_parent();
                }
                continue;
            }
            let Some(name) = child.node_name() else { continue };
            // What these hold is data for the page's machinery; nothing below takes it for text.
            if matches!(&*name, "script" | "style" | "head" | "textarea" | "title") {
                continue;
            }
            if NEVER.contains(&&*name) {
                if &*name == "noscript" {
                    hidden.fallback += letters(&child.text());
                    if readable(&child) >= most {
                        stack.push((child, inherited));
                        continue;
                    }
                }
                child.remove_from_parent();
                continue;
            }
            let own = sheets.own(&child, &mut matches);
            let now = own.hand_down(inherited);
            let why = by_attribute(&child, &name, &own).or_else(|| own.unseen(&now));
            let darker = inherited.unseen().is_none() && now.unseen().is_some();
            // What hides the whole page is a veil that a script lifts, or there would be no page.
            let root = matches!(&*name, "html" | "body");
            if (why.is_some() || darker) && (root || lift_veils && readable(&child) >= most) {
                if lift_veils && !root {
                    sheets.lift(&child, &mut matches);
                }
                stack.push((child, inherited));
                continue;
            }
            match why {
                // What a reader turns over, or an animation brings in, is kept like closed details and labelled like them.
                Some(why) if why == "opacity" && own.animated() || is_turned(&child, &turned) => {
                    child.set_attr(COLLAPSED, "");
                    stack.push((
                        child,
                        Inherited {
                            visible: inherited.visible,
                            opacity: inherited.opacity,
                            ..now
                        },
                    ));
                }
                Some(why) => {
                    hidden.count(why, &child.text());
                    child.remove_from_parent();
                }
                None => stack.push((child, now)),
            }
        }
    }
    hidden.incomplete = matches >= MAX_MATCHES;
    hidden
}

fn letters(text: &str) -> u64 {
    text.chars().filter(|c| !c.is_whitespace()).count() as u64
}

/// Letters of an element's text, what only scripts and styles hold left out.
fn readable(node: &NodeRef<'_>) -> u64 {
    let machinery = |n: &NodeRef<'_>| {
        n.node_name()
            .is_some_and(|name| matches!(&*name, "script" | "style" | "template" | "svg" | "textarea"))
    };
    node.descendants_it()
        .filter(|n| n.is_text() && !n.parent().is_some_and(|p| machinery(&p)))
        .map(|n| letters(&n.text()))
        .sum()
}

/// Ids of what buttons and tabs of the page show and hide.
fn turned_over(document: &Document) -> HashSet<String> {
    let mut ids = HashSet::new();
    for node in document
        .select("[aria-controls], [data-bs-target], [data-target]")
        .nodes()
    {
        for name in ["aria-controls", "data-bs-target", "data-target"] {
            let targets = node.attr(name).unwrap_or_default();
            ids.extend(
                targets
                    .split_ascii_whitespace()
                    .map(|id| id.trim_start_matches('#').to_owned()),
            );
        }
    }
    ids
}

fn is_turned(node: &NodeRef<'_>, turned: &HashSet<String>) -> bool {
    node.attr("role").is_some_and(|r| r.eq_ignore_ascii_case("tabpanel"))
        || node.id_attr().is_some_and(|id| turned.contains(&*id))
}

fn by_attribute(node: &NodeRef<'_>, name: &str, own: &Own) -> Option<&'static str> {
    if node.has_attr("hidden") && !own.shows() {
        return Some("hidden attribute");
    }
    if node.attr("aria-hidden").is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        return Some("aria-hidden");
    }
    if name == "dialog" && !node.has_attr("open") || node.has_attr("popover") {
        return Some("closed dialog");
    }
    let class = node.class()?;
    class
        .split_ascii_whitespace()
        .any(|c| READER_CLASSES.contains(&c))
        .then_some("screen-reader class")
}

impl Hidden {
    /// Counts a piece that has something to read in it; says whether it has.
    fn count(&mut self, why: &'static str, text: &str) -> bool {
        let characters = letters(text);
        if !text.chars().any(char::is_alphanumeric) {
            return characters > 0;
        }
        *self.pieces.entry(why).or_default() += 1;
        self.characters += characters;
        true
    }

    /// How many pieces there were.
    pub(super) fn total(&self) -> u64 {
        self.pieces.values().sum()
    }

    /// One sentence for people.
    pub(super) fn note(&self) -> String {
        let methods: Vec<String> = self.pieces.iter().map(|(why, n)| format!("{why} {n}")).collect();
        format!(
            "text that the page hides was removed, {} characters ({})",
            self.characters,
            methods.join(", ")
        )
    }
}
