//! What one page draws: characters with their places, and whether a reader sees them.

use hayro_interpret::font::{Glyph, GlyphRun};
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::kurbo::{BezPath, Point, Rect, Shape};
use hayro_interpret::{BlendMode, ClipPath, Device, DrawMode, DrawProps, Image, ImageDrawProps, Paint, SoftMask};
use std::panic::resume_unwind;
use std::time::Instant;

/// Points below which nobody reads a character.
const TINY: f64 = 1.5;
/// Opacity below which nothing is seen.
const FAINT: f32 = 0.05;
/// How far the components of two colours that cannot be told apart may differ.
const ALIKE: f32 = 0.08;
/// Areas of one page that are remembered.
const MAX_AREAS: usize = 400;
/// Outline units of one em.
const EM: f64 = 1000.0;

/// The payload of the unwinding that ends a page that takes too long.
pub(super) struct Stop;

/// A character where it stands, the origin in the page's upper left corner.
#[derive(Clone, Debug)]
pub(super) struct Character {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Height of the font in points.
    pub(super) size: f64,
    /// How far the next character is, in points; none if the font does not say.
    pub(super) advance: Option<f64>,
    pub(super) text: String,
    /// Nobody sees it.
    pub(super) hidden: bool,
}

/// One page.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    pub(super) glyphs: Vec<Character>,
    /// In points.
    pub(super) height: f64,
}

/// An area that was painted: what is written on it must differ from it, and what was written before is under it.
struct Area {
    place: Rect,
    /// None: more than one.
    color: Option<[f32; 3]>,
    /// Characters that were there before.
    before: usize,
}

/// Listens to a page being drawn.
pub(super) struct Reader {
    page: Rect,
    deadline: Instant,
    room: usize,
    glyphs: Vec<Character>,
    areas: Vec<Area>,
    clips: Vec<Rect>,
    opacities: Vec<f32>,
}

impl Reader {
    pub(super) fn new(page: Rect, deadline: Instant, room: usize) -> Self {
        Self {
            page,
            deadline,
            room,
            glyphs: Vec::new(),
            areas: Vec::new(),
            clips: Vec::new(),
            opacities: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> Drawn {
        for area in self.areas.iter().filter(|a| a.color.is_some()) {
            for covered in self.glyphs[..area.before].iter_mut() {
                covered.hidden |= area
                    .place
                    .contains(Point::new(covered.x, covered.y - covered.size / 4.0));
            }
        }
        Drawn {
            glyphs: self.glyphs,
            height: self.page.height(),
        }
    }

    /// The library's interpreter cannot be told to stop.
    fn in_time(&self) {
        if Instant::now() > self.deadline {
            resume_unwind(Box::new(Stop));
        }
    }

    fn area(&mut self, place: Rect, color: Option<[f32; 3]>) {
        if self.areas.len() < MAX_AREAS {
            let before = self.glyphs.len();
            self.areas.push(Area { place, color, before });
        }
    }

    fn is_hidden(&self, at: Point, size: f64, props: &DrawProps<'_>, mode: &DrawMode) -> bool {
        if matches!(mode, DrawMode::Invisible) || size < TINY || !self.page.contains(at) {
            return true;
        }
        if self.clips.iter().any(|c| !c.inflate(size, size).contains(at)) || self.opacities.iter().any(|o| *o < FAINT) {
            return true;
        }
        let Some((color, opacity)) = solid(&props.paint) else {
            return false;
        };
        let ground = self.areas.iter().rev().find(|a| a.place.contains(at));
        let ground = ground.map_or(Some([1.0; 3]), |a| a.color);
        opacity < FAINT || ground.is_some_and(|g| alike(g, color))
    }
}

fn alike(a: [f32; 3], b: [f32; 3]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < ALIKE)
}

fn solid(paint: &Paint<'_>) -> Option<([f32; 3], f32)> {
    let Paint::Color(color) = paint else { return None };
    let [r, g, b, opacity] = color.to_rgba().components();
    Some(([r, g, b], opacity))
}

impl Device<'_> for Reader {
    fn draw_path(&mut self, path: &BezPath, props: DrawProps<'_>, mode: &DrawMode) {
        self.in_time();
        if !matches!(mode, DrawMode::Fill(_) | DrawMode::FillAndStroke(..)) || props.blend_mode != BlendMode::Normal {
            return;
        }
        let place = props.transform.transform_rect_bbox(path.bounding_box());
        // Rules and glyphs that were drawn as outlines are no ground to write on.
        if place.width() < 4.0 || place.height() < 4.0 {
            return;
        }
        match solid(&props.paint) {
            Some((_, opacity)) if opacity < 0.95 => {}
            Some((color, _)) => {
                // Other shapes may leave any part of their box unpainted.
                let whole = path.area().abs() > 0.95 * path.bounding_box().area();
                self.area(place, whole.then_some(color));
            }
            None => self.area(place, None),
        }
    }

    fn push_clip_path(&mut self, clip: &ClipPath) {
        self.in_time();
        self.clips.push(clip.path.bounding_box());
    }

    fn push_clip_rect(&mut self, rect: &Rect) {
        self.clips.push(*rect);
    }

    fn push_transparency_group(&mut self, opacity: f32, _: Option<SoftMask<'_>>, _: BlendMode) {
        self.opacities.push(opacity);
    }

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, '_>, props: DrawProps<'_>, mode: &DrawMode) {
        self.in_time();
        for glyph in run.glyphs() {
            if self.glyphs.len() >= self.room {
                return;
            }
            let text = match glyph.as_unicode() {
                Some(BfString::Char(c)) => c.to_string(),
                Some(BfString::String(s)) => s.chars().take(8).collect(),
                // Without a mapping there is no telling.
                None => "\u{fffd}".to_owned(),
            };
            let transform = props.transform * glyph.transform();
            let [a, b, c, d, x, y] = transform.as_coeffs();
            let size = EM * c.hypot(d);
            if ![x, y, size].iter().all(|n| n.is_finite()) {
                continue;
            }
            let width = match &**glyph {
                Glyph::Outline(outline) => outline.advance_width(),
                Glyph::Type3(drawn) => drawn.advance_width(),
            };
            // Drawn twice for a bold look, or filled and then stroked.
            let twice = |g: &Character| (g.x - x).abs() < 0.1 * size && (g.y - y).abs() < 0.1 * size && g.text == text;
            if self.glyphs.iter().rev().take(200).any(twice) {
                continue;
            }
            let hidden = self.is_hidden(Point::new(x, y), size, &props, mode);
            self.glyphs.push(Character {
                x,
                y,
                size,
                advance: width.map(|w| f64::from(w) * a.hypot(b)).filter(|w| w.is_finite()),
                text,
                hidden,
            });
        }
    }

    fn draw_image(&mut self, _: Image<'_, '_>, props: ImageDrawProps<'_>) {
        self.in_time();
        self.area(props.transform.transform_rect_bbox(Rect::new(0.0, 0.0, 1.0, 1.0)), None);
    }

    fn pop_clip(&mut self) {
        self.clips.pop();
    }

    fn pop_transparency_group(&mut self) {
        self.opacities.pop();
    }
}
