/// <reference lib="esnext.disposable" />
// Sandcrab: commands, sessions, processes, terminals, files and previews of a sandbox.
export type { Backup, BackupCreated, BackupRestored } from "./backups.js";
export type { ConnectOptions, TerminalEvent } from "./connection.js";
export { TerminalConnection } from "./connection.js";
export * from "./errors.js";
export type * from "./files.js";
export type * from "./git.js";
export type { LogMatch } from "./lines.js";
export type { PortOptions, WatchPortOptions } from "./port.js";
export type { ExposedPort, Port } from "./ports.js";
export type {
  Killed,
  KillOptions,
  KillResult,
  LogsOptions,
  ProcessExit,
  ProcessLogs,
  StreamLogsOptions,
} from "./process.js";
export { Process } from "./process.js";
export type { ProcessOptions } from "./processes.js";
export type { Health, Version } from "./sandbox.js";
export { getSandbox, Sandbox } from "./sandbox.js";
export type * from "./search.js";
export type { ServiceHealth, ServiceInfo, ServiceOptions, ServiceStopped } from "./service.js";
export { Service } from "./service.js";
export type { SessionEnded, SessionInfo, SessionOptions } from "./session.js";
export { Session } from "./session.js";
export type { Screen, TerminalDeleted, TerminalInfo, TerminalInput, TerminalMatch } from "./terminal.js";
export { Terminal } from "./terminal.js";
export type { TerminalOptions } from "./terminals.js";
export type * from "./types.js";
