// Search, replace and watch.
import { Files } from "./files.js";
import { events } from "./stream.js";
import type { Options, Schemas, SearchEvent, WatchEvent } from "./types.js";

export type SearchResult = Schemas["SearchResponse"];
export type SearchMatch = Schemas["SearchMatch"];
export type FindResult = Schemas["FindResponse"];
export type ReplaceResult = Schemas["ReplaceResponse"];
export type WatchCheck = Schemas["WatchCheckResponse"];

/** `path` is the workspace by default. */
export type SearchOptions = Options<"SearchRequest", "pattern">;
export type FindOptions = Options<"FindRequest">;
export type ReplaceOptions = Options<"ReplaceRequest", "pattern" | "replacement">;
export type WatchOptions = Options<"WatchRequest", "path" | "timeoutMs"> & {
  /** Ends the watch after this time, in milliseconds. */
  timeout?: number | undefined;
};
export type WatchCheckOptions = Options<"WatchCheckRequest", "path">;

export class Searches extends Files {
  /** The lines that match, sorted by path and line. The pattern is a text unless `regex` is true. */
  search(pattern: string, options: SearchOptions = {}): Promise<SearchResult> {
    return this.post("/api/search", { ...options, path: options.path ?? ".", pattern }, true);
  }

  /** The lines that match, as they are found: `match` events, then `complete`. */
  searchStream(pattern: string, options: SearchOptions = {}): AsyncGenerator<SearchEvent, void, void> {
    const { signal, ...rest } = options;
    const json = { ...rest, path: options.path ?? ".", pattern, sessionId: this.sessionOf(options) };
    const request = { method: "POST", path: "/api/search", json, signal };
    return events<SearchEvent>(this.client, { ...request, last: ["complete"], resume: false });
  }

  /** Paths by name and type. */
  find(options: FindOptions = {}): Promise<FindResult> {
    return this.post("/api/find", { ...options, path: options.path ?? "." }, true);
  }

  /** Replaces in all files that match. Each file is replaced atomically. */
  replace(pattern: string, replacement: string, options: ReplaceOptions = {}): Promise<ReplaceResult> {
    return this.post("/api/replace", { ...options, path: options.path ?? ".", pattern, replacement });
  }

  /**
   * The changes of a directory or file. After a lost connection, or a restart of the server, a second `watching` event and a
   * `resync` with the reason `reconnected` tell that changes may be missing. Leaving the loop ends the watch.
   */
  async *watch(path: string, options: WatchOptions = {}): AsyncGenerator<WatchEvent, void, void> {
    const { signal, timeout, ...rest } = options;
    const json = { ...rest, path, timeoutMs: timeout, sessionId: this.sessionOf(options) };
    const request = { method: "POST", path: "/api/watch", json, signal };
    let isWatching = false;
    for await (const event of events<WatchEvent>(this.client, { ...request, last: ["stopped"] })) {
      yield event;
      if (event.type !== "watching") continue;
      if (isWatching) yield { type: "resync", reason: "reconnected", timestamp: event.timestamp };
      isWatching = true;
    }
  }

  /** Whether a directory has changed since the `version` of an earlier answer. */
  checkChanges(path: string, options: WatchCheckOptions = {}): Promise<WatchCheck> {
    return this.post("/api/watch/check", { ...options, path }, true);
  }
}
