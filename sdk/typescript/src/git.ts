// Git repositories of the sandbox.
import { Services } from "./service.js";
import { events } from "./stream.js";
import type { GitEvent, Options, Schemas } from "./types.js";

export type GitStatus = Schemas["GitStatus"];
export type GitDiff = Schemas["GitDiff"];
export type GitLog = Schemas["GitLog"];
export type GitBranches = Schemas["GitBranches"];
export type GitCommitResult = Schemas["GitCommitResult"];
export type GitSyncResult = Schemas["GitSyncResult"];
export type GitCheckoutResult = Pick<Schemas["GitCheckoutResult"], "repoUrl" | "branch" | "targetDir"> & {
  success: true;
};

/** `path` is the repository; the working directory by default. */
export type GitOptions = Options<"GitRequest">;
export type GitCheckoutOptions = Options<"GitCheckoutRequest", "repoUrl" | "timeoutMs"> & {
  /** Give up after this time, in milliseconds. Default: 10 minutes. */
  timeout?: number | undefined;
  onProgress?: ((phase: string, percent: number) => void) | undefined;
};
export type GitSyncOptions = Options<"GitSyncRequest", "timeoutMs"> & { timeout?: number | undefined };

export class Git extends Services {
  /** Clones a repository. It appears under its name when it is complete. */
  async gitCheckout(repoUrl: string, options: GitCheckoutOptions = {}): Promise<GitCheckoutResult> {
    const { signal, timeout, onProgress, ...rest } = options;
    const json = { ...rest, repoUrl, timeoutMs: timeout, sessionId: this.sessionOf(options) };
    const request = { method: "POST", path: "/api/git/checkout", json, signal };
    // As a stream, a long clone is not a silent connection.
    for await (const event of events<GitEvent>(this.client, { ...request, last: ["complete"], resume: false })) {
      if (event.type === "progress") onProgress?.(event.phase, event.percent);
      if (event.type === "complete") return { ...event, success: true };
    }
    throw new Error("unreachable: a stream ends with its last event");
  }

  gitStatus(options: GitOptions = {}): Promise<GitStatus> {
    return this.post("/api/git/status", options, true);
  }

  gitDiff(options: Options<"GitDiffRequest"> = {}): Promise<GitDiff> {
    return this.post("/api/git/diff", options, true);
  }

  gitLog(options: Options<"GitLogRequest"> = {}): Promise<GitLog> {
    return this.post("/api/git/log", options, true);
  }

  gitBranches(options: GitOptions = {}): Promise<GitBranches> {
    return this.post("/api/git/branches", options, true);
  }

  /** Stages files; all of them without `paths`. */
  async gitAdd(options: Options<"GitAddRequest"> = {}): Promise<void> {
    await this.post("/api/git/add", options);
  }

  gitCommit(message: string, options: Options<"GitCommitRequest", "message"> = {}): Promise<GitCommitResult> {
    return this.post("/api/git/commit", { ...options, message });
  }

  /** Advances the current branch (`--ff-only`). */
  gitPull(options: GitSyncOptions = {}): Promise<GitSyncResult> {
    const { timeout, ...rest } = options;
    return this.post("/api/git/pull", { ...rest, timeoutMs: timeout });
  }

  gitPush(options: GitSyncOptions = {}): Promise<GitSyncResult> {
    const { timeout, ...rest } = options;
    return this.post("/api/git/push", { ...rest, timeoutMs: timeout });
  }
}
