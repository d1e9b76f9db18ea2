// Tools for the Vercel AI SDK (the package `ai`, version 5 or later): a language model uses the sandbox.
import { jsonSchema, type Tool, tool } from "ai";
import { toBytes } from "./bytes.js";
import type { SandcrabError } from "./errors.js";
import type { Sandbox } from "./sandbox.js";
import type { Session } from "./session.js";
import type { OutputStream } from "./types.js";

/** About 8,000 tokens. */
const DEFAULT_OUTPUT_BYTES = 32 << 10;
/** A result has room for one character, so that every call makes progress. */
const MAX_CHARACTER_BYTES = 4;
const DEFAULT_TIMEOUT_MS = 120_000;
const MAX_WAIT_MS = 600_000;
const DEFAULT_ENTRIES = 200;
const DEFAULT_MATCHES = 50;

export interface SandboxToolsOptions {
  /** Most bytes of text in a result. Default: 32 KiB. */
  maxOutputBytes?: number | undefined;
  /** Timeout of commands that give none, in milliseconds. Default: 2 minutes. */
  timeout?: number | undefined;
}

/** Output of a command. A long one has a note in place of its middle. */
export interface ExecOutput {
  exitCode: number;
  stdout: string;
  stderr: string;
  timedOut: boolean;
  executionId: string;
}

/** A part of the output of a process. `cursor` continues after it. */
export interface ProcessOutput {
  output: string;
  cursor: string | undefined;
  /** Whether more output can be read at once. */
  more: boolean;
  running: boolean;
  exitCode: number | undefined;
  /** Whether the text that was waited for is in this part. */
  matched: boolean | undefined;
}

const text = (description: string) => ({ type: "string", description }) as const;
const number = (description: string) => ({ type: "integer", minimum: 0, description }) as const;
const flag = (description: string) => ({ type: "boolean", description }) as const;
const texts = (description: string) => ({ type: "array", items: { type: "string" }, description }) as const;

type Property = ReturnType<typeof text | typeof number | typeof flag | typeof texts>;

/** A tool. The AI SDK shows its errors to the model, so they say what to do. */
function define<I extends object, O>(
  description: string,
  required: (keyof I & string)[],
  properties: Record<keyof I & string, Property>,
  run: (input: I, signal: AbortSignal | undefined) => Promise<O>,
): Tool<I, O> {
  const inputSchema = jsonSchema<I>({ type: "object", properties, required, additionalProperties: false });
  const execute = async (input: I, { abortSignal }: { abortSignal?: AbortSignal }): Promise<O> => {
    try {
      return await run(input, abortSignal);
    } catch (error) {
      // Not `instanceof`: this file is a bundle of its own, with other classes than the sandbox.
      const { name, code, message, suggestion } = error as SandcrabError;
      if (name === "AbortError" || !code) throw error;
      throw new Error(`${code}: ${message}${suggestion ? `\nWhat to do: ${suggestion}` : ""}`, { cause: error });
    }
  };
  // The type of a tool depends on whether it has a result, which is not known of `O`.
  return tool({ description, inputSchema, execute } as unknown as Tool<I, O>);
}

/**
 * Tools for `generateText` and `streamText`, with the names of those of `sandcrab mcp`. With a session, commands keep their
 * state. Aborting the call of the model ends the command that runs.
 */
