//! Control characters, escape sequences and control sequences.

use crate::Screen;
use crate::charset::Charset;

/// Prefix and intermediates of a sequence as [`crate::parser::Parser::collected`] returns them.
const fn with(bytes: &[u8]) -> u32 {
    let mut value = 0;
    let mut at = 0;
    while at < bytes.len() {
        value = value << 8 | bytes[at] as u32;
        at += 1;
    }
    value
}

const PRIVATE: u32 = with(b"?");
const SECONDARY: u32 = with(b">");
const LESS: u32 = with(b"<");
const EQUALS: u32 = with(b"=");
const SPACE: u32 = with(b" ");
const BANG: u32 = with(b"!");
const QUOTE: u32 = with(b"\"");
const TICK: u32 = with(b"'");
const DOLLAR: u32 = with(b"$");
const PRIVATE_DOLLAR: u32 = with(b"?$");

impl Screen {
    /// A C0 or C1 control character.
    pub(crate) fn execute(&mut self, code: u32) {
        self.join = 0;
        self.in_run = false;
        match code {
            0x08 => self.backspace(),
            0x09 => self.tab_forward(1),
            0x0a..=0x0c => self.line_feed(),
            0x0d => self.buffer_mut().x = 0,
            0x0e => self.charsets.invoke(1),
            0x0f => self.charsets.invoke(0),
            0x84 => self.index(),
            0x85 => self.next_line(),
            0x88 => self.set_tab(),
            _ => return,
        }
        self.dirty = true;
    }

    fn next_line(&mut self) {
        self.buffer_mut().x = 0;
        self.index();
    }

    fn set_tab(&mut self) {
        let buffer = self.buffer_mut();
        let x = buffer.x;
        buffer.tabs.set(x);
    }

    /// An escape sequence with these intermediates and this final byte.
    pub(crate) fn escape(&mut self, collected: u32, last: u8) {
        self.dirty = true;
        match (collected, last) {
            (0, b'7') => self.save_cursor(),
            (0, b'8') => self.restore_cursor(),
            (0, b'D') => self.index(),
            (0, b'E') => self.next_line(),
            (0, b'H') => self.set_tab(),
            (0, b'M') => self.reverse_index(),
            (0, b'=') => self.modes.application_keypad = true,
            (0, b'>') => self.modes.application_keypad = false,
            (0, b'c') => self.reset(),
            (0, b'n' | b'}') => self.charsets.invoke(2),
            (0, b'o' | b'|') => self.charsets.invoke(3),
            (0, b'~') => self.charsets.invoke(1),
            (0x25, b'@' | b'G') => {
                self.charsets.invoke(0);
                self.charsets.designate(0, Charset::default());
            }
            (0x23, b'8') => self.alignment_test(),
            (0x28 | 0x29 | 0x2a | 0x2b | 0x2d | 0x2e, _) => {
                if let Some(set) = Charset::designated_by(last) {
                    let level = match collected {
                        0x28 => 0,
                        0x29 | 0x2d => 1,
                        0x2a | 0x2e => 2,
                        _ => 3,
                    };
                    self.charsets.designate(level, set);
                }
            }
            _ => {}
        }
    }

    /// A control sequence with this prefix, these intermediates and this final byte.
    pub(crate) fn control(&mut self, collected: u32, last: u8) {
        // Queries change nothing.
        self.dirty |= !matches!((collected, last), (_, b'c' | b'n') | (DOLLAR | PRIVATE_DOLLAR, b'p'));
        let params = &self.parser.params;
        let first = params.get(0);
        let count = params.count(0);
        let (second, second_count, params) = (params.get(1), params.count(1), params.len());
        let (x, y) = (self.buffer().x, self.buffer().y);
        match (collected, last) {
            (0, b'@') => self.insert_chars(count),
            (SPACE, b'@') => self.delete_columns(0, count),
            (0, b'A') => self.cursor_up(count),
            (SPACE, b'A') => self.insert_columns(0, count),
            (0, b'B') => self.cursor_down(count),
            (0, b'C' | b'a') => self.move_by(crate::cursor::clamp(count), 0),
            (0, b'D') => self.move_by(-crate::cursor::clamp(count), 0),
            (0, b'E') => {
                self.cursor_down(count);
                self.buffer_mut().x = 0;
            }
            (0, b'F') => {
                self.cursor_up(count);
                self.buffer_mut().x = 0;
            }
            (0, b'G' | b'`') => self.move_to(count - 1, y),
            (0, b'H' | b'f') => self.move_to(second_count - 1, count - 1),
            (0, b'I') => self.tab_forward(count),
            (0, b'J') => self.erase_in_display(first, false),
            (PRIVATE, b'J') => self.erase_in_display(first, true),
            (0, b'K') => self.erase_in_line(first, false),
            (PRIVATE, b'K') => self.erase_in_line(first, true),
            (0, b'L') => self.insert_lines(count),
            (0, b'M') => self.delete_lines(count),
            (0, b'P') => self.delete_chars(count),
            (0, b'S') => self.scroll_up(count),
            (0, b'T') => self.scroll_down(count),
            (0, b'X') => self.erase_chars(count),
            (0, b'Z') => self.tab_backward(count),
            (0, b'b') => self.repeat(count),
            (0, b'd') => self.move_to(x, count - 1),
            (0, b'e') => self.move_by(0, crate::cursor::clamp(count)),
            (0, b'g') => match first {
                0 => self.buffer_mut().tabs.clear(x),
                3 => self.buffer_mut().tabs.clear_all(),
                _ => {}
            },
            (0, b'h') => self.set_modes(true),
            (0, b'l') => self.set_modes(false),
            (PRIVATE, b'h') => self.set_private_modes(true),
            (PRIVATE, b'l') => self.set_private_modes(false),
            (0, b'm') => self.select_graphics(),
            (SECONDARY, b'm') => self.foreign_modes.modify_keys(first, second),
            (SECONDARY | LESS | EQUALS, b'u') => {
                self.change_keyboard(collected.to_le_bytes()[0], first, second);
            }
            (BANG, b'p') => self.soft_reset(),
            (SPACE, b'q') => self.set_cursor_style(first),
            (QUOTE, b'q') => self.protect(first),
            (0, b'r') => {
                let bottom = (params > 1).then(|| usize::try_from(second).unwrap_or(0));
                self.set_scroll_region(count, bottom);
            }
            (0, b's') => self.save_cursor(),
            (0, b'u') => self.restore_cursor(),
            (0, b't') => self.window_operation(first, second),
            (TICK, b'}') => self.insert_columns(x, count),
            (TICK, b'~') => self.delete_columns(x, count),
            (0 | PRIVATE, b'n') => self.report_status(collected == PRIVATE, first),
            (0, b'c') => self.report_attributes(first, b"\x1b[?1;2c"),
            (SECONDARY, b'c') => self.report_attributes(first, b"\x1b[>0;276;0c"),
            (DOLLAR, b'p') => self.report_mode(first),
            (PRIVATE_DOLLAR, b'p') => self.report_private_mode(first),
            _ => {}
        }
    }
}
