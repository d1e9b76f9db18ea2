// Files through the client: its calls, and its reader of streams.
import { expect, test } from "bun:test";
import { collectFile, type FileInfo } from "@cloudflare/sandbox";
import { failure, overBothTransports, refusal, unique, withSession } from "./support";

const NO_SESSION = "__DISABLE_SESSION__";

overBothTransports("files", (client, transport) => {
  const files = () => client().files;
  /** Runs a body with a new directory. */
  async function withFolder<T>(body: (folder: string) => Promise<T>): Promise<T> {
    const folder = `/tmp/${unique("files")}`;
    await files().mkdir(folder, NO_SESSION);
    try {
      return await body(folder);
    } finally {
      await client().commands.execute(`rm -rf ${folder}`, undefined as never);
    }
  }

  test("text and binary files", () =>
    withFolder(async (folder) => {
      const written = await files().writeFile(`${folder}/deep/a.txt`, "höllo\n", NO_SESSION);
      expect(written).toMatchObject({ success: true, path: `${folder}/deep/a.txt` });
      const text = await files().readFile(`${folder}/deep/a.txt`, NO_SESSION);
      expect(text).toMatchObject({ content: "höllo\n", encoding: "utf-8", isBinary: false, mimeType: "text/plain", size: 7 });
      const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk", "base64").toString("base64");
      await files().writeFile(`${folder}/a.png`, png, NO_SESSION, { encoding: "base64" });
      const image = await files().readFile(`${folder}/a.png`, NO_SESSION);
      expect(image).toMatchObject({ content: png, encoding: "base64", isBinary: true, mimeType: "image/png" });
      const again = await files().readFile(`${folder}/deep/a.txt`, NO_SESSION, { encoding: "base64" });
      expect(Buffer.from(again.content, "base64").toString()).toBe("höllo\n");
    }));

  test("streams of files", () =>
    withFolder(async (folder) => {
      const text = "zeile ü\n".repeat(20_000);
      await files().writeFile(`${folder}/long.txt`, text, NO_SESSION);
      const whole = await collectFile(await files().readFileStream(`${folder}/long.txt`, NO_SESSION));
      expect(whole.content).toBe(text);
      expect(whole.metadata).toMatchObject({ mimeType: "text/plain", isBinary: false, encoding: "utf-8" });
      await client().commands.execute(`head -c 100001 /dev/zero >${folder}/zero`, undefined as never);
      const zero = await collectFile(await files().readFileStream(`${folder}/zero`, NO_SESSION));
      expect((zero.content as Uint8Array).length).toBe(100_001);
      const missing = await failure(files().readFileStream(`${folder}/none`, NO_SESSION));
      expect(refusal(missing, transport)).toMatchObject({ code: "FILE_NOT_FOUND", httpStatus: 404 });
    }));

  test("directories, lists, moves and deletion", () =>
    withFolder(async (folder) => {
      const made = await files().mkdir(`${folder}/a/b`, NO_SESSION, { recursive: true });
      expect(made).toMatchObject({ success: true, recursive: true });
      await files().writeFile(`${folder}/a/b/c`, "x", NO_SESSION);
      await files().writeFile(`${folder}/.hidden`, "", NO_SESSION);
      const names = (list: { files: FileInfo[] }) => list.files.map((file) => file.relativePath);
      const list = await files().listFiles(folder, NO_SESSION, { recursive: true });
      expect(names(list)).toEqual(["a", "a/b", "a/b/c"]);
      expect(list.count).toBe(3);
      expect(list.files[2]).toMatchObject({
        name: "c", absolutePath: `${folder}/a/b/c`, type: "file", size: 1,
        permissions: { readable: true, writable: true, executable: false },
      });
      expect(list.files[2]?.mode).toMatch(/^rw[-r]/);
      expect(names(await files().listFiles(folder, NO_SESSION, { includeHidden: true, sessionId: NO_SESSION }))).toEqual([".hidden", "a"]);
      expect(await files().renameFile(`${folder}/a/b/c`, `${folder}/d`, NO_SESSION)).toMatchObject({ newPath: `${folder}/d` });
      expect(await files().moveFile(`${folder}/d`, `${folder}/a/e`, NO_SESSION)).toMatchObject({ path: `${folder}/d` });
      expect((await files().exists(`${folder}/a/e`, NO_SESSION)).exists).toBe(true);
      expect(await files().deleteFile(`${folder}/a/e`, NO_SESSION)).toMatchObject({ success: true });
      expect((await files().exists(`${folder}/a/e`, NO_SESSION)).exists).toBe(false);
    }));

  test("paths of a session", () =>
    withFolder((folder) =>
      withSession(client(), async (id) => {
        await files().writeFile("here.txt", "x", id);
        expect((await files().exists(`${folder}/here.txt`, NO_SESSION)).exists).toBe(true);
      }, { cwd: folder }),
    ));

  test("errors have their classes", () =>
    withFolder(async (folder) => {
      const missing = await failure(files().readFile(`${folder}/none`, NO_SESSION));
      expect(missing).toMatchObject({ name: "FileNotFoundError", code: "FILE_NOT_FOUND", httpStatus: 404 });
      const directory = await failure(files().deleteFile(folder, NO_SESSION));
      expect(directory).toMatchObject({ code: "IS_DIRECTORY", httpStatus: 400 });
      const exists = await failure(files().mkdir(folder, NO_SESSION));
      expect(exists).toMatchObject({ name: "FileExistsError", code: "FILE_EXISTS", httpStatus: 409 });
    }));
});