export function sandboxTools(target: Sandbox | Session, options: SandboxToolsOptions = {}) {
  const { maxOutputBytes = DEFAULT_OUTPUT_BYTES, timeout = DEFAULT_TIMEOUT_MS } = options;
  const maxBytes = Math.max(maxOutputBytes, MAX_CHARACTER_BYTES);
  return {
    exec: define<{ command: string; args?: string[]; cwd?: string; stdin?: string; timeoutMs?: number }, ExecOutput>(
      "Run a command, wait for its end, and return its output and exit code. A command that fails is not an error: look at the exit code. Use process_start for servers and other long work.",
      ["command"],
      {
        command: text("Shell text for bash; or, with `args`, a program that is run without a shell."),
        args: texts("Arguments of the program."),
        cwd: text("Working directory."),
        stdin: text("Text for standard input. Default: empty."),
        timeoutMs: number(`The command is ended after this many milliseconds. Default: ${timeout}.`),
      },
      async ({ command, args, timeoutMs, ...rest }, signal) => {
        const how = { ...rest, timeout: timeoutMs ?? timeout, maxOutputBytes, signal };
        const result = await (args ? target.exec(command, args, how) : target.exec(command, how));
        const { exitCode, timedOut, executionId, truncated } = result;
        const noted = (stream: OutputStream) =>
          withNote(result[stream], truncated?.[`${stream}AfterBytes`], truncated?.[`${stream}Bytes`], executionId);
        return { exitCode, stdout: noted("stdout"), stderr: noted("stderr"), timedOut, executionId };
      },
    ),

    process_start: define<{ command: string; args?: string[]; cwd?: string }, { id: string; pid: number | undefined }>(
      "Start a process in the background and return its id. It continues until it ends by itself or process_kill ends it.",
      ["command"],
      {
        command: text("Shell text for bash; or, with `args`, a program that is run without a shell."),
        args: texts("Arguments of the program."),
        cwd: text("Working directory."),
      },
      async ({ command, args, ...rest }, signal) => {
        const how = { ...rest, signal };
        const { id, pid } = await (args ? target.startProcess(command, args, how) : target.startProcess(command, how));
        return { id, pid };
      },
    ),

    process_output: define<{ id: string; cursor?: string; waitMs?: number; until?: string }, ProcessOutput>(
      "Read the output of a process, from a cursor on, and its status. With `waitMs`, wait for its end or for a text such as a server's start message. Also reads the whole output of exec that was cut.",
      ["id"],
      {
        id: text("Id of a process, or of an execution of exec."),
        cursor: text("Cursor of an earlier result, to continue there. Default: the beginning."),
        waitMs: number("Wait for at most this many milliseconds, 600000 at most. Default: 0, return what there is."),
        until: text("With `waitMs`: stop waiting when this text appears in the new output."),
      },
      (input, signal) => readOutput(target, input, maxBytes, signal),
    ),

    process_kill: define<{ id: string }, { ended: number }>(
      "End a process and everything that it has started, also what a finished command has left running.",
      ["id"],
      { id: text("Id of a process, or of an execution of exec.") },
      async ({ id }, signal) => ({ ended: (await target.killProcess(id, { signal })).killed.length }),
    ),

    file_read: define<{ path: string; startLine?: number; endLine?: number; cursor?: string }, string>(
      "Read a text file, or a range of its lines. A long file is cut, and the result says at which line or cursor to continue.",
      ["path"],
      {
        path: text("The file."),
        startLine: number("First line, from 1. Default: 1."),
        endLine: number("Last line. Default: the last one of the file."),
        cursor: text("Cursor of an earlier result, to continue within a line that was cut."),
      },
      async ({ path, ...range }, signal) => readLines(await readText(target, path, signal), range, maxBytes),
    ),

    file_write: define<{ path: string; content: string; append?: boolean }, { path: string; bytes: number }>(
      "Create a file with its directories, replace its content, or append to it.",
      ["path", "content"],
      {
        path: text("The file."),
        content: text("The whole new content."),
        append: flag("Write to the end of the file instead of replacing it. Default: false."),
      },
      async ({ path, content, append }, signal) => ({
        path,
        bytes: (await target.writeFile(path, content, { append, signal })).bytesWritten,
      }),
    ),

    file_edit: define<
      { path: string; oldText: string; newText: string; replaceAll?: boolean },
      { path: string; replacements: number }
    >(
      "Replace text in a file. The old text must match exactly and occur once, unless `replaceAll` is true.",
      ["path", "oldText", "newText"],
      {
        path: text("The file."),
        oldText: text("The text to replace, exactly as in the file, with blanks and line ends."),
        newText: text("The text in its place."),
        replaceAll: flag("Replace every occurrence. Default: false."),
      },
      async ({ path, oldText, newText, replaceAll }, signal) => {
        const { etag } = await target.stat(path, { signal });
        const parts = (await readText(target, path, signal)).split(oldText);
        const replacements = parts.length - 1;
        if (!oldText || replacements === 0)
          throw new Error("`oldText` does not occur in the file: read it with file_read");
        if (replacements > 1 && !replaceAll)
          throw new Error(`\`oldText\` occurs ${replacements} times: give more lines around it`);
        // A change in between is refused: the model reads the file again.
        await target.putFile(path, toBytes(parts.join(newText)), { ifMatch: etag ?? undefined, signal });
        return { path, replacements };
      },
    ),

    file_list: define<
      { path?: string; recursive?: boolean; hidden?: boolean; limit?: number; cursor?: string },
      string
    >(
      "List the entries of a directory.",
      [],
      {
        path: text("The directory. Default: the working directory."),
        recursive: flag("Also list the content of subdirectories. Default: false."),
        hidden: flag("Also list names that begin with a dot. Default: false."),
        limit: number(`Maximum number of entries. Default: ${DEFAULT_ENTRIES}.`),
        cursor: text("Cursor of an earlier result, to continue there."),
      },
      async ({ path = ".", recursive, hidden, limit = DEFAULT_ENTRIES, cursor }, signal) => {
        const how = { recursive, includeHidden: hidden, limit, after: cursor, signal };
        const { files, next } = await target.listFiles(path, how);
        const lines = files.map(({ relativePath, type, size }) =>
          type === "directory" ? `${relativePath}/\n` : `${relativePath}  ${size} bytes\n`,
        );
        if (next) lines.push(`[… continue with cursor ${JSON.stringify(next)} …]`);
        const listed = shortened(lines, maxBytes, () => `[… more entries: give a limit below ${limit} …]`);
        return listed || "the directory is empty";
      },
    ),

    search: define<{ pattern: string; path?: string; regex?: boolean; glob?: string[]; limit?: number }, string>(
      "Search the lines of files for a text or a regular expression.",
      ["pattern"],
      {
        pattern: text("The text or regular expression that a line contains."),
        path: text(
          "A directory, which is searched with everything below it, or a file. Default: the working directory.",
        ),
        regex: flag("True if `pattern` is a regular expression. Default: false."),
        glob: texts("Globs that select files, such as `*.rs`; one that begins with `!` excludes."),
        limit: number(`Maximum number of matches. Default: ${DEFAULT_MATCHES}.`),
      },
      async ({ pattern, limit = DEFAULT_MATCHES, ...rest }, signal) => {
        const { matches, truncated } = await target.search(pattern, { ...rest, maxMatches: limit, signal });
        const lines = matches.map(({ path, line, text }) => `${path}:${line}: ${text}\n`);
        const found = shortened(lines, maxBytes, () => "[… more matches: give a more exact pattern …]");
        return (
          `${found}${truncated ? "[… more matches: give a more exact pattern or a higher limit …]" : ""}` ||
          "nothing found"
        );
      },
    ),
  };
}

