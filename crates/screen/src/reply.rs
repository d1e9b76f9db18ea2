//! Answers to queries.

use crate::{MouseEncoding, MouseTracking, Screen};

/// Largest number of bytes of answers that wait to be taken. Further answers are dropped.
pub const REPLIES_LIMIT: usize = 4096;

impl Screen {
    pub(crate) fn reply(&mut self, bytes: &[u8]) {
        if self.replies.len() + bytes.len() <= REPLIES_LIMIT {
            self.replies.extend(bytes);
        }
    }

    /// DA.
    pub(crate) fn report_attributes(&mut self, param: i32, answer: &[u8]) {
        if param <= 0 {
            self.reply(answer);
        }
    }

    /// DSR.
    pub(crate) fn report_status(&mut self, private: bool, what: i32) {
        let (x, y) = (self.buffer().x + 1, self.buffer().y + 1);
        match what {
            5 if !private => self.reply(b"\x1b[0n"),
            6 => {
                let prefix = if private { "?" } else { "" };
                self.reply(format!("\x1b[{prefix}{y};{x}R").as_bytes());
            }
            _ => {}
        }
    }

    /// DECRQM for ANSI modes.
    pub(crate) fn report_mode(&mut self, mode: i32) {
        let state = match mode {
            2 => 4,
            4 => 2 - u8::from(self.modes.insert),
            12 => 3,
            20 => 2 - u8::from(self.modes.newline),
            _ => 0,
        };
        self.reply(format!("\x1b[{mode};{state}$y").as_bytes());
    }

    /// DECRQM for private modes.
    pub(crate) fn report_private_mode(&mut self, mode: i32) {
        let modes = &self.modes;
        let set = match mode {
            1 => modes.application_cursor_keys,
            6 => modes.origin,
            7 => modes.wraparound,
            9 => modes.mouse_tracking == MouseTracking::X10,
            12 => modes.cursor_blink,
            25 => modes.cursor_visible,
            45 => modes.reverse_wraparound,
            66 => modes.application_keypad,
            1000 => modes.mouse_tracking == MouseTracking::Button,
            1002 => modes.mouse_tracking == MouseTracking::Drag,
            1003 => modes.mouse_tracking == MouseTracking::Any,
            1004 => modes.focus_events,
            1006 => modes.mouse_encoding == MouseEncoding::Sgr,
            1016 => modes.mouse_encoding == MouseEncoding::SgrPixels,
            1048 => true,
            47 | 1047 | 1049 => self.is_alternate,
            2004 => modes.bracketed_paste,
            2026 => modes.synchronized_output,
            _ => {
                let state = match mode {
                    8 => 3,
                    67 | 1005 | 1015 => 4,
                    _ => 0,
                };
                self.reply(format!("\x1b[?{mode};{state}$y").as_bytes());
                return;
            }
        };
        self.reply(format!("\x1b[?{mode};{}$y", 2 - u8::from(set)).as_bytes());
    }

    /// DECRQSS.
    pub(crate) fn report_setting(&mut self, what: &[u8]) {
        let buffer = self.buffer();
        let answer = match what {
            b"\"q" => format!("1$r{}\"q", u8::from(self.pen.bg & crate::cell::PROTECTED != 0)),
            b"\"p" => "1$r61;1\"p".to_owned(),
            b"r" => format!("1$r{};{}r", buffer.top + 1, buffer.bottom + 1),
            b"m" => "1$r0m".to_owned(),
            b" q" => format!("1$r{} q", 2 - u8::from(self.modes.cursor_blink)),
            _ => "0$r".to_owned(),
        };
        self.reply(format!("\x1bP{answer}\x1b\\").as_bytes());
    }
}
