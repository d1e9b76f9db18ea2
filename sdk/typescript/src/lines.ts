// LineSearch: a text or a regular expression in the lines of an output that arrives in pieces.
import type { OutputStream } from "./types.js";

/** The longest unfinished line that is searched. */
const MAX_LINE_CHARS = 64 << 10;

/** What `waitForLog` has found. */
export interface LogMatch {
  line: string;
  stream: OutputStream;
  /** Groups, if the pattern is a regular expression. */
  match?: RegExpMatchArray;
}

export class LineSearch {
  readonly #pattern: string | RegExp;
  readonly #unfinished: Record<OutputStream, string> = { stdout: "", stderr: "" };

  constructor(pattern: string | RegExp) {
    // Global and sticky expressions would continue where the last line was left.
    this.#pattern = typeof pattern === "string" ? pattern : new RegExp(pattern, pattern.flags.replace(/[gy]/g, ""));
  }

  /** Adds output, and searches in its lines. */
  push(stream: OutputStream, data: string): LogMatch | undefined {
    const lines = (this.#unfinished[stream] + data).split("\n");
    const rest = (lines.pop() ?? "").slice(-MAX_LINE_CHARS);
    this.#unfinished[stream] = rest;
    for (const line of lines) {
      const found = this.#search(stream, line);
      if (found) return found;
    }
    // More text may follow the rest, so a match that depends on its end (`$`) does not count yet.
    const found = rest ? this.#search(stream, rest) : undefined;
    if (!found?.match) return found;
    return this.#search(stream, `${rest}\0`)?.match?.index === found.match.index ? found : undefined;
  }

  /** Searches in the last lines, which are not finished, and never will be. */
  end(): LogMatch | undefined {
    const { stdout, stderr } = this.#unfinished;
    return (stdout && this.#search("stdout", stdout)) || (stderr && this.#search("stderr", stderr)) || undefined;
  }

  #search(stream: OutputStream, line: string): LogMatch | undefined {
    if (typeof this.#pattern === "string") return line.includes(this.#pattern) ? { line, stream } : undefined;
    const match = line.match(this.#pattern);
    return match ? { line, stream, match } : undefined;
  }
}
