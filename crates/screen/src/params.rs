//! Parameters of control sequences.

/// Largest number of parameters, and of sub-parameters. Further ones are ignored.
pub(crate) const PARAMS_LIMIT: usize = 32;

/// Parameters separated by `;`, with sub-parameters separated by `:`.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    values: [i32; PARAMS_LIMIT],
    len: u8,
    subs: [i32; PARAMS_LIMIT],
    subs_len: u8,
    /// The end of each parameter's sub-parameters in `subs`; they begin at the end of the previous one's.
    subs_end: [u8; PARAMS_LIMIT],
    in_sub: bool,
    reject: bool,
    reject_sub: bool,
}

impl Params {
    /// One parameter, 0.
    pub(crate) fn new() -> Self {
        Self {
            values: [0; PARAMS_LIMIT],
            len: 1,
            subs: [0; PARAMS_LIMIT],
            subs_len: 0,
            subs_end: [0; PARAMS_LIMIT],
            in_sub: false,
            reject: false,
            reject_sub: false,
        }
    }

    /// Back to one parameter, 0.
    pub(crate) fn reset(&mut self) {
        self.values[0] = 0;
        self.len = 1;
        self.subs_len = 0;
        self.subs_end[0] = 0;
        self.in_sub = false;
        self.reject = false;
        self.reject_sub = false;
    }

    /// Interprets a digit, `;` or `:`.
    pub(crate) fn put(&mut self, byte: u8) {
        match byte {
            b';' => self.next(),
            b':' => self.next_sub(),
            _ => self.digit(i32::from(byte) - i32::from(b'0')),
        }
    }

    fn next(&mut self) {
        self.in_sub = false;
        let at = usize::from(self.len);
        if at >= PARAMS_LIMIT {
            self.reject = true;
            return;
        }
        self.values[at] = 0;
        self.subs_end[at] = self.subs_len;
        self.len += 1;
    }

    fn next_sub(&mut self) {
        self.in_sub = true;
        let at = usize::from(self.subs_len);
        if self.reject || at >= PARAMS_LIMIT {
            self.reject_sub = true;
            return;
        }
        self.subs[at] = -1;
        self.subs_len += 1;
        self.subs_end[usize::from(self.len) - 1] = self.subs_len;
    }

    fn digit(&mut self, digit: i32) {
        if self.reject || (self.in_sub && (self.reject_sub || self.subs_len == 0)) {
            return;
        }
        let value = if self.in_sub {
            &mut self.subs[usize::from(self.subs_len) - 1]
        } else {
            &mut self.values[usize::from(self.len) - 1]
        };
        *value = if *value == -1 { digit } else { value.saturating_mul(10).saturating_add(digit) };
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// A parameter, or 0 if there is none.
    pub(crate) fn get(&self, at: usize) -> i32 {
        if at < self.len() { self.values[at] } else { 0 }
    }

    /// A parameter that counts something: at least 1.
    pub(crate) fn count(&self, at: usize) -> usize {
        usize::try_from(self.get(at)).unwrap_or(0).max(1)
    }

    pub(crate) fn subs(&self, at: usize) -> &[i32] {
        if at >= self.len() {
            return &[];
        }
        let start = if at == 0 { 0 } else { self.subs_end[at - 1] };
        &self.subs[usize::from(start)..usize::from(self.subs_end[at])]
    }

    /// The bytes that lead to these parameters.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for at in 0..self.len() {
            if at > 0 {
                out.push(b';');
            }
            out.extend(self.get(at).to_string().as_bytes());
            for &sub in self.subs(at) {
                out.push(b':');
                if sub >= 0 {
                    out.extend(sub.to_string().as_bytes());
                }
            }
        }
        if self.reject {
            out.push(b';');
        }
        if self.reject_sub && self.in_sub {
            out.push(b':');
        }
    }
}
