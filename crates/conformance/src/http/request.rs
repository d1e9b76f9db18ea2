//! [`Request`]: an HTTP request.

use serde_json::Value;

/// A request. [`Target`](super::Target) adds host and token unless the request sets them.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Creates a request without a body.
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Self { method: method.to_owned(), path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// Creates a `GET` request.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    /// Creates a `POST` request with JSON.
    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new("POST", path).header("content-type", "application/json").body(body.to_string())
    }

    /// Adds a header. It replaces one that [`Target`](super::Target) would add; an empty value omits it.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Returns method and path, for messages. For a preview, which has paths of its own, with the host.
    pub(super) fn title(&self) -> String {
        let is_preview =
            |host: &&str| host.starts_with(|c: char| c.is_ascii_digit()) && host.contains(".localhost");
        let own = self.headers.iter().find(|(name, _)| name == "host").map(|(_, host)| host.as_str());
        match own.filter(is_preview) {
            Some(host) => format!("{} http://{host}{}", self.method, self.path),
            None => format!("{} {}", self.method, self.path),
        }
    }

    /// Returns the request as bytes. The defaults apply to headers that it does not set.
    pub(super) fn encode(&self, defaults: &[(&str, String)]) -> Vec<u8> {
        let is_own = |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let mut push = |name: &str, value: &str| {
            if !value.is_empty() {
                head.extend([name, ": ", value, "\r\n"]);
            }
        };
        for (name, value) in defaults.iter().filter(|(name, _)| !is_own(name)) {
            push(name, value);
        }
        for (name, value) in &self.headers {
            push(name, value);
        }
        let has_body = !self.body.is_empty() || self.method == "POST";
        if has_body && !is_own("content-length") && !is_own("transfer-encoding") {
            push("content-length", &self.body.len().to_string());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(&self.body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_give_way() {
        let request = Request::get("/x").header("host", "evil").header("authorization", "");
        let bytes = request.encode(&[("host", "here".to_owned()), ("authorization", "Bearer t".to_owned())]);
        assert_eq!(String::from_utf8(bytes).unwrap(), "GET /x HTTP/1.1\r\nhost: evil\r\n\r\n");
    }
}
