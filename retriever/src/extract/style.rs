//! What an element's own declarations say, and what its descendants inherit of it.

use super::color::{self, Color};
use super::css::{Declaration, far_negative, length};
use std::collections::HashMap;

/// What text inherits, as far as it can be seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inherited {
    pub(super) visible: bool,
    pub(super) font_size: f32,
    pub(super) indent: f32,
    pub(super) opacity: f32,
    /// None: whatever the browser or an external sheet says.
    pub(super) color: Option<Color>,
    /// None: unknown, an image or an external sheet.
    pub(super) background: Option<Color>,
}

impl Inherited {
    /// The start of a page. Its background is known to be white only if no external sheet can change it.
    pub(super) fn root(own_styles_only: bool) -> Self {
        Self {
            visible: true,
            font_size: 16.0,
            indent: 0.0,
            opacity: 1.0,
            color: None,
            background: own_styles_only.then_some(Color::WHITE),
        }
    }

    /// Why text with these properties cannot be seen, if it cannot.
    pub(super) fn unseen(&self) -> Option<&'static str> {
        if !self.visible {
            return Some("visibility");
        }
        if self.font_size <= MIN_FONT {
            return Some("font-size");
        }
        if self.indent <= -FAR {
            return Some("text-indent");
        }
        match (self.color, self.background) {
            (Some(c), _) if c.alpha <= MIN_OPACITY => Some("colour"),
            (Some(c), Some(b)) if c.vanishes_on(b) => Some("colour"),
            _ => None,
        }
    }
}

/// Pixels of text that nobody reads.
const MIN_FONT: f32 = 2.0;
/// Opacity that nobody sees.
const MIN_OPACITY: f32 = 0.05;
/// Pixels beyond every screen.
const FAR: f32 = 500.0;
/// Pixels of a box that shows nothing.
const TINY: f32 = 1.0;

/// The winning declarations of one element.
#[derive(Debug, Default)]
pub(super) struct Own {
    values: HashMap<String, String>,
}

