// Checks of what the program gives, before anything is sent.
import { errorOf, type SandcrabError } from "./errors.js";

/** The error for a value that cannot be used. */
export function invalid(message: string): SandcrabError {
  return errorOf({ code: "VALIDATION_FAILED", message });
}

/** A number that is not below `least`, which NaN is. */
export function atLeast(least: number, name: string, value: number): number {
  if (value >= least) return value;
  throw invalid(`invalid ${name} ${value}: expected a number of at least ${least}`);
}

/** The JSON of a value. JSON has no NaN and no infinite numbers, and would leave them out. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(value, (name, field) => {
    if (typeof field !== "number" || Number.isFinite(field)) return field;
    throw invalid(`invalid ${name} ${field}: expected a finite number`);
  });
}

/** The characters of the name of a header, and of a subprotocol. */
export const NAME = /^[\w!#$%&'*+.^`|~-]+$/;

/** The headers of every request. An error shows no value, which may be a secret. */
export function headersOf(
  given: Record<string, string> | undefined,
  token: string | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given ?? {})) {
    if (!NAME.test(name) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw invalid(`invalid header ${JSON.stringify(name)}: it has characters that a header cannot have`);
    }
    headers[name.toLowerCase()] = value;
  }
  if (token) headers.authorization = `Bearer ${token}`;
  return headers;
}

/** A token without the white space around it, such as the line break of a file. An error does not show it. */
export function tokenOf(given: string | undefined): string | undefined {
  const token = given?.trim();
  if (token && !/^[\x21-\x7e]+$/.test(token))
    throw invalid("invalid token: it has characters that a token cannot have");
  return token || undefined;
}

/** A base URL without slashes at its end. An error does not show what may be a password. */
export function baseUrlOf(given: string | URL): string {
  const text = String(given);
  // A user is refused by `fetch`, and shown in its errors.
  if (/^https?:\/\/[^\s/?#@]+(\/[^?#@]*)?$/.test(text)) return text.replace(/\/+$/, "");
  throw invalid(`invalid base URL ${text.replace(/^.*@/s, "…@")}: expected http://HOST:PORT or https://HOST`);
}
