//! [`Response`]: a response, and the checks that apply to every response.

use serde_json::Value;

use crate::shape::assert_shape;

/// Status and headers of a response.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The request, for messages.
    pub(super) title: String,
}

impl Head {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A response with its whole body.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status and headers.
    pub head: Head,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the status.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{} answered no JSON ({error}): {self:?}", self.head.title),
        }
    }

    /// Returns the JSON of a successful response.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status(), 200, "{}: {}", self.head.title, self.text());
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.head.title);
        assert!(self.header("x-request-id").is_some(), "{} has no request id", self.head.title);
        self.json()
    }

    /// Returns the JSON of an error response, after checking its status, code and fields.
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
