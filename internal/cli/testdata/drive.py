"""Leads a conversation with aycoder: it allows every change of files, and no command but go vet.

usage: drive.py PROMPT COMMAND...   (the command is aycoder with its flags)
"""
import json
import subprocess
import sys

program = subprocess.Popen(sys.argv[2:] + ["-input", "events"], text=True, encoding="utf-8",
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def send(order):
    program.stdin.write(json.dumps(order) + "\n")
    program.stdin.flush()


def decide(question):
    order = {"id": question["id"], "digest": question["digest"]}
    if question["name"] != "bash" or question["args"]["command"].startswith("go vet"):
        return {"type": "allow", **order}
    return {"type": "deny", **order, "reason": "only go vet may run"}


send({"type": "prompt", "text": sys.argv[1]})
for line in program.stdout:
    event = json.loads(line)
    if event["type"] == "approval_request":
        send(decide(event))
    elif event["type"] == "tool_end":
        print(event["name"], "failed" if event["is_error"] else "ok")
    elif event["type"] == "run_end":
        print(event["reason"] + ":", event["text"])
        program.stdin.close()
    elif event["type"] == "input_error":
        print("refused:", event["error"], file=sys.stderr)
sys.exit(program.wait())
