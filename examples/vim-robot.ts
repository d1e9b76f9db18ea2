// A robot that uses vim as a person would: it reads the screen, presses keys, and waits for what they do.
//
// Usage: SANDCRAB_URL=… SANDCRAB_TOKEN=… npx tsx examples/vim-robot.ts
import { getSandbox } from "sandcrab";

const timeout = 60_000;
const sandbox = getSandbox();
const path = `robot-${Date.now()}.txt`;
await sandbox.writeFile(path, "apples 3\nbananas 5\ncherries 7\n");

const vim = await sandbox.terminal({ command: `vim -Nu NONE -n -i NONE ${path}`, cols: 60, rows: 12 });
await vim.waitForText("cherries", timeout);

// A new line below the second one.
await vim.send({ text: "jo" });
await vim.waitForText("-- INSERT --", timeout);
await vim.send({ text: "blueberries 6", keys: ["escape"] });

// Each number is increased by 10; the command is typed like everything else.
await vim.send({ text: ":%normal! 10", keys: ["ctrl-v", "ctrl-a", "enter"] });
await vim.waitForText("cherries 17", timeout);
console.log((await vim.screen()).text.trimEnd());

await vim.send({ text: ":wq", keys: ["enter"] });
await (await sandbox.getProcess(vim.id))?.waitForExit(timeout);
const { content } = await sandbox.readFile(path);
await sandbox.deleteFile(path);
await vim.destroy();
if (content !== "apples 13\nbananas 15\nblueberries 16\ncherries 17\n") throw new Error(`vim has written ${content}`);
