// Bytes, base64 and ids, with what Node, browsers, Bun and Deno have in common.

/** Size of the pieces in which bytes become a string: a call has a limited number of arguments. */
const PIECE = 0x8000;

export function encodeBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) {
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  }
  return btoa(text);
}

export function decodeBase64(text: string): Uint8Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

const encoder = new TextEncoder();

export function toBytes(data: string | Uint8Array): Uint8Array {
  return typeof data === "string" ? encoder.encode(data) : data;
}

export function concat(parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** An id that no other call has. `crypto.randomUUID` is missing on pages that are not served over https. */
export function newId(prefix: string): string {
  let id = `${prefix}-`;
  for (const byte of crypto.getRandomValues(new Uint8Array(10))) id += byte.toString(16).padStart(2, "0");
  return id;
}
