"""Asks a language server for definitions and references, at random names of a directory.

usage: oracle.py ROOT EXTENSION LANGUAGE COUNT SETTINGS COMMAND...

It prints a line of JSON for each name: path, line, column and the answers, where lines are 1-based and columns are
1-based bytes. It shares no code with the package under test, and speaks UTF-16 with the server.
"""
import json, os, random, re, subprocess, sys, urllib.parse

root, extension, language, count, settings = sys.argv[1:6]
root = os.path.realpath(root)
server = subprocess.Popen(sys.argv[6:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
settings = json.loads(settings)
last = 0


def send(message):
    body = json.dumps(dict(message, jsonrpc="2.0")).encode()
    server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    server.stdin.flush()


def receive():
    size = 0
    while True:
        line = server.stdout.readline()
        if not line:
            sys.exit("the server has ended")
        if line == b"\r\n":
            return json.loads(server.stdout.read(size))
        name, value = line.split(b":")
        if name.lower() == b"content-length":
            size = int(value)


def call(method, params):
    global last
    last += 1
    send({"id": last, "method": method, "params": params})
    while True:
        m = receive()
        if "method" in m and "id" in m:
            result = None
            if m["method"] == "workspace/configuration":
                result = []
                for item in m["params"]["items"]:
                    at = settings
                    for key in item.get("section", "").split("."):
                        at = at.get(key) if isinstance(at, dict) else None
                    result.append(settings if item.get("section") == "gopls" else at)
            send({"id": m["id"], "result": result})
        elif m.get("id") == last and "method" not in m:
            return m.get("result"), m.get("error")


def uri(path):
    return "file://" + urllib.parse.quote(path)


texts = {}


def lines(path):
    if path not in texts:
        texts[path] = open(path, encoding="utf-8", newline="").read().split("\n")
    return texts[path]


def bytes_before(line, units):
    return len(line.encode("utf-16-le")[: 2 * units].decode("utf-16-le").encode())


def places(result):
    found = set()
    for at in [result] if isinstance(result, dict) else result or []:
        path = urllib.parse.unquote(urllib.parse.urlparse(at["uri"]).path)
        start = at["range"]["start"]
        inside = path.startswith(root + "/")
        column = bytes_before(lines(path)[start["line"]], start["character"]) + 1 if inside else 0
        found.add((path[len(root) + 1:] if inside else path, start["line"] + 1, column))
    return sorted(found)


call("initialize", {"processId": os.getpid(), "rootUri": uri(root), "initializationOptions": settings,
                    "workspaceFolders": [{"uri": uri(root), "name": "x"}],
                    "capabilities": {"workspace": {"configuration": True, "workspaceFolders": True}}})
send({"method": "initialized", "params": {}})
names = []
for directory, below, files in os.walk(root):
    below[:] = sorted(d for d in below if d not in (".git", "node_modules", "testdata", "vendor") and d[0] not in "._")
    names += [os.path.join(directory, f) for f in sorted(files) if f.endswith(extension)]
chance = random.Random(7)
for _ in range(int(count)):
    path = chance.choice(names)
    all_lines = lines(path)
    found = [(n, m) for n, line in enumerate(all_lines) for m in re.finditer(r"[A-Za-z_]\w*", line)
             if not line.lstrip().startswith(("//", "#"))]
    if not found:
        continue
    n, m = chance.choice(found)
    before = all_lines[n][: m.start()]
    send({"method": "textDocument/didOpen", "params": {"textDocument": {
        "uri": uri(path), "languageId": language, "version": 1, "text": "\n".join(all_lines)}}})
    params = {"textDocument": {"uri": uri(path)},
              "position": {"line": n, "character": len(before.encode("utf-16-le")) // 2}}
    definition, no_definition = call("textDocument/definition", params)
    references, no_references = call("textDocument/references", dict(params, context={"includeDeclaration": True}))
    send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri(path)}}})
    print(json.dumps({"path": path[len(root) + 1:], "line": n + 1, "column": len(before.encode()) + 1, "name": m.group(),
                      "definition": places(definition), "references": places(references),
                      "refused": [bool(no_definition), bool(no_references)]}), flush=True)
server.kill()
