//! Colours that programs change and ask for (OSC 4, 10–12, 104, 110–112).

use std::collections::BTreeMap;

use crate::Screen;

type Rgb = [u8; 3];

/// The changes to the palette.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Palette {
    pub(crate) indexed: BTreeMap<u8, Rgb>,
    /// Text, background and cursor.
    pub(crate) special: [Option<Rgb>; 3],
}

/// The sixteen basic colours, as in xterm.js.
const BASIC: [u32; 16] = [
    0x2e_3436, 0xcc_0000, 0x4e_9a06, 0xc4_a000, 0x34_65a4, 0x75_507b, 0x06_989a, 0xd3_d7cf, 0x55_5753,
    0xef_2929, 0x8a_e234, 0xfc_e94f, 0x72_9fcf, 0xad_7fa8, 0x34_e2e2, 0xee_eeec,
];
/// Text, background and cursor, as in xterm.js.
const SPECIAL: [Rgb; 3] = [[0xff; 3], [0; 3], [0xff; 3]];

fn default_color(index: u8) -> Rgb {
    let step = |level: u8| if level == 0 { 0 } else { 55 + 40 * level };
    match index {
        0..=15 => {
            let [_, red, green, blue] = BASIC[usize::from(index)].to_be_bytes();
            [red, green, blue]
        }
        16..=231 => {
            let cube = index - 16;
            [step(cube / 36), step(cube / 6 % 6), step(cube % 6)]
        }
        _ => [8 + 10 * (index - 232); 3],
    }
}

/// Parses `rgb:r/g/b` and `#rgb` with one to four hexadecimal digits for each part.
fn parse(text: &str) -> Option<Rgb> {
    let text = text.to_ascii_lowercase();
    let hex = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(part, 16).ok())
            .flatten()
    };
    if let Some(parts) = text.strip_prefix("rgb:") {
        let parts: Vec<&str> = parts.split('/').collect();
        let digits = parts[0].len();
        if parts.len() != 3 || !(1..=4).contains(&digits) || parts.iter().any(|part| part.len() != digits) {
            return None;
        }
        let max = (1_u32 << (4 * digits)) - 1;
        let scale = |part: &str| Some(u8::try_from((hex(part)? * 255 + max / 2) / max).unwrap_or(255));
        return Some([scale(parts[0])?, scale(parts[1])?, scale(parts[2])?]);
    }
    let digits = text.strip_prefix('#')?;
    if !matches!(digits.len(), 3 | 6 | 9 | 12) || !digits.is_ascii() {
        return None;
    }
    let each = digits.len() / 3;
    let part = |at: usize| {
        let value = hex(&digits[at * each..(at + 1) * each])?;
        let value = match each {
            1 => value << 4,
            2 => value,
            3 => value >> 4,
            _ => value >> 8,
        };
        u8::try_from(value).ok()
    };
    Some([part(0)?, part(1)?, part(2)?])
}

fn decimal(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl Screen {
    pub(crate) fn color_command(&mut self, number: u32, text: &str) {
        self.palette_changed |= !text.contains('?');
        match number {
            4 => {
                let mut parts = text.split(';');
                while let (Some(index), Some(color)) = (parts.next(), parts.next()) {
                    let Some(index) = decimal(index) else { continue };
                    if color == "?" {
                        let value = self.palette.indexed.get(&index).copied();
                        self.report_color(
                            &format!("4;{index}"),
                            value.unwrap_or_else(|| default_color(index)),
                        );
                    } else if let Some(color) = parse(color) {
                        self.palette.indexed.insert(index, color);
                    }
                }
            }
            10..=12 => {
                let first = number as usize - 10;
                for (at, part) in (first..SPECIAL.len()).zip(text.split(';')) {
                    if part == "?" {
                        let value = self.palette.special[at].unwrap_or(SPECIAL[at]);
                        self.report_color(&(at + 10).to_string(), value);
                    } else if let Some(color) = parse(part) {
                        self.palette.special[at] = Some(color);
                    }
                }
            }
            104 if text.is_empty() => self.palette.indexed.clear(),
            104 => {
                for index in text.split(';').filter_map(decimal) {
                    self.palette.indexed.remove(&index);
                }
            }
            _ => self.palette.special[number as usize - 110] = None,
        }
    }

    fn report_color(&mut self, what: &str, [red, green, blue]: Rgb) {
        let color =
            format!("\x1b]{what};rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}\x1b\\");
        self.reply(color.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn colors_have_one_to_four_digits_for_each_part() {
        assert_eq!(parse("rgb:f/0/8"), Some([255, 0, 136]));
        assert_eq!(parse("RGB:ffff/8000/0000"), Some([255, 128, 0]));
        assert_eq!(parse("#fff"), Some([0xf0, 0xf0, 0xf0]));
        assert_eq!(parse("#123456789abc"), Some([0x12, 0x56, 0x9a]));
        assert_eq!(parse("rgb:1/22/3"), None);
        assert_eq!(parse("#12"), None);
        assert_eq!(parse("red"), None);
    }
}