/** Output with a note in place of what the server has left out. */
function withNote(output: string, after: number | undefined, omitted: number | undefined, id: string): string {
  if (!omitted) return output;
  const bytes = toBytes(output);
  const decoder = new TextDecoder();
  const [head, tail] = [bytes.subarray(0, after), bytes.subarray(after)].map((half) => decoder.decode(half));
  return `${head}\n[… ${omitted} bytes omitted; process_output with id ${JSON.stringify(id)} reads everything …]\n${tail}`;
}

/** How many of the first `max` bytes are whole characters of UTF-8. What is no UTF-8 is not left out. */
function wholeLength(bytes: Uint8Array, max: number): number {
  const end = Math.min(bytes.length, max);
  for (let back = 1; back < MAX_CHARACTER_BYTES && back <= end; back++) {
    const byte = bytes[end - back] as number;
    // The first byte of a character tells its length. The others begin with the bits 10.
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? end - back : end;
    if (byte < 0x80) break;
  }
  return end;
}

/**
 * Whole lines within a number of bytes, and a note if there are more. A first line that is longer is cut; `note` gets the
 * number of lines before the rest, and the number of bytes of a line that was cut.
 */
function shortened(lines: string[], maxBytes: number, note: (lines: number, bytes?: number) => string): string {
  const first = toBytes(lines[0] ?? "");
  if (first.length > maxBytes) {
    const length = wholeLength(first, maxBytes);
    return `${new TextDecoder().decode(first.subarray(0, length))}\n${note(0, length)}`;
  }
  let size = 0;
  const end = lines.findIndex((line) => {
    size += toBytes(line).length;
    return size > maxBytes;
  });
  return end < 0 ? lines.join("") : lines.slice(0, end).join("") + note(end);
}

