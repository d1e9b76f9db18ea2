"""A web server in the sandbox, and a preview with which a browser reaches it.

Usage: SANDCRAB_URL=… SANDCRAB_TOKEN=… python3 examples/web_preview.py
"""

import os
import re
import urllib.parse
import urllib.request

from sandcrab import Sandbox


def fetch(url: str) -> str:
    """Gets a preview. Browsers resolve names below localhost; this program asks the server and names the preview."""
    preview = urllib.parse.urlsplit(url)
    server = os.environ["SANDCRAB_URL"]
    request = urllib.request.Request(server + preview.path, headers={"Host": preview.netloc})
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(response.read().decode())


with Sandbox() as sandbox:
    folder = f"site-{os.getpid()}"
    sandbox.mkdir(folder)
    sandbox.write_text(f"{folder}/index.html", "<h1>first version</h1>\n")

    # The program chooses a free port, and prints it.
    command = f"cd {folder} && exec python3 -u -m http.server 0 --bind 127.0.0.1"
    with sandbox.start_process(command) as server:
        line = server.wait_for_log(re.compile(r"port (\d+)"), timeout=60).line
        port = int(re.findall(r"port (\d+)", line)[0])
        server.wait_for_port(port, timeout=60)

        # The preview ends with the process.
        url = sandbox.expose_port(port, name="site", process_id=server.id).url
        print("open", url)
        first = fetch(url)
        sandbox.write_text(f"{folder}/index.html", "<h1>second version</h1>\n")
        second = fetch(url)
        print(first, second, sep="", end="")
        assert (first, second) == ("<h1>first version</h1>\n", "<h1>second version</h1>\n")
    sandbox.delete_file(folder, recursive=True)
