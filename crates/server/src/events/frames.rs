//! Events as frames of the multiplexed WebSocket.

use sandcrab_api::frame::{ServerFrame, StreamFrame};

use super::{Event, Item};

/// The frame for one item of the stream that answers request `id`. A heartbeat has no data.
pub(crate) fn stream_frame(id: &str, item: &Item) -> ServerFrame {
    let (data, event_id) = match item {
        Item::Heartbeat => (String::new(), None),
        Item::Event(event) => {
            let Event { id, payload } = &**event;
            let mut json = Vec::new();
            payload.write_json(&mut json);
            // Never fails: JSON is UTF-8.
            (String::from_utf8(json).unwrap_or_default(), id.map(|id| id.to_string()))
        }
    };
    ServerFrame::Stream(StreamFrame { id: id.into(), event: None, data, event_id })
}
