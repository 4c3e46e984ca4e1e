//! Colours, as far as telling whether two of them can be told apart.

/// Red, green, blue, each 0-255, and opacity, 0-1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Color {
    pub(super) rgb: [f32; 3],
    pub(super) alpha: f32,
}

/// Channels that differ by no more than this look the same.
const NEAR: f32 = 12.0;

impl Color {
    pub(super) const WHITE: Self = Self::opaque([255.0; 3]);

    const fn opaque(rgb: [f32; 3]) -> Self {
        Self { rgb, alpha: 1.0 }
    }

    /// Whether text of this colour cannot be seen on that background.
    pub(super) fn vanishes_on(self, background: Self) -> bool {
        self.rgb
            .iter()
            .zip(background.rgb)
            .all(|(a, b)| (a - b).abs() * self.alpha <= NEAR)
    }
}

const NAMES: &[(&str, u32)] = &[
    ("white", 0xff_ffff),
    ("black", 0),
    ("red", 0xff_0000),
    ("lime", 0x00_ff00),
    ("green", 0x00_8000),
    ("blue", 0x00_00ff),
    ("yellow", 0xff_ff00),
    ("orange", 0xff_a500),
    ("gray", 0x80_8080),
    ("grey", 0x80_8080),
    ("silver", 0xc0_c0c0),
    ("lightgray", 0xd3_d3d3),
    ("lightgrey", 0xd3_d3d3),
    ("darkgray", 0xa9_a9a9),
    ("darkgrey", 0xa9_a9a9),
    ("gainsboro", 0xdc_dcdc),
    ("dimgray", 0x69_6969),
    ("dimgrey", 0x69_6969),
    ("whitesmoke", 0xf5_f5f5),
    ("snow", 0xff_fafa),
    ("ivory", 0xff_fff0),
    ("ghostwhite", 0xf8_f8ff),
    ("floralwhite", 0xff_faf0),
    ("mintcream", 0xf5_fffa),
    ("azure", 0xf0_ffff),
    ("aliceblue", 0xf0_f8ff),
    ("honeydew", 0xf0_fff0),
    ("seashell", 0xff_f5ee),
    ("linen", 0xfa_f0e6),
    ("beige", 0xf5_f5dc),
    ("lavender", 0xe6_e6fa),
    ("lightyellow", 0xff_ffe0),
    ("cornsilk", 0xff_f8dc),
    ("oldlace", 0xfd_f5e6),
    ("navy", 0x00_0080),
    ("maroon", 0x80_0000),
    ("purple", 0x80_0080),
    ("teal", 0x00_8080),
    ("olive", 0x80_8000),
    ("aqua", 0x00_ffff),
    ("cyan", 0x00_ffff),
    ("fuchsia", 0xff_00ff),
    ("magenta", 0xff_00ff),
    ("pink", 0xff_c0cb),
    ("brown", 0xa5_2a2a),
    ("gold", 0xff_d700),
    ("darkblue", 0x00_008b),
    ("darkred", 0x8b_0000),
    ("darkgreen", 0x00_6400),
    ("lightblue", 0xad_d8e6),
    ("midnightblue", 0x19_1970),
    ("darkslategray", 0x2f_4f4f),
    ("slategray", 0x70_8090),
    ("steelblue", 0x46_82b4),
    ("tomato", 0xff_6347),
    ("crimson", 0xdc_143c),
];

/// Reads a colour; none for what is not one, for `currentcolor` and for `inherit`.
pub(super) fn parse(value: &str) -> Option<Color> {
    let value = value.trim();
    if value == "transparent" {
        return Some(Color {
            rgb: [0.0; 3],
            alpha: 0.0,
        });
    }
    if let Some(hex) = value.strip_prefix('#') {
        return from_hex(hex);
    }
    if let Some((_, code)) = NAMES.iter().find(|(name, _)| *name == value) {
        return Some(Color::opaque([
            (code >> 16 & 255) as f32,
            (code >> 8 & 255) as f32,
            (code & 255) as f32,
        ]));
    }
    let (function, arguments) = value.strip_suffix(')')?.split_once('(')?;
    let parts: Vec<&str> = arguments.split([',', ' ', '/']).filter(|p| !p.is_empty()).collect();
    let number = |n: usize, whole: f32| -> Option<f32> {
        let part = parts.get(n)?;
        match part.strip_suffix('%') {
            Some(percent) => Some(percent.parse::<f32>().ok()? / 100.0 * whole),
            None => part.trim_end_matches("deg").parse().ok(),
        }
    };
    let alpha = if parts.len() > 3 { number(3, 1.0)? } else { 1.0 };
    match function {
        "rgb" | "rgba" => Some(Color {
            rgb: [number(0, 255.0)?, number(1, 255.0)?, number(2, 255.0)?],
            alpha,
        }),
        "hsl" | "hsla" => Some(Color {
            rgb: from_hsl(number(0, 360.0)?, number(1, 1.0)?, number(2, 1.0)?),
            alpha,
        }),
        _ => None,
    }
}

fn from_hex(hex: &str) -> Option<Color> {
    let digits: Vec<f32> = hex
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as f32))
        .collect::<Option<_>>()?;
    let pair = |n: usize| digits[2 * n] * 16.0 + digits[2 * n + 1];
    match digits.len() {
        3 | 4 => Some(Color {
            rgb: [digits[0] * 17.0, digits[1] * 17.0, digits[2] * 17.0],
            alpha: digits.get(3).map_or(1.0, |a| a / 15.0),
        }),
        6 | 8 => Some(Color {
            rgb: [pair(0), pair(1), pair(2)],
            alpha: if digits.len() == 8 { pair(3) / 255.0 } else { 1.0 },
        }),
        _ => None,
    }
}

/// CSS Color 4 §7.1.
fn from_hsl(hue: f32, saturation: f32, lightness: f32) -> [f32; 3] {
    let reach = saturation * lightness.min(1.0 - lightness);
    [0.0, 8.0, 4.0].map(|n: f32| {
        let k = (n + hue.rem_euclid(360.0) / 30.0) % 12.0;
        255.0 * (lightness - reach * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_of_white_is_white() {
        for text in [
            "#fff",
            "#FFFFFF".to_lowercase().as_str(),
            "white",
            "rgb(255,255,255)",
            "rgb(100% 100% 100% / 1)",
            "hsl(0, 0%, 100%)",
            "#ffff",
        ] {
            let color = parse(text).expect(text);
            assert!(color.vanishes_on(Color::WHITE), "{text}");
        }
    }

    #[test]
    fn near_and_transparent_vanish_and_others_do_not() {
        for text in ["#fefefe", "transparent", "rgba(0,0,0,0.02)", "#0000"] {
            assert!(parse(text).expect(text).vanishes_on(Color::WHITE), "{text}");
        }
        for text in ["#999", "hsl(120, 100%, 25%)", "rgba(0,0,0,.5)", "#eee"] {
            assert!(!parse(text).expect(text).vanishes_on(Color::WHITE), "{text}");
        }
        assert_eq!(parse("inherit"), None);
        assert_eq!(parse("#12"), None);
    }
}
