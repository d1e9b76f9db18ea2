// The client's sessions: create, delete, and shells that end.
import { expect, test } from "bun:test";
import { SessionTerminatedError } from "@cloudflare/sandbox";
import { failure, overBothTransports, unique, withSession } from "./support";

overBothTransports("sessions", (client) => {
  const run = (command: string, session: string, options?: object) =>
    client().commands.execute(command, session, options);

  test("create returns the id, delete frees it", async () => {
    const id = unique("session");
    const created = await client().utils.createSession({ id });
    expect(created).toMatchObject({ success: true, id });
    expect(new Date(created.timestamp).getTime()).toBeGreaterThan(0);
    expect(await client().utils.deleteSession(id)).toMatchObject({ success: true, sessionId: id });
    expect(await failure(run("true", id))).toMatchObject({ httpStatus: 404, code: "SESSION_NOT_FOUND" });
    // The id can be reused at once.
    await client().utils.createSession({ id });
    expect((await run("echo again", id)).stdout).toBe("again\n");
    await client().utils.deleteSession(id);
  });

  test("env and cwd apply to every command", async () => {
    const env = { WORD: "it's $HOME", EMPTY: "" };
    await withSession(client(), async (id) => {
      for (let n = 0; n < 2; n += 1) {
        const result = await run('printf "%s|%s|" "$WORD" "${EMPTY-unset}"; pwd', id);
        expect(result.stdout).toBe("it's $HOME||/usr\n");
      }
    }, { env, cwd: "/usr" });
  });

  test("create does not return the values of the environment", async () => {
    const id = unique("session");
    const created = await client().utils.createSession({ id, env: { SECRET: "do-not-tell" } });
    expect(JSON.stringify(created)).not.toContain("do-not-tell");
    await client().utils.deleteSession(id);
  });

  test("commandTimeoutMs applies to every command of the session", async () => {
    await withSession(client(), async (id) => {
      expect((await run("sleep 600", id)).exitCode).toBe(124);
      expect((await run("echo alive", id)).stdout).toBe("alive\n");
    }, { commandTimeoutMs: 300 });
  });

  test("an existing id is refused", async () => {
    await withSession(client(), async (id) => {
      const error = await failure(client().utils.createSession({ id }));
      expect(error.name).toBe("SessionAlreadyExistsError");
      expect(error).toMatchObject({ code: "SESSION_ALREADY_EXISTS", httpStatus: 409, sessionId: id });
    });
  });

  test("invalid creations and deletions are errors", async () => {
    const missing = `/${unique("missing")}`;
    const create = await failure(client().utils.createSession({ id: unique("session"), cwd: missing }));
    expect(create.httpStatus).toBe(400);
    expect(create.message).toContain(missing);
    expect(await failure(client().utils.deleteSession(unique("nobody")))).toMatchObject({
      code: "SESSION_NOT_FOUND", httpStatus: 404,
    });
    for (const id of ["../../escape", "a/b"]) {
      expect((await failure(client().utils.createSession({ id }))).name).toBe("ValidationFailedError");
    }
    const long = await failure(client().utils.createSession({ id: "x".repeat(5000) }));
    expect(long).toMatchObject({ code: "NAME_TOO_LONG", httpStatus: 400 });
  });

  test("a command that ends its shell is an error, and the state is restored", async () => {
    await withSession(client(), async (id) => {
      await run("cd /usr; WORD=kept", id);
      const error = await failure(run("echo last words; exit 3", id));
      expect(error).toBeInstanceOf(SessionTerminatedError);
      expect(error).toMatchObject({ code: "SESSION_TERMINATED", httpStatus: 410, sessionId: id, exitCode: 3 });
      expect(error.context).toMatchObject({ stdout: "last words\n", stderr: "" });
      const after = (await run('echo "$WORD"; pwd', id)) as object;
      expect(after).toMatchObject({ stdout: "kept\n/usr\n", sessionRestarted: true });
    });
  });

  test("a session is deleted at once, even if a command runs", async () => {
    const id = unique("session");
    await client().utils.createSession({ id });
    const mark = `/tmp/${unique("mark")}`;
    const running = failure(run(`echo > ${mark}; sleep 600`, id));
    // The command has started when its file exists.
    await client().commands.execute(`until [ -e ${mark} ]; do sleep 0.01; done; rm ${mark}`, undefined as never);
    const start = Date.now();
    await client().utils.deleteSession(id);
    expect(Date.now() - start).toBeLessThan(5_000);
    const error = await running;
    expect(error.name).toBe("SessionDestroyedError");
    expect(error).toMatchObject({ code: "SESSION_DESTROYED", httpStatus: 410, sessionId: id });
  });

  test("sessions do not wait for each other", async () => {
    await withSession(client(), async (busy) => {
      await withSession(client(), async (free) => {
        const pipe = `/tmp/${unique("pipe")}`;
        const waiting = run(`mkfifo ${pipe}; cat ${pipe}`, busy);
        const answer = await run(`until [ -p ${pipe} ]; do sleep 0.01; done; echo through > ${pipe}; echo sent`, free);
        expect(answer.stdout).toBe("sent\n");
        expect((await waiting).stdout).toBe("through\n");
        await run(`rm ${pipe}`, free);
      });
    });
  });
});
