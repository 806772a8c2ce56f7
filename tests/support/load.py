"""Many clients at once, each with one request after the other, of which some leave in the middle."""

import asyncio
import json
import random
import time
from dataclasses import dataclass, field

from support.serving import Running


@dataclass
class Report:
    complete: int = 0
    aborted: int = 0
    tokens: int = 0
    seconds: float = 0
    wrong: list[str] = field(default_factory=list)


async def stream(running: Running, body: dict, leave_after: int | None = None) -> tuple[str, bool]:
    """The text of an answer, and whether it is whole; leave_after: so many chunks."""
    host, port = running.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        data = json.dumps({**body, "stream": True}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError((status + await reader.read()).decode())
        text, count = "", 0
        while line := await reader.readline():
            if not line.startswith(b"data: "):
                continue
            if line == b"data: [DONE]\n":
                return text, True
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise RuntimeError(chunk["error"]["message"])
            text += "".join(choice["delta"].get("content", "") for choice in chunk["choices"])
            count += 1
            if leave_after is not None and count > leave_after:
                return text, False
        raise RuntimeError(f"the stream ended after {text!r}")
    finally:
        writer.close()


async def _client(
    running: Running,
    number: int,
    asked: dict[str, str],
    settings: dict,
    requests: int,
    end: float,
    aborts: float,
    report: Report,
):
    """asked: prompts, and the answers that they must have with these settings."""
    dice = random.Random(number)
    prompts = sorted(asked)
    made = 0
    while made < requests or time.monotonic() < end:
        made += 1
        prompt = dice.choice(prompts)
        leave_after = dice.randrange(30) if dice.random() < aborts else None
        body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, **settings}
        text, is_whole = await stream(running, body, leave_after)
        if text != asked[prompt] if is_whole else not asked[prompt].startswith(text):
            report.wrong.append(f"{prompt!r}: {text!r} for {asked[prompt]!r}")
        report.complete += is_whole
        report.aborted += not is_whole
        report.tokens += len(text)


def load(
    running: Running,
    asked: dict[str, str],
    *,
    clients: int,
    requests: int = 1,
    seconds: float = 0,
    aborts: float = 0.3,
    model: str = "tiny",
    max_tokens: int = 40,
) -> Report:
    """Each client makes so many requests, and goes on for so many seconds."""

    async def all_clients() -> Report:
        report, began = Report(), time.monotonic()
        end = began + seconds
        rest = {"model": model, "max_tokens": max_tokens}, requests, end, aborts, report
        await asyncio.gather(*(_client(running, number, asked, *rest) for number in range(clients)))
        report.seconds = time.monotonic() - began
        return report

    return asyncio.run(all_clients())
