//! [`Answer`]: what came back, and what every answer has to look like.

use serde_json::Value;

use crate::shape::assert_shape;

/// The status and the headers of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The headers, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// What was asked for, for messages.
    pub(super) title: String,
}

impl Head {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An answer with its whole body.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The status.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{} answered no JSON ({error}): {self:?}", self.head.title),
        }
    }

    /// The JSON of an answer that is not a refusal.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status(), 200, "{}: {}", self.head.title, self.text());
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.head.title);
        assert!(self.header("x-request-id").is_some(), "{} has no request id", self.head.title);
        self.json()
    }

    /// The JSON of a refusal, which has to be the one expected, and complete.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let title = &self.head.title;
        assert_eq!(self.status(), status, "{title} should be {code}: {}", self.text());
        let body = self.json();
        assert_eq!(body["code"], code, "{title}: {body}");
        self.complain_unless_complete(&body);
        body
    }

    #[track_caller]
    fn complain_unless_complete(&self, body: &Value) {
        assert_shape(
            body,
            "code:text message:text context:object httpStatus:int timestamp:time requestId:text \
             operation?:text suggestion?:text",
        );
        assert_eq!(body["httpStatus"], self.status(), "{body}");
        assert_eq!(body["requestId"].as_str(), self.header("x-request-id"), "{body}");
        assert!(!body["message"].as_str().unwrap_or_default().is_empty(), "no message: {body}");
    }
}