impl Own {
    /// Applies declarations from the weakest to the strongest; custom properties are filled in.
    pub(super) fn new<'a>(ordered: impl Iterator<Item = &'a Declaration>, variables: &HashMap<String, String>) -> Self {
        let mut values = HashMap::new();
        for d in ordered {
            if let Some(value) = substitute(&d.value, variables) {
                values.insert(d.property.clone(), value);
            }
        }
        Self { values }
    }

    fn get(&self, property: &str) -> Option<&str> {
        self.values.get(property).map(String::as_str)
    }

    fn length(&self, property: &str, em: f32) -> Option<f32> {
        length(self.get(property)?, em)
    }

    /// Whether an author's style shows what the `hidden` attribute hides.
    pub(super) fn shows(&self) -> bool {
        self.get("display")
            .is_some_and(|d| !matches!(d, "none" | "inherit" | "initial" | "unset" | "revert"))
    }

    /// Whether something is set that moves the element in: together with no opacity, the start of an animation.
    pub(super) fn animated(&self) -> bool {
        [
            "transform",
            "translate",
            "animation",
            "animation-name",
            "transition",
            "will-change",
        ]
        .iter()
        .any(|p| {
            self.get(p)
                .is_some_and(|v| !matches!(v, "none" | "auto" | "initial" | "unset"))
        })
    }

    /// What the element hands down.
    pub(super) fn hand_down(&self, above: Inherited) -> Inherited {
        let mut to = above;
        match self.get("visibility") {
            Some("hidden" | "collapse") => to.visible = false,
            Some("visible" | "initial") => to.visible = true,
            _ => {}
        }
        if let Some(size) = self.get("font-size").or_else(|| self.get("font")) {
            to.font_size = font_size(size, above.font_size).unwrap_or(above.font_size);
        }
        if let Some(indent) = self.length("text-indent", to.font_size) {
            to.indent = indent;
        }
        let opacity = self.get("opacity").and_then(fraction).or_else(|| {
            let of = self.get("filter")?.split_once("opacity(")?.1;
            fraction(of.split(')').next()?)
        });
        if let Some(opacity) = opacity {
            to.opacity = above.opacity * opacity.clamp(0.0, 1.0);
        }
        if let Some(color) = self.get("-webkit-text-fill-color").or_else(|| self.get("color")) {
            to.color = match color {
                "inherit" | "currentcolor" | "unset" => above.color,
                other => color::parse(other),
            };
        }
        self.background(&mut to);
        to
    }

    fn background(&self, to: &mut Inherited) {
        let shorthand = self.get("background");
        if self.get("background-image").is_some_and(|i| i != "none")
            || shorthand.is_some_and(|b| b.contains("url(") || b.contains("gradient("))
        {
            to.background = None;
            return;
        }
        let color = match (self.get("background-color"), shorthand) {
            (Some(color), _) => color::parse(color),
            (None, Some(shorthand)) => {
                color::parse(shorthand).or_else(|| shorthand.split_whitespace().find_map(color::parse))
            }
            (None, None) => return,
        };
        match color {
            Some(color) if color.alpha <= MIN_OPACITY => {}
            Some(color) if color.alpha >= 0.95 => to.background = Some(color),
            _ => to.background = None,
        }
    }

    /// Why the element and all in it cannot be seen, if it cannot.
    pub(super) fn unseen(&self, now: &Inherited) -> Option<&'static str> {
        let em = now.font_size;
        if self.get("display") == Some("none") || self.get("content-visibility") == Some("hidden") {
            return Some("display");
        }
        if now.opacity <= MIN_OPACITY {
            return Some("opacity");
        }
        let placed = matches!(self.get("position"), Some("absolute" | "fixed"));
        let moved = placed || matches!(self.get("position"), Some("relative" | "sticky"));
        let far = |properties: &[&str]| {
            properties
                .iter()
                .any(|p| self.get(p).is_some_and(|v| far_negative(v, em, FAR)))
        };
        if moved && far(&["left", "top", "right", "bottom", "inset"])
            || far(&["margin", "margin-left", "margin-top", "translate"])
        {
            return Some("off-screen");
        }
        // Beyond the right or lower edge nothing scrolls into sight of a box that is fixed there.
        if placed
            && ["left", "top"]
                .iter()
                .any(|p| self.length(p, em).is_some_and(|l| l >= 5000.0))
        {
            return Some("off-screen");
        }
        if self.get("transform").is_some_and(|t| transformed_away(t, em, placed))
            || self
                .get("scale")
                .is_some_and(|s| s.starts_with('0') && fraction(s).is_some_and(|f| f <= 0.01))
        {
            return Some("transform");
        }
        if self.get("zoom").and_then(fraction).is_some_and(|z| z <= 0.05) {
            return Some("font-size");
        }
        if placed && self.get("clip").is_some_and(|c| clipped(c, em)) {
            return Some("clip");
        }
        let path = self.get("clip-path").or_else(|| self.get("-webkit-clip-path"));
        if path.is_some_and(clipped_away) {
            return Some("clip");
        }
        let cut = ["overflow", "overflow-x", "overflow-y"]
            .iter()
            .any(|p| self.get(p).is_some_and(|v| v.contains("hidden") || v.contains("clip")));
        let tiny = ["width", "height", "max-width", "max-height", "line-height"]
            .iter()
            .any(|p| self.length(p, em).is_some_and(|l| l <= TINY));
        (cut && tiny).then_some("tiny box")
    }
}