/** Lines of a file, from a cursor on: `BYTE:LINE`, the position of a line or within it. */
function readLines(
  content: string,
  { startLine = 1, endLine = Infinity, cursor = "0:1" }: { startLine?: number; endLine?: number; cursor?: string },
  maxBytes: number,
): string {
  const [byte, line] = /^(\d+):(\d+)$/.exec(cursor)?.slice(1).map(Number) ?? [];
  if (byte === undefined || line === undefined)
    throw new Error(`invalid cursor ${JSON.stringify(cursor)}: give the cursor of an earlier result`);
  const lines = new TextDecoder().decode(toBytes(content).subarray(byte)).split(/(?<=\n)/);
  const first = Math.max(startLine, line);
  const before = lines.splice(0, first - line);
  return shortened(lines.slice(0, Math.max(0, endLine - first + 1)), maxBytes, (at, bytes) => {
    if (bytes === undefined) return `[… continue with startLine ${first + at} …]`;
    const position = byte + toBytes(before.join("")).length + bytes;
    return `[… cut in line ${first}; continue with cursor "${position}:${first}" …]`;
  });
}

async function readText(target: Sandbox | Session, path: string, signal: AbortSignal | undefined): Promise<string> {
  const { content, encoding } = await target.readFile(path, { signal });
  if (encoding === "base64") throw new Error(`${path} is not a text file: use a program through exec`);
  return content;
}

/** Reads output until the result is full, the process has ended, or the time is over. */
async function readOutput(
  target: Sandbox | Session,
  { id, cursor: since, waitMs = 0, until }: { id: string; cursor?: string; waitMs?: number; until?: string },
  maxBytes: number,
  signal: AbortSignal | undefined,
): Promise<ProcessOutput> {
  const result: ProcessOutput = {
    ...{ output: "", cursor: since, more: false, running: true },
    ...{ exitCode: undefined, matched: until === undefined ? undefined : false },
  };
  const late = AbortSignal.timeout(Math.min(waitMs, MAX_WAIT_MS));
  const follow = waitMs > 0;
  const either = follow ? AbortSignal.any(signal ? [signal, late] : [late]) : signal;
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  let room = maxBytes;
  /** Bytes of the last event that begin a character. */
  let unfinished = 0;
  try {
    // As bytes, because a cursor is a number of bytes: one within an event is valid, too.
    for await (const event of target.streamProcessLogs(id, { since, follow, signal: either, encoding: "bytes" })) {
      result.cursor = event.cursor ?? result.cursor;
      if (event.type === "exit") {
        result.running = false;
        result.exitCode = event.exitCode;
      } else if (event.type === "stdout" || event.type === "stderr") {
        result.more = event.data.length > room;
        const length = result.more ? wholeLength(event.data, room) : event.data.length;
        room -= length;
        result.output += decoders[event.type].decode(event.data.subarray(0, length), { stream: true });
        unfinished = event.data.length - (result.more ? length : wholeLength(event.data, length));
      }
      if (until !== undefined && result.output.includes(until)) result.matched = true;
      if (result.more || result.matched) break;
    }
    if (!result.running) result.output += decoders.stdout.decode() + decoders.stderr.decode();
  } catch (error) {
    if ((error as Error).name !== "AbortError" || signal?.aborted || !late.aborted) throw error;
  }
  // The next call reads what this one has left, also the beginning of a character.
  if (result.running && unfinished > 0) result.cursor = String(Number(result.cursor) - unfinished);
  return result;
}
