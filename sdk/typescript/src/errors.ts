// Errors: one class for each group of codes. A code without a class is a SandcrabError.
import type { components } from "./generated.js";
import type { ExecResult } from "./types.js";

type Schemas = components["schemas"];

/** Codes of the API, those that the SDK adds, and codes of newer servers. */
export type ErrorCode = Schemas["ErrorCode"] | "CONNECTION_FAILED" | "ABORTED" | (string & {});

/** The fields of an error of the API. */
export interface ErrorFields {
  code: ErrorCode;
  message: string;
  /** HTTP status; 0 if the server has not answered. */
  status?: number;
  /** What the error is about: paths, ids, fields. */
  context?: Record<string, unknown>;
  requestId?: string;
  operation?: string | null;
  /** What to do about it. */
  suggestion?: string | null;
  /** A later attempt may succeed. */
  isTemporary?: boolean;
  cause?: unknown;
}

/** An error of the API, or of the connection to it. */
export class SandcrabError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly context: Record<string, unknown>;
  readonly requestId: string | undefined;
  readonly operation: string | undefined;
  readonly suggestion: string | undefined;
  /** @internal */
  readonly isTemporary: boolean;

  constructor(fields: ErrorFields) {
    super(fields.message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = new.target.name;
    this.code = fields.code;
    this.status = fields.status ?? 0;
    this.context = fields.context ?? {};
    this.requestId = fields.requestId;
    this.operation = fields.operation ?? undefined;
    this.suggestion = fields.suggestion ?? undefined;
    this.isTemporary = fields.isTemporary ?? false;
  }
}

/** The request is invalid, or does not fit to what it names (400, 405, 413, 416). */
export class ValidationError extends SandcrabError {
  override name = "ValidationError";
}

/** The token, or the credentials of a git server, are refused (401). */
export class AuthenticationError extends SandcrabError {
  override name = "AuthenticationError";
}

/** The user of the commands may not do this (403). */
export class PermissionError extends SandcrabError {
  override name = "PermissionError";
}

/** A file, process, session, terminal, … does not exist (404). */
export class NotFoundError extends SandcrabError {
  override name = "NotFoundError";
}

/** Something was not ready in time (408). */
export class TimeoutError extends SandcrabError {
  override name = "TimeoutError";
}

/** The state does not allow it: an id in use, a closed input, a changed file (409, 412). */
export class ConflictError extends SandcrabError {
  override name = "ConflictError";
}

/** The session's shell has ended (410). `context` has its last output and exit code. */
export class SessionEndedError extends SandcrabError {
  override name = "SessionEndedError";
}

/** A limit of the server is reached (429, 507). */
export class LimitError extends SandcrabError {
  override name = "LimitError";
}

/** The server, or a service behind it, failed or is stopping (5xx). */
export class ServerError extends SandcrabError {
  override name = "ServerError";
}

/** The server cannot be reached, or the connection was lost. */
export class ConnectionError extends SandcrabError {
  override name = "ConnectionError";
  /** True if no connection was made, so that the request has had no effect. */
  readonly refused: boolean;

  constructor(message: string, cause?: unknown, refused = false) {
    super({ code: "CONNECTION_FAILED", message, cause });
    this.refused = refused;
  }
}

/** The call was aborted by its signal. The command that it ran has been ended. */
export class AbortError extends SandcrabError {
  override name = "AbortError";
  /** The output until then, if the call ran a command. */
  result: ExecResult<string | Uint8Array> | undefined;

  constructor(reason?: unknown, result?: ExecResult<string | Uint8Array>) {
    super({ code: "ABORTED", message: "the call was aborted", cause: reason });
    this.result = result;
  }
}

const BY_STATUS: Record<number, typeof SandcrabError> = {
  400: ValidationError,
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  405: ValidationError,
  408: TimeoutError,
  409: ConflictError,
  410: SessionEndedError,
  412: ConflictError,
  413: ValidationError,
  416: ValidationError,
  429: LimitError,
  507: LimitError,
};

/**
 * The status of each code: events have only a code. Patterns are a third of the size of a table, and fit many codes of newer
 * servers. A test compares them with openapi.json.
 */
const STATUS_OF: [number, RegExp][] = [
  [404, /_NOT_(FOUND|EXPOSED)$/],
  [409, /_(EXISTS|ALREADY_EXPOSED|NOT_(EMPTY|OPEN|STARTED)|BUSY|CONFLICT|FULL|ENDED)$|^GIT_OPERATION_/],
  [400, /^(VALIDATION_|INVALID_|(IS|NOT)_DIRECTORY|NOT_REGULAR_|LIMIT_NOT_)|_TOO_LONG$|_MANY_LINKS$|_EXPIRED$/],
  [502, /_(LOST|NOT_RESPONDING)$|^(GIT_NETWORK|FILESYSTEM|BACKUP_TRANSFER)_/],
  [410, /^SESSION_(TERMINATED|DESTROYED)$/],
  [413, /_TOO_LARGE$/],
  [401, /^UNAUTHORIZED$|_AUTH_/],
  [403, /^(PERMISSION_|READ_ONLY)/],
  [503, /^(SHUTTING_|STATE_DIR_)/],
  [501, /^NO_SHELL|^NOT_SUPPORTED/],
  [408, /_TIMEOUT$/],
  [507, /^NO_SPACE/],
  [429, /^LIMIT_EXCEEDED/],
  [500, /^INTERNAL_/],
  [412, /^PRECONDITION_/],
  [416, /^RANGE_/],
  [405, /^METHOD_/],
  [426, /^UPGRADE_/],
  [499, /_CANCELLED$/],
  [508, /^PREVIEW_LOOP/],
];

/** An error of the class that fits its status. */
export function errorOf(fields: ErrorFields): SandcrabError {
  const status = fields.status ?? STATUS_OF.find(([, codes]) => codes.test(fields.code))?.[0] ?? 0;
  const Class = BY_STATUS[status] ?? (status >= 500 ? ServerError : SandcrabError);
  return new Class({ ...fields, status });
}
