// The server of most tests: that of SANDCRAB_URL, else one that is started here.
import { TestServer } from "./server.js";

export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.SANDCRAB_URL) return undefined;
  const server = await TestServer.start();
  process.env.SANDCRAB_URL = server.url;
  process.env.SANDCRAB_TOKEN = server.token;
  return () => server.remove();
}
