"""A target that takes the pipe of its own worker and says what `lies.json` holds: raw lines, or messages."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "lies.json")) as file:
    LIES = json.load(file)


def writer():
    frame = sys._getframe()
    while frame is not None:
        for value in frame.f_locals.values():
            if type(value).__name__ == "Writer":
                return value
        frame = frame.f_back
    raise LookupError("no pipe")


def lie():
    found = writer()
    while LIES.get("forever"):
        os.write(found.fd, "\n{} {}\n".format(found.token, json.dumps({"type": "note", "text": "x" * 60000})).encode())
    for said in LIES["said"]:
        text = said if isinstance(said, str) else json.dumps(said)
        line = "\n{} {}\n".format(found.token if LIES["token"] else "0123456789abcdef", text)
        os.write(found.fd, line.encode("latin-1"))


if LIES["when"] == "import":
    lie()


def collect(parameters):
    if LIES["when"] == "call":
        lie()
    return sum(each.grad.float().pow(2).sum() for each in parameters if each.grad is not None).sqrt().item()
