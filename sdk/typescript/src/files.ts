// Files and folders of the sandbox.
import { encodeBase64 } from "./bytes.js";
import { invalid } from "./check.js";
import { Processes } from "./processes.js";
import { events } from "./stream.js";
import type { FileEvent, InSession, Options, Schemas } from "./types.js";

export type FileContent = Schemas["FileContent"];
export type FileList = Schemas["FileList"];
export type FileEntry = Schemas["FileEntry"];
export type FileStat = Schemas["FileStat"];
export type FileDone = Schemas["FileDone"];
export type Written = Schemas["Written"];
export type Moved = Schemas["Moved"];
export type FolderWritten = Schemas["FolderWritten"];

/** What can be sent as the content of a file. */
export type Content = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

export interface WriteOptions extends InSession {
  /** `base64`: the content is base64 text. Only for text. */
  encoding?: Schemas["FileEncoding"] | undefined;
  /** Mode, for example `0644`. */
  mode?: string | undefined;
  /** Write at the end, not atomically. Not for streams. */
  append?: boolean | undefined;
}

export interface PutOptions extends InSession {
  mode?: string | undefined;
  /** Write only if the file still has this entity tag. */
  ifMatch?: string | undefined;
  /** `*`: write only if the file does not exist. */
  ifNoneMatch?: string | undefined;
}

export interface FolderOptions extends InSession {
  /** Default: `tar`; an archive that is sent is recognized. */
  format?: "tar" | "tar.zst" | undefined;
}

type TransferOptions = InSession & { overwrite?: boolean | undefined };
type Format = { query: Record<string, string | undefined>; signal?: AbortSignal | undefined };

export class Files extends Processes {
  /** The content of a file of at most 32 MiB: text, or base64 if it is binary or asked for. */
  readFile(path: string, options: Options<"ReadRequest", "path"> = {}): Promise<FileContent> {
    return this.post("/api/read", { ...options, path }, true);
  }

  /** The content of a file of any size, as events. */
  readFileStream(path: string, options: InSession = {}): AsyncGenerator<FileEvent, void, void> {
    const json = { path, sessionId: this.sessionOf(options) };
    const request = { method: "POST", path: "/api/read/stream", json, signal: options.signal };
    return events<FileEvent>(this.client, { ...request, last: ["complete"], resume: false });
  }

  /** The bytes of a file of any size. */
  readBytes(
    path: string,
    options: InSession & { range?: string | undefined } = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const headers = { range: options.range };
    return this.client.bytes("/api/file", { ...this.#file(path, options), headers });
  }

  /** Writes a file atomically, and creates its parents. A stream or Blob is sent as it is, of any size. */
  async writeFile(path: string, content: Content, options: WriteOptions = {}): Promise<Written> {
    if (typeof content === "string") return this.post("/api/write", { ...options, path, content });
    if (options.encoding === "base64") throw invalid("the encoding base64 is for text: give the content as a string");
    if (options.append) {
      if (content instanceof ReadableStream) throw invalid("a stream cannot be appended: give text, bytes or a Blob");
      const bytes = content instanceof Uint8Array ? content : new Uint8Array(await content.arrayBuffer());
      return this.post("/api/write", { ...options, path, content: encodeBase64(bytes), encoding: "base64" });
    }
    const { mode, sessionId, signal } = options;
    return this.putFile(path, content, { ...(mode && { mode }), ...(sessionId && { sessionId }), signal });
  }

  /** Writes the bytes of a file of any size atomically, under conditions. */
  putFile(path: string, content: Exclude<Content, string>, options: PutOptions = {}): Promise<Written> {
    const { query, signal } = this.#file(path, options);
    const headers = { "if-match": options.ifMatch, "if-none-match": options.ifNoneMatch };
    const request = { query: { ...query, mode: options.mode }, headers, body: content, signal };
    return this.client.json("PUT", "/api/file", request);
  }

  /** A folder as one archive. */
  readFolder(path: string, options: FolderOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { query, signal } = this.#file(path, options);
    return this.client.bytes("/api/folder", {
      query: { ...query, format: options.format },
      signal,
    });
  }

  /** Replaces a folder by the content of an archive. */
  writeFolder(path: string, archive: Exclude<Content, string>, options: FolderOptions = {}): Promise<FolderWritten> {
    const { query, signal } = this.#file(path, options);
    const request = { query: { ...query, format: options.format }, body: archive, signal };
    return this.client.json("PUT", "/api/folder", request);
  }

  /** The entries of a directory. */
  listFiles(path: string, options: Options<"ListOptions"> = {}): Promise<FileList> {
    const { signal, sessionId, ...rest } = options;
    return this.post("/api/list-files", { path, options: rest, sessionId, signal }, true);
  }

  exists(path: string, options: InSession = {}): Promise<Schemas["Exists"]> {
    return this.post("/api/exists", { ...options, path }, true);
  }

  stat(path: string, options: InSession = {}): Promise<FileStat> {
    return this.post("/api/stat", { ...options, path }, true);
  }

  mkdir(path: string, options: InSession & { recursive?: boolean | undefined } = {}): Promise<FileDone> {
    return this.post("/api/mkdir", { ...options, path });
  }

  /** Deletes a file; a directory with `recursive`. */
  deleteFile(path: string, options: InSession & { recursive?: boolean | undefined } = {}): Promise<FileDone> {
    return this.post("/api/delete", { ...options, path });
  }

  renameFile(oldPath: string, newPath: string, options: TransferOptions = {}): Promise<Moved> {
    return this.post("/api/rename", { ...options, oldPath, newPath });
  }

  moveFile(sourcePath: string, destinationPath: string, options: TransferOptions = {}): Promise<Moved> {
    return this.post("/api/move", { ...options, sourcePath, destinationPath });
  }

  copyFile(sourcePath: string, destinationPath: string, options: TransferOptions = {}): Promise<Moved> {
    return this.post("/api/copy", { ...options, sourcePath, destinationPath });
  }

  /** Changes the mode, for example `0644`. */
  chmod(path: string, mode: string, options: InSession = {}): Promise<FileDone> {
    return this.post("/api/chmod", { ...options, path, mode });
  }

  #file(path: string, options: InSession): Format {
    return { query: { path, sessionId: this.sessionOf(options) }, signal: options.signal };
  }
}
