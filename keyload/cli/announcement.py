"""What a person sees when a local cluster is ready: addresses, the key, how to connect an MCP client."""

from __future__ import annotations

import sys

import msgspec
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from keyload.node.profile import LocalProfile

CLAUDE_CODE = 'claude mcp add --transport http keyload {url}/mcp --header "Authorization: Bearer {key}"'


def vs_code(profile: LocalProfile) -> str:
    """The content of `.vscode/mcp.json` for the first node."""
    server = {
        "type": "http",
        "url": f"{profile.nodes[0].url}/mcp",
        "headers": {"Authorization": f"Bearer {profile.admin_key}"},
    }
    return msgspec.json.encode({"servers": {"keyload": server}}).decode()


def lines(profile: LocalProfile) -> list[tuple[str, str]]:
    """Name and value of everything a client needs."""
    first = profile.nodes[0].url
    return [
        *((node.id, node.url) for node in profile.nodes),
        ("administrator key", profile.admin_key),
        ("Claude Code", CLAUDE_CODE.format(url=first, key=profile.admin_key)),
        ("VS Code, .vscode/mcp.json", vs_code(profile)),
    ]


def announce(profile: LocalProfile) -> None:
    """Print it; plain text when standard output is no terminal."""
    rows = lines(profile)
    if not sys.stdout.isatty():
        sys.stdout.write("".join(f"{name}: {value}\n" for name, value in rows) + "ready\n")
        sys.stdout.flush()
        return
    text = Text()
    for name, value in rows:
        text.append(f"{name}\n", style="bold")
        text.append(f"  {value}\n")
    Console(soft_wrap=True).print(text, Panel.fit("KeyLoad is ready. Ctrl-C stops it."))
