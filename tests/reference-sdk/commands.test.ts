// commands.execute: stateless, and in sessions.
import { expect, test } from "bun:test";
import { isExecResult } from "@cloudflare/sandbox";
import { failure, overBothTransports, unique, withSession } from "./support";

/** Exit code of a command that timed out, as with timeout(1). */
const TIMED_OUT = 124;

overBothTransports("commands", (client) => {
  const run = (command: string, session?: string, options?: object) =>
    client().commands.execute(command, session as string, options);

  test("returns both streams, byte for byte", async () => {
    const result = await run("printf 'out\\n\\n'; printf 'err' >&2");
    expect(result).toMatchObject({ success: true, exitCode: 0, stdout: "out\n\n", stderr: "err" });
    expect(result.command).toBe("printf 'out\\n\\n'; printf 'err' >&2");
    expect(isExecResult(result)).toBe(true);
    expect(new Date(result.timestamp).getTime()).toBeGreaterThan(0);
  });

  test("a failing command is a result, not an error", async () => {
    expect(await run("echo no >&2; exit 7")).toMatchObject({ success: false, exitCode: 7, stderr: "no\n" });
    expect(await run("no-such-command-anywhere")).toMatchObject({ success: false, exitCode: 127 });
    expect(await run("kill -9 $$")).toMatchObject({ success: false, exitCode: 137 });
  });

  test("a syntax error is the command's own failure", async () => {
    const result = await run("echo 'unterminated");
    expect(result.exitCode).toBe(2);
    expect(result.stderr).not.toBe("");
  });

  test("stateless commands share no state", async () => {
    await run("cd /; LEFT=behind");
    expect((await run('echo "[$LEFT]"')).stdout).toBe("[]\n");
    const token = await run("echo stateless", "__DISABLE_SESSION__");
    expect(token.stdout).toBe("stateless\n");
  });

  test("env and cwd", async () => {
    const env = { WORD: "a 'quoted' \"word\" $HOME `x`\nsecond line", EMPTY: "" };
    const result = await run('printf "%s|%s|" "$WORD" "${EMPTY-unset}"; pwd', undefined, { env, cwd: "/usr" });
    expect(result.stdout).toBe(`${env.WORD}||/usr\n`);
    // JSON has no undefined: such a variable is not sent.
    const undefinedValue = await run('echo "${GONE-unset}"', undefined, { env: { GONE: undefined } });
    expect(undefinedValue.stdout).toBe("unset\n");
  });

  test("the field origin is accepted", async () => {
    expect((await run("echo fine", undefined, { origin: "internal" })).stdout).toBe("fine\n");
    expect((await run("echo fine", undefined, { origin: "user" })).stdout).toBe("fine\n");
  });

  test("a timeout ends the command and keeps its output", async () => {
    const start = Date.now();
    const result = await run("echo before; sleep 600; echo after", undefined, { timeoutMs: 300 });
    expect(result).toMatchObject({ success: false, exitCode: TIMED_OUT, stdout: "before\n" });
    expect(Date.now() - start).toBeLessThan(10_000);
  });

  test("text of any script, and long output", async () => {
    const words = "grüße 🦀 日本語 \\0?";
    expect((await run(`printf '%s' '${words}'`)).stdout).toBe(words);
    const long = await run("seq 1 200000");
    expect(long.stdout.length).toBe(1_288_895);
    expect(long.stdout.endsWith("199999\n200000\n")).toBe(true);
  });

  test("invalid UTF-8 does not break the response", async () => {
    const result = await run("printf 'a\\377\\376z\\000'");
    expect(result.exitCode).toBe(0);
    expect(result.stdout.startsWith("a")).toBe(true);
    expect(result.stdout).toContain("z");
  });

  test("a hundred concurrent commands", async () => {
    const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => run(`echo ${n}`)));
    expect(answers.map((answer) => answer.stdout)).toEqual(Array.from({ length: 100 }, (_, n) => `${n}\n`));
  });

  test("a session keeps its state", async () => {
    await withSession(client(), async (id) => {
      await run('cd /usr; WORD=kept; greet() { echo "hello $1"; }', id);
      const result = await run('greet "$WORD"; pwd', id);
      expect(result.stdout).toBe("hello kept\n/usr\n");
    });
  });

  test("env and cwd of one command do not affect the session", async () => {
    await withSession(client(), async (id) => {
      const once = await run('echo "$ONCE"; pwd', id, { env: { ONCE: "1" }, cwd: "/" });
      expect(once.stdout).toBe("1\n/\n");
      expect((await run('echo "[$ONCE]"; pwd', id)).stdout).toBe("[]\n/usr\n");
    }, { cwd: "/usr" });
  });

  test("a timeout in a session keeps the session", async () => {
    await withSession(client(), async (id) => {
      await run("WORD=kept", id);
      const late = await run("echo before; sleep 600", id, { timeoutMs: 300 });
      expect(late).toMatchObject({ exitCode: TIMED_OUT, stdout: "before\n" });
      expect((await run('echo "$WORD"', id)).stdout).toBe("kept\n");
    });
  });

  test("commands of one session run in the order of their arrival", async () => {
    await withSession(client(), async (id) => {
      await run("N=0", id);
      const answers = await Promise.all(Array.from({ length: 20 }, () => run("N=$((N+1)); echo $N", id)));
      const numbers = answers.map((answer) => Number(answer.stdout));
      expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
    });
  });

  test("a session that was never created is not found", async () => {
    const error = await failure(run("true", unique("nobody")));
    expect(error.name).toBe("SandboxError");
    expect(error).toMatchObject({ code: "SESSION_NOT_FOUND", httpStatus: 404 });
  });

  test("a command that is not a string names the field", async () => {
    const error = await failure(run(42 as unknown as string));
    expect(error.name).toBe("ValidationFailedError");
    expect(error).toMatchObject({ code: "VALIDATION_FAILED", httpStatus: 400 });
    expect(error.message).toContain("command");
    expect(new Date(error.timestamp).getTime()).toBeGreaterThan(0);
  });

  test("a timeout that is not a number names the field", async () => {
    const error = await failure(run("true", undefined, { timeoutMs: "soon" }));
    expect(error.name).toBe("ValidationFailedError");
    expect(error.message).toContain("timeoutMs");
  });

  test("a missing working directory is reported", async () => {
    const missing = `/${unique("missing")}`;
    const error = await failure(run("true", undefined, { cwd: missing }));
    expect(error.httpStatus).toBe(400);
    expect(error.message).toContain(missing);
  });
});
