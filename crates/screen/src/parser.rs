//! The state machine of escape sequences.
//!
//! It makes the same transitions as that of xterm.js: on code points, so that C1 controls are recognised in their UTF-8
//! form only. Of an unfinished sequence it keeps the meaning, not the bytes, and can write it again
//! ([`Parser::write_unfinished`]).

use crate::params::Params;

/// Longest OSC string in bytes. Longer strings are skipped.
pub(crate) const STRING_LIMIT: usize = 64 << 10;
/// Longest DECRQSS string in bytes. All that have an answer are shorter.
const REQUEST_LIMIT: usize = 16;
/// A string buffer with more capacity is released after use.
const KEPT_CAPACITY: usize = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ground,
    Escape,
    EscapeIntermediate,
    CsiEntry,
    CsiParam,
    CsiIntermediate,
    CsiIgnore,
    /// SOS, PM or APC: skipped.
    Skipped,
    Osc,
    DcsEntry,
    DcsParam,
    DcsIntermediate,
    DcsIgnore,
    DcsData,
}

/// Parts of an OSC sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OscPart {
    Number,
    Text,
    /// The sequence is invalid or too long.
    Aborted,
}

/// What to do after a code point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Print,
    Execute,
    /// A control sequence has ended: [`Parser::params`], [`Parser::collected`].
    Csi,
    /// An escape sequence has ended: [`Parser::collected`].
    Esc,
    /// An OSC sequence has ended: [`Parser::take_osc`].
    Osc,
    /// A DECRQSS string has ended: [`Parser::text`].
    Request,
    /// An OSC or DCS sequence without effect has ended.
    EndString,
}

#[derive(Clone, Debug)]
pub(crate) struct Parser {
    pub(crate) state: State,
    pub(crate) params: Params,
    /// Prefix and intermediates, the last one in the lowest byte.
    collect: u32,
    osc_part: OscPart,
    osc_number: Option<u32>,
    text: Vec<u8>,
    /// The DCS string is a DECRQSS request.
    is_request: bool,
}

