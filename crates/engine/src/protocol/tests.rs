//! What older and newer sides make of each other.

use minicbor::Encode;

use super::*;

#[test]
fn frames_survive_any_split() {
    let request = Request::WriteStdin { slot: 7, bytes: Bytes(vec![0, 255, 10]), close: true, direct: None };
    let bytes = [frame(1, &request), frame(2, &Request::Snapshot)].concat();
    for cut in 0..bytes.len() {
        let mut buffer = FrameBuffer::default();
        let mut seen = Vec::new();
        for part in [&bytes[..cut], &bytes[cut..]] {
            buffer.extend(part);
            while let Some(envelope) = buffer.next::<Request>().unwrap() {
                seen.push(envelope);
            }
        }
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[0].request, &seen[0].body), (1, &request));
    }
}

#[test]
fn an_unknown_request_can_still_be_refused() {
    #[derive(Encode)]
    enum Future {
        #[n(99)]
        Teleport(#[n(0)] u32),
    }
    let mut buffer = FrameBuffer::default();
    buffer.extend(&frame(42, &Future::Teleport(1)));
    buffer.extend(&frame(43, &Request::Snapshot));
    assert_eq!(buffer.next::<Request>(), Err(FrameError::Unknown(42)));
    assert_eq!(buffer.next::<Request>().unwrap().unwrap().request, 43);
}

#[test]
fn a_field_of_a_newer_version_is_skipped() {
    #[derive(Encode)]
    enum Future {
        #[n(4)]
        Signal(#[n(0)] u32, #[n(1)] i32, #[n(2)] &'static str),
    }
    let mut buffer = FrameBuffer::default();
    buffer.extend(&frame(5, &Future::Signal(3, 15, "new")));
    let envelope = buffer.next::<Request>().unwrap().unwrap();
    assert_eq!(envelope.body, Request::Signal { slot: 3, signal: 15 });
}

#[test]
fn a_frame_longer_than_the_limit_is_refused_before_it_is_read() {
    let mut buffer = FrameBuffer::default();
    buffer.extend(&u32::MAX.to_le_bytes());
    assert!(matches!(buffer.next::<Request>(), Err(FrameError::TooLong(_))));
}
