// Generated from openapi.json by scripts/generate.mjs. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A backup that the server keeps. */
        Backup: {
            /** @description Path of the archive. */
            archivePath: string;
            /** @description Time at which it was created. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description The folder, without symbolic links. */
            dir: string;
            /** @description Number of entries. */
            entries: number;
            /** @description Time at which it expires. */
            expiresAt: components["schemas"]["Timestamp"];
            /** @description Id of the backup. */
            id: string;
            /** @description Name of the backup. */
            name?: string | null;
            /** @description SHA-256 of the archive, in hexadecimal digits. */
            sha256: string;
            /** @description Size of the archive. */
            sizeBytes: number;
        };
        /** @description How an archive is compressed. */
        BackupCompression: {
            /** @default null */
            format?: components["schemas"]["BackupCompressionFormat"] | null;
            /**
             * Format: int32
             * @description Number of threads. Default: one per core. At most 4 are used.
             * @default null
             */
            threads?: number | null;
        };
        /**
         * @description The requested compression. Archives are always compressed with zstd; this selects its level.
         *
         *     - `zstd`: Level 3.
         *     - `gzip`: Level 3.
         *     - `lz4`: Level 1, which is faster.
         * @enum {string}
         */
        BackupCompressionFormat: "zstd" | "gzip" | "lz4";
        /** @description A backup that was created. */
        BackupCreated: {
            /** @description Path of the archive. */
            archivePath: string;
            /** @description Number of files that changed while they were read. A file that became shorter ends with zeros. */
            changedFiles: number;
            /** @description The folder, as in the request. */
            dir: string;
            /** @description Number of entries. */
            entries: number;
            expiresAt?: components["schemas"]["Timestamp"] | null;
            /** @description Id of the backup. Without `archivePath` in the request, it can be restored, uploaded and deleted with this id. */
            id: string;
            /** @description SHA-256 of the archive, in hexadecimal digits. */
            sha256: string;
            /** @description Size of the archive. */
            sizeBytes: number;
            /** @description Number of sockets and devices, which are left out. */
            skippedFiles: number;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A backup that was deleted. */
        BackupDeleted: {
            /** @description Id of the backup. */
            id: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description The backups that the server keeps. */
        BackupList: {
            /** @description The backups, the newest first. */
            backups: components["schemas"]["Backup"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A folder that was restored. */
        BackupRestored: {
            /** @description False if the entries of the folder were replaced one by one, because the folder is a mount point, the workspace, or in a directory that the user may not change. */
            atomic: boolean;
            /** @description Number of bytes of content, without holes of sparse files. */
            bytesWritten: number;
            /** @description The folder, as in the request. */
            dir: string;
            /** @description Number of entries. */
            entries: number;
            /** @description Id of the backup, if it was given. */
            id?: string | null;
            /** @description Directory with old content that could not be removed. */
            leftover?: string | null;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description The server is stopping. Last event of the stream. */
        ByeEvent: {
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "bye";
        };
        /** @description All output recorded so far has been sent. Last event of a stream with `follow=false` if the process still runs. */
        CaughtUpEvent: {
            /** @description Id of the process. */
            processId: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "caught_up";
        };
        /**
         * @description The kind of a change.
         *
         *     - `create`: A file or directory was created.
         *     - `modify`: The content of a file was changed.
         *     - `delete`: A file or directory was deleted.
         *     - `move_from`: A file or directory was moved away.
         *     - `move_to`: A file or directory was moved here.
         *     - `attrib`: Mode, owner, times or another attribute was changed.
         * @enum {string}
         */
        ChangeKind: "create" | "modify" | "delete" | "move_from" | "move_to" | "attrib";
        /** @description New permission bits. */
        ChmodRequest: {
            /**
             * @description Permission bits in octal, such as `0755`.
             * @default null
             */
            mode?: string | null;
            /**
             * @description The path. The target of a symbolic link is changed.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description Number of processes that were killed or whose records were removed. */
        CleanupResponse: {
            /** @description Number of processes that were killed or whose records were removed. */
            cleanedCount: number;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A frame from the client. */
        ClientFrame: {
            /** @description JSON body. Its text is passed to the route unchanged. */
            body?: unknown;
            encoding?: components["schemas"]["Encoding"] | null;
            /** @description Request headers. */
            headers?: {
                [key: string]: string;
            } | null;
            /** @description Id of the request, chosen by the client. Must be unique among its unfinished requests. */
            id: string;
            /** @description HTTP method. Required in a request. */
            method?: string | null;
            /** @description Path with query. Required in a request. */
            path?: string | null;
            /** @description Purpose of the frame. */
            type: components["schemas"]["ClientFrameKind"];
        };
        /**
         * @description Purpose of a client frame.
         *
         *     - `request`: Sends a request.
         *     - `cancel`: Cancels a request. The effect is that of closing the connection of an HTTP request. If the server has no unfinished request with the id, it sends no frame: the last frame of the request may be in transit to the client, and every request gets exactly one.
         * @enum {string}
         */
        ClientFrameKind: "request" | "cancel";
        /** @description A colour: an index of the palette of 256 colours, or red, green and blue as `#rrggbb`. */
        Color: number | string;
        /** @description A command and its options, for `execute`, `execute/stream` and `process/start`. */
        CommandRequest: {
            /** @description Arguments. Without a session, the program runs without a shell. In a session, the shell runs it with each argument quoted. */
            args?: string[] | null;
            /** @description With `false`, the record of the finished process is kept until it is removed with `process/cleanup`. */
            autoCleanup?: boolean | null;
            /** @description Respond when the command has started instead of when it has ended. */
            background?: boolean | null;
            /** @description Shell text or, with `args`, the program. */
            command: string;
            /** @description Working directory. Default: that of the session, or the workspace. */
            cwd?: string | null;
            encoding?: components["schemas"]["Encoding"] | null;
            /** @description Changes to the environment: a string sets a variable, `null` unsets it. */
            env?: {
                [key: string]: string | null;
            } | null;
            /** @description Id of the execution. Default: a generated id. */
            executionId?: string | null;
            /** @description Grace period in milliseconds between SIGTERM and SIGKILL, after a timeout (default: 1,000) and after a disconnect with `onDisconnect: "kill"` (default: 5,000). 0 kills at once. */
            graceMs?: number | null;
            /** @description Ends the command if it writes no output for this many milliseconds. 0 means no limit. */
            idleTimeoutMs?: number | null;
            /** @description Keep standard input open after `stdin` was written. More can be written, and it can be closed, later. */
            keepStdinOpen?: boolean | null;
            leftovers?: components["schemas"]["Leftovers"] | null;
            limits?: components["schemas"]["Limits"] | null;
            /** @description Maximum number of bytes per stream in the response. If there is more, the response has its beginning and end. All recorded output can be read with `process/{id}/output`. Default: 10 MiB. */
            maxOutputBytes?: number | null;
            onDisconnect?: components["schemas"]["OnDisconnect"] | null;
            onSessionEnd?: components["schemas"]["OnSessionEnd"] | null;
            origin?: components["schemas"]["Origin"] | null;
            overflow?: components["schemas"]["Overflow"] | null;
            /** @description Same as `executionId`, for processes. */
            processId?: string | null;
            /** @description Session to run the command in. Without one, the command is stateless. */
            sessionId?: string | null;
            /** @description Standard input. Default: empty. */
            stdin?: string | null;
            stdinEncoding?: components["schemas"]["Encoding"] | null;
            /** @description Timeout of the command in milliseconds. 0 disables the default timeout. */
            timeoutMs?: number | null;
            /** @description User to run the command as: a name, a user id or `UID:GID`. Requires that the server runs as root. Not allowed with a session, which has its own user. */
            user?: string | null;
        };
        /** @description The command has ended. Last event of the stream. */
        CompleteEvent: {
            /** @description Reason and signal of the end. */
            end: components["schemas"]["End"];
            /**
             * Format: int32
             * @description Exit code of the command.
             */
            exitCode: number;
            /** @description Full result, without the output. */
            result: components["schemas"]["Summary"];
            /** @description Time at which the command ended. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "complete";
            /** @description Resources that the command used. */
            usage: components["schemas"]["Usage"];
        };
        /** @description A file or directory to copy. */
        CopyRequest: {
            /**
             * @description The path of the copy.
             * @default null
             */
            destinationPath?: string | null;
            /**
             * @description The same in base64, instead of `destinationPath`.
             * @default null
             */
            destinationPathBase64?: string | null;
            /**
             * @description Replace an existing file, or an empty directory. Default: true.
             * @default null
             */
            overwrite?: boolean | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
            /**
             * @description The path to copy from. Directories are copied with their content.
             * @default null
             */
            sourcePath?: string | null;
            /**
             * @description The same in base64, instead of `sourcePath`.
             * @default null
             */
            sourcePathBase64?: string | null;
        };
        /** @description Counts of the server's objects and events. */
        Counts: {
            /** @description Open connections. */
            connections: number;
            /** @description Executions that have a record. */
            executions: number;
            /** @description Lines in `supervisor-failures.log` in the state directory. */
            loggedFailures: number;
            /** @description Supervisors that ended unexpectedly since the server started. */
            lostSupervisors: number;
            /** @description Sessions whose shell was restored since the server started. */
            restoredSessions: number;
            /** @description Executions that have not ended. */
            running: number;
            /** @description Sessions. */
            sessions: number;
        };
        /** @description A backup to create. */
        CreateBackupRequest: {
            /**
             * @description Write the archive to this file, instead of keeping it in the server. It then belongs to the client: it is not listed and does not expire.
             * @default null
             */
            archivePath?: string | null;
            /** @default null */
            compression?: components["schemas"]["BackupCompression"] | null;
            /**
             * @description The folder.
             * @default
             */
            dir?: string;
            /**
             * @description Rules as in a `.gitignore` file in the folder. What matches is left out.
             * @default null
             */
            excludes?: string[] | null;
            /**
             * @description Leave out what `.gitignore` files exclude, if the folder is in a repository. Default: false.
             * @default null
             */
            gitignore?: boolean | null;
            /**
             * @description A name for people, of at most 256 characters.
             * @default null
             */
            name?: string | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
            /**
             * Format: int64
             * @description Time until the backup expires, in seconds. Default: 259200 (3 days).
             * @default null
             */
            ttl?: number | null;
        };
        /** @description A created session. */
        CreatedSession: {
            /** @description Time at which the session was created. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description Working directory. */
            cwd: string;
            /** @description Id of the session. */
            id: string;
        };
        /** @description A file or directory to delete. */
        DeleteRequest: {
            /**
             * @description The path. A symbolic link is deleted itself.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Delete a directory with its content. Without it, a directory is refused.
             * @default null
             */
            recursive?: boolean | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description The session to delete. */
        DeleteSessionRequest: {
            /** @description Id of the session. */
            sessionId: string;
        };
        /** @description A request without options. */
        EmptyRequest: Record<string, never>;
        /**
         * @description Encoding of bytes in JSON.
         *
         *     - `utf8`: As text. Bytes that are not valid UTF-8 are replaced, and `invalidUtf8` is set.
         *     - `base64`: As base64, without loss.
         * @enum {string}
         */
        Encoding: "utf8" | "base64";
        /** @description End of an execution. */
        End: {
            /** @description Reason of the end. */
            reason: components["schemas"]["EndReason"];
            /**
             * Format: int32
             * @description Number of the signal that ended the program, if one did.
             */
            signal?: number | null;
        };
        /**
         * @description Reason for the end of an execution.
         *
         *     - `exited`: The program exited.
         *     - `signaled`: The program was ended by a signal that the server did not send.
         *     - `timeout`: The timeout passed.
         *     - `idle_timeout`: The program wrote no output for longer than the idle timeout.
         *     - `killed`: It was killed or interrupted through the API.
         *     - `oom`: The kernel killed it because it ran out of memory.
         *     - `output_limit`: It exceeded the output limit.
         *     - `session_ended`: Its session was deleted or reset.
         *     - `lost`: Its supervisor was killed, or the machine restarted.
         * @enum {string}
         */
        EndReason: "exited" | "signaled" | "timeout" | "idle_timeout" | "killed" | "oom" | "output_limit" | "session_ended" | "lost";
        /** @description Changes to an environment. */
        EnvRequest: {
            /** @description The variables: a string sets a variable, `null` unsets it. */
            vars: {
                [key: string]: string | null;
            };
        };
        /** @description The body of every error response. */
        ErrorBody: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Details for programs, as named fields. */
            context: {
                [key: string]: unknown;
            };
            /** @description HTTP status. */
            httpStatus: number;
            /** @description Error message. */
            message: string;
            /** @description The requested operation. */
            operation?: string | null;
            /** @description Id of the request, as in the server's log. */
            requestId: string;
            /** @description What to do about the error. */
            suggestion?: string | null;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /**
         * @description Error code. A newer server may send codes that are not listed here.
         *
         *     - `VALIDATION_FAILED`: The request is invalid. The message names the field.
         *     - `INVALID_COMMAND`: The command is invalid: it is empty, too long, or contains a NUL byte.
         *     - `INVALID_GIT_URL`: The URL of the repository is invalid.
         *     - `INVALID_PORT`: The port is not between 1 and 65535, or it is the port of the server itself.
         *     - `INVALID_BACKUP_CONFIG`: An option of the backup is invalid.
         *     - `BACKUP_EXPIRED`: The backup has expired.
         *     - `INVALID_ARCHIVE`: The archive is damaged, incomplete, or contains an entry that is not allowed. Nothing was changed.
         *     - `NOT_DIRECTORY`: The path is not a directory.
         *     - `IS_DIRECTORY`: The path is a directory.
         *     - `NOT_REGULAR_FILE`: The path is a FIFO, socket or device.
         *     - `TOO_MANY_LINKS`: The path has too many symbolic links, which may form a cycle.
         *     - `NAME_TOO_LONG`: A name, path or id is too long.
         *     - `LIMIT_NOT_SUPPORTED`: A requested limit cannot be enforced on this machine.
         *     - `GIT_AUTH_FAILED`: The host of the repository refused the credentials, or requires some.
         *     - `UNAUTHORIZED`: The token is missing or wrong.
         *     - `PERMISSION_DENIED`: The operating system denied permission, or the host or origin of the request is not allowed.
         *     - `READ_ONLY`: The file system is mounted read-only.
         *     - `GIT_REPOSITORY_NOT_FOUND`: The repository does not exist, or the path is not in one.
         *     - `GIT_BRANCH_NOT_FOUND`: The branch, tag or commit does not exist.
         *     - `FILE_NOT_FOUND`: The file or directory does not exist.
         *     - `BACKUP_NOT_FOUND`: The backup does not exist, or was deleted.
         *     - `ROUTE_NOT_FOUND`: The route does not exist.
         *     - `COMMAND_NOT_FOUND`: The program does not exist.
         *     - `PROCESS_NOT_FOUND`: The process does not exist, or its record was removed.
         *     - `SESSION_NOT_FOUND`: The session does not exist.
         *     - `TERMINAL_NOT_FOUND`: The terminal does not exist, or its record was removed.
         *     - `PORT_NOT_EXPOSED`: The port is not exposed, or the address of the preview is wrong.
         *     - `SERVICE_NOT_FOUND`: The service does not exist, or was deleted.
         *     - `METHOD_NOT_ALLOWED`: The route does not support this method.
         *     - `PROCESS_READY_TIMEOUT`: The timeout of the request passed before the process ended, or before the service was ready.
         *     - `FILE_EXISTS`: The file or directory exists.
         *     - `DIRECTORY_NOT_EMPTY`: The directory is not empty.
         *     - `RESOURCE_BUSY`: The file is in use: it is a mount point or a running program.
         *     - `PORT_ALREADY_EXPOSED`: The port is exposed.
         *     - `EXECUTION_CONFLICT`: Another request has used this id or idempotency key.
         *     - `GIT_OPERATION_FAILED`: Git refused the operation. The message says why.
         *     - `PROCESS_ALREADY_EXISTS`: A process with this id is running.
         *     - `SESSION_ALREADY_EXISTS`: A session with this id exists.
         *     - `SERVICE_ALREADY_EXISTS`: A service with this id exists, and was neither stopped nor has it failed.
         *     - `STDIN_NOT_OPEN`: Standard input is closed or was never open.
         *     - `TERMINAL_INPUT_FULL`: The program of the terminal does not read, and its input queue is full. `context.written` is the number of accepted bytes.
         *     - `PROCESS_ENDED`: The process has ended.
         *     - `PROCESS_NOT_STARTED`: The command is queued in its session and has not started.
         *     - `SESSION_DESTROYED`: The session was deleted while the request was in progress.
         *     - `SESSION_TERMINATED`: The command ended its session's shell.
         *     - `PRECONDITION_FAILED`: The file is not in the state that `If-Match` or `If-None-Match` requires.
         *     - `FILE_TOO_LARGE`: The body or the file exceeds the size limit of the route.
         *     - `SESSION_STATE_TOO_LARGE`: The state of the session is too large to be copied. Unset large variables, or keep the data in a file.
         *     - `RANGE_NOT_SATISFIABLE`: The range is outside the available bytes.
         *     - `UPGRADE_REQUIRED`: The route requires a WebSocket upgrade.
         *     - `LIMIT_EXCEEDED`: A limit was reached, or the machine is out of a resource. The message names it.
         *     - `REQUEST_CANCELLED`: The client cancelled the request. Only sent over a WebSocket.
         *     - `INTERNAL_ERROR`: Internal error of the server.
         *     - `EXECUTION_LOST`: The supervisor was killed while it started the command. The command may or may not have run.
         *     - `FILESYSTEM_ERROR`: The file system failed, for example with an I/O error of its disk. The message has the reason.
         *     - `BACKUP_TRANSFER_FAILED`: The other server cannot be reached, or refused the archive.
         *     - `GIT_NETWORK_ERROR`: The host of the repository cannot be reached, or the transfer was too slow.
         *     - `SERVICE_NOT_RESPONDING`: No program listens on the port, or it does not answer.
         *     - `SHUTTING_DOWN`: The server is stopping.
         *     - `STATE_DIR_MISSING`: The state directory was removed while the server was running.
         *     - `NOT_SUPPORTED`: The file system does not support this operation, or an older version that started the command does not.
         *     - `NO_SHELL`: The machine has no usable shell.
         *     - `PREVIEW_LOOP`: A request passed a preview and came back to the server.
         *     - `NO_SPACE`: The disk of the file or of the state directory is full, or a quota is exceeded.
         * @enum {string}
         */
        ErrorCode: "VALIDATION_FAILED" | "INVALID_COMMAND" | "INVALID_GIT_URL" | "INVALID_PORT" | "INVALID_BACKUP_CONFIG" | "BACKUP_EXPIRED" | "INVALID_ARCHIVE" | "NOT_DIRECTORY" | "IS_DIRECTORY" | "NOT_REGULAR_FILE" | "TOO_MANY_LINKS" | "NAME_TOO_LONG" | "LIMIT_NOT_SUPPORTED" | "GIT_AUTH_FAILED" | "UNAUTHORIZED" | "PERMISSION_DENIED" | "READ_ONLY" | "GIT_REPOSITORY_NOT_FOUND" | "GIT_BRANCH_NOT_FOUND" | "FILE_NOT_FOUND" | "BACKUP_NOT_FOUND" | "ROUTE_NOT_FOUND" | "COMMAND_NOT_FOUND" | "PROCESS_NOT_FOUND" | "SESSION_NOT_FOUND" | "TERMINAL_NOT_FOUND" | "PORT_NOT_EXPOSED" | "SERVICE_NOT_FOUND" | "METHOD_NOT_ALLOWED" | "PROCESS_READY_TIMEOUT" | "FILE_EXISTS" | "DIRECTORY_NOT_EMPTY" | "RESOURCE_BUSY" | "PORT_ALREADY_EXPOSED" | "EXECUTION_CONFLICT" | "GIT_OPERATION_FAILED" | "PROCESS_ALREADY_EXISTS" | "SESSION_ALREADY_EXISTS" | "SERVICE_ALREADY_EXISTS" | "STDIN_NOT_OPEN" | "TERMINAL_INPUT_FULL" | "PROCESS_ENDED" | "PROCESS_NOT_STARTED" | "SESSION_DESTROYED" | "SESSION_TERMINATED" | "PRECONDITION_FAILED" | "FILE_TOO_LARGE" | "SESSION_STATE_TOO_LARGE" | "RANGE_NOT_SATISFIABLE" | "UPGRADE_REQUIRED" | "LIMIT_EXCEEDED" | "REQUEST_CANCELLED" | "INTERNAL_ERROR" | "EXECUTION_LOST" | "FILESYSTEM_ERROR" | "BACKUP_TRANSFER_FAILED" | "GIT_NETWORK_ERROR" | "SERVICE_NOT_RESPONDING" | "SHUTTING_DOWN" | "STATE_DIR_MISSING" | "NOT_SUPPORTED" | "NO_SHELL" | "PREVIEW_LOOP" | "NO_SPACE";
        /** @description The stream failed. Last event of the stream. */
        ErrorEvent: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Error message, under the name that clients of the reference read. */
            data: string;
            /** @description Error message. */
            error: string;
            /** @description Id of the execution, if one was started. */
            executionId?: string | null;
            /**
             * Format: int32
             * @description Exit code, if the command has ended.
             */
            exitCode?: number | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description A request or frame failed. With an id, this is the last frame of that request. */
        ErrorFrame: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Details for programs, as named fields. */
            context?: Record<string, never> | null;
            /** @description Id of the request, if it is known. */
            id?: string | null;
            /** @description Error message. */
            message: string;
            /** @description HTTP status. */
            status: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description A path that is not UTF-8. */
        ExactPath: {
            /** @description Its index in `paths`. */
            index: number;
            /** @description The path in base64. Use it as `pathBase64`. */
            pathBase64: string;
        };
        /** @description An event of a command stream: `start`, then output, then `complete` or `error`. */
        ExecuteEvent: components["schemas"]["StartEvent"] | components["schemas"]["StdoutEvent"] | components["schemas"]["StderrEvent"] | components["schemas"]["GapEvent"] | components["schemas"]["CompleteEvent"] | components["schemas"]["ErrorEvent"];
        /** @description The result; or, with `background`, the start. */
        ExecuteResponse: components["schemas"]["ExecuteResult"] | components["schemas"]["ProcessStarted"];
        /** @description Result of a command. */
        ExecuteResult: {
            /** @description Arguments. Absent if there are none or they are too long. */
            args?: string[] | null;
            /** @description The command. A long command is cut off and ends with `…`. Command and `args` together have at most 16 KiB. */
            command: string;
            /** @description Cursor after the last byte of output. */
            cursor: number;
            /**
             * Format: double
             * @description Run time in milliseconds.
             */
            duration: number;
            encoding?: components["schemas"]["Encoding"] | null;
            /** @description Reason and signal of the end. */
            end: components["schemas"]["End"];
            /** @description Id of the execution. */
            executionId: string;
            /**
             * Format: int32
             * @description Exit code: that of the program, 128 + n if signal n ended it, 124 after a timeout, 137 if it exceeded the output limit, 255 if unknown.
             */
            exitCode: number;
            /** @description True if `stdout` or `stderr` contains replacement characters for bytes that were not valid UTF-8. */
            invalidUtf8?: boolean;
            /** @description Number of processes that the command left running. */
            leftoverCount?: number | null;
            /** @description Processes that the command left running: the first 32. */
            leftovers?: components["schemas"]["ProcessName"][] | null;
            replaced?: components["schemas"]["Replaced"] | null;
            restoredFrom?: components["schemas"]["RestoredFrom"] | null;
            /**
             * Format: double
             * @description Age of the restored state in milliseconds.
             */
            restoredStateAgeMs?: number | null;
            /** @description Id of the session, if the command ran in one. */
            sessionId?: string | null;
            /** @description True if the session's shell was restored before this command. */
            sessionRestarted?: boolean | null;
            /** @description True if the command ended its session's shell, for example with `exit`. */
            shellEnded?: boolean | null;
            /** @description Standard error. */
            stderr: string;
            /** @description Standard output. This field and `stderr` come first, so that the server can send long output while it reads it. */
            stdout: string;
            /** @description True if the exit code is 0. */
            success: boolean;
            /** @description Time at which the command ended. */
            timestamp: components["schemas"]["Timestamp"];
            truncated?: components["schemas"]["Truncated"] | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "result";
            /** @description Resources that the command used. */
            usage: components["schemas"]["Usage"];
        };
        /** @description An execution has ended. */
        ExecutionEndedEvent: {
            /** @description The execution after the change. */
            process: components["schemas"]["Process"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "execution_ended";
        };
        /** @description The record of an execution was removed. */
        ExecutionRemovedEvent: {
            /** @description Id of the execution. */
            executionId: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "execution_removed";
        };
        /** @description An execution has started. */
        ExecutionStartedEvent: {
            /** @description The execution after the change. */
            process: components["schemas"]["Process"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "execution_started";
        };
        /** @description Whether a file exists. */
        Exists: {
            /** @description True if the file exists. A symbolic link without a target does not. */
            exists: boolean;
            /** @description The path, as in the request. */
            path: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description The process has ended. Last event of the stream. */
        ExitEvent: {
            /** @description Always empty. Clients of the reference expect this field in every event. */
            data: string;
            /** @description Reason and signal of the end. */
            end: components["schemas"]["End"];
            /**
             * Format: int32
             * @description Exit code of the process.
             */
            exitCode: number;
            /** @description Id of the process. */
            processId: string;
            /** @description Time at which the process ended. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "exit";
            /** @description Resources that the process used. */
            usage: components["schemas"]["Usage"];
        };
        /**
         * @description Why it is unknown whether a directory has changed.
         *
         *     - `expired`: The version was not used for ten minutes, or too many others were in use.
         *     - `restarted`: The server was restarted.
         * @enum {string}
         */
        ExpiryReason: "expired" | "restarted";
        /** @description A request to expose a port. */
        ExposePortRequest: {
            /** @description Display name. 1 to 64 characters. */
            name?: string | null;
            /**
             * Format: int32
             * @description The port on this machine.
             */
            port: number;
            /** @description Id of the process whose end also ends the exposure. */
            processId?: string | null;
            /** @description Secret part of the address: 1 to 24 lowercase letters, digits and underscores. Default: 16 random characters. */
            token?: string | null;
        };
        /** @description The port is exposed. */
        ExposePortResponse: {
            /** @description Time at which the port was exposed. */
            exposedAt: components["schemas"]["Timestamp"];
            /** @description Display name. */
            name?: string | null;
            /** @description The port. */
            port: number;
            /** @description Id of the process whose end also ends the exposure. */
            processId?: string | null;
            /** @description Whether a program listens. */
            status: components["schemas"]["ExposedPortStatus"];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Secret part of the address. */
            token: string;
            /** @description Address of the preview. */
            url: string;
        };
        /** @description An exposed port. */
        ExposedPort: {
            /** @description Time at which the port was exposed. */
            exposedAt: components["schemas"]["Timestamp"];
            /** @description Display name. */
            name?: string | null;
            /** @description The port. */
            port: number;
            /** @description Id of the process whose end also ends the exposure. */
            processId?: string | null;
            /** @description Whether a program listens. */
            status: components["schemas"]["ExposedPortStatus"];
            /** @description Secret part of the address. */
            token: string;
            /** @description Address of the preview. */
            url: string;
        };
        /** @description The exposed ports. */
        ExposedPortList: {
            /** @description Number of ports. */
            count: number;
            /** @description The ports, by number. */
            ports: components["schemas"]["ExposedPort"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /**
         * @description Whether a program listens on an exposed port.
         *
         *     - `active`: A program listens.
         *     - `inactive`: No program listens.
         * @enum {string}
         */
        ExposedPortStatus: "active" | "inactive";
        /** @description The next part of the content. */
        FileChunkEvent: {
            /** @description The content, as UTF-8 text or base64. A character is never split. Each chunk in base64 is complete. */
            data: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "chunk";
        };
        /** @description The whole file was sent. Last event of the stream. */
        FileCompleteEvent: {
            /** @description Number of bytes of the file that were read. */
            bytesRead: number;
            /** @description True if bytes that are not valid UTF-8 were replaced: the file begins with text, and continues with other bytes. */
            invalidUtf8?: boolean;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "complete";
        };
        /** @description The content of a file. */
        FileContent: {
            /** @description The content. */
            content: string;
            /** @description Encoding of `content`. */
            encoding: components["schemas"]["FileEncoding"];
            /** @description True if bytes that are not valid UTF-8 were replaced, because the request has the encoding `utf-8`. */
            invalidUtf8?: boolean;
            /** @description True if the file is not text. */
            isBinary: boolean;
            /** @description MIME type, from the content and the name of the file. */
            mimeType: string;
            /** @description The path, as in the request. */
            path: string;
            /** @description Size of the file in bytes. */
            size: number;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description True if `maxBytes` left out the rest of the file. */
            truncated?: boolean;
        };
        /** @description An operation on a file was done. */
        FileDone: {
            /** @description The path, as in the request. */
            path: string;
            /** @description Whether the request was recursive. Only for `mkdir`. */
            recursive?: boolean | null;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /**
         * @description Encoding of the content of a file in JSON.
         *
         *     - `utf-8`: As text.
         *     - `base64`: As base64, without loss.
         * @enum {string}
         */
        FileEncoding: "utf-8" | "base64";
        /** @description An entry of a directory. */
        FileEntry: {
            /** @description The absolute path. */
            absolutePath: string;
            /** @description Permission bits as text: `rw-r--r--`. */
            mode: string;
            /** @description Time of the last modification. */
            modifiedAt: components["schemas"]["Timestamp"];
            /** @description The name. Bytes that are not UTF-8 are replaced. */
            name: string;
            /** @description The name in base64, if it is not UTF-8. */
            nameBase64?: string | null;
            /** @description The absolute path in base64, if it is not UTF-8. Use it as `pathBase64`. */
            pathBase64?: string | null;
            /** @description What the owner of the file may do with it. */
            permissions: components["schemas"]["Permissions"];
            /** @description The path relative to the listed directory. */
            relativePath: string;
            /** @description Size in bytes. */
            size: number;
            /** @description Type of the entry. */
            type: components["schemas"]["FileType"];
        };
        /** @description The file could not be read to its end. Last event of the stream. */
        FileErrorEvent: {
            /** @description The error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description The error message. */
            error: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description An event of the stream of a file: `metadata`, then `chunk`s, then `complete` or `error`. */
        FileEvent: components["schemas"]["FileMetadataEvent"] | components["schemas"]["FileChunkEvent"] | components["schemas"]["FileCompleteEvent"] | components["schemas"]["FileErrorEvent"];
        /** @description The entries of a directory. */
        FileList: {
            /** @description Number of entries in this response. */
            count: number;
            /** @description The entries, sorted by the bytes of their names within each directory. An entry precedes its content. */
            files: components["schemas"]["FileEntry"][];
            /** @description If there are more entries: the `after` of the next request. */
            next?: string | null;
            /** @description The path, as in the request. */
            path: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Number of directories that could not be read and are listed without content. */
            unreadable?: number | null;
        };
        /** @description First event: the type and size of the file. */
        FileMetadataEvent: {
            /** @description Encoding of the chunks. */
            encoding: components["schemas"]["FileEncoding"];
            /** @description True if the beginning of the file is not text. */
            isBinary: boolean;
            /** @description MIME type, from the content and the name of the file. */
            mimeType: string;
            /** @description Size of the file in bytes when the stream began. */
            size: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "metadata";
        };
        /** @description The metadata of a file. A symbolic link is not followed. */
        FileStat: {
            /** @description Entity tag of a regular file, as of `GET /api/file`. */
            etag?: string | null;
            /** @description Group id. */
            gid: number;
            /** @description Number of hard links. */
            links: number;
            /** @description Permission bits in octal: `0644`. */
            mode: string;
            /** @description Time of the last modification. */
            modifiedAt: components["schemas"]["Timestamp"];
            /** @description The path, as in the request. */
            path: string;
            /** @description Permission bits as text: `rw-r--r--`. */
            permissions: string;
            /** @description Size in bytes. */
            size: number;
            /** @description Always true. */
            success: boolean;
            /** @description Target of a symbolic link. Bytes that are not UTF-8 are replaced. */
            target?: string | null;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Type of the entry. */
            type: components["schemas"]["FileType"];
            /** @description User id of the owner. */
            uid: number;
        };
        /**
         * @description Type of a directory entry.
         *
         *     - `file`: A regular file.
         *     - `directory`: A directory.
         *     - `symlink`: A symbolic link.
         *     - `other`: A FIFO, socket or device.
         * @enum {string}
         */
        FileType: "file" | "directory" | "symlink" | "other";
        /** @description Which files to find. */
        FindRequest: {
            /**
             * @description Globs that select files, as of `rg --glob`; one that begins with `!` excludes. At most 100.
             * @default null
             */
            glob?: string[] | null;
            /**
             * @description Also find entries whose name begins with a dot. Default: false.
             * @default null
             */
            hidden?: boolean | null;
            /**
             * @description Leave out what `.gitignore` and `.ignore` files exclude. Default: true.
             * @default null
             */
            ignoreFiles?: boolean | null;
            /**
             * Format: int32
             * @description Maximum number of paths, 1 to 100,000. Default: 10,000.
             * @default null
             */
            limit?: number | null;
            /**
             * @description The directory below which to find files.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
            /** @default null */
            type?: components["schemas"]["FileType"] | null;
        };
        /** @description The files that were found. */
        FindResponse: {
            /** @description The exact bytes of those `paths` that are not UTF-8. */
            exactPaths?: components["schemas"]["ExactPath"][] | null;
            /** @description The absolute paths: sorted by name within each directory, a directory before its content. */
            paths: string[];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description True if there are more: `limit`, or 8 MiB of paths, were reached. */
            truncated: boolean;
            /** @description Number of directories that could not be read. */
            unreadable?: number;
        };
        /** @description A folder that was replaced by the content of an archive. */
        FolderWritten: {
            /** @description False if the entries of the folder were replaced one by one, because the folder is a mount point, the workspace, or in a directory that the user may not change. */
            atomic: boolean;
            /** @description Number of bytes of content, without holes of sparse files. */
            bytesWritten: number;
            /** @description Number of entries of the archive. */
            entries: number;
            /** @description Directory with old content that could not be removed. */
            leftover?: string | null;
            /** @description The path, as in the request. */
            path: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description Options of a fork. */
        ForkRequest: {
            /**
             * @description Id of the new session. Default: a generated id.
             * @default null
             */
            id?: string | null;
        };
        /** @description A range of dropped output. */
        Gap: {
            /** @description Cursor of the first missing byte. */
            from: number;
            /** @description Cursor of the first byte after the gap. */
            to: number;
        };
        /** @description Output was dropped because the journal reached its size limit. */
        GapEvent: {
            /** @description Cursor of the first missing byte. */
            from: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Cursor of the first byte after the gap. */
            to: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "gap";
        };
        /** @description A request to stage files. */
        GitAddRequest: {
            /** @description A directory of the repository. Default: the working directory of the session, or the workspace. */
            path?: string | null;
            /** @description The files and directories to stage, relative to `path`; deleted ones too. Default: all. */
            paths?: string[] | null;
            /** @description Id of the session to whose working directory relative paths refer. */
            sessionId?: string | null;
        };
        /** @description Files were staged. */
        GitAddResult: {
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description The author of a commit. */
        GitAuthor: {
            /** @description Email address. */
            email: string;
            /** @description Name. */
            name: string;
        };
        /** @description A branch. */
        GitBranch: {
            /** @description True for the current branch. */
            current: boolean;
            /** @description Hash of its last commit. */
            hash: string;
            /** @description Its name: `main`, or `origin/main` for a branch of a remote. */
            name: string;
            /** @description True for a branch of a remote. */
            remote: boolean;
            /** @description The branch that it follows. */
            upstream?: string | null;
        };
        /** @description Branches. */
        GitBranches: {
            /** @description The branches, local ones first. */
            branches: components["schemas"]["GitBranch"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /**
         * @description The kind of a difference.
         *
         *     - `unmodified`: It does not differ.
         *     - `modified`: Its content or mode differs.
         *     - `added`: It is new.
         *     - `deleted`: It was deleted.
         *     - `renamed`: It was renamed.
         *     - `copied`: It was copied.
         *     - `type_changed`: Its type differs, for example a file became a symbolic link.
         *     - `unmerged`: Both sides of a merge changed it.
         *     - `untracked`: It is not tracked.
         * @enum {string}
         */
        GitChange: "unmodified" | "modified" | "added" | "deleted" | "renamed" | "copied" | "type_changed" | "unmerged" | "untracked";
        /** @description A request to clone a repository. */
        GitCheckoutRequest: {
            /** @description Branch or tag to check out. Default: the branch of the remote's `HEAD`. */
            branch?: string | null;
            credentials?: components["schemas"]["GitCredentials"] | null;
            /**
             * Format: int32
             * @description Number of commits to fetch. Default: all.
             */
            depth?: number | null;
            /** @description URL of the repository (`https`, `http`, `ssh`, `git`, `file`, or `user@host:path`), or a path. A user and password in the URL are used like `credentials`, and removed from the URL. */
            repoUrl: string;
            /** @description Id of the session to whose working directory relative paths refer. */
            sessionId?: string | null;
            /** @description Directory of the clone. It must not exist, or be empty. Default: the name of the repository, in the workspace. */
            targetDir?: string | null;
            /**
             * Format: int64
             * @description Timeout in milliseconds. Default: 600,000.
             */
            timeoutMs?: number | null;
        };
        /** @description A cloned repository. */
        GitCheckoutResult: {
            /** @description The branch or tag that is checked out. */
            branch: string;
            /** @description URL of the repository, without credentials. */
            repoUrl: string;
            /** @description Always true. */
            success: boolean;
            /** @description Directory of the clone. */
            targetDir: string;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A commit. */
        GitCommit: {
            /** @description Name of the author. */
            author: string;
            /** @description Time at which the author wrote it, as ISO 8601 with the zone of the author. */
            date: string;
            /** @description Email address of the author. */
            email: string;
            /** @description Hash. */
            hash: string;
            /** @description Hashes of the parents. */
            parents: string[];
            /** @description First line of the message. */
            subject: string;
        };
        /** @description A request to commit what is staged. */
        GitCommitRequest: {
            /** @description Also stage all changes to tracked files. Default: `false`. */
            all?: boolean | null;
            author?: components["schemas"]["GitAuthor"] | null;
            /** @description The message. */
            message: string;
            /** @description A directory of the repository. Default: the working directory of the session, or the workspace. */
            path?: string | null;
            /** @description Id of the session to whose working directory relative paths refer. */
            sessionId?: string | null;
        };
        /** @description A new commit. */
        GitCommitResult: {
            /** @description Hash of the commit. */
            hash: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description The clone is complete. Last event of the stream. */
        GitCompleteEvent: {
            /** @description The branch or tag that is checked out. */
            branch: string;
            /** @description URL of the repository, without credentials. */
            repoUrl: string;
            /** @description Directory of the clone. */
            targetDir: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "complete";
        };
        /** @description Credentials of one call. They are used for the host of the repository only, and are stored nowhere. */
        GitCredentials: {
            /** @description The password or token. */
            password: string;
            /** @description The user name. Hosts that take a token accept any name. */
            username: string;
        };
        /** @description Differences. */
        GitDiff: {
            /** @description The files that differ. */
            files: components["schemas"]["GitFileDiff"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A request for differences. */
        GitDiffRequest: {
            /** @description Branch, tag or commit to compare with. */
            branch?: string | null;
            /** @description A directory of the repository. Default: the working directory of the session, or the workspace. */
            path?: string | null;
            /** @description Only these paths, relative to `path`. */
            paths?: string[] | null;
            /** @description Id of the session to whose working directory relative paths refer. */
            sessionId?: string | null;
            /** @description Compare the index with the last commit, instead of the worktree with the index. Default: `false`. */
            staged?: boolean | null;
        };
        /** @description The clone failed. Last event of the stream. */
        GitErrorEvent: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Error message, under the name that clients of the reference read. */
            data: string;
            /** @description Error message. */
            error: string;
            /** @description Id of the execution, if one was started. */
            executionId?: string | null;
            /**
             * Format: int32
             * @description Exit code, if the command has ended.
             */
            exitCode?: number | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description An event of a clone: `progress`, then `complete` or `error`. */
        GitEvent: components["schemas"]["GitProgressEvent"] | components["schemas"]["GitCompleteEvent"] | components["schemas"]["GitErrorEvent"];
        /** @description The differences of a file. */
        GitFileDiff: {
            /** @description Number of added lines. */
            added: number;
            /** @description True if git compares the file as bytes: it has no lines. */
            binary: boolean;
            /** @description The changed parts. */
            hunks: components["schemas"]["GitHunk"][];
            /** @description The path before a rename or copy. */
            originalPath?: string | null;
            /** @description Path of the file, relative to the top of the repository. */
            path: string;
            /** @description Number of removed lines. */
            removed: number;
        };
        /** @description A file that differs. */
        GitFileStatus: {
            /** @description The index, compared with the last commit. */
            index: components["schemas"]["GitChange"];
            /** @description The path before a rename or copy. */
            originalPath?: string | null;
            /** @description Path of the file, relative to the top of the repository. */
            path: string;
            /** @description The worktree, compared with the index. */
            worktree: components["schemas"]["GitChange"];
        };
        /** @description A changed part of a file. */
        GitHunk: {
            /** @description `@@ -FROM,COUNT +TO,COUNT @@`, with the line of the enclosing function. */
            header: string;
            /** @description The lines, each beginning with a space, `+`, `-` or `\`. */
            lines: string;
        };
        /** @description Commits. */
        GitLog: {
            /** @description The commits, newest first. */
            commits: components["schemas"]["GitCommit"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A request for commits. */
        GitLogRequest: {
            /** @description Branch, tag or commit to begin with. Default: `HEAD`. */
            branch?: string | null;
            /**
             * Format: int32
             * @description Maximum number of commits. Default: 100.
             */
            limit?: number | null;
            /** @description A directory of the repository. Default: the working directory of the session, or the workspace. */
            path?: string | null;
            /** @description Only commits that changed these paths, relative to `path`. */
            paths?: string[] | null;
            /** @description Id of the session to whose working directory relative paths refer. */
            sessionId?: string | null;
        };
        /** @description Progress of the clone. */
        GitProgressEvent: {
            /** @description Progress of the phase in percent. */
            percent: number;
            /** @description What git does, for example `Receiving objects`. */
            phase: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "progress";
        };
        /** @description A reference that a pull or push changed. */
        GitRefUpdate: {
            /** @description Hash after. Absent if it was deleted. */
            after?: string | null;
            /** @description Hash before. Absent if it is new. */
            before?: string | null;
            /** @description Full name, such as `refs/heads/main`. */
            ref: string;
        };
        /** @description A request about a repository. */
        GitRequest: {
            /** @description A directory of the repository. Default: the working directory of the session, or the workspace. */
            path?: string | null;
            /** @description Id of the session to whose working directory relative paths refer. */
            sessionId?: string | null;
        };
        /** @description The state of a repository. */
        GitStatus: {
            /** @description Number of commits that the upstream branch does not have. */
            ahead: number;
            /** @description Number of commits that only the upstream branch has. */
            behind: number;
            /** @description The current branch. Absent if a commit is checked out directly. */
            branch?: string | null;
            /** @description The files that differ. */
            files: components["schemas"]["GitFileStatus"][];
            /** @description Hash of the current commit. Absent before the first commit. */
            head?: string | null;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description The branch that the current one follows. */
            upstream?: string | null;
        };
        /** @description A request to exchange commits with a remote. */
        GitSyncRequest: {
            /** @description The branch. Default: the current one. */
            branch?: string | null;
            credentials?: components["schemas"]["GitCredentials"] | null;
            /** @description A directory of the repository. Default: the working directory of the session, or the workspace. */
            path?: string | null;
            /** @description Name of the remote. Default: `origin`. */
            remote?: string | null;
            /** @description Id of the session to whose working directory relative paths refer. */
            sessionId?: string | null;
            /**
             * Format: int64
             * @description Timeout in milliseconds. Default: 600,000.
             */
            timeoutMs?: number | null;
        };
        /** @description The references that a pull or push changed. */
        GitSyncResult: {
            /** @description The local references that changed, by name. A push changes those of the remote, such as `refs/remotes/origin/main`. */
            refs: components["schemas"]["GitRefUpdate"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description Health and capabilities of the server. */
        Health: {
            /** @description What cgroups are used for. */
            cgroups: string;
            /** @description Counts of the server's objects and events. */
            counts: components["schemas"]["Counts"];
            /** @description Version of git, if it is installed. */
            git?: string | null;
            /** @description True if the kernel supports Landlock. */
            landlock: boolean;
            /** @description Current problems, most severe first. */
            problems: components["schemas"]["Problem"][];
            /** @description True if pseudo-terminals are available. */
            pty: boolean;
            /** @description Default user of commands. Absent if commands run as the server's own user. */
            runAs?: string | null;
            /** @description The shell driver of sessions. */
            shell: components["schemas"]["ShellHealth"];
            /** @description Current condition of the state directory. */
            stateDirectory: components["schemas"]["StateDirectory"];
            /** @description `healthy`, `degraded` if there are problems, or `stopping`. */
            status: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Time since the server started, in milliseconds. */
            uptimeMs: number;
            /** @description Version of the server. */
            version: string;
            /** @description Default working directory of commands. */
            workspace: string;
        };
        /** @description How the server finds out whether a service works. */
        HealthCheck: {
            /** @description Shell text, run with the user, environment and working directory of the service. Only with `command`. */
            command?: string | null;
            /**
             * Format: int64
             * @description Time between two checks in milliseconds. Default: 5,000. Until the first success, checks follow each other faster.
             */
            intervalMs?: number | null;
            /** @description Path and query of the request. Only with `http`. Default: `/`. */
            path?: string | null;
            /**
             * Format: int32
             * @description The local port. Required for `http` and `tcp`. A port on which another process listens does not count.
             */
            port?: number | null;
            /**
             * Format: int32
             * @description Number of failures in a row that make the service unhealthy. Default: 3.
             */
            retries?: number | null;
            /** @description Time after a start in which failures do not count, in milliseconds. Default: 10,000. It ends with the first success. */
            startPeriodMs?: number | null;
            /**
             * Format: int32
             * @description Highest expected status. Only with `http`. Default: 399. Redirects are not followed.
             */
            statusMax?: number | null;
            /**
             * Format: int32
             * @description Lowest expected status. Only with `http`. Default: 200.
             */
            statusMin?: number | null;
            /**
             * Format: int64
             * @description Timeout of one check in milliseconds. Default: 3,000.
             */
            timeoutMs?: number | null;
            type?: components["schemas"]["HealthCheckType"] | null;
        };
        /**
         * @description Kind of a health check.
         *
         *     - `http`: `GET` of a path on a local port answers with an expected status.
         *     - `tcp`: A local port accepts connections.
         *     - `command`: A command exits with code 0.
         * @enum {string}
         */
        HealthCheckType: "http" | "tcp" | "command";
        /** @description First event: the stream is open and contains all later changes. */
        HelloEvent: {
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "hello";
        };
        /** @description Options of an interrupt. */
        InterruptRequest: {
            /**
             * @description Grace period in milliseconds before SIGKILL. Default: 500.
             * @default null
             */
            graceMs?: number | null;
            /**
             * @description First signal to send, by name or number. Default: `SIGINT`.
             * @default null
             */
            signal?: string | null;
        };
        /** @description Result of a kill. */
        KillResponse: {
            /** @description All operating system processes that were ended. */
            killed: components["schemas"]["KilledProcess"][];
            /** @description Id of the process that was killed. */
            processId: string;
            /** @description True if no process is left. */
            success: boolean;
            /** @description Operating system processes that could not be ended. */
            survivors: components["schemas"]["ProcessName"][];
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description An operating system process that was ended. */
        KilledProcess: {
            /** @description Command line. */
            command: string;
            /** @description Process id. */
            pid: number;
            /**
             * Format: int32
             * @description The signal that ended it.
             */
            signal: number;
        };
        /**
         * @description What happens to processes that a command leaves running.
         *
         *     - `keep`: They continue to run.
         *     - `kill`: They are ended.
         *     - `adopt`: Each becomes a process with its own id, which can be listed and killed.
         * @enum {string}
         */
        Leftovers: "keep" | "kill" | "adopt";
        /** @description Resource limits. A field that is missing means no limit. */
        Limits: {
            /**
             * @description CPU time of each process in seconds.
             * @default null
             */
            cpuSeconds?: number | null;
            /**
             * @description Size of each written file in bytes.
             * @default null
             */
            fileSizeBytes?: number | null;
            /**
             * @description Memory in bytes. With a cgroup: of the whole process tree; otherwise: address space of each process.
             * @default null
             */
            memoryBytes?: number | null;
            /**
             * @description Number of open files of each process.
             * @default null
             */
            openFiles?: number | null;
            /**
             * @description Output in bytes, both streams together. The command is ended when it exceeds this.
             * @default null
             */
            outputBytes?: number | null;
            /**
             * @description Number of processes in the process tree.
             * @default null
             */
            processes?: number | null;
        };
        /** @description Options of a list: depth, hidden entries and the number of entries. */
        ListOptions: {
            /**
             * @description Continue after this entry: the `next` of the previous response.
             * @default null
             */
            after?: string | null;
            /**
             * @description Also list entries whose name begins with a dot. Default: false.
             * @default null
             */
            includeHidden?: boolean | null;
            /**
             * Format: int32
             * @description Maximum number of entries in the response, 1 to 100,000. Default: 10,000.
             * @default null
             */
            limit?: number | null;
            /**
             * @description Also list the content of subdirectories. Symbolic links are not followed.
             * @default null
             */
            recursive?: boolean | null;
            /**
             * @description Session, if the request itself names none.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description A directory to list. */
        ListRequest: {
            /** @default null */
            options?: components["schemas"]["ListOptions"] | null;
            /**
             * @description The path. Default: the working directory of the session, or the workspace.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description The client read too slowly and missed events. */
        MissedEvent: {
            /** @description Number of missed events. */
            count: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "missed";
        };
        /** @description A directory to create. */
        MkdirRequest: {
            /**
             * @description The path.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Also create missing parent directories, and accept an existing directory.
             * @default null
             */
            recursive?: boolean | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description A file was renamed, moved or copied. */
        Moved: {
            /** @description The new path, as in the request. */
            newPath: string;
            /** @description The old path, as in the request. */
            path: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /**
         * @description What happens to a command when the client that waits for it disconnects.
         *
         *     - `keep`: The command continues.
         *     - `kill`: The command is killed.
         * @enum {string}
         */
        OnDisconnect: "keep" | "kill";
        /**
         * @description What happens to a process started from a session when the session is deleted.
         *
         *     - `kill`: The process is killed.
         *     - `keep`: The process continues.
         * @enum {string}
         */
        OnSessionEnd: "kill" | "keep";
        /**
         * @description Response to a command that ends its session's shell.
         *
         *     - `terminate`: 410 `SESSION_TERMINATED`. The shell is restored for the next command.
         *     - `restore`: The result, as for other commands. The shell is restored for the next command.
         * @enum {string}
         */
        OnShellExit: "terminate" | "restore";
        /**
         * @description Origin of a request, as defined by the reference.
         *
         *     - `user`: A user of the client.
         *     - `internal`: The client itself.
         * @enum {string}
         */
        Origin: "user" | "internal";
        /**
         * @description What happens to unread output when the journal is full.
         *
         *     - `drop`: The oldest output is dropped. A stream reports this with a `gap` event.
         *     - `wait`: The command is blocked until the client that streams its output reads on. If no client has been connected for 30 s, output is dropped.
         * @enum {string}
         */
        Overflow: "drop" | "wait";
        /** @description Parts that were uploaded. */
        PartsUploaded: {
            /** @description The parts, in the order of the request. */
            parts: components["schemas"]["UploadedPart"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A file or directory. */
        PathRequest: {
            /**
             * @description The path.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description What the owner of a file may do with it. */
        Permissions: {
            /** @description The owner may execute it, or enter the directory. */
            executable: boolean;
            /** @description The owner may read it. */
            readable: boolean;
            /** @description The owner may write to it. */
            writable: boolean;
        };
        /** @description The server is up. */
        Pong: {
            /** @description Always `pong`. */
            message: string;
            /** @description Always `healthy`. */
            status: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A TCP port on which a program listens. */
        Port: {
            /** @description The address: `0.0.0.0` and `::` mean all addresses. */
            address: string;
            /** @description Id of the execution of this process, if it belongs to one. */
            executionId?: string | null;
            /** @description Address of its preview, if the port is exposed. */
            exposed?: string | null;
            /** @description A process that has the socket open, if the server may see it. */
            pid?: number | null;
            /** @description The port. */
            port: number;
            /** @description The same, if the execution is a background process. */
            processId?: string | null;
            /** @description Always `tcp`. */
            protocol: string;
        };
        /** @description A listening port was closed. */
        PortClosedEvent: {
            /** @description The port, with its owner as last seen. */
            port: components["schemas"]["Port"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "port_closed";
        };
        /** @description The watch failed. Last event of the stream. */
        PortErrorEvent: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Error message, under the name that clients of the reference read. */
            data: string;
            /** @description Error message. */
            error: string;
            /** @description Id of the execution, if one was started. */
            executionId?: string | null;
            /**
             * Format: int32
             * @description Exit code, if the command has ended.
             */
            exitCode?: number | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description A port was exposed. */
        PortExposedEvent: {
            /** @description Display name. */
            name?: string | null;
            /** @description The port. */
            port: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "port_exposed";
        };
        /** @description The ports on which programs listen. */
        PortList: {
            /** @description The ports, by number and address. */
            ports: components["schemas"]["Port"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A program listens on a port. */
        PortOpenedEvent: {
            /** @description The port, with its owner as last seen. */
            port: components["schemas"]["Port"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "port_opened";
        };
        /** @description The process has ended before the port was ready. Last event of the stream. */
        PortProcessExitedEvent: {
            /**
             * Format: int32
             * @description Exit code of the process, if it is known.
             */
            exitCode?: number | null;
            /** @description The port. */
            port: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "process_exited";
        };
        /** @description The port is ready. Last event of the stream. */
        PortReadyEvent: {
            /** @description The port. */
            port: number;
            /** @description Status of the response. Only with `http`. */
            statusCode?: number | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "ready";
        };
        /** @description A port is no longer exposed. */
        PortUnexposedEvent: {
            /** @description Display name. */
            name?: string | null;
            /** @description The port. */
            port: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "port_unexposed";
        };
        /** @description An event of a port watch: `watching`, then `ready`, `process_exited` or `error`. */
        PortWatchEvent: components["schemas"]["PortWatchingEvent"] | components["schemas"]["PortReadyEvent"] | components["schemas"]["PortProcessExitedEvent"] | components["schemas"]["PortErrorEvent"];
        /**
         * @description What makes a port ready.
         *
         *     - `http`: A response to `GET` with an expected status.
         *     - `tcp`: A connection is accepted.
         * @enum {string}
         */
        PortWatchMode: "http" | "tcp";
        /** @description A request to wait until a port is ready. */
        PortWatchRequest: {
            /** @description Longest time between two attempts, in milliseconds. Default: 500. Clamped to 10 to 10,000. The first attempts follow each other faster. */
            interval?: number | null;
            mode?: components["schemas"]["PortWatchMode"] | null;
            /** @description Path and query of the request. Only with `http`. Default: `/`. */
            path?: string | null;
            /**
             * Format: int32
             * @description The port on this machine.
             */
            port: number;
            /** @description Id of the process whose end also ends the stream. */
            processId?: string | null;
            /**
             * Format: int32
             * @description Highest expected status. Only with `http`. Default: 399. Redirects are not followed.
             */
            statusMax?: number | null;
            /**
             * Format: int32
             * @description Lowest expected status. Only with `http`. Default: 200.
             */
            statusMin?: number | null;
        };
        /** @description The server watches the port. */
        PortWatchingEvent: {
            /** @description The port. */
            port: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "watching";
        };
        /** @description A problem of the server. */
        Problem: {
            /** @description Code of the problem: `state_directory_missing`, `disk_full`, `no_shell`, `driver_fallback` or `supervisors_lost`. */
            code: string;
            /** @description Description of the problem. */
            message: string;
            /** @description What to do about it. */
            suggestion: string;
        };
        /** @description A process. */
        Process: {
            /** @description True if the process was started in the background. */
            background: boolean;
            /** @description The command. A long command is cut off and ends with `…`. */
            command: string;
            end?: components["schemas"]["End"] | null;
            endTime?: components["schemas"]["Timestamp"] | null;
            /**
             * Format: int32
             * @description Exit code, once the process has ended.
             */
            exitCode?: number | null;
            /** @description Id of the process. */
            id: string;
            /** @description Number of processes that this one left when it ended and that are still running. */
            leftoverCount?: number | null;
            /** @description Processes that this one left when it ended and that are still running: the first 32. `DELETE` ends them. */
            leftovers?: components["schemas"]["ProcessName"][] | null;
            metrics?: components["schemas"]["ProcessMetrics"] | null;
            /** @description Process id, once the process has started. */
            pid?: number | null;
            /** @description Id of the session that the process belongs to, if any. */
            sessionId?: string | null;
            /** @description Time at which the process was started. */
            startTime: components["schemas"]["Timestamp"];
            /** @description Status of the process. */
            status: components["schemas"]["ProcessStatus"];
            usage?: components["schemas"]["Usage"] | null;
            waiting?: components["schemas"]["Waiting"] | null;
        };
        /** @description An event of a process stream: `process_info`, then output, then `exit`, `caught_up` or `error`. */
        ProcessEvent: components["schemas"]["ProcessInfoEvent"] | components["schemas"]["StdoutEvent"] | components["schemas"]["StderrEvent"] | components["schemas"]["GapEvent"] | components["schemas"]["ExitEvent"] | components["schemas"]["CaughtUpEvent"] | components["schemas"]["ErrorEvent"];
        /** @description First event of a process stream: the process and its status. */
        ProcessInfoEvent: {
            /** @description The command. A long command is cut off and ends with `…`. */
            command: string;
            /** @description Id of the process. */
            processId: string;
            /** @description Status of the process when the stream was opened. */
            status: components["schemas"]["ProcessStatus"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "process_info";
        };
        /** @description A list of processes. */
        ProcessList: {
            /** @description The processes, oldest first. */
            processes: components["schemas"]["Process"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description Output of a process. */
        ProcessLogs: {
            /** @description Cursor after the last byte. Use it as `since` to continue. */
            cursor: number;
            encoding?: components["schemas"]["Encoding"] | null;
            gap?: components["schemas"]["Gap"] | null;
            /** @description True if `stdout` or `stderr` contains replacement characters for bytes that were not valid UTF-8. */
            invalidUtf8?: boolean;
            /** @description Id of the process. */
            processId: string;
            /** @description Standard error. */
            stderr: string;
            /** @description Standard output. This field and `stderr` come first, so that the server can send long output while it reads it. */
            stdout: string;
            /** @description Always true. */
            success: boolean;
            /** @description True if `tail` requested more lines than the response has, because those before them were dropped or exceed the limit of the response. */
            tailIsIncomplete?: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            truncated?: components["schemas"]["Truncated"] | null;
        };
        /** @description Resource usage of all live processes of an execution at one moment. */
        ProcessMetrics: {
            /** @description Number of open descriptors. */
            openFiles: number;
            /** @description Number of processes. */
            processes: number;
            /** @description Number of bytes read from disks. */
            readBytes: number;
            /** @description Sum of the resident set sizes, in bytes. Shared pages count once for each process. */
            residentBytes: number;
            /**
             * Format: double
             * @description CPU time in the kernel, with that of children that were waited for, in milliseconds.
             */
            systemMs: number;
            /** @description Number of threads. */
            threads: number;
            /** @description Number of processes whose I/O and descriptors are not counted, because the server may not see them. */
            unreadable?: number | null;
            /**
             * Format: double
             * @description CPU time in user mode, with that of children that were waited for, in milliseconds.
             */
            userMs: number;
            /** @description Number of bytes written to disks. */
            writtenBytes: number;
        };
        /** @description An operating system process. */
        ProcessName: {
            /** @description Command line. */
            command: string;
            /** @description Process id. */
            pid: number;
        };
        /** @description A single process. */
        ProcessResponse: {
            /** @description The process. */
            process: components["schemas"]["Process"];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A started process. */
        ProcessStarted: {
            /** @description The command. A long command is cut off and ends with `…`. */
            command: string;
            /** @description Id of the process, under the name used in all responses about executions. */
            executionId: string;
            /** @description Process id. */
            pid?: number | null;
            /** @description Id of the process. */
            processId: string;
            replaced?: components["schemas"]["Replaced"] | null;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "started";
        };
        /**
         * @description Status of a process.
         *
         *     - `starting`: The process was accepted but has not started, for example because it is queued in a session.
         *     - `running`: The process is running.
         *     - `completed`: The process ended with exit code 0.
         *     - `failed`: The process ended with another exit code, or by a signal that the server did not send.
         *     - `killed`: The process was ended through the API, by a timeout or by a limit.
         *     - `error`: The outcome of the process is unknown.
         * @enum {string}
         */
        ProcessStatus: "starting" | "running" | "completed" | "failed" | "killed" | "error";
        /** @description A file to read. */
        ReadRequest: {
            /** @default null */
            encoding?: components["schemas"]["FileEncoding"] | null;
            /**
             * @description Read at most this many bytes from the beginning of the file. Default and maximum: 32 MiB.
             * @default null
             */
            maxBytes?: number | null;
            /**
             * @description The path.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description A file or directory to rename. */
        RenameRequest: {
            /**
             * @description The new path.
             * @default null
             */
            newPath?: string | null;
            /**
             * @description The new path in base64, instead of `newPath`.
             * @default null
             */
            newPathBase64?: string | null;
            /**
             * @description The present path.
             * @default null
             */
            oldPath?: string | null;
            /**
             * @description The present path in base64, instead of `oldPath`.
             * @default null
             */
            oldPathBase64?: string | null;
            /**
             * @description Replace an existing file, or an empty directory. Default: true.
             * @default null
             */
            overwrite?: boolean | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description What to replace, and where. */
        ReplaceRequest: {
            /** @description False if upper and lower case are the same. Default: true. */
            caseSensitive?: boolean | null;
            /** @description Only report what would change. Default: false. */
            dryRun?: boolean | null;
            /** @description Globs that select files, as of `rg --glob`; one that begins with `!` excludes. At most 100. */
            glob?: string[] | null;
            /** @description Also change files whose name begins with a dot. Default: false. */
            hidden?: boolean | null;
            /** @description Leave out what `.gitignore` and `.ignore` files exclude. Default: true. */
            ignoreFiles?: boolean | null;
            /** @description A directory, in which all files are changed, or a file. */
            path?: string | null;
            /** @description The path in base64, instead of `path`. */
            pathBase64?: string | null;
            /** @description The text or regular expression to replace. It is applied to whole files, so it may contain line ends. */
            pattern: string;
            /** @description True if `pattern` is a regular expression, in the syntax of the Rust crate `regex`. Default: false. */
            regex?: boolean | null;
            /** @description The text in its place, at most 256 KiB. With `regex`, `$1` and `${name}` are groups, and `$$` is a dollar sign. */
            replacement: string;
            /** @description Resolve relative paths against the working directory of this session. */
            sessionId?: string | null;
            /** @description True if only whole words match. Default: false. */
            word?: boolean | null;
        };
        /** @description The result of a replacement. */
        ReplaceResponse: {
            /** @description True if nothing was changed, as requested. */
            dryRun?: boolean;
            /** @description The changed files: sorted by name within each directory. */
            files: components["schemas"]["ReplacedFile"][];
            /** @description Number of replacements in all files. */
            replacements: number;
            /** @description Files that could not be read or written, or have more than 4 MiB before or after. Binary files are not listed. */
            skipped?: components["schemas"]["SkippedFile"][];
            /** @description True if no file was skipped. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description True if 10,000 files were changed, and there may be more. Repeat the request. */
            truncated?: boolean;
        };
        /** @description A finished execution whose record was removed because its id was used again. */
        Replaced: {
            /** @description Reason and signal of the end. */
            end: components["schemas"]["End"];
            /**
             * Format: int32
             * @description Exit code of the execution.
             */
            exitCode: number;
        };
        /** @description A file that was changed, or would be. */
        ReplacedFile: {
            /** @description Unified diff, at most 256 KiB. */
            diff: string;
            /** @description True if a part of the diff was left out. */
            diffTruncated?: boolean;
            /** @description Absolute path. Bytes that are not UTF-8 are replaced. */
            path: string;
            /** @description The path in base64, if it is not UTF-8. */
            pathBase64?: string | null;
            /** @description Number of replacements. */
            replacements: number;
        };
        /** @description Options of a reset. */
        ResetRequest: {
            /**
             * @description True to restore the state of the old shell in the new one. Default: false.
             * @default null
             */
            restore?: boolean | null;
        };
        /** @description The new size of a terminal. */
        ResizeRequest: {
            /**
             * Format: int32
             * @description Number of columns.
             */
            cols: number;
            /**
             * Format: int32
             * @description Number of rows.
             */
            rows: number;
        };
        /** @description The size that a terminal has now. */
        ResizeResponse: {
            /** @description Number of columns. */
            cols: number;
            /** @description Number of rows. */
            rows: number;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description Response to a request. Last frame with its id. */
        ResponseFrame: {
            /** @description Response body: a JSON value if the body is JSON, otherwise a string. */
            body?: unknown;
            /** @description Always true. */
            done: boolean;
            encoding?: components["schemas"]["Encoding"] | null;
            /** @description Id of the request. */
            id: string;
            /** @description HTTP status. */
            status: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "response";
        };
        /**
         * @description When the program of a service is started again.
         *
         *     - `never`: Never.
         *     - `on-failure`: After an end with another exit code than 0, by a signal, by a timeout or limit, or with its machine.
         *     - `always`: After every end.
         * @enum {string}
         */
        RestartCondition: "never" | "on-failure" | "always";
        /** @description When and how often a service is restarted. */
        RestartPolicy: {
            /**
             * Format: int64
             * @description Delay of the first restart in milliseconds. Each further restart in a row doubles it. Default: 1,000.
             */
            backoffMs?: number | null;
            /**
             * Format: int64
             * @description Longest delay in milliseconds. Default: 60,000, or `backoffMs` if that is longer.
             */
            maxBackoffMs?: number | null;
            /** @description Number of restarts in a row after which the service fails. Default: 10. */
            maxRestarts?: number | null;
            /** @description Whether a service that becomes unhealthy is ended, which counts as a failure. Requires a health check and another policy than `never`. Default: `false`. */
            onUnhealthy?: boolean | null;
            policy?: components["schemas"]["RestartCondition"] | null;
            /**
             * Format: int64
             * @description Run time in milliseconds after which restarts are counted from 0 again. Default: 60,000.
             */
            resetAfterMs?: number | null;
        };
        /** @description A folder to restore. Exactly one of `id`, `archivePath` and `url` is required. */
        RestoreBackupRequest: {
            /**
             * @description Path of an archive.
             * @default null
             */
            archivePath?: string | null;
            /**
             * @description The folder. It is replaced, and created if it does not exist.
             * @default
             */
            dir?: string;
            /**
             * @description Id of a backup.
             * @default null
             */
            id?: string | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
            /**
             * @description URL of an archive, such as a presigned one of S3.
             * @default null
             */
            url?: string | null;
        };
        /**
         * @description Source of a restored shell's state.
         *
         *     - `exit`: The previous shell when it ended. The state is complete.
         *     - `snapshot`: The last snapshot, because the previous shell was killed or crashed. Later changes are lost.
         * @enum {string}
         */
        RestoredFrom: "exit" | "snapshot";
        /**
         * @description Why the state must be read again.
         *
         *     - `overflow`: There were too many changes at once.
         *     - `slow_reader`: The client read too slowly.
         *     - `replaced`: Another directory has taken the place of the watched one.
         *     - `reconnected`: The client has lost its connection, and has made another one. Only clients that reconnect report this.
         * @enum {string}
         */
        ResyncReason: "overflow" | "slow_reader" | "replaced" | "reconnected";
        /** @description The cursor on a screen. */
        ScreenCursor: {
            /** @description Its column, from 0. */
            col: number;
            /** @description Its row, from 0. */
            row: number;
            /** @description Whether it is shown. */
            visible: boolean;
        };
        /** @description The screen of a terminal. */
        ScreenResponse: {
            /** @description Whether the alternate screen is shown, as by full-screen programs. */
            alternate: boolean;
            /** @description With `format=cells`: the same lines as runs of cells with equal attributes. Trailing blank cells without attributes are left out. */
            cells?: components["schemas"]["ScreenRun"][][] | null;
            /** @description Number of columns. */
            cols: number;
            /** @description The cursor. */
            cursor: components["schemas"]["ScreenCursor"];
            /** @description The cursor of the output after which the screen looks like this. */
            outputCursor: number;
            /** @description Whether output of the program is missing on the screen, because the disk of the server's state is or was full. Absent if nothing is missing. */
            outputDropped?: boolean;
            /** @description Number of rows. */
            rows: number;
            /** @description Number of lines in the scrollback. `text` and `cells` contain the newest of them, at most `scrollback`. */
            scrollbackLines: number;
            /** @description Where the screen comes from. */
            source: components["schemas"]["ScreenSource"];
            /** @description Always true. */
            success: boolean;
            /** @description The lines of the screen, each without trailing blanks. With `scrollback`, the newest lines of the scrollback come first. */
            text: string;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description The title that the program has set; empty if none. */
            title: string;
        };
        /** @description Adjacent cells of a row with the same colours and attributes. */
        ScreenRun: {
            /** @default null */
            bg?: components["schemas"]["Color"] | null;
            /**
             * @description Blinking.
             * @default false
             */
            blink?: boolean;
            /**
             * @description Bold.
             * @default false
             */
            bold?: boolean;
            /**
             * @description Dim.
             * @default false
             */
            dim?: boolean;
            /** @default null */
            fg?: components["schemas"]["Color"] | null;
            /**
             * @description Invisible.
             * @default false
             */
            hidden?: boolean;
            /**
             * @description Foreground and background exchanged.
             * @default false
             */
            inverse?: boolean;
            /**
             * @description Italic.
             * @default false
             */
            italic?: boolean;
            /**
             * @description The target of a hyperlink.
             * @default null
             */
            link?: string | null;
            /**
             * @description With a line above.
             * @default false
             */
            overline?: boolean;
            /**
             * @description Struck through.
             * @default false
             */
            strikethrough?: boolean;
            /**
             * @description Text of the cells.
             * @default
             */
            text?: string;
            /**
             * @description Underlined.
             * @default false
             */
            underline?: boolean;
            /** @default null */
            underlineColor?: components["schemas"]["Color"] | null;
            /** @default null */
            underlineStyle?: components["schemas"]["UnderlineStyle"] | null;
        };
        /**
         * @description Where a screen comes from.
         *
         *     - `live`: It is the exact screen: all output is known.
         *     - `journal`: The supervisor of the terminal was killed. The screen is rebuilt from the output that it had recorded.
         *     - `saved`: The supervisor of the terminal was killed, and a part of the recorded output is missing. The screen is the last saved one.
         * @enum {string}
         */
        ScreenSource: "live" | "journal" | "saved";
        /** @description The search has ended. Last event of the stream. */
        SearchCompleteEvent: {
            /** @description Number of files that were searched. Binary files count. */
            filesSearched: number;
            /** @description Number of matching lines. */
            matches: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description True if there are more matches: `maxMatches` was reached. */
            truncated: boolean;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "complete";
            /** @description Number of files and directories that could not be read, and of files with a line of more than 2 MiB. */
            unreadable: number;
        };
        /** @description The search failed. Last event of the stream. */
        SearchErrorEvent: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Error message, under the name that clients of the reference read. */
            data: string;
            /** @description Error message. */
            error: string;
            /** @description Id of the execution, if one was started. */
            executionId?: string | null;
            /**
             * Format: int32
             * @description Exit code, if the command has ended.
             */
            exitCode?: number | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description An event of a search: `match` for each matching line, then `complete` or `error`. */
        SearchEvent: components["schemas"]["SearchMatchEvent"] | components["schemas"]["SearchCompleteEvent"] | components["schemas"]["SearchErrorEvent"];
        /** @description A matching line. */
        SearchMatch: {
            /** @description The lines after it, if `contextLines` was given. */
            after?: string[] | null;
            /** @description The lines before it, if `contextLines` was given. */
            before?: string[] | null;
            /** @description Column of the first match in the line, in bytes, from 1. */
            column: number;
            /** @description True if a part of the line was cut. */
            cut?: boolean;
            /** @description Number of the line, from 1. */
            line: number;
            /** @description Absolute path of the file. Bytes that are not UTF-8 are replaced. */
            path: string;
            /** @description The path in base64, if it is not UTF-8. Use it as `pathBase64`. */
            pathBase64?: string | null;
            /** @description The line without its end. A line of more than 4 KiB is cut to the part around the match. */
            text: string;
            /** @description Column at which `text` begins, if the beginning of the line was cut. */
            textColumn?: number | null;
        };
        /** @description A matching line. Lines of one file are in order; matches of different files may alternate. */
        SearchMatchEvent: {
            /** @description The lines after it, if `contextLines` was given. */
            after?: string[] | null;
            /** @description The lines before it, if `contextLines` was given. */
            before?: string[] | null;
            /** @description Column of the first match in the line, in bytes, from 1. */
            column: number;
            /** @description True if a part of the line was cut. */
            cut?: boolean;
            /** @description Number of the line, from 1. */
            line: number;
            /** @description Absolute path of the file. Bytes that are not UTF-8 are replaced. */
            path: string;
            /** @description The path in base64, if it is not UTF-8. Use it as `pathBase64`. */
            pathBase64?: string | null;
            /** @description The line without its end. A line of more than 4 KiB is cut to the part around the match. */
            text: string;
            /** @description Column at which `text` begins, if the beginning of the line was cut. */
            textColumn?: number | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "match";
        };
        /** @description What to search for, and where. */
        SearchRequest: {
            /** @description False if upper and lower case are the same. Default: true. */
            caseSensitive?: boolean | null;
            /** @description Number of lines before and after each match, 0 to 50. Default: 0. */
            contextLines?: number | null;
            /** @description Globs that select files, as of `rg --glob`; one that begins with `!` excludes. At most 100. */
            glob?: string[] | null;
            /** @description Also search files and directories whose name begins with a dot. Default: false. */
            hidden?: boolean | null;
            /** @description Leave out what `.gitignore` and `.ignore` files exclude. Default: true. */
            ignoreFiles?: boolean | null;
            /**
             * Format: int32
             * @description The search ends after this many matching lines, 1 to 100,000. Default: 1,000.
             */
            maxMatches?: number | null;
            /** @description A directory, which is searched with everything below it, or a file. */
            path?: string | null;
            /** @description The path in base64, instead of `path`. */
            pathBase64?: string | null;
            /** @description The text or regular expression that a line contains. At most 16 KiB. */
            pattern: string;
            /** @description True if `pattern` is a regular expression, in the syntax of the Rust crate `regex`. Default: false. */
            regex?: boolean | null;
            /** @description Resolve relative paths against the working directory of this session. */
            sessionId?: string | null;
            /** @description True if only whole words match. Default: false. */
            word?: boolean | null;
        };
        /** @description The matches of a search. */
        SearchResponse: {
            /** @description Number of files that were searched. Binary files count. */
            filesSearched: number;
            /** @description The matching lines, sorted by path and line. */
            matches: components["schemas"]["SearchMatch"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description True if there are more matches: `maxMatches`, or 8 MiB of results, were reached. */
            truncated: boolean;
            /** @description Number of files and directories that could not be read, and of files with a line of more than 2 MiB. */
            unreadable?: number;
        };
        /** @description An event of `/api/events`. */
        ServerEvent: components["schemas"]["HelloEvent"] | components["schemas"]["ExecutionStartedEvent"] | components["schemas"]["ExecutionEndedEvent"] | components["schemas"]["ExecutionRemovedEvent"] | components["schemas"]["SessionCreatedEvent"] | components["schemas"]["SessionRestartedEvent"] | components["schemas"]["SessionDeletedEvent"] | components["schemas"]["PortOpenedEvent"] | components["schemas"]["PortClosedEvent"] | components["schemas"]["PortExposedEvent"] | components["schemas"]["PortUnexposedEvent"] | components["schemas"]["ServiceChangedEvent"] | components["schemas"]["ServiceRemovedEvent"] | components["schemas"]["MissedEvent"] | components["schemas"]["ByeEvent"];
        /** @description A frame from the server. */
        ServerFrame: components["schemas"]["ResponseFrame"] | components["schemas"]["StreamFrame"] | components["schemas"]["ErrorFrame"];
        /** @description A service. */
        Service: {
            /** @description The command. A long command is cut off and ends with `…`. */
            command: string;
            /** @description Time at which the service was created. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description Id of the current or last execution, for the routes of processes. */
            executionId?: string | null;
            /** @description Earlier executions, the newest first, at most 10. In the states `stopped`, `failed` and `restarting` the last execution is the first of them. */
            executions: components["schemas"]["ServiceExecution"][];
            /** @description Health of the service. */
            health: components["schemas"]["ServiceHealth"];
            healthCheck?: components["schemas"]["HealthCheck"] | null;
            /** @description Id of the service. */
            id: string;
            /** @description Display name. */
            name?: string | null;
            nextRestart?: components["schemas"]["Timestamp"] | null;
            /** @description Process id of the current execution. */
            pid?: number | null;
            /** @description The restart policy. */
            restart: components["schemas"]["RestartPolicy"];
            /** @description Number of restarts by the policy since the service was created. */
            restarts: number;
            /** @description Session from whose state the executions start. */
            sessionId?: string | null;
            startedAt?: components["schemas"]["Timestamp"] | null;
            /** @description State of the service. */
            state: components["schemas"]["ServiceState"];
        };
        /** @description All output recorded so far has been sent. Last event of a stream with `follow=false`. */
        ServiceCaughtUpEvent: {
            /** @description Id of the service. */
            serviceId: string;
            /** @description State of the service. */
            state: components["schemas"]["ServiceState"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "caught_up";
        };
        /** @description A service has changed its state, or its current execution. */
        ServiceChangedEvent: {
            /** @description The service after the change. */
            service: components["schemas"]["Service"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "service_changed";
        };
        /** @description The service was stopped, has failed, or was deleted. Last event of the stream. */
        ServiceEndEvent: {
            /** @description Id of the service. */
            serviceId: string;
            /** @description State of the service. */
            state: components["schemas"]["ServiceState"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "end";
        };
        /** @description The stream failed. Last event of the stream. */
        ServiceErrorEvent: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Error message, under the name that clients of the reference read. */
            data: string;
            /** @description Error message. */
            error: string;
            /** @description Id of the execution, if one was started. */
            executionId?: string | null;
            /**
             * Format: int32
             * @description Exit code, if the command has ended.
             */
            exitCode?: number | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description An event of a service stream: for each execution `execution`, output and `exit`; at last `end`, `caught_up` or `error`. */
        ServiceEvent: components["schemas"]["ServiceExecutionEvent"] | components["schemas"]["ServiceStdoutEvent"] | components["schemas"]["ServiceStderrEvent"] | components["schemas"]["ServiceGapEvent"] | components["schemas"]["ServiceExitEvent"] | components["schemas"]["ServiceEndEvent"] | components["schemas"]["ServiceCaughtUpEvent"] | components["schemas"]["ServiceErrorEvent"];
        /** @description An earlier execution of a service. */
        ServiceExecution: {
            end?: components["schemas"]["End"] | null;
            /** @description Time at which it ended. */
            endTime: components["schemas"]["Timestamp"];
            /** @description Why the program could not be started. */
            error?: string | null;
            /** @description Id of the execution, for the routes of processes. Retention may have removed its record. */
            executionId: string;
            /**
             * Format: int32
             * @description Exit code, if it is known.
             */
            exitCode?: number | null;
            /** @description Time at which it was started. */
            startTime: components["schemas"]["Timestamp"];
        };
        /** @description An execution of the service, whose output follows. */
        ServiceExecutionEvent: {
            /** @description Id of the execution. */
            executionId: string;
            /** @description Number of restarts by the policy before this event. */
            restarts: number;
            /** @description Id of the service. */
            serviceId: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "execution";
        };
        /** @description The execution has ended. If the service is restarted, another `execution` follows. */
        ServiceExitEvent: {
            /** @description Always empty. Clients of the reference expect this field in every event. */
            data: string;
            /** @description Reason and signal of the end. */
            end: components["schemas"]["End"];
            /**
             * Format: int32
             * @description Exit code of the process.
             */
            exitCode: number;
            /** @description Id of the process. */
            processId: string;
            /** @description Time at which the process ended. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "exit";
            /** @description Resources that the process used. */
            usage: components["schemas"]["Usage"];
        };
        /** @description Output was dropped because the journal reached its size limit. */
        ServiceGapEvent: {
            /** @description Cursor of the first missing byte. */
            from: number;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Cursor of the first byte after the gap. */
            to: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "gap";
        };
        /** @description Health of a service. */
        ServiceHealth: {
            /** @description Why the last check failed, or why the service does not run. */
            error?: string | null;
            lastCheck?: components["schemas"]["Timestamp"] | null;
            /** @description State of the service. */
            status: components["schemas"]["ServiceState"];
        };
        /** @description Health of a service. */
        ServiceHealthResponse: {
            /** @description Why the last check failed, or why the service does not run. */
            error?: string | null;
            lastCheck?: components["schemas"]["Timestamp"] | null;
            /** @description Id of the service. */
            serviceId: string;
            /** @description State of the service. */
            status: components["schemas"]["ServiceState"];
            /** @description True if the service can be used: its state is `healthy`, or `running` without a health check. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A list of services. */
        ServiceList: {
            /** @description The services, the oldest first. */
            services: components["schemas"]["Service"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A service was deleted. */
        ServiceRemovedEvent: {
            /** @description Id of the service. */
            serviceId: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "service_removed";
        };
        /** @description A service to start: a command, its health check and its restart policy. */
        ServiceRequest: {
            /** @description Arguments. Without a session, the program runs without a shell. */
            args?: string[] | null;
            /** @description Shell text or, with `args`, the program. It must stay in the foreground: what it leaves running is ended. */
            command: string;
            /** @description Working directory. Default: that of the session, or the workspace. */
            cwd?: string | null;
            encoding?: components["schemas"]["Encoding"] | null;
            /** @description Changes to the environment: a string sets a variable, `null` unsets it. */
            env?: {
                [key: string]: string | null;
            } | null;
            /** @description Grace period in milliseconds between SIGTERM and SIGKILL after a timeout. Default: 1,000. */
            graceMs?: number | null;
            healthCheck?: components["schemas"]["HealthCheck"] | null;
            /** @description Maximum time without output of an execution in milliseconds. Its end counts as a failure. Default: none. */
            idleTimeoutMs?: number | null;
            limits?: components["schemas"]["Limits"] | null;
            /** @description Display name, at most 128 bytes. */
            name?: string | null;
            onSessionEnd?: components["schemas"]["OnSessionEnd"] | null;
            /** @description Timeout of this wait in milliseconds. The service continues after it. Default: 60,000. */
            readyTimeoutMs?: number | null;
            restart?: components["schemas"]["RestartPolicy"] | null;
            /** @description Id of the service, at most 96 bytes. Default: a generated id. */
            serviceId?: string | null;
            /** @description Session from whose state each execution starts. Without one, the service is independent of sessions. */
            sessionId?: string | null;
            /** @description Maximum run time of an execution in milliseconds. Its end counts as a failure. Default: none. */
            timeoutMs?: number | null;
            /** @description User to run the program as: a name, a user id or `UID:GID`. Requires that the server runs as root. Not allowed with a session, which has its own user. */
            user?: string | null;
            /** @description Respond when the service is healthy instead of when its program runs. */
            waitForReady?: boolean | null;
        };
        /** @description A single service. */
        ServiceResponse: {
            /** @description The service. */
            service: components["schemas"]["Service"];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A started service. */
        ServiceStarted: {
            /** @description The command. A long command is cut off and ends with `…`. */
            command: string;
            /** @description The same, under the name used in all responses about executions. */
            executionId: string;
            /** @description Health of the service. */
            health: components["schemas"]["ServiceHealth"];
            /** @description Process id. */
            pid?: number | null;
            /** @description Id of the current execution. */
            processId: string;
            /** @description Id of the service. */
            serviceId: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /**
         * @description State of a service.
         *
         *     - `starting`: The program is being started, or its health check has not succeeded yet.
         *     - `running`: The program runs, and has no health check.
         *     - `healthy`: The program runs, and its last health check succeeded.
         *     - `unhealthy`: The program runs, and its last health checks failed.
         *     - `restarting`: The program has ended, and is started again at `nextRestart`.
         *     - `stopping`: The program is being ended.
         *     - `stopped`: The service was stopped, or its program ended with exit code 0.
         *     - `failed`: The program failed, and is not started again.
         * @enum {string}
         */
        ServiceState: "starting" | "running" | "healthy" | "unhealthy" | "restarting" | "stopping" | "stopped" | "failed";
        /** @description The program wrote to standard error. */
        ServiceStderrEvent: {
            /** @description The output, as UTF-8 text or base64 (see `encoding` in the request). */
            data: string;
            /** @description True if `data` contains replacement characters for bytes that were not valid UTF-8. */
            invalidUtf8?: boolean;
            /** @description Id of the process. Only in process streams. */
            processId?: string | null;
            /** @description Time at which the supervisor read the output. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "stderr";
        };
        /** @description The program wrote to standard output. */
        ServiceStdoutEvent: {
            /** @description The output, as UTF-8 text or base64 (see `encoding` in the request). */
            data: string;
            /** @description True if `data` contains replacement characters for bytes that were not valid UTF-8. */
            invalidUtf8?: boolean;
            /** @description Id of the process. Only in process streams. */
            processId?: string | null;
            /** @description Time at which the supervisor read the output. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "stdout";
        };
        /** @description How a service is ended. */
        ServiceStopRequest: {
            /** @description Grace period in milliseconds before SIGKILL. Default: 5,000. */
            graceMs?: number | null;
            /** @description First signal to send, by name or number. Default: `SIGTERM`. */
            signal?: string | null;
        };
        /** @description A service that was stopped or deleted. */
        ServiceStopped: {
            /** @description All operating system processes that were ended. */
            killed: components["schemas"]["KilledProcess"][];
            /** @description Id of the service. */
            serviceId: string;
            /** @description True if no process is left. */
            success: boolean;
            /** @description Operating system processes that could not be ended. */
            survivors: components["schemas"]["ProcessName"][];
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A session. */
        Session: {
            /** @description True if a command is running. */
            busy: boolean;
            /** @description Time at which the session was created. */
            createdAt: components["schemas"]["Timestamp"];
            /** @description Current working directory, if known. */
            cwd?: string | null;
            /** @description Id of the session. */
            id: string;
            /** @description Display name, if it has one. */
            name?: string | null;
            /** @description Number of queued commands. */
            queued: number;
            /** @description Number of times that the shell was restarted. */
            restarts: number;
        };
        /** @description Response to `session/create` and `session/{id}/fork`. */
        SessionCreated: {
            /** @description The session. */
            data: components["schemas"]["CreatedSession"];
            /** @description Id of the session. */
            id: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A session was created. */
        SessionCreatedEvent: {
            /** @description Name of the session, if it has one. */
            name?: string | null;
            /** @description Id of the session. */
            sessionId: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "session_created";
        };
        /** @description A session was deleted. */
        SessionDeletedEvent: {
            /** @description Name of the session, if it has one. */
            name?: string | null;
            /** @description Id of the session. */
            sessionId: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "session_deleted";
        };
        /** @description The command that was running when its session or shell ended. */
        SessionEndContext: {
            executionId?: string;
            exitCode?: number;
            sessionId?: string;
            /** @description Standard error, at most 1 MiB. */
            stderr?: string;
            /** @description Standard output, at most 1 MiB. */
            stdout?: string;
            /** @description Number of bytes that were left out. */
            truncatedBytes?: number;
        };
        /** @description Processes that were ended with a session or by an interrupt. */
        SessionEnded: {
            /** @description All operating system processes that were ended. */
            killed: components["schemas"]["KilledProcess"][];
            /** @description Id of the session. */
            sessionId: string;
            /** @description True if no process is left. */
            success: boolean;
            /** @description Operating system processes that could not be ended. */
            survivors: components["schemas"]["ProcessName"][];
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A list of sessions. */
        SessionList: {
            /** @description Ids of the sessions, oldest first. */
            data: string[];
            /** @description The sessions, oldest first. */
            sessions: components["schemas"]["Session"][];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description Options of a new session. */
        SessionRequest: {
            /**
             * @description Default timeout of the session's commands in milliseconds. 0 disables the server's default timeout.
             * @default null
             */
            commandTimeoutMs?: number | null;
            /**
             * @description Initial working directory. Default: the workspace.
             * @default null
             */
            cwd?: string | null;
            /**
             * @description Changes to the environment: a string sets a variable, `null` unsets it.
             * @default null
             */
            env?: {
                [key: string]: string | null;
            } | null;
            /**
             * @description Id of the session. Default: a generated id.
             * @default null
             */
            id?: string | null;
            /**
             * @description Default `maxOutputBytes` of the session's commands.
             * @default null
             */
            maxOutputSizeBytes?: number | null;
            /**
             * @description Display name.
             * @default null
             */
            name?: string | null;
            /** @default null */
            onShellExit?: components["schemas"]["OnShellExit"] | null;
            /**
             * @description User to run the shell as: a name, a user id or `UID:GID`. Requires that the server runs as root.
             * @default null
             */
            user?: string | null;
        };
        /** @description A single session. */
        SessionResponse: {
            /** @description The session. */
            session: components["schemas"]["Session"];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A session's shell was restarted. */
        SessionRestartedEvent: {
            /** @description Name of the session, if it has one. */
            name?: string | null;
            /** @description Id of the session. */
            sessionId: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "session_restarted";
        };
        /** @description The shell driver of sessions. */
        ShellHealth: {
            /** @description `loaded`, `portable`, or `none` if the machine has no usable bash. */
            driver: string;
            /** @description Why the driver is not `loaded`. */
            reason?: string | null;
        };
        /** @description A signal to send. */
        SignalRequest: {
            /**
             * @description The signal: a name (`TERM`, `SIGTERM`) or a number.
             * @example SIGTERM
             */
            signal: string | number;
        };
        /** @description A file that was not changed. */
        SkippedFile: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Error message, with what to do. */
            message: string;
            /** @description Absolute path. Bytes that are not UTF-8 are replaced. */
            path: string;
            /** @description The path in base64, if it is not UTF-8. */
            pathBase64?: string | null;
        };
        /** @description The command has started. */
        StartEvent: {
            /** @description The command. A long command is cut off and ends with `…`. */
            command: string;
            /** @description Id of the execution. */
            executionId: string;
            /** @description Process id of the command. For a command in a session, the process id of its shell. */
            pid?: number | null;
            replaced?: components["schemas"]["Replaced"] | null;
            /** @description Id of the session, if the command runs in one. */
            sessionId?: string | null;
            /** @description Time at which the command started. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "start";
        };
        /** @description Current condition of the state directory. */
        StateDirectory: {
            /** @description Free disk space in bytes. */
            freeBytes: number;
            /** @description False if the directory was moved or removed after the server started. */
            present: boolean;
        };
        /** @description The process wrote to standard error. */
        StderrEvent: {
            /** @description The output, as UTF-8 text or base64 (see `encoding` in the request). */
            data: string;
            /** @description True if `data` contains replacement characters for bytes that were not valid UTF-8. */
            invalidUtf8?: boolean;
            /** @description Id of the process. Only in process streams. */
            processId?: string | null;
            /** @description Time at which the supervisor read the output. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "stderr";
        };
        /** @description Result of a write to standard input. */
        StdinResponse: {
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Number of bytes written. */
            written: number;
        };
        /** @description The process wrote to standard output. */
        StdoutEvent: {
            /** @description The output, as UTF-8 text or base64 (see `encoding` in the request). */
            data: string;
            /** @description True if `data` contains replacement characters for bytes that were not valid UTF-8. */
            invalidUtf8?: boolean;
            /** @description Id of the process. Only in process streams. */
            processId?: string | null;
            /** @description Time at which the supervisor read the output. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "stdout";
        };
        /** @description An event of a stream. */
        StreamFrame: {
            /** @description Event data: the same text as in an SSE stream. */
            data: string;
            /** @description Event name, if it has one. */
            event?: string | null;
            /** @description Event cursor: the `id:` of an SSE stream. */
            eventId?: string | null;
            /** @description Id of the request. */
            id: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "stream";
        };
        /** @description The operation succeeded. */
        SuccessResponse: {
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description Result of a command, without its output. */
        Summary: {
            /** @description The command. A long command is cut off and ends with `…`. */
            command: string;
            /**
             * Format: double
             * @description Run time in milliseconds.
             */
            duration: number;
            /** @description Id of the execution. */
            executionId: string;
            /**
             * Format: int32
             * @description Exit code of the command.
             */
            exitCode: number;
            /** @description Number of processes that the command left running. */
            leftoverCount?: number | null;
            /** @description Processes that the command left running: the first 32. */
            leftovers?: components["schemas"]["ProcessName"][] | null;
            restoredFrom?: components["schemas"]["RestoredFrom"] | null;
            /**
             * Format: double
             * @description Age of the restored state in milliseconds.
             */
            restoredStateAgeMs?: number | null;
            /** @description Id of the session, if the command ran in one. */
            sessionId?: string | null;
            /** @description True if the session's shell was restored before this command. */
            sessionRestarted?: boolean | null;
            /** @description True if the command ended its session's shell, for example with `exit`. */
            shellEnded?: boolean | null;
            /** @description True if the exit code is 0. */
            success: boolean;
            /** @description Time at which the command ended. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A terminal. */
        Terminal: {
            /** @description Number of columns. */
            cols: number;
            /** @description The command. */
            command: string;
            /** @description Time of its creation. */
            createdAt: components["schemas"]["Timestamp"];
            end?: components["schemas"]["End"] | null;
            /** @description The id of its execution, for the routes of processes. Equal to `id`. */
            executionId: string;
            /**
             * Format: int32
             * @description The exit code of its program.
             */
            exitCode?: number | null;
            /** @description Id of the terminal. */
            id: string;
            /** @description Time of the last output, or of its creation if there was none. */
            lastActivity: components["schemas"]["Timestamp"];
            /** @description The process id of its program. */
            pid?: number | null;
            /** @description Number of rows. */
            rows: number;
            /** @description The session whose state it started from. */
            sessionId?: string | null;
            /** @description Status of the terminal. */
            status: components["schemas"]["TerminalStatus"];
            /** @description The title that the program has set; empty if none. In a list, the title as last known to the server. */
            title: string;
            /** @description Number of attached viewers. */
            viewers: number;
        };
        /** @description A control frame of a client. Input is a binary frame. */
        TerminalClientFrame: {
            /**
             * Format: int32
             * @description Number of columns.
             */
            cols: number;
            /**
             * Format: int32
             * @description Number of rows.
             */
            rows: number;
            /** @description The kind of frame. */
            type: components["schemas"]["TerminalClientFrameKind"];
        };
        /**
         * @description The kind of a control frame of a client.
         *
         *     - `resize`: The client shows the terminal in this size from now on.
         * @enum {string}
         */
        TerminalClientFrameKind: "resize";
        /** @description The response to creating a terminal. */
        TerminalCreated: {
            /** @description Number of columns. */
            cols: number;
            /** @description Whether this request created it. `false`: it was already running. */
            created: boolean;
            /** @description The id of its execution, for the routes of processes. Equal to `id`. */
            executionId: string;
            /** @description Id of the terminal. */
            id: string;
            /** @description The process id of its program. */
            pid?: number | null;
            /** @description Number of rows. */
            rows: number;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description The response to deleting a terminal. */
        TerminalDeleted: {
            /** @description Id of the terminal. */
            id: string;
            /** @description The processes that were ended. */
            killed: components["schemas"]["KilledProcess"][];
            /** @description Whether no process of the terminal is left. */
            success: boolean;
            /** @description The processes that could not be ended. */
            survivors: components["schemas"]["ProcessName"][];
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A request of this viewer failed. */
        TerminalErrorFrame: {
            /** @description The error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description The error message, with what to do. */
            message: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description The program of the terminal has ended. */
        TerminalExitFrame: {
            /**
             * Format: int32
             * @description The same, as clients of the reference read it.
             */
            code: number;
            /** @description How it ended. */
            end: components["schemas"]["End"];
            /**
             * Format: int32
             * @description Its exit code.
             */
            exitCode: number;
            /** @description The name of the signal that ended it. */
            signal?: string | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "exit";
        };
        /** @description A control frame of the server. */
        TerminalFrame: components["schemas"]["TerminalRepaintFrame"] | components["schemas"]["TerminalReadyFrame"] | components["schemas"]["TerminalResizeFrame"] | components["schemas"]["TerminalExitFrame"] | components["schemas"]["TerminalErrorFrame"];
        /** @description Input for a terminal: the text, then the keys. */
        TerminalInputRequest: {
            /**
             * @description Keys by name: `enter`, `tab`, `escape`, `backspace`, `delete`, `insert`, `space`, `up`, `down`, `left`, `right`, `home`, `end`, `pageup`, `pagedown`, `f1` to `f12`, or one character. Modifiers come first: `ctrl-c`, `alt-x`, `shift-tab`, `ctrl-alt-left`.
             * @default null
             */
            keys?: string[] | null;
            /**
             * @description Text, sent unchanged.
             * @default null
             */
            text?: string | null;
        };
        /** @description The response to input. */
        TerminalInputResponse: {
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Number of accepted bytes. */
            written: number;
        };
        /** @description All terminals. */
        TerminalList: {
            /** @description Always true. */
            success: boolean;
            /** @description The terminals, the oldest first. */
            terminals: components["schemas"]["Terminal"][];
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description The client has received what it missed. */
        TerminalReadyFrame: {
            /** @description Number of columns. */
            cols: number;
            /** @description The cursor of the output so far. To resume after a disconnect, add the number of bytes received since, and send it as `since`. */
            cursor: number;
            /** @description The id of the terminal. */
            id: string;
            /** @description Differs from that of every other terminal with this id. Send it with `since`: the cursor is not valid for another terminal. */
            incarnation?: string;
            /** @description Number of rows. */
            rows: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "ready";
        };
        /** @description The next binary message is a repaint. */
        TerminalRepaintFrame: {
            /** @description Number of columns. */
            cols: number;
            /** @description The cursor of the output after which the screen looks like this. Binary messages after the repaint continue from here; the repaint itself does not count. */
            cursor: number;
            /** @description Number of rows. */
            rows: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "repaint";
        };
        /** @description A terminal to create. */
        TerminalRequest: {
            /**
             * @description Arguments. The program is run without a shell.
             * @default null
             */
            args?: string[] | null;
            /**
             * Format: int32
             * @description Number of columns. Default: 80.
             * @default null
             */
            cols?: number | null;
            /**
             * @description Shell text; or, with `args`, the program. Default: an interactive bash that is not a login shell.
             * @default null
             */
            command?: string | null;
            /**
             * @description The working directory.
             * @default null
             */
            cwd?: string | null;
            /**
             * @description Changes to its environment.
             * @default null
             */
            env?: {
                [key: string]: string | null;
            } | null;
            /**
             * @description The id; one is generated if absent. If a terminal with this id is running, the response describes that one.
             * @default null
             */
            id?: string | null;
            /**
             * @description Maximum time without input and output, in milliseconds; 0 for no limit.
             * @default null
             */
            idleTimeoutMs?: number | null;
            /** @default null */
            limits?: components["schemas"]["Limits"] | null;
            /**
             * Format: int32
             * @description Number of rows. Default: 24.
             * @default null
             */
            rows?: number | null;
            /**
             * @description The session whose state it starts from: working directory, variables, functions, aliases.
             * @default null
             */
            sessionId?: string | null;
            /**
             * @description The value of `TERM`. Default: `xterm-256color`.
             * @default null
             */
            term?: string | null;
            /**
             * @description Maximum run time in milliseconds; 0 for no limit.
             * @default null
             */
            timeoutMs?: number | null;
            /**
             * @description The user to run it as: a name, a user id or `UID:GID`. Only where the server runs as root, and not with a session.
             * @default null
             */
            user?: string | null;
        };
        /** @description The size of the terminal has changed. */
        TerminalResizeFrame: {
            /** @description Number of columns. */
            cols: number;
            /** @description Number of rows. */
            rows: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "resize";
        };
        /** @description One terminal. */
        TerminalResponse: {
            /** @description Always true. */
            success: boolean;
            /** @description The terminal. */
            terminal: components["schemas"]["Terminal"];
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /**
         * @description The state of a terminal.
         *
         *     - `running`: Its program is running.
         *     - `exited`: Its program has ended. The screen can still be read.
         * @enum {string}
         */
        TerminalStatus: "running" | "exited";
        /** @description The condition to wait for: exactly one of `text`, `regex` and `idleMs`. */
        TerminalWaitRequest: {
            /**
             * @description Time without a change of the screen, in milliseconds.
             * @default null
             */
            idleMs?: number | null;
            /**
             * @description Regular expression that must match on the screen; `^` and `$` match at lines.
             * @default null
             */
            regex?: string | null;
            /**
             * @description Text that the screen must contain. A line that the terminal has wrapped counts as one line.
             * @default null
             */
            text?: string | null;
            /**
             * @description Maximum time to wait, in milliseconds. Default: no limit; 0 checks once.
             * @default null
             */
            timeoutMs?: number | null;
        };
        /** @description The response to waiting. */
        TerminalWaitResponse: {
            /** @description The column of the match, from 0. */
            col?: number | null;
            /** @description Always true: without a match the response is an error. */
            matched: boolean;
            /** @description The row of the match, from 0. */
            row?: number | null;
            /** @description Always true. */
            success: boolean;
            /** @description The matched text. */
            text?: string | null;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** Format: date-time */
        Timestamp: string;
        /** @description A file or directory to move. */
        TransferRequest: {
            /**
             * @description The new path.
             * @default null
             */
            destinationPath?: string | null;
            /**
             * @description The new path in base64, instead of `destinationPath`.
             * @default null
             */
            destinationPathBase64?: string | null;
            /**
             * @description Replace an existing file, or an empty directory. Default: true.
             * @default null
             */
            overwrite?: boolean | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
            /**
             * @description The present path.
             * @default null
             */
            sourcePath?: string | null;
            /**
             * @description The present path in base64, instead of `sourcePath`.
             * @default null
             */
            sourcePathBase64?: string | null;
        };
        /** @description Bytes that were left out of a response. Output that a running process caused to be dropped while the response was sent is counted, too, also if it is missing at another place. */
        Truncated: {
            /** @description Number of bytes of standard error before the omitted ones. */
            stderrAfterBytes: number;
            /** @description Number of bytes of standard error that were left out. */
            stderrBytes: number;
            /** @description Number of bytes of standard output before the omitted ones. */
            stdoutAfterBytes: number;
            /** @description Number of bytes of standard output that were left out. */
            stdoutBytes: number;
        };
        /**
         * @description The style of an underline.
         *
         *     - `double`: Two lines.
         *     - `curly`: A wave.
         *     - `dotted`: Dots.
         *     - `dashed`: Dashes.
         * @enum {string}
         */
        UnderlineStyle: "double" | "curly" | "dotted" | "dashed";
        /** @description A request to end the exposure of a port. */
        UnexposePortRequest: {
            /**
             * Format: int32
             * @description The port.
             */
            port: number;
        };
        /** @description The port is no longer exposed. */
        UnexposePortResponse: {
            /** @description The port. */
            port: number;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
        /** @description A part of an archive to upload. */
        UploadPart: {
            /** @description Position of the first byte in the archive. */
            offset: number;
            /**
             * Format: int32
             * @description Number of the part.
             */
            partNumber: number;
            /** @description Number of bytes. */
            size: number;
            /** @description Presigned URL, to which the bytes are sent with `PUT`. */
            url: string;
        };
        /** @description Parts of an archive to upload. Either `archivePath` or `id` is required. */
        UploadPartsRequest: {
            /**
             * @description Path of an archive.
             * @default null
             */
            archivePath?: string | null;
            /**
             * @description Id of a backup.
             * @default null
             */
            id?: string | null;
            /**
             * @description The parts, at most 1,000.
             * @default []
             */
            parts?: components["schemas"]["UploadPart"][];
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description A part that was uploaded. */
        UploadedPart: {
            /** @description Entity tag, from the answer of the other server. Empty if it sent none. */
            etag: string;
            /** @description Number of the part. */
            partNumber: number;
        };
        /** @description Resources used by an execution. */
        Usage: {
            /** @description Largest resident set size of a single process, in bytes. */
            maxRssBytes: number;
            /**
             * Format: double
             * @description CPU time in the kernel, in milliseconds.
             */
            systemMs: number;
            /**
             * Format: double
             * @description CPU time in user mode, in milliseconds.
             */
            userMs: number;
            /**
             * Format: double
             * @description Time from start to end, in milliseconds.
             */
            wallMs: number;
        };
        /** @description The invalid part of a request. */
        ValidationContext: {
            /** @description Name of the field, header or query parameter. */
            field?: string;
            /** @description For an unknown name, the most similar known one. */
            nearest?: string;
            validationErrors?: {
                field?: string;
                message?: string;
            }[];
        };
        /** @description Version of the server. */
        Version: {
            /** @description Version of the reference API that the server is compatible with. */
            compatible: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description Version of the server. */
            version: string;
        };
        /**
         * @description What a running process is waiting for.
         *
         *     - `input`: The process is reading from its standard input, which is empty.
         * @enum {string}
         */
        Waiting: "input";
        /** @description The directory to compare with an earlier version. */
        WatchCheckRequest: {
            /**
             * @description The kinds of changes that count. Default: all but `attrib`.
             * @default null
             */
            events?: components["schemas"]["ChangeKind"][] | null;
            /**
             * @description Do not compare paths that match one of these globs.
             * @default null
             */
            exclude?: string[] | null;
            /**
             * @description Compare only paths that match one of these globs. Not together with `exclude`.
             * @default null
             */
            include?: string[] | null;
            /**
             * @description The directory or file.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Also compare the directories below it. Default: true.
             * @default null
             */
            recursive?: boolean | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
            /**
             * @description The version of an earlier response. Without it, the response has the version from which to compare.
             * @default null
             */
            since?: string | null;
        };
        /** @description Whether a directory has changed since a version. */
        WatchCheckResponse: {
            reason?: components["schemas"]["ExpiryReason"] | null;
            /** @description Whether it has changed. */
            status: components["schemas"]["WatchStatus"];
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
            /** @description The version for the next request. */
            version: string;
        };
        /** @description The watch failed, or the server is stopping (`SHUTTING_DOWN`). Last event of the stream. */
        WatchErrorEvent: {
            /** @description Error code. */
            code: components["schemas"]["ErrorCode"];
            /** @description Error message, under the name that clients of the reference read. */
            data: string;
            /** @description Error message. */
            error: string;
            /** @description Id of the execution, if one was started. */
            executionId?: string | null;
            /**
             * Format: int32
             * @description Exit code, if the command has ended.
             */
            exitCode?: number | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description An event of a watch: `watching`, then changes, and at the end `stopped` or `error`. */
        WatchEvent: components["schemas"]["WatchWatchingEvent"] | components["schemas"]["WatchEventEvent"] | components["schemas"]["WatchResyncEvent"] | components["schemas"]["WatchStoppedEvent"] | components["schemas"]["WatchErrorEvent"];
        /** @description A change of a file or directory. */
        WatchEventEvent: {
            /** @description The kind of the change. */
            eventType: components["schemas"]["ChangeKind"];
            /** @description True if it is a directory. */
            isDirectory: boolean;
            /** @description The same number for the `move_from` and the `move_to` of one move. */
            moveId?: number | null;
            /** @description Absolute path. Bytes that are not UTF-8 are replaced. */
            path: string;
            /** @description The path in base64, if it is not UTF-8. */
            pathBase64?: string | null;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "event";
        };
        /** @description The directory to watch, and the changes to report. */
        WatchRequest: {
            /**
             * @description The kinds of changes that are reported. Default: all but `attrib`.
             * @default null
             */
            events?: components["schemas"]["ChangeKind"][] | null;
            /**
             * @description Globs of what is not reported, at most 100. Default, without `include`: `.git`, `node_modules` and `.DS_Store`.
             * @default null
             */
            exclude?: string[] | null;
            /**
             * @description Globs of what is reported, at most 100. A glob matches at any depth unless it begins with a slash. Not together with `exclude`.
             * @default null
             */
            include?: string[] | null;
            /**
             * @description The directory or file.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Also watch the directories below it. Default: true.
             * @default null
             */
            recursive?: boolean | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
            /**
             * @description End the watch after this time in milliseconds. Default: never.
             * @default null
             */
            timeoutMs?: number | null;
        };
        /** @description Changes may be missing: read the state again. The watch goes on. */
        WatchResyncEvent: {
            /** @description Reason for the resync. */
            reason: components["schemas"]["ResyncReason"];
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "resync";
        };
        /**
         * @description Whether a directory has changed since a version.
         *
         *     - `unchanged`: It has not changed.
         *     - `changed`: It has changed.
         *     - `resync`: Unknown: read the state again.
         * @enum {string}
         */
        WatchStatus: "unchanged" | "changed" | "resync";
        /** @description `timeoutMs` has passed. Last event of the stream. */
        WatchStoppedEvent: {
            /** @description Reason for the end of the watch. */
            reason: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "stopped";
        };
        /** @description The watch has begun: later changes are reported. First event of the stream. */
        WatchWatchingEvent: {
            /** @description The path, as in the request. */
            path: string;
            /** @description Time of the event. */
            timestamp: components["schemas"]["Timestamp"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "watching";
            /** @description Id of the watch. */
            watchId: string;
        };
        /** @description A file to write. */
        WriteRequest: {
            /**
             * @description Write to the end of the file instead of replacing its content. Not atomic.
             * @default null
             */
            append?: boolean | null;
            /**
             * @description The content. Default: empty.
             * @default null
             */
            content?: string | null;
            /** @default null */
            encoding?: components["schemas"]["FileEncoding"] | null;
            /**
             * @description Permission bits in octal, such as `0644`. Default: those of the existing file, or 0666 without the umask.
             * @default null
             */
            mode?: string | null;
            /**
             * @description The path. Missing parent directories are created.
             * @default null
             */
            path?: string | null;
            /**
             * @description The path in base64, instead of `path`.
             * @default null
             */
            pathBase64?: string | null;
            /**
             * @description Resolve relative paths against the working directory of this session.
             * @default null
             */
            sessionId?: string | null;
        };
        /** @description A written file. */
        Written: {
            /** @description False if the file was written in place: readers may have seen a part of it. */
            atomic: boolean;
            /** @description Number of bytes written. */
            bytesWritten: number;
            /** @description Entity tag of the file, as of `GET /api/file`. */
            etag: string;
            /** @description The path, as in the request. */
            path: string;
            /** @description Always true. */
            success: boolean;
            /** @description Time of the response. */
            timestamp: components["schemas"]["Timestamp"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