impl Parser {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Ground,
            params: Params::new(),
            collect: 0,
            osc_part: OscPart::Number,
            osc_number: None,
            text: Vec::new(),
            is_request: false,
        }
    }

    /// Prefix and intermediates of the sequence, the last one in the lowest byte.
    pub(crate) fn collected(&self) -> u32 {
        self.collect
    }

    /// The text of a DECRQSS request.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Memory of the string in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.text.capacity()
    }

    /// Number and text of the OSC sequence that has ended. The caller gives the text back with [`Parser::recycle`].
    pub(crate) fn take_osc(&mut self) -> (Option<u32>, Vec<u8>) {
        (self.osc_number, std::mem::take(&mut self.text))
    }

    /// Keeps the memory of a string for the next one, if it is small.
    pub(crate) fn recycle(&mut self, mut text: Vec<u8>) {
        if text.capacity() <= KEPT_CAPACITY {
            text.clear();
            self.text = text;
        }
    }

    fn clear(&mut self) {
        self.params.reset();
        self.collect = 0;
    }

    fn collect(&mut self, code: u32) {
        self.collect = self.collect << 8 | code & 0xff;
    }

    fn start_osc(&mut self) {
        self.osc_part = OscPart::Number;
        self.osc_number = None;
        self.text.clear();
    }

    /// Interprets one code point.
    pub(crate) fn step(&mut self, code: u32) -> Action {
        match code {
            0x1b | 0x18 | 0x1a | 0x9c if matches!(self.state, State::Osc | State::DcsData) => {
                self.end_string(code)
            }
            0x18 | 0x1a | 0x99 | 0x9a | 0x80..=0x8f | 0x91..=0x97 => {
                self.state = State::Ground;
                Action::Execute
            }
            0x1b => self.enter(State::Escape),
            0x90 => self.enter(State::DcsEntry),
            0x9b => self.enter(State::CsiEntry),
            0x9c => {
                self.state = State::Ground;
                Action::Nothing
            }
            0x9d => {
                self.start_osc();
                self.go(State::Osc)
            }
            0x98 | 0x9e | 0x9f => self.go(State::Skipped),
            _ => self.step_in_state(code),
        }
    }

    fn enter(&mut self, state: State) -> Action {
        self.clear();
        self.go(state)
    }

    fn go(&mut self, state: State) -> Action {
        self.state = state;
        Action::Nothing
    }

    fn finish(&mut self, action: Action) -> Action {
        self.state = State::Ground;
        action
    }

    fn step_in_state(&mut self, code: u32) -> Action {
        match self.state {
            State::Ground => match code {
                0..=0x1f => Action::Execute,
                0x7f => Action::Nothing,
                _ => Action::Print,
            },
            State::Escape => match code {
                0..=0x1f => Action::Execute,
                0x20..=0x2f => {
                    self.collect(code);
                    self.go(State::EscapeIntermediate)
                }
                0x50 => self.enter(State::DcsEntry),
                0x5b => self.enter(State::CsiEntry),
                0x5d => {
                    self.start_osc();
                    self.go(State::Osc)
                }
                0x58 | 0x5e | 0x5f => self.go(State::Skipped),
                0x30..=0x7e => self.finish(Action::Esc),
                0x7f => Action::Nothing,
                _ => self.finish(Action::Nothing),
            },
            State::EscapeIntermediate => match code {
                0..=0x1f => Action::Execute,
                0x20..=0x2f => {
                    self.collect(code);
                    Action::Nothing
                }
                0x30..=0x7e => self.finish(Action::Esc),
                0x7f => Action::Nothing,
                _ => self.finish(Action::Nothing),
            },
            State::CsiEntry | State::CsiParam | State::CsiIntermediate | State::CsiIgnore => {
                self.step_csi(code)
            }
            State::Skipped => match code {
                0..=0x7f => Action::Nothing,
                _ => self.finish(Action::Nothing),
            },
            State::Osc => self.step_osc(code),
            State::DcsEntry
            | State::DcsParam
            | State::DcsIntermediate
            | State::DcsIgnore
            | State::DcsData => self.step_dcs(code),
        }
    }

    fn step_csi(&mut self, code: u32) -> Action {
        let state = self.state;
        match code {
            0..=0x1f => Action::Execute,
            0x40..=0x7e => self.finish(if state == State::CsiIgnore { Action::Nothing } else { Action::Csi }),
            _ if state == State::CsiIgnore => Action::Nothing,
            0x7f => Action::Nothing,
            0x20..=0x2f => {
                self.collect(code);
                self.go(State::CsiIntermediate)
            }
            0x30..=0x3b if state != State::CsiIntermediate => {
                self.params.put(code.to_le_bytes()[0]);
                self.go(State::CsiParam)
            }
            0x3c..=0x3f if state == State::CsiEntry => {
                self.collect(code);
                self.go(State::CsiParam)
            }
            0x30..=0x3f => self.go(State::CsiIgnore),
            _ => self.finish(Action::Nothing),
        }
    }

    fn step_dcs(&mut self, code: u32) -> Action {
        let state = self.state;
        match code {
            0..=0x1f if state != State::DcsData => Action::Nothing,
            _ if state == State::DcsData => {
                if self.is_request && code != 0x7f && self.text.len() < REQUEST_LIMIT {
                    self.put(code);
                }
                Action::Nothing
            }
            _ if state == State::DcsIgnore => Action::Nothing,
            0x7f => Action::Nothing,
            0x40..=0x7e => {
                self.is_request = self.collect == u32::from(b'$') && code == u32::from(b'q');
                self.text.clear();
                self.go(State::DcsData)
            }
            0x20..=0x2f => {
                self.collect(code);
                self.go(State::DcsIntermediate)
            }
            0x30..=0x3b if state != State::DcsIntermediate => {
                self.params.put(code.to_le_bytes()[0]);
                self.go(State::DcsParam)
            }
            0x3c..=0x3f if state == State::DcsEntry => {
                self.collect(code);
                self.go(State::DcsParam)
            }
            0x30..=0x3f => self.go(State::DcsIgnore),
            _ => self.finish(Action::Nothing),
        }
    }

    fn put(&mut self, code: u32) {
        if let Some(character) = char::from_u32(code) {
            self.text.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    fn step_osc(&mut self, code: u32) -> Action {
        match (self.osc_part, code) {
            (_, 7) => return self.end_string(code),
            (_, 0..=0x1f) | (OscPart::Aborted, _) => {}
            (OscPart::Number, 0x3b) => self.osc_part = OscPart::Text,
            (OscPart::Number, 0x30..=0x39) => {
                let number = self.osc_number.unwrap_or(0);
                self.osc_number = Some(number.saturating_mul(10).saturating_add(code - 0x30));
            }
            (OscPart::Number, _) => self.osc_part = OscPart::Aborted,
            (OscPart::Text, _) if self.text.len() >= STRING_LIMIT => {
                self.osc_part = OscPart::Aborted;
                self.text = Vec::new();
            }
            (OscPart::Text, _) => self.put(code),
        }
        Action::Nothing
    }

    /// Ends an OSC or DCS string. CAN and SUB cancel it.
    fn end_string(&mut self, code: u32) -> Action {
        let cancelled = matches!(code, 0x18 | 0x1a);
        let effective = match self.state {
            State::Osc => self.osc_part != OscPart::Aborted,
            _ => self.is_request,
        };
        let action = match self.state {
            _ if cancelled || !effective => Action::EndString,
            State::Osc => Action::Osc,
            _ => Action::Request,
        };
        self.clear();
        self.state = if code == 0x1b { State::Escape } else { State::Ground };
        action
    }

    /// Writes bytes that bring a terminal that is between sequences into the present state.
    pub(crate) fn write_unfinished(&self, out: &mut Vec<u8>) {
        let intermediates = |out: &mut Vec<u8>, prefix: bool| {
            let bytes = self.collect.to_be_bytes().into_iter().filter(|&byte| byte != 0);
            out.extend(bytes.filter(|byte| (0x3c..=0x3f).contains(byte) == prefix));
        };
        let parameters = |out: &mut Vec<u8>, introducer: u8| {
            out.extend([0x1b, introducer]);
            intermediates(out, true);
            self.params.write(out);
        };
        match self.state {
            State::Ground => {}
            State::Escape => out.push(0x1b),
            State::EscapeIntermediate => {
                out.push(0x1b);
                intermediates(out, false);
            }
            State::CsiEntry => out.extend(b"\x1b["),
            State::CsiParam => parameters(out, b'['),
            State::CsiIntermediate => {
                parameters(out, b'[');
                intermediates(out, false);
            }
            State::CsiIgnore => out.extend(b"\x1b[0<"),
            // SOS: of the skipped strings, the one that no terminal interprets.
            State::Skipped => out.extend(b"\x1bX"),
            State::Osc => {
                out.extend(b"\x1b]");
                if self.osc_part == OscPart::Aborted {
                    out.push(b'!');
                    return;
                }
                if let Some(number) = self.osc_number {
                    out.extend(number.to_string().as_bytes());
                }
                if self.osc_part == OscPart::Text {
                    out.push(b';');
                    out.extend(&self.text);
                }
            }
            State::DcsEntry => out.extend(b"\x1bP"),
            State::DcsParam => parameters(out, b'P'),
            State::DcsIntermediate => {
                parameters(out, b'P');
                intermediates(out, false);
            }
            State::DcsIgnore => out.extend(b"\x1bP0<"),
            State::DcsData if self.is_request => {
                out.extend(b"\x1bP$q");
                out.extend(&self.text);
            }
            // The beginning of an image is lost; a string without meaning keeps its rest from being shown.
            State::DcsData => out.extend(b"\x1bPz"),
        }
    }
}
