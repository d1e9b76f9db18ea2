//! Random ids in the form of a UUID.

use rustix::rand::{GetRandomFlags, getrandom};

/// A random UUID of version 4.
pub fn uuid() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}
