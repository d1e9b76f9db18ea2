// Clones through the client and through `Sandbox`, from a real git server (git http-backend).
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Sandbox } from "@cloudflare/sandbox";
import { durableObjectState } from "./stubs/durable-object";
import { failure, overBothTransports, unique } from "./support";

const NO_SESSION = "__DISABLE_SESSION__";
let root: string;
let server: ReturnType<typeof Bun.serve>;
let url: string;

/** Answers a request with the program that git has for it. */
async function backend(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const program = Bun.spawn(["git", "http-backend"], {
    stdin: new Uint8Array(await request.arrayBuffer()),
    stderr: "ignore",
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers.get("content-type") ?? "",
      HTTP_CONTENT_ENCODING: request.headers.get("content-encoding") ?? "",
      GIT_PROTOCOL: request.headers.get("git-protocol") ?? "",
    },
  });
  const output = Buffer.from(await new Response(program.stdout).arrayBuffer());
  const end = output.indexOf("\r\n\r\n");
  const headers = new Headers();
  let status = 200;
  for (const line of output.subarray(0, end).toString().split("\r\n")) {
    const [name, ...value] = line.split(": ");
    if (name === "Status") status = Number.parseInt(value.join(": "), 10);
    else headers.append(name as string, value.join(": "));
  }
  return new Response(output.subarray(end + 4), { status, headers });
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "reference-git-"));
  const git = "git -c user.name=a -c user.email=a@localhost -c init.defaultBranch=main";
  const script = `${git} init -q work && cd work && echo one >a && git add a && ${git} commit -qm one &&
    echo two >a && ${git} commit -qam two && git checkout -qb side && echo side >b && git add b && ${git} commit -qm side &&
    git checkout -q main && git clone -q --bare . ../repository.git`;
  const made = Bun.spawnSync(["sh", "-ec", script], { cwd: root });
  expect(made.stderr.toString()).toBe("");
  server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: backend });
  url = `http://127.0.0.1:${server.port}/repository.git`;
});

afterAll(async () => {
  await server.stop(true);
  await rm(root, { recursive: true });
});

overBothTransports("git", (client) => {
  test("a branch is cloned", async () => {
    const targetDir = join(root, unique("clone"));
    const done = await client().git.checkout(url, NO_SESSION, { branch: "side", targetDir, depth: 1 });
    expect(done).toMatchObject({ success: true, repoUrl: url, branch: "side", targetDir });
    expect(await client().files.readFile(`${targetDir}/b`, NO_SESSION)).toMatchObject({ content: "side\n" });
  });

  test("a failed clone has an error class and leaves nothing", async () => {
    const targetDir = join(root, unique("clone"));
    const missing = await failure(client().git.checkout(`${url}/none`, NO_SESSION, { targetDir }));
    expect(missing).toMatchObject({ code: "GIT_REPOSITORY_NOT_FOUND", httpStatus: 404 });
    const branch = await failure(client().git.checkout(url, NO_SESSION, { targetDir, branch: "none" }));
    expect(branch).toMatchObject({ code: "GIT_BRANCH_NOT_FOUND", httpStatus: 404 });
    expect(await client().files.exists(targetDir, NO_SESSION)).toMatchObject({ exists: false });
  });
});

test("files and git of the class", async () => {
  const sandbox = new Sandbox(durableObjectState(unique("sandbox")) as never, {} as never);
  const targetDir = join(root, unique("clone"));
  expect(await sandbox.gitCheckout(url, { targetDir })).toMatchObject({ success: true, branch: "main" });
  expect(await sandbox.readFile(`${targetDir}/a`)).toMatchObject({ content: "two\n" });
  await sandbox.mkdir(`${targetDir}/deep/er`, { recursive: true });
  await sandbox.writeFile(`${targetDir}/deep/er/x`, "text");
  await sandbox.renameFile(`${targetDir}/deep/er/x`, `${targetDir}/deep/er/y`);
  await sandbox.moveFile(`${targetDir}/deep/er/y`, `${targetDir}/deep/z`);
  const listed = await sandbox.listFiles(targetDir, { recursive: true });
  expect(listed.files.map((file) => file.relativePath)).toContain("deep/z");
  await sandbox.deleteFile(`${targetDir}/deep/z`);
  expect(await sandbox.exists(`${targetDir}/deep/z`)).toMatchObject({ exists: false });
});