fn substitute(value: &str, variables: &HashMap<String, String>) -> Option<String> {
    let mut value = value.to_owned();
    for _ in 0..8 {
        let Some(at) = value.find("var(") else {
            return Some(value);
        };
        let mut depth = 0i32;
        let end = value[at..].char_indices().find_map(|(n, c)| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            (n > 3 && depth == 0).then_some(at + n)
        })?;
        let inside = &value[at + 4..end];
        let (name, fallback) = inside
            .split_once(',')
            .map_or((inside, None), |(n, f)| (n, Some(f.trim())));
        let replacement = variables.get(name.trim()).map(String::as_str).or(fallback)?;
        // A definition that doubles itself is nobody's style.
        if value.len() + replacement.len() > 4096 {
            return None;
        }
        value = format!("{}{replacement}{}", &value[..at], &value[end + 1..]);
    }
    None
}

fn fraction(value: &str) -> Option<f32> {
    let value = value.trim();
    match value.strip_suffix('%') {
        Some(percent) => Some(percent.parse::<f32>().ok()? / 100.0),
        None => value.parse().ok(),
    }
}

fn font_size(value: &str, above: f32) -> Option<f32> {
    value.split([' ', '/']).find_map(|part| match part {
        "xx-small" => Some(9.0),
        "x-small" => Some(10.0),
        "small" => Some(13.0),
        "medium" | "initial" => Some(16.0),
        "large" => Some(18.0),
        "x-large" => Some(24.0),
        "xx-large" => Some(32.0),
        "smaller" => Some(above / 1.2),
        "larger" => Some(above * 1.2),
        _ => match part.strip_suffix('%') {
            Some(percent) => Some(percent.parse::<f32>().ok()? / 100.0 * above),
            None => length(part, above).filter(|l| *l >= 0.0 && !(*l == 0.0 && value.contains(' ') && part != "0px")),
        },
    })
}

fn transformed_away(value: &str, em: f32, placed: bool) -> bool {
    let arguments = |name: &str| {
        value
            .split_once(name)
            .and_then(|(_, rest)| rest.split_once(')'))
            .map(|(a, _)| a.to_owned())
    };
    let zero = |a: String| a.split(',').any(|n| fraction(n).is_some_and(|f| f.abs() <= 0.01));
    if ["scale(", "scalex(", "scaley(", "scale3d("]
        .iter()
        .any(|f| arguments(f).is_some_and(zero))
    {
        return true;
    }
    if ["rotatex(", "rotatey("]
        .iter()
        .any(|f| arguments(f).is_some_and(|a| a.trim() == "90deg"))
    {
        return true;
    }
    ["translate(", "translatex(", "translatey(", "translate3d("]
        .iter()
        .any(|f| {
            arguments(f).is_some_and(|a| {
                a.split(',').any(|n| match n.trim().strip_suffix('%') {
                    // Of the element itself: only a placed one leaves the screen by its own size.
                    Some(percent) => placed && percent.parse::<f32>().is_ok_and(|p| p <= -100.0),
                    None => far_negative(n, em, FAR),
                })
            })
        })
}

/// `clip: rect(top, right, bottom, left)` that leaves nothing.
fn clipped(value: &str, em: f32) -> bool {
    let Some(inside) = value.strip_prefix("rect(").and_then(|v| v.strip_suffix(')')) else {
        return false;
    };
    let sides: Vec<f32> = inside
        .split([',', ' '])
        .filter(|s| !s.is_empty())
        .filter_map(|s| length(s, em))
        .collect();
    match sides[..] {
        [top, right, bottom, left] => bottom - top <= TINY || right - left <= TINY,
        _ => false,
    }
}

fn clipped_away(value: &str) -> bool {
    let Some((shape, inside)) = value.split_once('(') else {
        return false;
    };
    let inside = inside.trim_end_matches(')');
    let mut numbers = inside
        .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
        .filter_map(|n| n.parse::<f32>().ok());
    match shape.trim() {
        "inset" => inside
            .split_whitespace()
            .next()
            .and_then(|f| f.strip_suffix('%'))
            .and_then(|p| p.parse::<f32>().ok())
            .is_some_and(|p| p >= 50.0),
        "circle" | "ellipse" => numbers.next() == Some(0.0),
        "polygon" => numbers.all(|n| n == 0.0),
        _ => false,
    }
}
