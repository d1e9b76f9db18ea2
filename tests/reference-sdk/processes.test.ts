// The client's processes: start, list, get, logs, stream, kill.
import { expect, test } from "bun:test";
import { isProcess, isProcessStatus, parseSSEStream, type LogEvent, type SandboxClient } from "@cloudflare/sandbox";
import { failure, logEvents, overBothTransports, refusal, text, unique, withSession } from "./support";

/** Waits for the end of a process: its stream ends then. */
async function ended(client: SandboxClient, id: string) {
  await logEvents(await client.processes.streamProcessLogs(id));
  return (await client.processes.getProcess(id)).process;
}

overBothTransports("processes", (client, transport) => {
  const start = (command: string, session?: string, options?: object) =>
    client().processes.startProcess(command, session as string, options);

  test("start, get, kill", async () => {
    const id = unique("process");
    const started = await start("echo up; exec sleep 600", undefined, { processId: id });
    expect(started).toMatchObject({ success: true, processId: id, command: "echo up; exec sleep 600" });
    expect(started.pid).toBeGreaterThan(1);

    const { process } = await client().processes.getProcess(id);
    expect(isProcess(process)).toBe(true);
    expect(process).toMatchObject({ id, pid: started.pid, status: "running", command: "echo up; exec sleep 600" });
    expect(process.endTime).toBeFalsy();
    expect(process.exitCode ?? null).toBeNull();

    const { processes } = await client().processes.listProcesses();
    expect(processes.every((each) => isProcess(each) && isProcessStatus(each.status))).toBe(true);
    expect(processes.find((each) => each.id === id)).toMatchObject({ id, status: "running", pid: started.pid });

    expect(await client().processes.killProcess(id)).toMatchObject({ success: true, processId: id });
    const gone = (await client().processes.getProcess(id)).process;
    expect(gone.status).toBe("killed");
    expect(new Date(gone.endTime as string) >= new Date(gone.startTime)).toBe(true);
    // Ending a finished process is not an error.
    expect(await client().processes.killProcess(id)).toMatchObject({ success: true, processId: id });
  });

  test("a generated id", async () => {
    const first = await start("true");
    const second = await start("true");
    expect(first.processId).not.toBe("");
    expect(first.processId).not.toBe(second.processId);
  });

  test("completed and failed", async () => {
    const good = await start("echo fine");
    expect(await ended(client(), good.processId)).toMatchObject({ status: "completed", exitCode: 0 });
    const bad = await start("exit 9");
    expect(await ended(client(), bad.processId)).toMatchObject({ status: "failed", exitCode: 9 });
  });

  test("logs have both streams, byte for byte", async () => {
    const { processId } = await start("printf 'one\\ntwo'; printf 'err\\n' >&2");
    await ended(client(), processId);
    expect(await client().processes.getProcessLogs(processId)).toMatchObject({
      success: true, processId, stdout: "one\ntwo", stderr: "err\n",
    });
  });

  test("logs of long output are complete", async () => {
    const { processId } = await start("seq 1 15000");
    await ended(client(), processId);
    const { stdout } = await client().processes.getProcessLogs(processId);
    expect(stdout).toBe(Array.from({ length: 15_000 }, (_, n) => `${n + 1}\n`).join(""));
  });

  test("a stream has earlier output, live output, then the exit", async () => {
    const { processId } = await start("echo early; sleep 0.3; echo late; exit 4");
    const events = await logEvents(await client().processes.streamProcessLogs(processId));
    expect(events[0]).toMatchObject({ type: "process_info", processId });
    expect(text(events, "stdout")).toBe("early\nlate\n");
    expect(events.at(-1)).toMatchObject({ type: "exit", processId, exitCode: 4 });
    // The same after the end.
    const again = await logEvents(await client().processes.streamProcessLogs(processId));
    expect(text(again, "stdout")).toBe("early\nlate\n");
    expect(again.at(-1)).toMatchObject({ type: "exit", exitCode: 4 });
  });

  test("a process is killed while a client reads its stream", async () => {
    const { processId } = await start("sleep 0.1; echo ready; sleep 600");
    const events: LogEvent[] = [];
    for await (const event of parseSSEStream<LogEvent>(await client().processes.streamProcessLogs(processId))) {
      events.push(event);
      if (event.type === "stdout" && event.data.includes("ready")) await client().processes.killProcess(processId);
    }
    expect(events.at(-1)?.type).toBe("exit");
    expect((await client().processes.getProcess(processId)).process.status).toBe("killed");
  });

  test("a kill ends the whole tree, daemons too", async () => {
    const mark = unique("daemon");
    const command = `bash -c 'exec -a ${mark} sleep 600' & setsid bash -c 'exec -a ${mark} sleep 600' & sleep 0.2; echo up; wait`;
    const { processId } = await start(command);
    for await (const event of parseSSEStream<LogEvent>(await client().processes.streamProcessLogs(processId))) {
      if (event.type === "stdout") break;
    }
    await client().processes.killProcess(processId);
    // The brackets keep the search from finding itself.
    const search = `grep -lz '^[${mark[0]}]${mark.slice(1)}$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l`;
    expect((await client().commands.execute(search, undefined as never)).stdout.trim()).toBe("0");
  });

  test("env, cwd, timeout and the rest of the options", async () => {
    const options = {
      env: { WORD: "given" }, cwd: "/usr", timeoutMs: 300, encoding: "utf8", autoCleanup: false, origin: "user",
    };
    const { processId } = await start('echo "$WORD"; pwd; sleep 600', undefined, options);
    const process = await ended(client(), processId);
    expect(process.status).not.toBe("running");
    expect(process.exitCode).toBe(124);
    expect((await client().processes.getProcessLogs(processId)).stdout).toBe("given\n/usr\n");
  });

  test("a process of a session starts from its state and does not change it", async () => {
    await withSession(client(), async (id) => {
      await client().commands.execute("cd /usr; WORD=kept; greet() { echo hello; }", id);
      const { processId } = await start('greet; echo "$WORD"; pwd; WORD=changed; cd /', id);
      await ended(client(), processId);
      expect((await client().processes.getProcessLogs(processId)).stdout).toBe("hello\nkept\n/usr\n");
      expect((await client().commands.execute('echo "$WORD"; pwd', id)).stdout).toBe("kept\n/usr\n");
    });
  });

  test("a process does not block its session, and ends with it", async () => {
    const id = unique("session");
    await client().utils.createSession({ id });
    const { processId } = await start("sleep 600", id);
    expect((await client().commands.execute("echo free", id)).stdout).toBe("free\n");
    await client().utils.deleteSession(id);
    expect((await client().processes.getProcess(processId)).process.status).not.toBe("running");
  });

  test("killAll returns the number of ended processes", async () => {
    const started = await Promise.all([start("sleep 600"), start("sleep 600"), start("sleep 600")]);
    const { cleanedCount } = await client().processes.killAllProcesses();
    expect(cleanedCount).toBeGreaterThanOrEqual(3);
    for (const { processId } of started) {
      expect((await client().processes.getProcess(processId)).process.status).toBe("killed");
    }
    expect((await client().processes.killAllProcesses()).cleanedCount).toBe(0);
  });

  test("an id can be reused only after its process has ended", async () => {
    const processId = unique("process");
    await start("sleep 600", undefined, { processId });
    const error = await failure(start("true", undefined, { processId }));
    expect(error).toMatchObject({ code: "PROCESS_ALREADY_EXISTS", httpStatus: 409 });
    await client().processes.killProcess(processId);
    expect((await start("echo again", undefined, { processId })).processId).toBe(processId);
    await ended(client(), processId);
    expect((await client().processes.getProcessLogs(processId)).stdout).toBe("again\n");
  });

  test("every call reports an unknown process", async () => {
    const id = unique("nobody");
    const { processes } = client();
    for (const call of [() => processes.getProcess(id), () => processes.killProcess(id), () => processes.getProcessLogs(id)]) {
      const error = await failure(call());
      expect(error.name).toBe("ProcessNotFoundError");
      expect(error).toMatchObject({ code: "PROCESS_NOT_FOUND", httpStatus: 404, processId: id });
    }
    const error = await failure(processes.streamProcessLogs(id));
    expect(refusal(error, transport)).toMatchObject({ code: "PROCESS_NOT_FOUND", httpStatus: 404 });
  });

  test("hostile ids reach no file and no other route", async () => {
    for (const processId of ["../../escape", "a/b", "list", "kill-all", ""]) {
      const error = await failure(start("true", undefined, { processId }));
      expect(error.name).toBe("ValidationFailedError");
      expect(error.httpStatus).toBe(400);
    }
    const long = await failure(start("true", undefined, { processId: "x".repeat(5000) }));
    expect(long).toMatchObject({ code: "NAME_TOO_LONG", httpStatus: 400 });
  });

  test("a process that cannot start is an error of start", async () => {
    const missing = `/${unique("missing")}`;
    const error = await failure(start("true", undefined, { cwd: missing }));
    expect(error.httpStatus).toBe(400);
    expect(error.message).toContain(missing);
    const unknown = await failure(start("true", unique("nobody")));
    expect(unknown).toMatchObject({ code: "SESSION_NOT_FOUND", httpStatus: 404 });
  });
});
